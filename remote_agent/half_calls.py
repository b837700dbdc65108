"""Calls that miss arguments, until a further message of their task completes them.

Arguments are content: they are held in memory only, for the verified person they came from, for
a while and within a bound for each client agent, of which one person has a part. What is forgotten is asked for again.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from contract.call import Call
from remote_agent.owners import Owner

LIFE_S: Final = 600.0
"""How long a person has to say what is missing."""

MAX_AGENT_BYTES: Final = 4 * 2**20
MAX_AGENT_CALLS: Final = 1_000
_PART: Final = 4
"""One person has at most so small a part of an agent's, so that nobody else's is forgotten for theirs."""
_OVERHEAD: Final = 512
"""What a held call costs beside its bytes, roughly."""


@dataclass(frozen=True, slots=True)
class _Held:
    owner: Owner
    until: float
    call: Call = field(repr=False)

    @property
    def size(self) -> int:
        return len(self.call.raw) + _OVERHEAD


@dataclass(slots=True)
class _Agent:
    """The half calls of one client agent by task, the oldest first, and their size together."""

    calls: OrderedDict[str, _Held] = field(default_factory=OrderedDict)
    size: int = 0

    def drop(self, task_id: str) -> None:
        held = self.calls.pop(task_id, None)
        self.size -= held.size if held else 0

    def drop_oldest(self) -> None:
        self.drop(next(iter(self.calls)))


class HalfCalls:
    """Half calls by owner and task. Times are POSIX seconds; a person's own oldest is forgotten first, then an agent's."""

    def __init__(
        self, *, life_s: float = LIFE_S, max_bytes: int = MAX_AGENT_BYTES, limit: int = MAX_AGENT_CALLS
    ) -> None:
        self._life_s = life_s
        self._max_bytes = max_bytes
        self._limit = limit
        self._agents: dict[str, _Agent] = {}

    def keep(self, owner: Owner, task_id: str, call: Call, now: float) -> None:
        """Hold the task's call from now on, in place of what was held of it."""
        agent = self._agents.setdefault(owner[0], _Agent())
        agent.drop(task_id)
        held = _Held(owner, now + self._life_s, call)
        agent.calls[task_id] = held
        agent.size += held.size
        theirs = [(name, one.size) for name, one in agent.calls.items() if one.owner == owner]
        size = sum(of for _, of in theirs)
        while len(theirs) > 1 and (size > self._max_bytes // _PART or len(theirs) > max(1, self._limit // _PART)):
            oldest, of = theirs.pop(0)
            agent.drop(oldest)
            size -= of
        while agent.size > self._max_bytes or len(agent.calls) > self._limit or self._is_over(agent, now):
            agent.drop_oldest()

    def find(self, owner: Owner, task_id: str, now: float) -> Call | None:
        """The task's half call; another owner's does not exist, nor does one that is too old."""
        agent = self._agents.get(owner[0])
        held = agent.calls.get(task_id) if agent else None
        return held.call if held is not None and held.owner == owner and now < held.until else None

    def drop(self, owner: Owner, task_id: str) -> None:
        """Forget it: the task ended."""
        agent = self._agents.get(owner[0])
        held = agent.calls.get(task_id) if agent else None
        if agent is not None and held is not None and held.owner == owner:
            agent.drop(task_id)

    @staticmethod
    def _is_over(agent: _Agent, now: float) -> bool:
        return bool(agent.calls) and next(iter(agent.calls.values())).until <= now
