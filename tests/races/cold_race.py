"""64 equal calls that nobody asked before, each under a leaf of its own: one execution, also where its process is killed."""

from __future__ import annotations

import itertools
import json
import os
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

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


def race_cold(kind: str, folder: Path, rounds: int, tell: Tell = lambda: None) -> Race:
    """``rounds`` rounds, each with a call that nobody asked before. Raises ``RaceLost``."""
    race = Race(f"64 cold calls, {kind}")
    began = time.monotonic()
    executed = recorded = 0
    with serving(kind, folder) as served:
        for pair in itertools.islice(pairs(), rounds):
            begin(served, pair, list(served.connections))
            race.compare(ended(served, list(served.connections)), {"PRINCIPAL_AUTHORIZED": PROCESSES * EACH})
            runs, rows = served.runs(), served.rows()
            executed, recorded = executed + runs, recorded + len(rows)
            if runs != 1:
                raise RaceLost(f"{race.what}, round {race.rounds}: {runs} executions")
            check_rows(race, rows, PROCESSES * EACH)
            tell()
    race.further = {"executions": executed, "evidence_rows": recorded}
    race.seconds = time.monotonic() - began
    return race


def race_killed(kind: str, folder: Path, rounds: int, tell: Tell = lambda: None) -> Race:
    """Until ``rounds`` leaders were killed, ``KILLS`` of one service each. Raises ``RaceLost``.

    The seconds that the others waited after it, at most, are told and not judged.
    """
    race = Race(f"leader killed, {kind}")
    began = time.monotonic()
    waited = 0.0
    executed = recorded = 0
    while race.rounds < rounds:
        at = folder / f"service-{race.rounds}"
        at.mkdir()
        with serving(kind, at) as served:
            for pair in itertools.islice(pairs(), min(KILLS, rounds - race.rounds)):
                took, runs, rows = round_of_a_kill(race, served, pair)
                waited = max(waited, took)
                executed, recorded = executed + runs, recorded + rows
                tell()
    race.further = {"executions": executed, "evidence_rows": recorded, "waited_ms": round(waited * 1_000)}
    race.seconds = time.monotonic() - began
    return race


def round_of_a_kill(race: Race, served: Served, pair: tuple[str, str]) -> tuple[float, int, int]:
    """Seconds that the others took after the kill, queries that were begun, and rows that were written."""
    everybody = [(port, one) for port, one in served.connections if port in served.processes.values()]
    served.hold.touch()
    begin(served, pair, everybody)
    (leader,) = when_it_runs(served)
    port = served.processes.pop(leader)
    os.kill(leader, signal.SIGKILL)
    killed = time.monotonic()
    served.hold.unlink()
    left = [(at, one) for at, one in everybody if at != port]
    race.compare(ended(served, left), {"PRINCIPAL_AUTHORIZED": len(left)})
    took = time.monotonic() - killed
    after, rows = served.ran(), served.rows()
    if len(after) != 1:
        raise RaceLost(f"{race.what}, round {race.rounds}: {len(after)} executions after the kill")
    check_rows(race, rows, len(left))
    return took, 1 + len(after), len(rows)


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


def check_rows(race: Race, rows: list[Any], calls: int) -> None:
    """A row for each call, all of one execution, which one of them says is its own."""
    cache = Counter(cells["cache"] for cells in rows)
    executions = {cells["execution_id"] for cells in rows}
    if cache != {"MISS": 1, "HIT": calls - 1} or len(executions) != 1:
        raise RaceLost(f"{race.what}, round {race.rounds}: {dict(cache)}, {len(executions)} executions in evidence")
