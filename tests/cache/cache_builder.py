"""Intents, results and executions for tests of the cache."""

from __future__ import annotations

from typing import Any

from contract.result import Execution, Intent, ResultDocument
from tests.authority_builder import NOW

# A busy machine may need longer than the product would wait.
PATIENCE_S = 10.0
TEMPLATE = "ab" * 32
BODY = b'{"schema":[{"name":"batch","type":"STRING","mode":"NULLABLE"}],"rows":[["ROW-SECRET-7"]],"row_count":1}'
AS_OF = "2026-08-31T22:00:00Z"


def make_intent(
    arguments: dict[str, Any] | None = None,
    *,
    dataset: str = "purification-batches",
    capability: str = "batch_yield",
    template: str = TEMPLATE,
) -> Intent:
    return Intent(dataset, capability, template, {"batch": "B001"} if arguments is None else arguments)


def make_document(body: bytes = BODY, *, truncated: bool = False) -> ResultDocument:
    return ResultDocument(body=body, row_count=1, truncated=truncated, as_of=AS_OF)


def make_execution(started: float = NOW, *, execution_id: str = "exe-1") -> Execution:
    return Execution(execution_id, "duckdb", "job-9", "LOCAL", started, started + 0.25)
