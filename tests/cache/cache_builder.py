"""Intents, results and executions for tests of the cache."""

from __future__ import annotations

from typing import Any

from cache.inspect import AtHand, EntryView, told
from cache.store import CacheStore
from contract.result import Execution, Intent, ResultDocument
from contract.scope import Sensitivity
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


SEEN = AtHand(known={("purification-batches", "batch_yield"): Sensitivity.INTERNAL})
"""As who has no secret, and the descriptor of what these tests store."""


async def views(store: CacheStore, *, now: float, at_hand: AtHand = SEEN) -> list[EntryView]:
    """What is told of every entry that is not withheld, by key."""
    found = [told(stored, at_hand, now=now) async for stored in store.entries()]
    return sorted([entry for entry in found if isinstance(entry, EntryView)], key=lambda entry: entry.key)
