"""One (template, scope, arguments) triple after the other: does the product answer what the oracle does?"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq

from contract.verdict import NotGranted, Reason
from queries.bind import Bound, bind
from queries.duckdb_engine import DuckDbEngine
from queries.encode import ResultInvalid
from tests.authority_builder import make_authority
from tests.governing.beforehand import AS_OF, Beforehand, arrow_table, same_rows
from tests.governing.scopes import random_arguments, random_case
from tests.governing.worlds import STORED, Entry, World
from tests.queries.documents import run as run_whole
from tests.queries.oracle import oracle
from tests.queries.world import MASK_KEY

_UNGOVERNABLE = (Reason.GRANT_CONSTRAINT_UNKNOWN, Reason.COLUMN_NOT_PERMITTED, Reason.GRANT_WIDENED)


@dataclass(frozen=True, slots=True)
class Triple:
    entry: Entry
    case: dict[str, Any]
    arguments: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.entry.kind}: {self.entry.sql}\nscope {self.case}\narguments {self.arguments}"


@dataclass(slots=True)
class Count:
    """What came of triples.

    ``agree`` holds those on which both failed as well (``failed``), ``silent`` those of
    ``disagree`` on which the product gave an answer, ``plain`` those of ``agree`` that were
    also compared with the author's text, ``rows`` those with a row.
    """

    agree: int = 0
    plain: int = 0
    refused: int = 0
    rows: int = 0
    failed: int = 0
    disagree: list[Triple] = field(default_factory=list)
    silent: list[Triple] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)


def triples(world: World, rng: random.Random, times: int) -> Iterator[Triple]:
    """``times`` random scopes and arguments for each template of a world."""
    for _ in range(times):
        for entry in world.entries:
            yield Triple(entry, random_case(rng, world, entry), random_arguments(rng, world, entry))


def _write(folder: Path, world: World) -> None:
    for table in world.tables:
        path = folder / str(table.file)
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            pq.write_table(arrow_table(table, world.data[table.name]), path)


class Judge:
    """The product and the oracle over one world's data, which is written into ``folder`` where it is not there."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world = world
        _write(folder, world)
        self._engine = DuckDbEngine.open(
            world.dataset, world.version, folder, world.tables, scratch=folder / "scratch", mask_key=MASK_KEY
        )
        self._beforehand = Beforehand()

    async def close(self) -> None:
        self._beforehand.close()
        await self._engine.close()

    async def judge(self, triple: Triple, count: Count) -> None:
        """Add one triple to ``count``."""
        bound = bind(triple.entry.template, triple.arguments)
        try:
            body: bytes | None = await self._product(triple, bound)
        except NotGranted as stop:
            if stop.reason in _UNGOVERNABLE:
                count.refused += 1
                return
            body = None
        if not self._agrees(triple, bound, body):
            count.disagree.append(triple)
            if body is not None:
                count.silent.append(triple)
            return
        count.agree += 1
        count.plain += triple.entry.plain
        count.kinds[triple.entry.kind] += 1
        count.failed += body is None
        count.rows += body is not None and b'"row_count":0' not in body

    async def _product(self, triple: Triple, bound: Bound) -> bytes:
        authority = make_authority(
            dataset=self.world.dataset,
            dataset_version=self.world.version,
            capability="c",
            sensitivity=triple.entry.sensitivity,
            **triple.case,
        )
        document, _ = await run_whole(
            self._engine, authority, triple.entry.template, bound, max_rows=1_000_000, max_bytes=10**9, as_of=AS_OF
        )
        return document.body

    def _agrees(self, triple: Triple, bound: Bound, body: bytes | None) -> bool:
        entry, tables = triple.entry, self.world.tables
        rows = oracle(self.world.data, triple.case, tables, self.world.dataset)
        template = entry.template
        if entry.by_hand is not None:
            # The filtered rows with a stored subject beside the masked one, counted by a written condition.
            template, tables = entry.by_hand, entry.by_hand.tables
            rows = self._with_stored(triple, rows)
        self._beforehand.fill(tables, rows)
        try:
            wanted = self._beforehand.settled(template, bound.values)
            if wanted != body:
                return False
            return not entry.plain or same_rows(body, self._beforehand.plain(entry.sql, bound.values))
        except (duckdb.Error, ResultInvalid):
            return body is None

    def _with_stored(self, triple: Triple, shown: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
        rule = triple.entry.template.minimum_group
        if rule is None:
            raise LookupError("a template without a minimum group size was written by hand")
        kept = oracle(self.world.data, triple.case | {"masks": {}}, self.world.tables, self.world.dataset)
        both = zip(shown[rule.table], kept[rule.table], strict=True)
        return shown | {rule.table: [masked | {STORED: stored[rule.column]} for masked, stored in both]}
