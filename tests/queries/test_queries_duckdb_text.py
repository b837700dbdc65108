"""A generated text is read again by the engine before it runs; one that reads anything else is not executed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import duckdb
import pytest

from contract.verdict import NotGranted, Reason
from queries import duckdb_text
from queries.duckdb_engine import DuckDbEngine
from queries.duckdb_text import Texts
from queries.errors import TemplateError
from queries.govern import Shape
from tests.queries.duckdb_world import opened
from tests.queries.world import shop, template

SHAPE = Shape((), ())
ORDERS = "SELECT id FROM __data.orders AS _b"
LOADED = template("SELECT id FROM orders ORDER BY id", "id:INT64")
OTHERS = {
    "another table": "SELECT id FROM __data.customers AS _b",
    "the table beside the governed one": f"{ORDERS} UNION ALL SELECT id FROM __data.orders AS o",
    "a table of the catalogue": "SELECT COUNT(*) AS id FROM duckdb_settings AS _b",
}
STATEMENTS = {
    "two statements": f"{ORDERS}; {ORDERS}",
    "no statement": "",
    "no query": "DELETE FROM __data.orders AS _b",
    "a setting": "SET threads=1",
}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DuckDbEngine]:
    made = opened(shop(tmp_path_factory.mktemp("texts")))
    yield made
    asyncio.run(made.close())


@pytest.fixture
def generated(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Whatever is governed, this is the text that comes out."""
    monkeypatch.setattr(duckdb_text, "to_duckdb", lambda _: (request.param, request.param))


def _refused(cursor: duckdb.DuckDBPyConnection) -> None:
    texts = Texts()
    with pytest.raises(NotGranted) as refused:
        texts.text(cursor, LOADED, SHAPE)
    assert refused.value.reason is Reason.EXECUTION_FAILED
    with pytest.raises(TemplateError):
        texts.check(cursor, LOADED)
    assert len(texts) == 0


@pytest.mark.parametrize("generated", OTHERS.values(), ids=OTHERS, indirect=True)
def test_a_text_that_reads_another_table_is_not_executed(engine: DuckDbEngine, generated: None) -> None:
    with engine._cursors.one() as cursor:
        _refused(cursor)


@pytest.mark.parametrize("text", STATEMENTS.values(), ids=STATEMENTS)
def test_a_text_that_is_not_one_query_is_not_executed(
    engine: DuckDbEngine, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """Which tables it reads is told by another text, in which no parameter is."""
    monkeypatch.setattr(duckdb_text, "to_duckdb", lambda _: (text, ORDERS))
    with engine._cursors.one() as cursor, pytest.raises(NotGranted) as refused:
        Texts().text(cursor, LOADED, SHAPE)
    assert refused.value.reason is Reason.EXECUTION_FAILED


@pytest.mark.parametrize("generated", [OTHERS["another table"]], ids=["another table"], indirect=True)
def test_a_template_whose_text_reads_another_table_does_not_load(engine: DuckDbEngine, generated: None) -> None:
    with engine._cursors.one() as cursor, pytest.raises(TemplateError, match="more than its base tables"):
        Texts().check(cursor, LOADED)


@pytest.mark.parametrize("generated", ["SELECT CAST(id AS VARCHAR) AS id FROM __data.orders AS _b"], indirect=True)
def test_a_template_whose_text_returns_other_columns_does_not_load(engine: DuckDbEngine, generated: None) -> None:
    with engine._cursors.one() as cursor, pytest.raises(TemplateError, match="declared is"):
        Texts().check(cursor, LOADED)


def test_functions_that_would_be_copied_without_end_do_not_load(
    engine: DuckDbEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine itself is not asked: what it copies while it plans cannot be interrupted."""
    monkeypatch.setattr(duckdb_text, "MAX_EXPANDED", 3)
    with engine._cursors.one() as cursor, pytest.raises(TemplateError, match="nested too deeply"):
        Texts().check(cursor, LOADED)
