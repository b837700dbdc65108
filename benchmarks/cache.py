"""The result cache beside a plain GET of the same result, and beside redisvl's ``SemanticCache`` on the same server."""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from benchmarks.cache_lookups import SIZES, Lookups, Work
from benchmarks.redisvl_peer import NotInstalled, Redisvl, installed, redisvl, search_module
from benchmarks.report import Figure, Section, Side, machine
from benchmarks.workload import WorkloadSection, figures_of, judge_keyings
from dataset_agent.process import settle_memory
from tests.valkey_server import ValkeyServer

VECTORISERS: Final = {"MiniLM": "minilm", "hashed trigrams": "trigrams"}
ENTRIES: Final = 1_000
CHECK: Final = "redisvl check, {}"


def measure(blocks: int = 5, calls: int = 300) -> Section:
    """Every side in interleaved ``blocks`` of ``calls`` on one connection; times in microseconds.

    A lookup has everything between a verified authority and the rows: arguments bound and made
    canonical, partition and key, one GET, the entry opened. The plain GET fetches the same result
    as it is, without a key to be made and an entry to be opened.
    """
    settle_memory()
    try:
        installed()
        module: Path | None = search_module()
        why = ""
    except NotInstalled as error:
        module, why = None, str(error)
    with tempfile.TemporaryDirectory(prefix="dataset-agent-bench-") as folder, _valkey(module) as url:
        if module is None:
            return _section(Path(folder), url, None, blocks, calls, why)
        with redisvl(url) as peer:
            return _section(Path(folder), url, peer, blocks, calls, why)


def _section(folder: Path, url: str, peer: Redisvl | None, blocks: int, calls: int, why: str) -> Section:
    times, facts = asyncio.run(_lookups(url, blocks, calls))
    if peer is None:
        facts["redisvl"] = f"not measured: its environment cannot be made ({why})"
    else:
        facts |= {"entries": ENTRIES} | peer.facts()
        for name in VECTORISERS:
            times[CHECK.format(name)] = _checks(peer, name, blocks, max(calls // 10, 3))
    sides = {name: Side(name, tuple(taken)) for name, taken in times.items()}
    keyings = judge_keyings(folder, peer, tuple(VECTORISERS.items()))
    figures = [*_figures(sides), *figures_of(keyings)]
    return WorkloadSection("Result cache", "us", list(sides.values()), figures, facts, keyings=tuple(keyings))


async def _lookups(url: str, blocks: int, calls: int) -> tuple[dict[str, list[tuple[float, ...]]], dict[str, Any]]:
    """The times of every side that is ours, and facts of the machine."""
    lookups = Lookups(url)
    works = await lookups.works()
    times: dict[str, list[tuple[float, ...]]] = {work.name: [] for work in works}
    for block in range(blocks + 1):
        for work in works:
            taken = await _block(work, calls)
            if block:  # the first block warms every side
                times[work.name].append(taken)
    facts = machine() | {"valkey": await lookups.version(), "entry_bytes": lookups.sizes}
    await lookups.close()
    return times, facts


async def _block(work: Work, calls: int) -> tuple[float, ...]:
    taken = []
    for number in range(calls):
        started = time.perf_counter_ns()
        await work.run(number)
        taken.append((time.perf_counter_ns() - started) / 1_000)
    return tuple(taken)


def _checks(peer: Redisvl, name: str, blocks: int, calls: int) -> list[tuple[float, ...]]:
    """``check(text)`` among ``ENTRIES`` stored prompts, in blocks; one block warms."""
    peer.open(VECTORISERS[name])
    prompts = [f"Compare the recovery of batches B{n % 240:03d} and B{n * 7 % 240:03d}" for n in range(ENTRIES)]
    peer.store([(prompt, "rows") for prompt in prompts])
    rng = random.Random(7)
    taken = [peer.check(rng.choices(prompts, k=calls))[1] for _ in range(blocks + 1)]
    return [tuple(block) for block in taken[1:]]


def _figures(sides: dict[str, Side]) -> Iterator[Figure]:
    for name in SIZES:
        lookup = sides[f"lookup, {name}"].p50
        yield Figure(f"lookup / plain GET, {name}", lookup / sides[f"plain GET, {name}"].p50, most=1.4)
        yield Figure(
            f"lookup / GET of the entry by the cache's client, {name}",
            lookup / sides[f"GET of the entry by the cache's client, {name}"].p50,
        )
    for name in VECTORISERS:
        side = sides.get(CHECK.format(name))
        if side is not None:
            # Hashing words is no meaning: the goal is about a model that has some.
            least = 100 if name == "MiniLM" else None
            yield Figure(f"{CHECK.format(name)} / lookup, 1 kB", side.p50 / sides["lookup, 1 kB"].p50, least=least)


@contextmanager
def _valkey(module: Path | None) -> Iterator[str]:
    config: dict[str, Any] = {"maxmemory": "256mb", "maxmemory-policy": "volatile-lfu"}
    if module is not None:
        config["loadmodule"] = str(module)
    server = ValkeyServer(save="", config=config)
    server.start()
    try:
        yield server.connection_url
    finally:
        server.stop()
