"""A mask keeps the type of its column, whatever the type is; hashes are keyed for each dataset."""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from contract.schema import Column, ResultColumn, SqlType, Table
from contract.scope import Sensitivity
from contract.verdict import NotGranted, Reason
from queries.bind import bind
from queries.duckdb_engine import DuckDbEngine
from queries.govern import govern
from queries.masks import dataset_mask_key
from queries.template import load_template
from tests.authority_builder import make_authority
from tests.governing.beforehand import arrow_table
from tests.queries.documents import run as run_whole

SECRET = b"a secret of sixteen bytes"
FIELDS = [{"name": "city", "type": "STRING"}, {"name": "tags", "type": "STRING", "mode": "REPEATED"}]
VALUES: dict[str, Any] = {
    "STRING": "Grünstadt",
    "INT64": -42,
    "FLOAT64": 1.5,
    "NUMERIC": Decimal("12.5"),
    "BOOL": True,
    "DATE": dt.date(2024, 2, 29),
    "DATETIME": dt.datetime(2024, 2, 29, 13, 1, 2, 3),
    "TIME": dt.time(13, 1, 2),
    "TIMESTAMP": dt.datetime(2024, 2, 29, 13, 1, 2, 3, tzinfo=dt.UTC),
    "BYTES": b"\x00\xff",
    "STRUCT": {"city": "Ulm", "tags": ["a"]},
}
TRUNCATED = {
    "STRING": "Grün",
    "DATE": "2024-01-01",
    "DATETIME": "2024-01-01T00:00:00.000000",
    "TIMESTAMP": "2024-01-01T00:00:00.000000Z",
}


def _column(kind: str, *, repeated: bool = False) -> dict[str, Any]:
    more: dict[str, Any] = {"fields": FIELDS} if kind == "STRUCT" else {}
    return {"name": f"{kind.lower()}{'s' if repeated else ''}_x", "type": kind, **more} | (
        {"mode": "REPEATED"} if repeated else {}
    )


COLUMNS = [*map(_column, VALUES), *(_column(kind, repeated=True) for kind in VALUES)]
TABLE = Table(name="t", file="data/t.parquet", columns=tuple(Column.model_validate(column) for column in COLUMNS))
ROW = {
    column["name"]: [VALUES[column["type"]]] * 2 if column.get("mode") else VALUES[column["type"]] for column in COLUMNS
}
NULLS: dict[str, Any] = {column["name"]: [] if column.get("mode") else None for column in COLUMNS}
TEMPLATE = load_template(
    f"SELECT {', '.join(ROW)} FROM t ORDER BY int64_x",
    name="templates/test.sql",
    dataset="kinds",
    tables=(TABLE,),
    parameters=(),
    results=[ResultColumn.model_validate(column) for column in COLUMNS],
    ceiling=Sensitivity.RESTRICTED,
)


async def _shown(folder: Path, mask: str | None) -> tuple[list[Any], list[dict[str, Any]]]:
    path = folder / "data" / "t.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(arrow_table(TABLE, [NULLS, ROW]), path)
    engine = DuckDbEngine.open("kinds", "1.0.0", folder, (TABLE,), scratch=folder / "scratch", mask_key=SECRET)
    authority = make_authority(
        dataset="kinds", capability="c", masks={f"t.{name}": mask for name in ROW} if mask else {}
    )
    try:
        document, _ = await run_whole(
            engine, authority, TEMPLATE, bind(TEMPLATE, {}), max_rows=10, max_bytes=10**6, as_of="2026-08-31T22:00:00Z"
        )
    finally:
        await engine.close()
    body = json.loads(document.body)
    return body["rows"], body["schema"]


@pytest.mark.parametrize("mask", ["null", "hash", "truncate"])
async def test_a_masked_column_has_the_type_that_it_had(tmp_path: Path, mask: str) -> None:
    _, plain = await _shown(tmp_path, None)
    rows, masked = await _shown(tmp_path, mask)
    assert masked == plain
    assert len(rows) == 2


@pytest.mark.parametrize("mask", ["null", "hash", "truncate"])
async def test_a_mask_without_a_form_for_a_type_shows_nothing(tmp_path: Path, mask: str) -> None:
    rows, _ = await _shown(tmp_path, mask)
    formed = {"hash": {"STRING", "INT64"}, "truncate": set(TRUNCATED), "null": set()}[mask]
    for row in rows:
        shown = dict(zip(ROW, row, strict=True))
        for kind in VALUES:
            assert shown[f"{kind.lower()}s_x"] == []
            if kind not in formed:
                assert shown[f"{kind.lower()}_x"] is None


async def test_truncate_shows_half_of_a_short_text_and_the_year_of_a_time(tmp_path: Path) -> None:
    rows, _ = await _shown(tmp_path, "truncate")
    (shown,) = [held for row in rows if (held := dict(zip(ROW, row, strict=True)))["string_x"] is not None]
    assert {kind: shown[f"{kind.lower()}_x"] for kind in TRUNCATED} == TRUNCATED


async def test_a_hash_is_of_the_dataset_s_own_key(tmp_path: Path) -> None:
    rows, _ = await _shown(tmp_path, "hash")
    key = hmac.new(SECRET, b"dataset-agent/mask/dataset/kinds", hashlib.sha256).hexdigest()
    digest = hashlib.sha256((key + "Grünstadt").encode()).hexdigest()[:32]
    assert [row[0] for row in rows if row[0] is not None] == [digest]
    assert key == dataset_mask_key(SECRET, "kinds") != dataset_mask_key(SECRET, "others")


def test_a_short_secret_keys_nothing() -> None:
    with pytest.raises(ValueError, match="at least 16 bytes"):
        dataset_mask_key(b"short", "kinds")


@pytest.mark.parametrize("kind", ["STRUCT", "BYTES", "TIME", "DATETIME"])
def test_rows_are_not_constrained_by_what_has_no_constraints(kind: str) -> None:
    for name in (f"t.{kind.lower()}_x", f"t.{kind.lower()}s_x", "t.int64s_x"):
        with pytest.raises(NotGranted) as refused:
            govern(TEMPLATE, make_authority(dataset="kinds", capability="c", rows={name: {"one_of": [1]}}))
        assert refused.value.reason is Reason.GRANT_CONSTRAINT_UNKNOWN


def test_every_type_is_masked_here() -> None:
    assert set(VALUES) == {kind.value for kind in SqlType}
