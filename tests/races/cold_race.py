"""64 equal calls that nobody asked before, each under a leaf of its own: one execution, also where its process is killed.

The cache has no more time than in production. Where it did not answer in a round, as on a machine that is busy
otherwise, calls run each on their own, which is right; such rounds are counted apart, and may not be most of them.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from benchmarks.raw_client import Connection
from contract.call import Operation
from contract.canonical import sha256_hex
from contract.extension import DECISION_KEY
from tests.races.racing import EACH, PROCESSES, Race, RaceLost, Tell
from tests.races.served_race import (
    CAPABILITY,
    DATASET,
    Served,
    answers,
    pairs,
    request_of,
    send_at_once,
    serving,
)
from tests.running_agent import result_of

KILLS = PROCESSES - 1
"""Processes that are killed one after another, so that one is left."""
_PATIENCE_S = 60.0

At = list[tuple[int, Connection]]


@dataclass
class Told:
    """What came of the rounds; those in which the cache did not answer somebody are counted apart."""

    executions: int = 0
    rows: int = 0
    failed: int = 0
    alone: int = 0
    """Executions of rounds in which the cache failed, beyond one each."""

    def judge(self, race: Race, served: Served, calls: int, *, already: int = 0) -> None:
        """A row for each call, which tells the execution it has its rows of, and as many executions as are told.

        ``already`` are those that were begun before the last look. Raises ``RaceLost`` where there is more than one
        and the cache answered everybody.
        """
        runs, rows, failed = already + served.runs(), served.rows(), served.cache_failed()
        self.executions, self.rows = self.executions + runs, self.rows + len(rows)
        cache = Counter(cells["cache"] for cells in rows)
        executions = {cells["execution_id"] for cells in rows}
        if cache != Counter({"MISS": runs, "HIT": calls - runs}) or len(executions) != runs:
            raise RaceLost(
                f"{race.what}, round {race.rounds}: {dict(cache)}, {len(executions)} executions in evidence, {runs} run"
            )
        if runs != 1 and not failed:
            raise RaceLost(f"{race.what}, round {race.rounds}: {runs} executions, and the cache answered everybody")
        if failed:
            self.failed, self.alone = self.failed + 1, self.alone + runs - 1

    def check(self, race: Race) -> None:
        """Raises ``RaceLost`` where the cache failed in most rounds: then nothing raced."""
        if 2 * self.failed > race.rounds:
            raise RaceLost(f"{race.what}: the cache did not answer in {self.failed} of {race.rounds} rounds")

    def further(self) -> dict[str, int]:
        return {
            "executions": self.executions,
            "evidence_rows": self.rows,
            "cache_failed_rounds": self.failed,
            "executions_alone": self.alone,
        }


def race_cold(kind: str, folder: Path, rounds: int, tell: Tell = lambda: None) -> Race:
    """``rounds`` rounds, each with a call that nobody asked before. Raises ``RaceLost``."""
    race = Race(f"64 cold calls, {kind}")
    began = time.monotonic()
    told = Told()
    with serving(kind, folder) as served:
        for pair in itertools.islice(pairs(), rounds):
            begin(served, pair, list(served.connections))
            race.compare(ended(served, list(served.connections)), {"PRINCIPAL_AUTHORIZED": PROCESSES * EACH})
            told.judge(race, served, PROCESSES * EACH)
            tell()
    told.check(race)
    race.further = told.further()
    race.seconds = time.monotonic() - began
    return race


def race_killed(kind: str, folder: Path, rounds: int, tell: Tell = lambda: None) -> Race:
    """Until ``rounds`` leaders were killed, ``KILLS`` of one service each. Raises ``RaceLost``.

    The seconds that the others waited after it, at most, are told and not judged.
    """
    race = Race(f"leader killed, {kind}")
    began = time.monotonic()
    waited, told = 0.0, Told()
    while race.rounds < rounds:
        at = folder / f"service-{race.rounds}"
        at.mkdir()
        with serving(kind, at) as served:
            for pair in itertools.islice(pairs(), min(KILLS, rounds - race.rounds)):
                waited = max(waited, round_of_a_kill(race, served, pair, told))
                tell()
    told.check(race)
    race.further = told.further() | {"waited_ms": round(waited * 1_000)}
    race.seconds = time.monotonic() - began
    return race


def round_of_a_kill(race: Race, served: Served, pair: tuple[str, str], told: Told) -> float:
    """Seconds that the others took after the kill."""
    everybody = [(port, one) for port, one in served.connections if port in served.processes.values()]
    served.hold.touch()
    begin(served, pair, everybody)
    leader, *others = when_it_runs(served)
    port = served.processes.pop(leader)
    os.kill(leader, signal.SIGKILL)
    killed = time.monotonic()
    served.hold.unlink()
    left = [(at, one) for at, one in everybody if at != port]
    race.compare(ended(served, left), {"PRINCIPAL_AUTHORIZED": len(left)})
    took = time.monotonic() - killed
    lost = others.count(leader)  # a process may run more than one where the cache failed
    told.executions += 1 + lost
    told.judge(race, served, len(left), already=len(others) - lost)
    return took


def when_it_runs(served: Served) -> list[int]:
    deadline = time.monotonic() + _PATIENCE_S
    while not (running := served.ran()):
        if time.monotonic() > deadline:
            raise RaceLost("nobody runs")
        time.sleep(0.01)
    return running


def begin(served: Served, pair: tuple[str, str], at: At) -> None:
    """One call on each connection, each under a leaf of its own."""
    asker = served.asker
    call = asker.call(DATASET, CAPABILITY, dict(zip(("batch_a", "batch_b"), pair, strict=True)))
    scope, operation = asker.scope(DATASET, CAPABILITY), Operation("SendMessage", call_hash=sha256_hex(call))
    send_at_once(at, [request_of(port, asker, call, asker.grant(scope, operation)) for port, _ in at])


def ended(served: Served, at: At) -> Counter[str]:
    """The reasons of the decisions. Raises ``RaceLost`` where the results are not one result."""
    tasks = [json.loads(body)["result"]["task"] for body in answers([one for _, one in at])]
    results = {json.dumps(result_of(task), sort_keys=True) for task in tasks if "artifacts" in task}
    if len(results) > 1:
        raise RaceLost(f"{len(results)} results of one call")
    return Counter(task["metadata"][DECISION_KEY]["reason"] for task in tasks)
