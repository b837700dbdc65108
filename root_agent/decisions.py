"""``GET /decisions/{id}`` of the root agent: what was decided on an asking, told once more to the person who asked.

It tells what ``POST /ask`` told, in the same members, without anything of the question and without rows. Kept in memory,
the newest so many: the ledger has every decision for good, and is not searched at a request of one person.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from contract.canonical import json_to_keep
from contract.errors import Category, Component, DatasetAgentError
from root_agent.asking import Answer
from root_agent.identity import RequestContext

PATH: Final = "/decisions/{decision_id}"
MAX_KEPT: Final = 4_000
_PART: Final = 4
"""One person has at most so small a part of them, so that whoever asks much makes nobody else's be forgotten."""
_TOLD: Final = (
    *("verdict", "reason", "rationale", "decision", "remote", "dataset", "dataset_version", "revision", "capability"),
    *("agent", "cache", "visited_nodes", "discovery", "tool_calls", "mcp_calls", "a2a_calls", "attempts", "trace_id"),
    "evidence",
)
"""Of an answer's members these: none holds a word of the question, an argument, a row or an envelope."""
_TOLD_OF_REMOTE: Final = ("decision", "error", "task_id")


@dataclass(frozen=True, slots=True)
class _Kept:
    person: tuple[str, str]
    names: tuple[str, ...]
    told: bytes


class Decisions:
    """The newest decisions by their ids, the root's own and the dataset agent's; each for its own person.

    An id is looked up among those of whoever asks: a dataset agent chooses its ids, and is shown the root's.
    """

    def __init__(self, *, limit: int = MAX_KEPT) -> None:
        self._limit = limit
        self._kept: OrderedDict[int, _Kept] = OrderedDict()
        self._by_name: dict[tuple[tuple[str, str], str], int] = {}
        self._by_person: dict[tuple[str, str], OrderedDict[int, None]] = {}
        self._next = 0

    def keep(self, answer: Answer, told: Mapping[str, Any]) -> None:
        """``told`` is the JSON of ``answer``."""
        person = (answer.asking.person.issuer, answer.asking.person.subject)
        kept = _Kept(person, _names(answer, told), json_to_keep(_without_the_question(told)))
        number, self._next = self._next, self._next + 1
        self._kept[number] = kept
        self._by_name.update({(person, name): number for name in kept.names})
        theirs = self._by_person.setdefault(person, OrderedDict())
        theirs[number] = None
        if len(theirs) > max(1, self._limit // _PART):
            self._forget(next(iter(theirs)))
        elif len(self._kept) > self._limit:
            self._forget(next(iter(self._kept)))

    def find(self, decision_id: str, person: RequestContext) -> bytes:
        """JSON. Raises NOT_FOUND, in the same words for what is another's, was forgotten or never was."""
        number = self._by_name.get(((person.issuer, person.subject), decision_id))
        if number is not None:
            return self._kept[number].told
        raise DatasetAgentError(
            Component.ROOT_AGENT,
            Category.NOT_FOUND,
            "root_agent.decision.not_found",
            "no such decision is kept for this person; the newest are, until the root agent ends: its ledger has all",
        )

    def _forget(self, number: int) -> None:
        kept = self._kept.pop(number)
        for name in kept.names:
            if self._by_name.get((kept.person, name)) == number:
                del self._by_name[kept.person, name]
        theirs = self._by_person[kept.person]
        del theirs[number]
        if not theirs:
            del self._by_person[kept.person]


def _names(answer: Answer, told: Mapping[str, Any]) -> tuple[str, ...]:
    """The ids of the decision that the answer ended with, of the root's own, and of the dataset agent's."""
    remote = (told["remote"] or {}).get("decision") or {}
    ids = (answer.decision.decision_id, told["decision"]["decision_id"], remote.get("decision_id"))
    return tuple(dict.fromkeys(name for name in ids if isinstance(name, str)))


def _without_the_question(told: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: told[name] for name in _TOLD}
    if kept["remote"] is not None:
        kept["remote"] = {name: kept["remote"][name] for name in _TOLD_OF_REMOTE}
    return kept
