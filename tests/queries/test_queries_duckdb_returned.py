"""What an engine returns has the declared columns, by name and in order, or is no result."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pyarrow as pa
import pytest

from contract.verdict import NotGranted, Reason
from queries.duckdb_engine import DuckDbEngine
from tests.queries.duckdb_world import opened, stream
from tests.queries.world import shop, template

LOADED = template("SELECT id, customer FROM orders ORDER BY id", "id:INT64 customer:INT64")


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DuckDbEngine]:
    made = opened(shop(tmp_path_factory.mktemp("returned")))
    yield made
    asyncio.run(made.close())


class Returned:
    """One batch of numbers, in columns of these names."""

    def __init__(self, *names: str) -> None:
        self._batches = iter([pa.record_batch([pa.array([1]) for _ in names], names=list(names))])
        self.schema = pa.schema([(name, pa.int64()) for name in names])

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self._batches

    def __next__(self) -> pa.RecordBatch:
        return next(self._batches)

    def close(self) -> None:
        return


@pytest.mark.parametrize("names", [("customer", "id"), ("id", "other")], ids=["another order", "another name"])
async def test_other_columns_than_are_declared_are_no_result(
    engine: DuckDbEngine, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...]
) -> None:
    monkeypatch.setattr(engine, "_rows", lambda *_: Returned("id", "customer"))
    async with stream(engine, LOADED) as right:
        assert [batch.num_rows async for batch in right] == [1]
    monkeypatch.setattr(engine, "_rows", lambda *_: Returned(*names))
    with pytest.raises(NotGranted) as refused:
        async with stream(engine, LOADED) as other:
            assert [batch async for batch in other] == []
    assert refused.value.reason is Reason.RESULT_INVALID
