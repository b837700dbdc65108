"""Datasets whose templates are judged: the shipped ones, and a small shop with every escape."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq

from contract.minimum_group import GroupRule
from contract.schema import Column, Table
from contract.scope import Sensitivity
from control_plane.registry import load_registry
from queries.template import Template, load_template
from tests.governing.escapes import ESCAPES, ORDINARY
from tests.queries.oracle import narrowed_by
from tests.queries.world import DATASET, TABLES, parameter, results, rows, template

SHIPPED: Final = Path(__file__).resolve().parents[2] / "datasets"
STORED: Final = "stored_subject"
Rows = dict[str, list[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class Entry:
    """One template: as the product loads it, and as its author wrote it.

    ``plain``: an ordinary transpile keeps its meaning. ``by_hand`` is the same query with a
    minimum group size written out over the column ``STORED``, where the capability has one.
    """

    kind: str
    sql: str
    template: Template
    sensitivity: Sensitivity = Sensitivity.INTERNAL
    plain: bool = False
    by_hand: Template | None = None


@dataclass(frozen=True, slots=True)
class World:
    dataset: str
    version: str
    tables: tuple[Table, ...]
    data: Rows
    entries: tuple[Entry, ...]

    def table(self, name: str) -> Table:
        return next(table for table in self.tables if table.name == name)


def shop(seed: int, size: int = 40) -> World:
    """Every column is an attribute of its own, so that a holder may narrow by each of them."""
    tables = narrowed_by(f"{table.name}.{column.name}" for table in TABLES for column in table.columns)
    entries = [
        Entry(
            escape.kind,
            escape.sql,
            template(escape.sql, escape.results, *escape.parameters, tables=tables),
            plain=escape.kind != "ordinary",
        )
        for escape in (*ESCAPES, *ORDINARY)
    ]
    entries.extend(_groups(tables))
    return World(DATASET, "1.0.0", tables, rows(seed, size), tuple(entries))


_GROUPS: Final = (
    ("SELECT region, COUNT(*) AS n, SUM(amount) AS s FROM orders {} GROUP BY region {} ORDER BY region", "region:STRING n:INT64 s:NUMERIC"),
    ("SELECT o.paid, COUNT(DISTINCT o.customer) AS n FROM orders AS o {} GROUP BY o.paid {} ORDER BY 1", "paid:BOOL n:INT64"),
    ("SELECT COUNT(note) AS n FROM orders {} {}", "n:INT64"),
    ("WITH g AS (SELECT note, region, COUNT(*) AS n FROM orders {} GROUP BY note, region {}) SELECT x.note, x.n FROM g AS x WHERE x.n > 1 ORDER BY 1, 2", "note:STRING n:INT64"),
)  # fmt: skip
_WHERE: Final = "WHERE region IS NULL OR region <> @region"


def _groups(tables: tuple[Table, ...]) -> list[Entry]:
    """Capabilities with a minimum group size, and the same with the condition written by hand."""
    rule, region = GroupRule(subject="orders.customer", size=3), parameter("region:STRING", values=("EU", "US"))
    out = []
    for sql, declared in _GROUPS:
        alias = "o." if " AS o " in sql else ""
        where = _WHERE.replace("region ", f"{alias}region ")
        loaded = _load(DATASET, sql.format(where, ""), tables, results(declared), (region,), rule)
        by_hand = _contributed(
            sql.format(where, f"HAVING COUNT(DISTINCT {alias}{STORED}) >= 3"), f"{alias}{STORED}", rule
        )
        with_stored = tuple(_stored(table, rule) for table in tables)
        out.append(
            Entry(
                "minimum group size",
                sql,
                loaded,
                by_hand=_load(DATASET, by_hand, with_stored, results(declared), (region,), None),
            )
        )
    return out


def _contributed(sql: str, subject: str, rule: GroupRule) -> str:
    """The query with each aggregate of a column behind the number of subjects that have a value in it."""

    def guarded(found: re.Match[str]) -> str:
        who = f"CASE WHEN {found['column']} IS NOT NULL THEN {subject} END"
        return f"CASE WHEN COUNT(DISTINCT {who}) >= {rule.size} THEN {found[0]} END"

    return re.sub(r"(SUM|AVG|COUNT)\((CAST\()?(?P<column>(o\.)?[a-z_]+)( AS FLOAT64\))?\)", guarded, sql)


def _stored(table: Table, rule: GroupRule) -> Table:
    """The table with a second, never masked copy of the subject."""
    subject = table.column(rule.column) if table.name == rule.table else None
    if subject is None:
        return table
    return table.model_copy(update={"columns": (*table.columns, subject.model_copy(update={"name": STORED}))})


def _load(
    dataset: str,
    sql: str,
    tables: Sequence[Table],
    declared: Any,
    parameters: Any,
    rule: GroupRule | None,
) -> Template:
    return load_template(
        sql,
        name="templates/test.sql",
        dataset=dataset,
        tables=tables,
        parameters=parameters,
        results=declared,
        ceiling=Sensitivity.RESTRICTED,
        minimum_group=rule,
    )


_KEPT: Final[Mapping[str, tuple[str, int]]] = {
    "purification-batches": ("batch_id", 80),
    "chromatography-results": ("batch_id", 12),
    "clinical-private": ("subject_id", 60),
}


def shipped(dataset: str, seed: int) -> World:
    """A shipped dataset with all its templates over some of its batches or subjects."""
    registry = load_registry(SHIPPED)
    manifest = registry.datasets[dataset]
    entries = []
    for capability in manifest.capabilities:
        sql = (SHIPPED / dataset / str(capability.template)).read_text(encoding="utf-8")
        rule, by_hand = capability.minimum_group, None
        if rule is not None:
            held = sql.replace("ORDER BY", f"HAVING COUNT(DISTINCT o.{STORED}) >= {rule.size}\nORDER BY")
            held = _contributed(held, f"o.{STORED}", rule)
            tables = [_stored(table, rule) for table in manifest.tables]
            by_hand = _load(dataset, held, tables, capability.results, capability.parameters, None)
        loaded = _load(dataset, sql, manifest.tables, capability.results, capability.parameters, rule)
        entries.append(Entry(capability.name, sql, loaded, Sensitivity(capability.sensitivity), by_hand=by_hand))
    data = {table.name: pq.read_table(SHIPPED / dataset / str(table.file)).to_pylist() for table in manifest.tables}
    return World(dataset, manifest.version, manifest.tables, _some(data, *_KEPT[dataset], seed), tuple(entries))


def _some(data: Rows, key: str, count: int, seed: int) -> Rows:
    """The rows that belong to ``count`` values of ``key``, directly or by a run of theirs."""
    names = sorted({row[key] for held in data.values() for row in held if key in row})
    kept = set(random.Random(seed).sample(names, count)) | {name for name in names if name in ("B001", "B002", "B003")}
    runs = {row["run_id"] for held in data.values() for row in held if "run_id" in row and row.get(key) in kept}
    out: Rows = {}
    for name, held in data.items():
        if key in held[0]:
            out[name] = [row for row in held if row[key] in kept]
        elif "run_id" in held[0]:
            out[name] = [row for row in held if row["run_id"] in runs]
        else:
            out[name] = held
    return out


def columns_of(tables: Sequence[Table], names: frozenset[str]) -> list[tuple[Table, Column]]:
    """The columns of the tables of these names."""
    return [(table, column) for table in tables if table.name in names for column in table.columns]
