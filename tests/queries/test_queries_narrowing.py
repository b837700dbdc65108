"""What narrowing by form promises, kept by the engine on real rows: a covered constraint shows no row more."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

from contract.scope import Constraint
from contract.verdict import NotGranted, Reason
from queries.bind import bind
from queries.duckdb_engine import DuckDbEngine
from tests.authority_builder import make_authority
from tests.grants import narrowing_oracle as oracle
from tests.grants.random_chains import every_constraint
from tests.queries.documents import run as run_whole
from tests.queries.world import DATASET, MASK_KEY, table, template, write

VALUES = table(
    "t", "id:INT64", "name:STRING", "count:INT64", "amount:NUMERIC", "share:FLOAT64", "day:DATE", "at:TIMESTAMP",
    "flag:BOOL",
)  # fmt: skip
ALL = template(
    "SELECT id, name, count, amount, share, day, at, flag FROM t ORDER BY id",
    "id:INT64 name:STRING count:INT64 amount:NUMERIC share:FLOAT64 day:DATE at:TIMESTAMP flag:BOOL",
    tables=(VALUES,),
)


def rows() -> list[dict[str, Any]]:
    """One row for every value of every column; the others are NULL there."""
    found: list[dict[str, Any]] = []
    for column, kind in oracle.TYPES.items():
        for value in oracle.UNIVERSE[kind]:
            found.append({"id": len(found), column.removeprefix("t."): _stored(kind, value)})
    return found


def _stored(kind: str, value: Any) -> Any:
    if isinstance(value, Fraction):
        return float(value) if kind == "float" else Decimal(value.numerator) / Decimal(value.denominator)
    return value.astimezone(dt.UTC) if isinstance(value, dt.datetime) else value


async def test_a_constraint_shows_what_it_means_or_is_refused_as_a_whole(tmp_path: Path) -> None:
    """And so, for every pair that ``covers`` allows and every type of column, the child's rows are among the parent's."""
    engine = DuckDbEngine.open(
        DATASET,
        "1.0.0",
        write(tmp_path, {"t": rows()}, (VALUES,)),
        (VALUES,),
        scratch=tmp_path / "scratch",
        mask_key=MASK_KEY,
    )
    held = [(raw, Constraint.parse(raw)) for raw in every_constraint()]
    try:
        for column, kind in oracle.TYPES.items():
            shown = [await _shown(engine, column, raw) for raw, _ in held]
            for (raw, _), ids in zip(held, shown, strict=True):
                meant = _ids(column, oracle.passing(kind, raw))
                assert ids == (meant if oracle.fits(kind, raw) else None), (column, raw)
            for above, parent in held:
                for other, (below, child) in enumerate(held):
                    if parent.covers(child):
                        meant = _ids(column, oracle.passing(kind, above))
                        assert (shown[other] or frozenset()) <= meant, (column, above, below)
    finally:
        await engine.close()


def _ids(column: str, values: frozenset[Any]) -> frozenset[int]:
    start = 0
    for name, kind in oracle.TYPES.items():
        universe = oracle.UNIVERSE[kind]
        if name == column:
            return frozenset(start + place for place, value in enumerate(universe) if value in values)
        start += len(universe)
    raise LookupError(column)


async def _shown(engine: DuckDbEngine, column: str, raw: Mapping[str, Any]) -> frozenset[int] | None:
    """The ids of the rows that come back, ``None`` where the call is refused."""
    authority = make_authority(dataset=DATASET, capability="c", grant_rows={column: raw})
    try:
        document, _ = await run_whole(
            engine, authority, ALL, bind(ALL, {}), max_rows=1_000, max_bytes=10**6, as_of="2026-08-31T22:00:00Z"
        )
    except NotGranted as stop:
        if stop.reason is not Reason.GRANT_CONSTRAINT_UNKNOWN:
            raise
        return None
    return frozenset(row[0] for row in json.loads(document.body)["rows"])
