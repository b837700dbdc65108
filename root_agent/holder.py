"""Where an asking lives while it runs: in memory, by invocation, never in a session.

ADK events carry ids and codes; plans, tokens and rows stay here and are gone at the end.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Final

from contract.errors import Category, Component, DatasetAgentError
from contract.identity import AdkIdentity, ExecutionIdentity
from root_agent.asking import Asking

MAX_ASKINGS: Final = 1_000


@dataclass(slots=True)
class _Held:
    asking: Asking
    claimed: bool


class Desk:
    """Askings that are running, at most ``limit``. A full desk refuses; it never forgets one that is claimed."""

    def __init__(self, limit: int = MAX_ASKINGS) -> None:
        self._limit = limit
        self._waiting: dict[AdkIdentity, Asking] = {}
        self._running: OrderedDict[str, _Held] = OrderedDict()

    def __len__(self) -> int:
        return len(self._waiting) + len(self._running)

    def open(self, asking: Asking) -> None:
        """Lay an asking down for the session that will run it. Raises RATE_LIMITED when full."""
        self._make_room()
        self._waiting[asking.adk] = asking

    def claim(self, run: ExecutionIdentity) -> bool:
        """Bind the asking that waits for this session, of this user, to its invocation; whether there was one."""
        asking = self._waiting.pop(run.adk, None)
        if asking is None:
            return False
        self._running[run.invocation_id] = _Held(replace(asking, invocation_id=run.invocation_id), claimed=True)
        return True

    def begin(self, asking: Asking, run: ExecutionIdentity) -> None:
        """Start one that nobody waits for (the development entry)."""
        self._make_room()
        self._running[run.invocation_id] = _Held(replace(asking, invocation_id=run.invocation_id), claimed=False)

    def running(self, invocation_id: str) -> Asking:
        """Raises ``KeyError`` where no door began this invocation: then no node does anything."""
        return self._running[invocation_id].asking

    def put(self, asking: Asking) -> Asking:
        if asking.invocation_id is None:
            raise KeyError("the asking has not begun")
        self._running[asking.invocation_id].asking = asking
        return asking

    def finish(self, invocation_id: str) -> None:
        """At the end of a run: forget it unless somebody waits for its answer."""
        held = self._running.get(invocation_id)
        if held is not None and not held.claimed:
            del self._running[invocation_id]

    def is_claimed(self, invocation_id: str) -> bool:
        held = self._running.get(invocation_id)
        return held is not None and held.claimed

    def is_ending(self, session: AdkIdentity) -> bool:
        """Whether the session's asking has come as far as its row."""
        return any(held.asking.is_ending for held in self._running.values() if held.asking.adk == session)

    def close(self, session: AdkIdentity) -> Asking | None:
        """Take the session's asking off the desk, however far it came."""
        waiting = self._waiting.pop(session, None)
        for invocation_id, held in self._running.items():
            if held.asking.adk == session:
                del self._running[invocation_id]
                return held.asking
        return waiting

    def _make_room(self) -> None:
        if len(self) < self._limit:
            return
        for invocation_id, held in self._running.items():
            if not held.claimed:  # a development run that was broken off
                del self._running[invocation_id]
                return
        raise DatasetAgentError(
            Component.ROOT_AGENT,
            Category.RATE_LIMITED,
            "root_agent.desk.full",
            f"{self._limit} questions are being answered: try again in a moment",
            retry_after=1.0,
        )
