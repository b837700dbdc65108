"""The exact result cache: authorization partitions, sealed entries, two stores, inspection."""
