"""The quick rows of the hostile corpus; ``make test-hostile`` runs all of them under real limits and measures time too."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from queries.duckdb_engine import DuckDbEngine
from tests.queries.hostile_corpus import CORPUS
from tests.queries.hostile_row import Hostile
from tests.queries.hostile_world import FACTOR, MARKER, attempt, ends_as_it_must, plant, planted_engine

_MEMORY = 128
_QUICK = [row for row in CORPUS if not row.slow]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DuckDbEngine]:
    folder = plant(tmp_path_factory.mktemp("hostile"), big_rows=2_000)
    with planted_engine(folder, memory_limit=f"{_MEMORY}MB", timeout=20.0) as made:
        yield made
        asyncio.run(made.close())


@pytest.mark.parametrize("row", _QUICK, ids=lambda row: row.name)
async def test_a_hostile_row_reads_nothing_foreign_and_stays_within_its_memory(
    engine: DuckDbEngine, row: Hostile
) -> None:
    outcome = await attempt(engine, row)
    assert ends_as_it_must(row, outcome), (outcome.end, outcome.said)
    assert MARKER not in outcome.said
    assert outcome.memory <= FACTOR * _MEMORY * 10**6
    assert not engine._threads.jobs


def test_the_marker_is_where_it_could_be_found(engine: DuckDbEngine) -> None:
    folder = Path.cwd()
    assert MARKER in (folder / "secret.csv").read_text()
    with engine._cursors.one() as cursor:
        for source in ("main.secrets", "other.orders", '"__data"."secrets"'):
            assert cursor.execute(f"SELECT word FROM {source}").fetchall()[0] == (MARKER,)
        assert cursor.execute('SELECT MAX(hidden_code) FROM "__data"."orders"').fetchall() == [(MARKER,)]


def test_every_row_has_a_name_of_its_own() -> None:
    assert len({row.name for row in CORPUS}) == len(CORPUS) >= 120
