"""A million rows as Arrow by ``GET /results``, beside DuckDB writing the same stream into a local socket."""

from __future__ import annotations

import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from benchmarks.large import ROWS, SELECT, World, rest_of
from benchmarks.report import Figure, Section, Side, machine
from benchmarks.servers import Server, free_port
from contract.call import ARROW_MEDIA_TYPE, RESULT_MEDIA_TYPE

FEWER: Final = 100_000
PLAIN, SORTED = "DuckDB into a socket, unordered", "DuckDB into a socket, the same query"
FETCHED, WHOLE, JSON = "GET /results", "call and GET /results", "GET /results, JSON"


def measure(blocks: int = 5, calls: int = 3) -> Section:
    """``calls`` downloads of each side in a block; a block of one warms."""
    with tempfile.TemporaryDirectory(prefix="bench-results-") as folder:
        world = World(Path(folder))
        held = {rows: world.held(rows) for rows in (FEWER, ROWS)}
        sides, size = _rates(world, blocks, calls)
    times = {side.name: side.p50 / 1000 for side in sides}
    figures = [
        Figure("GET /results: rate / DuckDB's, unordered", times[PLAIN] / times[FETCHED], least=0.5),
        Figure("GET /results: rate / DuckDB's, the same query", times[SORTED] / times[FETCHED], least=0.5),
        Figure("call and GET /results: rate / DuckDB's, the same query", times[SORTED] / times[WHOLE]),
        *(Figure(f"{name}: rate", size[name] / times[name] / 2**20, unit="MiB/s") for name in times),
        *(Figure(f"peak RSS while it is made, {rows:,} rows", peak, unit="MiB") for rows, (peak, _) in held.items()),
        *(Figure(f"peak RSS while it is fetched, {rows:,} rows", peak, unit="MiB") for rows, (_, peak) in held.items()),
        Figure(f"peak RSS while it is made, {ROWS:,} rows / {FEWER:,}", held[ROWS][0] / held[FEWER][0], most=1.25),
        Figure(f"peak RSS while it is fetched, {ROWS:,} rows / {FEWER:,}", held[ROWS][1] / held[FEWER][1], most=1.25),
    ]
    facts = machine() | {"rows": ROWS, "bytes_arrow": size[FETCHED], "bytes_json": size[JSON]}
    return Section(f"{ROWS:,} rows as Arrow", "ms", sides, figures, facts)


def _rates(world: World, blocks: int, calls: int) -> tuple[list[Side], dict[str, int]]:
    times: dict[str, list[tuple[float, ...]]] = {name: [] for name in (PLAIN, SORTED, FETCHED, WHOLE, JSON)}
    size = dict.fromkeys(times, 0)
    agent = world.serve()
    database = next((world.settings.home / "remote" / "engines").glob("*.duckdb"))
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.socket_duckdb", str(port), str(database)]
    plain = Server.start(command, port, core=0, env={})
    query = f"SELECT {SELECT} FROM __data.reading AS r WHERE r.id < {ROWS}"
    queries = {PLAIN: query, SORTED: f"{query} ORDER BY r.id"}
    try:
        kept = {form: world.asked(agent.port, ROWS, form) for form in (ARROW_MEDIA_TYPE, RESULT_MEDIA_TYPE)}
        for block in range(blocks + 1):
            took: dict[str, list[float]] = {name: [] for name in times}
            for _ in range(calls):
                for name in times:
                    began = time.perf_counter()
                    if name in queries:
                        size[name] = _plain(port, queries[name])
                    else:
                        form = RESULT_MEDIA_TYPE if name == JSON else ARROW_MEDIA_TYPE
                        task = world.asked(agent.port, ROWS, form) if name == WHOLE else kept[form]
                        size[name] = world.fetched(agent.port, task)
                    took[name].append((time.perf_counter() - began) * 1000)
            if block:
                for name, block_times in took.items():
                    times[name].append(tuple(block_times))
    finally:
        plain.stop()
        agent.stop()
    return [Side(name, tuple(times[name])) for name in times], size


def _plain(port: int, query: str) -> int:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(query.encode() + b"\n")
        return rest_of(connection, None)
