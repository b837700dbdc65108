"""The vocabulary every other package speaks; it imports libraries only."""
