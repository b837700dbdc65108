"""What arrives as Arrow is compared with what is declared, whatever the job said of its columns before."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from contract.schema import ResultColumn
from contract.verdict import NotGranted, Reason
from queries.bigquery_query import Work

DECLARED = (
    ResultColumn.model_validate({"name": "id", "type": "INT64"}),
    ResultColumn.model_validate({"name": "note", "type": "STRING"}),
)


def conformed(batch: pa.RecordBatch, monkeypatch: pytest.MonkeyPatch) -> list[pa.RecordBatch]:
    monkeypatch.setattr(Work, "_batches", lambda *_: iter([batch]))
    query: Any = SimpleNamespace(template=SimpleNamespace(results=DECLARED))
    work = object.__new__(Work)
    return list(work.conformed(object(), query, 10**6))  # type: ignore[arg-type]


def test_batches_of_the_declared_columns_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = pa.record_batch({"id": pa.array([1], pa.int64()), "note": pa.array(["x"])})
    assert [found.to_pylist() for found in conformed(batch, monkeypatch)] == [[{"id": 1, "note": "x"}]]


@pytest.mark.parametrize(
    "columns",
    [
        {"note": pa.array([1], pa.int64()), "id": pa.array(["x"])},
        {"id": pa.array(["7"]), "note": pa.array(["x"])},
        {"id": pa.array([1], pa.int64()), "note": pa.array([2], pa.int64())},
        {"id": pa.array([], pa.int32()), "note": pa.array([], pa.string())},
    ],
    ids=["names exchanged", "text for a number", "a number for text", "no rows of another type"],
)
def test_batches_of_other_columns_are_no_result(monkeypatch: pytest.MonkeyPatch, columns: dict[str, Any]) -> None:
    with pytest.raises(NotGranted) as stop:
        conformed(pa.record_batch(columns), monkeypatch)
    assert stop.value.reason is Reason.RESULT_INVALID
