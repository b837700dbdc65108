"""Descriptors, registry, discovery, admission, policy and identity: who may do what, decided by code."""
