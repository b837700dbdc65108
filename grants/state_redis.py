"""The state store in Redis or Valkey (6.0 or newer), shared by machines.

Every question is one script: one round trip that looks at the server, reads the memory and
writes to it, all or nothing. The server must not forget: an evicting ``maxmemory-policy``,
or an append-only file that is off, is refused at start and with the very answer after it
is switched while running. What a crash, a failover or a restored copy loses all the same is
seen by the server's run id and replication id, which are written beside the memory, and by
the number of leaves in it.

The account needs ``EVAL EVALSHA INFO HGET HMGET HSET HINCRBY HGETALL ZADD ZCARD ZRANGEBYSCORE ZREM``.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from redis.asyncio import Redis
from redis.exceptions import NoScriptError, RedisError

from contract.errors import Category, DatasetAgentError
from contract.grant import VerifiedGrant
from contract.ids import new_id
from grants.once import Once, judge_once
from grants.revocation_form import check_revocation
from grants.state import (
    BUDGET,
    Progress,
    Revocation,
    RevocationKind,
    armed_after_loss,
    armed_at_open,
    check_not_ended,
    fault,
    in_order,
    judge,
    names_of,
    new_memory,
    remembered_until,
    replay_key,
    replayed,
    unavailable,
)
from grants.state_script import ASK, ASK_SHA, REVOKE
from grants.state_seen import SeenFile
from grants.state_server import StateServer

# one hash tag: the keys of one script live in one slot of a cluster
_PREFIX: Final = "{dataset-agent}:state:2:"
MEMORY: Final = _PREFIX + "memory"
"""A hash: what the memory is, and the revocations in it; it goes as a whole or not at all."""
SPENT: Final = _PREFIX + "spent"
"""A sorted set of spent leaves by the instant at which they are forgotten."""
_REVOKED: Final = "revoked "
_FOREIGN: Final = "the state store holds what this program did not write"
_MAX_INSTANT: Final = 2**53
# A server that is away (TimeoutError is an OSError), and one that holds what is no answer of ours.
_DOWN: Final = (RedisError, OSError, ValueError, TypeError)


@dataclass(frozen=True, slots=True)
class _Question:
    """What one script is asked: ``leaf`` is empty where nothing is to be spent, ``now`` is ``None`` to look only."""

    names: Sequence[tuple[RevocationKind, str]] = ()
    leaf: str = ""
    until: float = 0.0
    now: float | None = None
    lost: bool = False

    def arguments(self, number: str, seen: Progress | None) -> list[str]:
        """In the order of ``grants.state_script``."""
        arming = ("", "", "") if self.now is None else (armed_after_loss(self.now), armed_at_open(self.now), self.now)
        known = ("", 0, 0) if seen is None else (seen.memory, seen.epoch, seen.seq)
        fixed = (number, self.leaf, repr(self.until), *arming, int(self.lost), new_memory(), *known)
        return [str(part) for part in fixed] + [_field(*name) for name in self.names]


@dataclass(frozen=True, slots=True)
class _Answer:
    """What the memory held; ``marks`` are the not-before instants in the order of the question's names."""

    progress: Progress
    armed: int
    clock: float
    fresh: bool
    marks: Sequence[float | None]


class RedisState:
    """A ``grants.state.StateStore``. Every answer is one round trip within one budget, never retried."""

    def __init__(self, url: str, *, budget: float = BUDGET, seen_file: Path | None = None) -> None:
        self._budget = budget
        self._seen_file = SeenFile(seen_file)
        self._seen: Progress | None = None
        self._server = StateServer(url, key=MEMORY, waiting=budget)

    @classmethod
    def reach(cls, url: str, *, budget: float = BUDGET, seen_file: Path | None = None) -> RedisState:
        """A store that nobody checked or armed. Raises ``grants.state.url``."""
        try:
            return cls(url, budget=budget, seen_file=seen_file)
        except ValueError as error:
            raise fault("url", f"DATASET_AGENT_STATE_URL cannot be used: {error}") from None

    @classmethod
    def open(cls, url: str, *, now: float, budget: float = BUDGET, seen_file: Path | None = None) -> RedisState:
        """Check that the server remembers, and arm it.

        Raises ``grants.state.url``, ``grants.state.unavailable``, ``grants.state.evicting``,
        ``grants.state.not_durable``, ``grants.state.replica`` or ``grants.state.seen``.
        """
        store = cls.reach(url, budget=budget, seen_file=seen_file)
        sighting = store._seen_file.read()
        seen, lost = (None, False) if sighting is None else (sighting.progress, sighting.put_back)
        # A loop of its own, whose connections end with it: this is called before and within loops.
        with ThreadPoolExecutor(1) as thread:
            store._seen = thread.submit(asyncio.run, _begin(url, now, budget, seen, lost)).result()
        store._seen_file.keep(store._seen)
        return store

    async def spend(self, grant: VerifiedGrant, *, policy: str | None, now: float) -> None:
        names = names_of(grant, policy)
        answer = await self._judged(_Question(names, replay_key(grant), remembered_until(grant), now))
        judge(grant, names, answer.marks, armed=answer.armed, clock=answer.clock)
        if not answer.fresh:
            raise replayed()

    async def use(self, once: Once, *, now: float) -> None:
        answer = await self._judged(_Question((), once.key, once.until, now))
        judge_once(once, armed=answer.armed, clock=answer.clock)
        if not answer.fresh:
            raise replayed()

    async def recheck(self, grant: VerifiedGrant, *, policy: str | None, now: float) -> None:
        check_not_ended(grant, now)
        names = names_of(grant, policy)
        answer = await self._judged(_Question(names, now=now))
        judge(grant, names, answer.marks, armed=answer.armed, clock=answer.clock)

    async def revoke(self, kind: RevocationKind, value: str, *, not_before: float) -> None:
        value, not_before = check_revocation(kind, value, not_before), float(not_before)
        async with self._reaching("the state store does not take the revocation"):
            check_fit(
                await self._server.ask(
                    lambda server: cast(Any, server.eval(REVOKE, 1, MEMORY, _field(kind, value), repr(not_before)))
                )
            )

    async def revocations(self) -> list[Revocation]:
        async with self._reaching("the state store cannot be read"):
            return revocations_in(await self._server.ask(lambda server: cast(Any, server.hgetall(MEMORY))))

    async def health(self) -> None:
        async with self._reaching("the state store does not answer"):
            await self._ask(_Question())

    async def close(self) -> None:
        self._seen_file.keep(self._seen)
        await self._server.close()

    async def _judged(self, question: _Question) -> _Answer:
        try:
            async with asyncio.timeout(self._budget):
                answer = await self._ask(question)
        except (*_DOWN, DatasetAgentError) as error:
            if isinstance(error, DatasetAgentError):
                await self._server.lost()
            raise unavailable() from error
        self._seen_file.keep(self._seen, soon=True)
        return answer

    @asynccontextmanager
    async def _reaching(self, otherwise: str) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self._budget):
                yield
        except _DOWN as error:
            raise fault("unavailable", otherwise, Category.UNAVAILABLE) from error

    async def _ask(self, question: _Question) -> _Answer:
        number = new_id("ask")
        asked = [MEMORY, SPENT, *question.arguments(number, self._seen)]
        answer = _read(await self._server.ask(lambda server: _run(server, asked)), number)
        if question.now is not None and (self._seen is None or self._seen.behind(answer.progress)):
            self._seen = answer.progress
        return answer


async def _run(server: Redis, asked: Sequence[str]) -> Any:
    try:
        return await cast(Any, server.evalsha(ASK_SHA, 2, *asked))
    except NoScriptError:  # a server that just started, or was told to forget its scripts
        return await cast(Any, server.eval(ASK, 2, *asked))


async def _begin(url: str, now: float, budget: float, seen: Progress | None, lost: bool) -> Progress:
    """What a memory that is armed has come to. Raises as ``RedisState.open``."""
    number = new_id("ask")
    asked = _Question(now=now, lost=lost).arguments(number, seen)
    try:
        async with asyncio.timeout(budget), StateServer(url, key=MEMORY, waiting=budget) as server:
            told = await server.ask(lambda client: cast(Any, client.eval(ASK, 2, MEMORY, SPENT, *asked)))
            return _read(told, number).progress
    except _DOWN as error:
        raise fault(
            "unavailable",
            f"the state store does not answer ({type(error).__name__}); start it or correct DATASET_AGENT_STATE_URL",
            Category.UNAVAILABLE,
        ) from error


def _read(told: Any, number: str) -> _Answer:
    """A script's answer.

    Raises ``RedisError`` where it is to another question, as after a connection out of step,
    and ``TypeError`` or ``ValueError`` for what is no answer of a script of ours.
    """
    answered, policy, log, role, *rest = told
    if answered != number:
        raise RedisError("the answer of the state store is to another question")
    check_fit((policy, log, role))
    memory, epoch, seq, armed, clock, fresh, marks = rest
    progress = Progress(memory, _count(epoch), _count(seq))
    marked = [None if mark is None else instant(mark) for mark in marks]
    return _Answer(progress, beginning(armed, begun=bool(memory)), instant(clock), fresh == 1, marked)


def beginning(armed: Any, *, begun: bool) -> int:
    """The armed instant of a memory, 0 before it has begun. Raises ``ValueError`` for what no store of ours wrote."""
    if begun and int(armed) == 0:
        raise ValueError(_FOREIGN)
    return _count(armed)


def _count(told: Any) -> int:
    if not 0 <= int(told) < _MAX_INSTANT:
        raise ValueError(_FOREIGN)
    return int(told)


def instant(text: Any) -> float:
    """Seconds as a script tells them. Raises ``ValueError``: what is no number is neither before nor after another."""
    seconds = float(text)
    if not math.isfinite(seconds):
        raise ValueError(_FOREIGN)
    return seconds


def revocations_in(held: Mapping[str, str]) -> list[Revocation]:
    """Those of the hash that is the memory. Raises ``ValueError`` for one that is none of ours."""
    marks = ((field.removeprefix(_REVOKED), instant(held[field])) for field in held if field.startswith(_REVOKED))
    return in_order({_name(field): mark for field, mark in marks})


def check_fit(told: Sequence[str]) -> None:
    """Raises where a server may forget a spent leaf or a revocation, or does not know the newest ones.

    ``told`` is its policy, its log and its role: what every script tells first.
    """
    policy, log, role = told
    if role != "master":
        raise fault(
            "replica",
            "the state store is a replica; let DATASET_AGENT_STATE_URL lead to the primary",
            Category.UNAVAILABLE,
        )
    if policy != "noeviction":
        raise fault(
            "evicting",
            f"the state store evicts keys (maxmemory-policy {policy}); run: CONFIG SET maxmemory-policy noeviction",
        )
    if log != "1":
        raise fault(
            "not_durable", "the state store keeps no append-only file; run: CONFIG SET appendonly yes, and persist it"
        )


def _field(kind: RevocationKind, value: str) -> str:
    return f"{_REVOKED}{kind.value} {value}"


def _name(field: str) -> tuple[str, str]:
    kind, _, value = field.partition(" ")
    return kind, value
