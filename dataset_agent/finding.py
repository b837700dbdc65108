"""What ``doctor`` finds, one value a check."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from cache.store import StoreUnavailable
from contract.errors import DatasetAgentError
from contract.verdict import NotGranted


@dataclass(frozen=True, slots=True)
class Finding:
    """One check. ``advice`` says what to do where it is not ok, and what is worth knowing where it is."""

    check: str
    status: Literal["ok", "absent", "broken"]
    advice: str = ""


def check(name: str, probe: Callable[[], object]) -> Finding:
    """Broken where ``probe`` raises a fault."""
    try:
        probe()
    except (DatasetAgentError, OSError) as error:
        return Finding(name, "broken", str(error))
    return Finding(name, "ok")


async def acheck(name: str, probe: Callable[[], Awaitable[str | None]]) -> Finding:
    """Broken where ``probe`` raises a fault; what it returns is worth knowing."""
    try:
        told = await probe()
    except (DatasetAgentError, NotGranted, StoreUnavailable, OSError) as error:
        return Finding(name, "broken", str(error))
    return Finding(name, "ok", told or "")
