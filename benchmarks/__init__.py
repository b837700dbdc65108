"""Ratios measured in one run; see README.md."""
