"""Questions that mean the same, that follow from one another or that differ in one thing, under three ways to key a cache.

``cache_workload.json`` holds groups of questions. The first of a group runs; what is asked after all
of the firsts, in a fixed random order, may be answered without the engine: the same words again, a
paraphrase, what follows from a stored result. A near miss has to run. What is right is what an agent
without a cache answers to the typed call.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.redisvl_peer import Redisvl
from benchmarks.report import Figure, Section
from benchmarks.servers import Server, free_port
from cache.opening import open_cache
from contract.canonical import sha256_hex
from contract.settings import Settings
from dataset_agent.login import identity_token
from grants.keys import init_keys

WORKLOAD: Final = Path(__file__).with_name("cache_workload.json")
FIRST, AGAIN, PARAPHRASE, ROLLUP, NEAR = "first", "the same words", "paraphrase", "rollup", "near miss"
REUSABLE: Final = (AGAIN, PARAPHRASE, ROLLUP)
OURS, EXACT = "result cache", "exact text"


@dataclass(frozen=True, slots=True)
class Ask:
    """One question of a person; ``call`` is what it means."""

    kind: str
    person: str
    question: str
    call: Mapping[str, Any]


@dataclass
class Keying:
    """What became of the asks: how many of each kind, how many without the engine, how many of those with wrong rows.

    ``unanswered`` asks were not understood or asked back; a ``misread`` one ran the engine for another call.
    """

    name: str
    asked: Counter[str] = field(default_factory=Counter)
    served: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    unanswered: Counter[str] = field(default_factory=Counter)
    misread: Counter[str] = field(default_factory=Counter)

    def add(self, ask: Ask, served: str | None, right: str) -> None:
        """``served`` is the digest of the rows that came without the engine."""
        self.asked[ask.kind] += 1
        self.served[ask.kind] += served is not None
        self.wrong[ask.kind] += served is not None and served != right

    def share(self, *kinds: str) -> float:
        """Percent of the asks that were answered without the engine, and rightly."""
        asked = sum(self.asked[kind] for kind in kinds)
        return 100 * sum(self.served[kind] - self.wrong[kind] for kind in kinds) / asked if asked else 0.0

    @property
    def wrong_of_hits(self) -> float:
        hits = self.served.total()
        return 100 * self.wrong.total() / hits if hits else 0.0

    def to_json(self) -> dict[str, Any]:
        kinds = (AGAIN, PARAPHRASE, ROLLUP, NEAR)
        counts = {name: {kind: getattr(self, name)[kind] for kind in kinds} for name in ("asked", "served", "wrong")}
        return counts | {"unanswered": self.unanswered.total(), "misread": self.misread.total()}


@dataclass(frozen=True, slots=True)
class WorkloadSection(Section):
    """A section with a table of keyings below its own."""

    keyings: Sequence[Keying] = ()

    def to_json(self) -> dict[str, Any]:
        return Section.to_json(self) | {"keyings": {keying.name: keying.to_json() for keying in self.keyings}}

    def show(self, console: Console) -> None:
        Section.show(self, console)
        columns = ("again", "paraphrase", "rollup", "all", "near miss", "wrong of served")
        table = Table("keyed by", *columns, title="Questions answered rightly without the engine, of those asked")
        for keying in self.keyings:
            parts = (f"{keying.served[kind] - keying.wrong[kind]}/{keying.asked[kind]}" for kind in REUSABLE)
            near = f"{keying.served[NEAR]}/{keying.asked[NEAR]}"
            wrong = f"{keying.wrong.total()}/{keying.served.total()} ({keying.wrong_of_hits:.1f} %)"
            table.add_row(keying.name, *parts, f"{keying.share(*REUSABLE):.1f} %", near, wrong)
        console.print(table)
        for keying in self.keyings:
            if lost := keying.unanswered.total() + keying.misread.total():
                told = f"{keying.unanswered.total()} not understood, {keying.misread.total()} read as another call"
                console.print(f"{keying.name}: {lost} questions were answered neither way: {told}")


def figures_of(keyings: Sequence[Keying]) -> Iterator[Figure]:
    for keying in keyings:
        ours = keying.name == OURS
        yield Figure(
            f"answered without the engine, {keying.name}", keying.share(*REUSABLE), "%", least=82 if ours else None
        )
        yield Figure(f"wrong answers of hits, {keying.name}", keying.wrong_of_hits, "%", most=0 if ours else None)


def asks() -> list[Ask]:
    """All asks in their order: everybody's first questions, then the rest, mixed."""
    groups = json.loads(WORKLOAD.read_text(encoding="utf-8"))["groups"]
    firsts, rest = [], []
    for group in groups:
        person, call, (first, *others) = group["as"], group["call"], group["asked"]
        firsts.append(Ask(FIRST, person, first, call))
        rest.append(Ask(AGAIN, person, first, call))
        rest += [Ask(PARAPHRASE, person, question, call) for question in others]
        for kind, name in ((ROLLUP, "rollups"), (NEAR, "near")):
            rest += [Ask(kind, person, item["question"], item["call"]) for item in group.get(name, ())]
    random.Random(11).shuffle(rest)
    return firsts + rest


def judge_keyings(folder: Path, peer: Redisvl | None, vectorisers: Sequence[tuple[str, str]]) -> list[Keying]:
    """The result cache as it is served, exact text, and redisvl where it is there."""
    asked = asks()
    with ExitStack() as stack:
        cached = stack.enter_context(Agents(folder / "cached", cache=True))
        plain = stack.enter_context(Agents(folder / "plain", cache=False))
        right = [plain.rows(ask) for ask in _shown(asked, "without a cache")]
        keyings = [_ours(asked, right, cached), _exact(asked, right)]
    if peer is not None:
        keyings += [_similar(asked, right, peer, label, name) for label, name in vectorisers]
    return keyings


def _ours(asked: Sequence[Ask], right: Sequence[str], agents: Agents) -> Keying:
    keying = Keying(OURS)
    for ask, rows in zip(_shown(asked, "result cache"), right, strict=True):
        kept = agents.kept()
        answer = agents.ask(ask.person, {"question": ask.question})
        if answer["result"] is None:
            keying.unanswered[ask.kind] += 1
            keying.add(ask, None, rows)
            continue
        # Of a restricted capability an answer does not tell; but what ran is kept.
        outcome = answer["cache"]["outcome"]
        reused = outcome == "HIT" or (outcome == "WITHHELD" and agents.kept() == kept)
        found = _digest(answer["result"])
        keying.misread[ask.kind] += not reused and found != rows
        keying.add(ask, found if reused else None, rows)
    return keying


def _exact(asked: Sequence[Ask], right: Sequence[str]) -> Keying:
    keying, held = Keying(EXACT), dict[tuple[str, str], str]()
    for ask, rows in zip(asked, right, strict=True):
        keying.add(ask, held.get((ask.person, ask.question)), rows)
        held.setdefault((ask.person, ask.question), rows)
    return keying


def _similar(asked: Sequence[Ask], right: Sequence[str], peer: Redisvl, label: str, vectoriser: str) -> Keying:
    """Each person has a cache of their own, so that only meaning can be mistaken and no person."""
    keying = Keying(f"redisvl, {label}")
    for person in sorted({ask.person for ask in asked}):
        peer.open(vectoriser)
        for ask, rows in zip(asked, right, strict=True):
            if ask.person != person:
                continue
            (served,), _ = peer.check([ask.question])
            keying.add(ask, served, rows)
            if served is None:
                peer.store([(ask.question, rows)])
    return keying


class Agents:
    """A dataset agent and a root agent before it, as processes, in a home of their own."""

    def __init__(self, home: Path, *, cache: bool) -> None:
        home.mkdir()
        self._settings = Settings(home=home)
        init_keys(self._settings)
        self._environment = {
            "DATASET_AGENT_HOME": str(home),
            "DATASET_AGENT_CACHE_ENABLED": str(cache).lower(),
        }
        self._tokens: dict[str, str] = {}

    def __enter__(self) -> Agents:
        cores, command = sorted(os.sched_getaffinity(0)), str(Path(sys.executable).parent / "dataset-agent")
        self._servers = []
        port = free_port()
        for kind in ("serve", "root"):
            environment = self._environment | {"DATASET_AGENT_URL": f"http://127.0.0.1:{port}"}
            listening = port if kind == "serve" else free_port()
            served = [command, kind, "--port", str(listening)]
            self._servers.append(Server.start(served, listening, core=cores[0], env=environment))
        self._http = httpx.Client(base_url=f"http://127.0.0.1:{self._servers[-1].port}", timeout=60)
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()
        for server in reversed(self._servers):
            server.stop()

    def ask(self, person: str, body: Mapping[str, Any]) -> dict[str, Any]:
        token = self._tokens.setdefault(person, identity_token(self._settings, person))
        reply = self._http.post("/ask", json=body, headers={"Authorization": f"Bearer {token}"})
        return dict(reply.raise_for_status().json())

    def kept(self) -> int:
        """How many entries the cache has."""
        return asyncio.run(_entries(self._settings))

    def rows(self, ask: Ask) -> str:
        """The digest of the rows that answer the typed call."""
        answer = self.ask(ask.person, ask.call)
        if answer["result"] is None:
            raise SystemExit(f"{ask.call} was not answered: {answer['reason']}, {answer['rationale']}")
        return _digest(answer["result"])


async def _entries(settings: Settings) -> int:
    cache = open_cache(settings)
    if cache.store is None:
        return 0
    entries = (await cache.store.stats()).entries
    await cache.close()
    return entries


def _digest(result: Mapping[str, Any]) -> str:
    return sha256_hex(json.dumps(result, sort_keys=True).encode())


def _shown(asked: Sequence[Ask], what: str) -> Iterator[Ask]:
    yield from track(asked, description=what, transient=True, disable=not sys.stderr.isatty())
