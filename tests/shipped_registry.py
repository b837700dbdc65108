"""The shipped datasets as the product reads them: once for all test files that look at them while they are collected."""

from __future__ import annotations

from functools import cache

from contract.settings import SHIPPED_DATASETS
from control_plane.registry import Registry, load_registry


@cache
def shipped_registry() -> Registry:
    return load_registry(SHIPPED_DATASETS)
