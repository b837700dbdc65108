"""Provenance (in-toto Statement in a DSSE envelope) and the ledger (RFC 9162 tree over SQLite)."""
