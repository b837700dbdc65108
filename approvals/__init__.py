"""Approvals: what waits for a person, who decided about it, and that a decision is used once."""
