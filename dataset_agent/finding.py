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
    """Broken where ``probe`` raises a fault, or anything: who looks for what is broken must not break on it."""
    try:
        probe()
    except Exception as error:
        return _broken(name, error)
    return Finding(name, "ok")


def _broken(name: str, error: Exception) -> Finding:
    told = isinstance(error, DatasetAgentError | NotGranted | StoreUnavailable | OSError)
    return Finding(name, "broken", str(error) if told else f"it could not be checked ({type(error).__name__})")


async def acheck(name: str, probe: Callable[[], Awaitable[str | None]]) -> Finding:
    """The same; what ``probe`` returns is worth knowing."""
    try:
        told = await probe()
    except Exception as error:
        return _broken(name, error)
    return Finding(name, "ok", told or "")
