"""How many steps one run of an agent runtime may take: a run of ours takes a few, so more is a fault that must end."""

from __future__ import annotations

from typing import Final

from contract.verdict import NotGranted, Reason

MAX_STEPS: Final = 100


class Steps:
    """Counts the events of one run."""

    def __init__(self, limit: int = MAX_STEPS) -> None:
        self._left = limit

    def take(self) -> None:
        """One more. Raises ``NotGranted`` BUDGET_EXCEEDED."""
        if self._left <= 0:
            raise NotGranted(Reason.BUDGET_EXCEEDED, "the run took more steps than one may")
        self._left -= 1
