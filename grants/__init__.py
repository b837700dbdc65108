"""Execution grants: keys, trust, tokens, their verification, and the memory of what was spent or revoked."""
