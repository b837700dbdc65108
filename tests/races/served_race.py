"""One leaf, 64 calls at once over HTTP to four serving processes that share a home or a Redis."""

from __future__ import annotations

import itertools
import json
import selectors
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.raw_client import Connection, request_bytes
from contract.call import Operation
from contract.canonical import sha256_hex
from contract.extension import DECISION_KEY
from evidence.reader import LedgerFile
from tests.races.racing import CACHE, EACH, PROCESSES, Race, RaceLost, Tell, address_of_store, line_of, workers
from tests.races.served import BUDGET_S, EXECUTIONS, HOLD, UNANSWERED
from tests.running_agent import Asker, agent_home, message

DATASET, CAPABILITY = "purification-batches", "compare_batches"


@dataclass
class Served:
    """Four processes, the connections to them, and what they leave behind. ``processes`` gives the port of each.

    While the file ``hold`` is there, no query ends.
    """

    asker: Asker
    connections: Sequence[tuple[int, Connection]]
    ledger: LedgerFile
    executions: Path
    hold: Path
    unanswered: Path
    processes: dict[int, int] = field(default_factory=dict)
    rows_before: int = 0
    runs_before: int = 0
    faults_before: int = 0

    def rows(self) -> list[Mapping[str, Any]]:
        """What is in the ledger's rows since the last look."""
        rows = list(self.ledger.rows(start=self.rows_before))
        self.rows_before += len(rows)
        return [row.cells for row in rows]

    def reasons(self) -> Counter[str]:
        """Of the ledger's rows since the last look."""
        return Counter(str(cells["reason"]) for cells in self.rows())

    def runs(self) -> int:
        """Queries that an engine ran since the last look."""
        return len(self.ran())

    def cache_failed(self) -> bool:
        """Whether a process was without an answer of the cache since the last look."""
        size = self.unanswered.stat().st_size if self.unanswered.exists() else 0
        before, self.faults_before = self.faults_before, size
        return size > before

    def ran(self) -> list[int]:
        """The processes whose engine ran a query since the last look, once for each."""
        lines = self.executions.read_bytes().splitlines() if self.executions.exists() else []
        since, self.runs_before = lines[self.runs_before :], len(lines)
        return [int(line) for line in since]


def race_served(kind: str, folder: Path, rounds: int, tell: Tell = lambda: None) -> Race:
    """``rounds`` rounds, each with a call that nobody asked before. Raises ``RaceLost``."""
    race = Race(f"served over HTTP, {kind}")
    began = time.monotonic()
    executed = recorded = 0
    with serving(kind, folder) as served:
        for pair in itertools.islice(pairs(), rounds):
            race.judge(round_of(served, pair), "PRINCIPAL_AUTHORIZED")
            runs, rows = served.runs(), served.reasons()
            executed, recorded = executed + runs, recorded + rows.total()
            if runs != 1 or rows != {"PRINCIPAL_AUTHORIZED": 1, "GRANT_REPLAYED": PROCESSES * EACH - 1}:
                raise RaceLost(f"{race.what}, round {race.rounds}: {runs} executions, evidence {dict(rows)}")
            tell()
    race.further = {"executions": executed, "evidence_rows": recorded}
    race.seconds = time.monotonic() - began
    return race


def pairs() -> Iterator[tuple[str, str]]:
    batches = [f"B{number:03d}" for number in range(1, 100)]
    return itertools.permutations(batches, 2)


@contextmanager
def serving(kind: str, folder: Path) -> Iterator[Served]:
    """Four ``serve`` processes on one home: they share its ledger, and its state and cache files or a server for each."""
    with ExitStack() as stack:
        url = stack.enter_context(address_of_store(kind, folder))
        cache_url = stack.enter_context(address_of_store(kind, folder, CACHE))
        settings = agent_home(folder / "home", **({} if url is None else {"state_url": url}))
        executions, hold, unanswered = folder / "executions", folder / "hold", folder / "unanswered"
        env = {"DATASET_AGENT_HOME": str(settings.home), EXECUTIONS: str(executions), HOLD: str(hold)}
        env[UNANSWERED] = str(unanswered)
        env["DATASET_AGENT_POLICY_BUDGET"] = str(BUDGET_S)
        if url is not None and cache_url is not None:
            env |= {"DATASET_AGENT_STATE_URL": url, "DATASET_AGENT_CACHE_URL": cache_url}
        processes = stack.enter_context(workers("tests.races.served", log=folder / "served.log", env=env))
        ports = [port_of(process) for process in processes]
        connections = [(port, Connection(port)) for port in ports for _ in range(EACH)]
        for _, connection in connections:
            stack.callback(connection.close)
        asker = Asker(settings, f"http://127.0.0.1:{ports[0]}")
        ledger = LedgerFile(settings.home / "remote" / "ledger.sqlite")
        by_process = {process.pid: port for process, port in zip(processes, ports, strict=True)}
        yield Served(asker, connections, ledger, executions, hold, unanswered, by_process)


def round_of(served: Served, pair: tuple[str, str]) -> Counter[str]:
    """The reasons of 64 decisions on one leaf. Each request is sent but for its last byte, then all are finished."""
    asker = served.asker
    call = asker.call(DATASET, CAPABILITY, dict(zip(("batch_a", "batch_b"), pair, strict=True)))
    grant = asker.grant(asker.scope(DATASET, CAPABILITY), Operation("SendMessage", call_hash=sha256_hex(call)))
    send_at_once(served.connections, [request_of(port, asker, call, grant) for port, _ in served.connections])
    tasks = [json.loads(body)["result"]["task"] for body in answers([one for _, one in served.connections])]
    for task in tasks:
        if ("artifacts" in task) != (task["metadata"][DECISION_KEY]["verdict"] == "GRANTED"):
            raise RaceLost(f"rows without a grant, or a grant without rows: {task['metadata'][DECISION_KEY]}")
    return Counter(task["metadata"][DECISION_KEY]["reason"] for task in tasks)


def request_of(port: int, asker: Asker, call: bytes, grant: str) -> bytes:
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message(call)}}
    return request_bytes(port, body, asker.headers(grant))


def send_at_once(connections: Sequence[tuple[int, Connection]], requests: Sequence[bytes]) -> None:
    """All but the last byte of each, then the last ones."""
    for (_, connection), request in zip(connections, requests, strict=True):
        connection.socket.sendall(request[:-1])
    for (_, connection), request in zip(connections, requests, strict=True):
        connection.socket.sendall(request[-1:])


def answers(connections: Sequence[Connection]) -> list[bytes]:
    """One response of each connection."""
    bodies: list[bytes] = []
    with selectors.DefaultSelector() as selector:
        for connection in connections:
            selector.register(connection.socket, selectors.EVENT_READ, connection)
        while len(bodies) < len(connections):
            for key, _ in selector.select(60):
                connection = key.data
                connection.fill()
                body = connection.take()
                if body is not None:
                    bodies.append(body)
                    selector.unregister(connection.socket)
    return bodies


def port_of(process: subprocess.Popen[str]) -> int:
    """What ``serve --json`` prints when it is ready: one object, on several lines."""
    text = line_of(process)
    while not text.endswith("}\n"):
        text += line_of(process)
    return int(json.loads(text)["url"].rpartition(":")[2])
