"""What every agent tells of itself: which release it is, its ledger and stores, and who was turned away."""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Awaitable, Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from math import nan
from time import perf_counter
from typing import Final

from contract.verdict import VERDICTS, Reason
from metrics.table import Kind, Label, Metric, Numbers

PROBE_S: Final = 2.0
"""Longest wait for one store; then it is down."""
_FRESH_S: Final = 1.0
"""So long an answer of the stores is told again, whoever asks how often."""

OUTCOME_OF: Final[Mapping[Reason, Label]] = {r: (verdict.value, r.value) for r, verdict in VERDICTS.items()}
OUTCOMES: Final[tuple[Label, ...]] = tuple(OUTCOME_OF.values())
"""Every verdict with every reason that has it."""


def release() -> str:
    """The installed version of this program."""
    try:
        return version("dataset-agent")
    except PackageNotFoundError:
        return "unknown"


def build_info(prefix: str) -> Metric:
    values = ((release(), platform.python_version()),)
    return Metric(
        f"{prefix}_build_info", Kind.GAUGE, "Always 1: which release runs.", ("version", "python"), values, common=True
    )


class Stores:
    """Asks stores whether they work, when somebody wants to know: one at a time, and at most once a second.

    ``asks`` has for each store how it is asked, ``None`` where there is none. What an ask raises is
    that the store is down; nothing of it is told.
    """

    def __init__(self, up: Numbers, seconds: Numbers, asks: Mapping[str, Callable[[], Awaitable[None]] | None]) -> None:
        self._up = up
        self._seconds = seconds
        self._asks = asks
        self._asked = float("-inf")
        self._asking = asyncio.Lock()

    async def ask(self) -> None:
        async with self._asking:
            if perf_counter() - self._asked < _FRESH_S:
                return
            await asyncio.gather(*(self._ask(name, ask) for name, ask in self._asks.items()))
            self._asked = perf_counter()

    async def _ask(self, name: str, ask: Callable[[], Awaitable[None]] | None) -> None:
        if ask is None:
            self._up.set(nan, (name,))
            self._seconds.set(nan, (name,))
            return
        began, works = perf_counter(), True
        try:
            async with asyncio.timeout(PROBE_S):
                await ask()
        except Exception:
            works = False
        self._up.set(float(works), (name,))
        self._seconds.set(perf_counter() - began, (name,))
