"""Rows on their way into a result: as many bytes inline as there may be, and none where nobody waits for them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pyarrow as pa
import pytest

from contract.call import ARROW_MEDIA_TYPE, RESULT_MEDIA_TYPE
from contract.schema import ResultColumn
from contract.verdict import NotGranted, Reason
from remote_agent.results import Gathering
from remote_agent.service import Service
from remote_agent.spool import Spool

COLUMNS = (ResultColumn.model_validate({"name": "x", "type": "INT64"}),)
OWNER = ("agent", "issuer", "tenant", "subject")
BATCH = pa.record_batch([pa.array(range(10))], names=["x"])


def gathering(media_type: str = RESULT_MEDIA_TYPE, most: int = 1_000) -> Gathering:
    service = SimpleNamespace(spool=Spool.none(), max_result_bytes=most, public_url="https://agent.example")
    return Gathering(cast(Service, service), COLUMNS, "task-1", media_type, "2026-08-31T22:00:00Z", OWNER)


def test_rows_that_fit_are_in_the_reply() -> None:
    gathered = gathering()
    gathered.add(BATCH)
    assert gathered.finish() is None
    assert gathered.row_count == 10


def test_rows_that_do_not_fit_are_too_large_where_nothing_is_kept() -> None:
    with pytest.raises(NotGranted) as large:
        gathering(most=100).add(BATCH)
    assert large.value.reason is Reason.RESULT_TOO_LARGE


def test_arrow_is_not_made_where_nothing_is_kept() -> None:
    with pytest.raises(NotGranted) as refused:
        gathering(ARROW_MEDIA_TYPE).add(BATCH)
    assert refused.value.reason is Reason.RESULT_STORE_UNAVAILABLE


def test_nothing_is_added_to_what_nobody_waits_for() -> None:
    gathered = gathering()
    gathered.add(BATCH)
    gathered.discard()
    with pytest.raises(NotGranted) as late:
        gathered.add(BATCH)
    assert (late.value.reason, gathered.row_count) == (Reason.CANCELLED, 10)
    with pytest.raises(NotGranted) as ended:
        gathered.finish()
    assert ended.value.reason is Reason.CANCELLED
