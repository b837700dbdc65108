"""The small dataset at the emulator and beside it, for the tests of ``make test-bigquery``."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from google.cloud import bigquery

from queries.bigquery_engine import BigQueryEngine
from queries.duckdb_engine import DuckDbEngine
from tests.bigquery import emulated
from tests.bigquery.emulated import SHOP
from tests.queries.world import DATASET, MASK_KEY, TABLES, rows, write


@pytest.fixture(scope="module")
def asked() -> bigquery.Client:
    return emulated.client()


@pytest.fixture(scope="module")
def shop(asked: bigquery.Client, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small dataset in both places."""
    folder = write(tmp_path_factory.mktemp("shop"), rows())
    for table, stored in zip(TABLES, SHOP, strict=True):
        emulated.fill(asked, stored, pq.read_table(folder / str(table.file)))
    return folder


@pytest.fixture
async def stored(shop: Path) -> AsyncIterator[BigQueryEngine]:
    engine = emulated.engine(DATASET)
    yield engine
    await engine.close()


@pytest.fixture
async def embedded(shop: Path) -> AsyncIterator[DuckDbEngine]:
    engine = DuckDbEngine.open(DATASET, "1.0.0", shop, TABLES, scratch=shop / "scratch", mask_key=MASK_KEY)
    yield engine
    await engine.close()
