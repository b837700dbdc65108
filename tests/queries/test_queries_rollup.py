"""What is computed from a stored result has the very bytes that DuckDB gives."""

from __future__ import annotations

import datetime as dt
import json
import random
from collections.abc import AsyncIterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
import pytest_asyncio

from contract.result import ResultDocument
from queries.arrow_form import arrow_schema
from queries.bind import Bound, bind
from queries.duckdb_engine import DuckDbEngine
from queries.rollup import roll_up
from queries.rollup_proof import prove_rollup
from tests.authority_builder import make_authority
from tests.queries.documents import document_of
from tests.queries.documents import run as run_whole
from tests.queries.duckdb_world import AS_OF, opened
from tests.queries.rollup_world import DECLARED, FILLS, LEVELS, SITES, calls, load, narrower, rollup, rows
from tests.queries.world import DATASET, results, write

TEMPLATE = load()
PLAN = prove_rollup(TEMPLATE, rollup())
PAIRS = 48
on_one_loop = pytest.mark.asyncio(loop_scope="module")
WIDE: dict[str, Any] = {
    "from_day": "2024-01-28", "to_day": "2024-02-09", "sites": [], "lines": [0, 1, 2], "least": -1000, "per": "all",
}  # fmt: skip


async def stored(engine: DuckDbEngine, arguments: dict[str, Any]) -> tuple[ResultDocument, Bound]:
    bound = bind(TEMPLATE, arguments)
    authority = make_authority(dataset=DATASET, capability="c")
    limits = {"max_rows": 10_000, "max_bytes": 10**7}
    document, _ = await run_whole(engine, authority, TEMPLATE, bound, as_of=AS_OF, **limits)
    return document, bound


def made(document: ResultDocument, wide: Bound, asked: Bound, *, max_bytes: int = 10**7) -> ResultDocument | None:
    return roll_up(PLAN, document, wide.values, asked.values, max_bytes=max_bytes)


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=[1, 2])
async def engine(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[DuckDbEngine]:
    folder = tmp_path_factory.mktemp("fills")
    held = opened(write(folder, {"fills": rows(request.param)}, (FILLS,)), (FILLS,))
    yield held
    await held.close()


@on_one_loop
async def test_every_call_that_a_stored_result_covers_is_answered_with_the_engines_bytes(
    engine: DuckDbEngine, request: pytest.FixtureRequest
) -> None:
    rng = random.Random(request.node.name)
    compared = 0
    for _ in range(PAIRS // 4):
        wide = calls(rng)
        document, source = await stored(engine, wide)
        for _ in range(4):
            arguments = narrower(rng, wide)
            wanted, asked = await stored(engine, arguments)
            if PLAN.covers(source.values, asked.values):
                assert made(document, source, asked) == wanted, (wide, arguments)
                compared += wanted.row_count > 0
    assert compared >= PAIRS // 8


@on_one_loop
async def test_a_result_at_one_grain_follows_from_each_finer_one(engine: DuckDbEngine) -> None:
    held = {level: await stored(engine, WIDE | {"per": level}) for level in LEVELS}
    for finer, (document, source) in held.items():
        for coarser, (wanted, asked) in held.items():
            covered = PLAN.covers(source.values, asked.values)
            assert covered == (set(LEVELS[coarser]) <= set(LEVELS[finer]))
            if covered:
                assert made(document, source, asked) == wanted


@on_one_loop
async def test_the_bounds_of_a_range_are_the_templates(engine: DuckDbEngine) -> None:
    document, source = await stored(engine, WIDE)
    for first, end in (("2024-01-28", "2024-01-29"), ("2024-01-29", "2024-02-09"), ("2024-02-01", "2024-02-01")):
        wanted, asked = await stored(engine, WIDE | {"from_day": first, "to_day": end})
        assert made(document, source, asked) == wanted


COVERED = {
    "itself": ({}, {}, True),
    "an earlier day": ({}, {"from_day": "2024-01-27"}, False),
    "a later end": ({}, {"to_day": "2024-02-10"}, False),
    "one day of it": ({}, {"from_day": "2024-02-08", "to_day": "2024-02-09"}, True),
    "an empty range inside": ({}, {"from_day": "2024-02-09", "to_day": "2024-01-28"}, True),
    "a set of all": ({}, {"sites": ["Cork"]}, True),
    "all of a set": ({"sites": ["Cork"]}, {"sites": []}, False),
    "a subset": ({"sites": ["Cork", "Basel"]}, {"sites": ["Basel"]}, True),
    "another member": ({"sites": ["Cork", "Basel"]}, {"sites": ["Basel", "e"]}, False),
    "another case": ({"sites": ["Basel"]}, {"sites": ["basel"]}, False),
    "no line": ({}, {"lines": []}, True),
    "a line more": ({}, {"lines": [0, 1, 2, 3]}, False),
    "lines of all": ({"lines": None}, {"lines": [7]}, True),
    "all of some lines": ({}, {"lines": None}, False),
    "a coarser grain": ({}, {"per": "day"}, True),
    "a finer grain": ({"per": "day"}, {"per": "day_site"}, False),
    "another grain": ({"per": "day_site"}, {"per": "site_line"}, False),
    "a day of a result without days": ({"per": "site_line"}, {"per": "none", "to_day": "2024-02-01"}, False),
    "a site of a result without sites": ({"per": "day"}, {"per": "day", "sites": ["Cork"]}, False),
    "a site where others have no days": ({"per": "site_line"}, {"per": "none", "sites": ["Cork"]}, True),
}  # fmt: skip


@pytest.mark.parametrize(("source", "asked", "covered"), COVERED.values(), ids=COVERED)
def test_a_result_covers_what_it_holds_and_nothing_else(
    source: dict[str, Any], asked: dict[str, Any], covered: bool
) -> None:
    held, wanted = bind(TEMPLATE, WIDE | source), bind(TEMPLATE, WIDE | asked)
    assert PLAN.covers(held.values, wanted.values) is covered


def document(*given: dict[str, Any]) -> ResultDocument:
    """A stored result at the finest grain with these rows; a count that is not given is 1, anything else NULL."""
    columns = results(DECLARED)
    zero = {"n": 1, "weighed": 1, "counted": 1}
    schema = arrow_schema(columns)
    batch = pa.RecordBatch.from_pylist([{**dict.fromkeys(schema.names), **zero, **row} for row in given], schema)
    return document_of(columns, [batch], AS_OF)


def summed(*given: dict[str, Any], per: str = "none") -> dict[str, Any] | None:
    """The only group that these rows make."""
    placed = [
        {"day": dt.date(2024, 2, 1), "site": site, "line": 0, **row} for site, row in zip(SITES, given, strict=False)
    ]
    found = made(document(*placed), bind(TEMPLATE, WIDE), bind(TEMPLATE, WIDE | {"per": per}))
    if found is None:
        return None
    (only,) = json.loads(found.body)["rows"]
    return dict(zip([column.name for column in TEMPLATE.results], only, strict=True))


def test_a_sum_beyond_its_type_is_left_to_the_engine() -> None:
    assert summed({"n": 2**63 - 2}, {"n": 1}) is not None
    assert summed({"n": 2**63 - 1}, {"n": 1}) is None
    assert summed({"n": 2**63 - 1}, {"n": 2**63 - 1}) is None
    most = Decimal("99999999999999999999999999999.999999998")
    assert summed({"total": most}, {"total": Decimal("0.000000001")}) is not None
    assert summed({"total": most}, {"total": Decimal("0.000000002")}) is None
    assert summed({"total": Decimal(9 * 10**28)}, {"total": Decimal(10**28)}) is None
    assert summed({"total": Decimal(-9 * 10**28)}, {"total": Decimal(-(10**28))}) is None


def test_a_mean_is_exact_as_long_as_a_double_holds_its_sum() -> None:
    whole = summed({"units": 2**53 - 1, "counted": 2}, {"units": 1, "counted": 1})
    assert whole is not None
    assert whole["units_mean"] == 2**53 / 3
    assert summed({"units": 2**53, "counted": 2}, {"units": 1, "counted": 1}) is None


def test_sums_of_numeric_lose_no_digit_and_means_are_rounded_half_away_from_zero() -> None:
    digits = Decimal("99999999999999999999999999999.000000001")
    held = summed({"total": digits, "weighed": 1}, {"total": Decimal("0.000000002"), "weighed": 1})
    assert held is not None
    assert (held["total"], held["mean"]) == (
        "99999999999999999999999999999.000000003",
        "49999999999999999999999999999.500000002",
    )
    held = summed({"total": Decimal("-0.000000003"), "weighed": 1}, {"total": None, "weighed": 1})
    assert held is not None
    assert held["mean"] == "-0.000000002"


def test_what_no_engine_says_is_left_to_the_engine() -> None:
    assert summed({"total": Decimal(1), "weighed": 0}, {"total": Decimal(1), "weighed": 0}) is None


def test_null_counts_for_nothing() -> None:
    held = summed({"total": None, "low": None, "high": Decimal(1)}, {"total": None, "low": Decimal(2), "high": None})
    assert held is not None
    assert (held["n"], held["total"], held["low"], held["high"], held["mean"]) == (2, None, "2", "1", None)


@on_one_loop
async def test_a_result_over_the_limit_is_not_made(engine: DuckDbEngine) -> None:
    document, source = await stored(engine, WIDE)
    asked = bind(TEMPLATE, WIDE | {"per": "day"})
    whole = made(document, source, asked)
    assert whole is not None
    assert made(document, source, asked, max_bytes=whole.size) == whole
    assert made(document, source, asked, max_bytes=whole.size - 1) is None


def test_a_stored_result_of_other_columns_makes_none() -> None:
    other = document_of(results("day:DATE"), [], AS_OF)
    assert made(other, bind(TEMPLATE, WIDE), bind(TEMPLATE, WIDE)) is None


def test_a_stored_result_that_is_not_whole_makes_none() -> None:
    whole = document({"n": 1}, {"n": 2})
    assert made(whole, bind(TEMPLATE, WIDE), bind(TEMPLATE, WIDE)) is not None
    cut = replace(whole, body=whole.body.replace(b'"truncated":false', b'"truncated":true'))
    for other in (cut, replace(whole, row_count=3), replace(whole, body=b"{}"), replace(whole, body=b"[]")):
        assert made(other, bind(TEMPLATE, WIDE), bind(TEMPLATE, WIDE)) is None
