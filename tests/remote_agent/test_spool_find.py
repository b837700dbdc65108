"""A result that waits is found by its owner, after its answer left and before it expires; each of the three by itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from contract.verdict import NotGranted, Reason
from remote_agent.owners import Owner
from remote_agent.spool import Spool
from tests.remote_agent.test_spool import kept


@pytest.fixture
def clock() -> list[float]:
    return [1_000.0]


@pytest.fixture
def spool(tmp_path: Path, clock: list[float]) -> Iterator[Spool]:
    made = Spool(tmp_path / "s", max_bytes=2**20, max_result_bytes=2**20, ttl=100.0, clock=lambda: clock[0])
    yield made
    made.close()


def is_found(spool: Spool, owner: Owner, name: str = "task-1") -> bool:
    try:
        spool.find(name, owner)
    except NotGranted as refused:
        return refused.reason is not Reason.RESULT_NOT_FOUND
    return True


async def test_it_is_found_when_its_answer_has_left(spool: Spool) -> None:
    owner = kept(spool, "task-1", b"rows").terms.owner
    assert not is_found(spool, owner)
    spool.release("task-1")
    assert is_found(spool, owner)
    assert not is_found(spool, owner, "task-2")


async def test_it_is_found_by_its_owner(spool: Spool) -> None:
    owner = kept(spool, "task-1", b"rows").terms.owner
    spool.release("task-1")
    others: list[Owner] = [
        ("x", *owner[1:]),
        (owner[0], "x", *owner[2:]),
        (*owner[:2], "x", owner[3]),
        (*owner[:3], "x"),
    ]
    assert [is_found(spool, other) for other in (owner, *others)] == [True, False, False, False, False]


async def test_it_is_found_until_it_expires(spool: Spool, clock: list[float]) -> None:
    owner = kept(spool, "task-1", b"rows").terms.owner
    spool.release("task-1")
    clock[0] += 99.9
    assert is_found(spool, owner)
    clock[0] += 0.1
    assert not is_found(spool, owner)


async def test_what_was_not_released_is_dropped_and_what_was_is_not(spool: Spool) -> None:
    for name in ("task-1", "task-2"):
        kept(spool, name, b"rows")
    spool.release("task-2")
    for name in ("task-1", "task-2"):
        spool.drop_unreleased(name)
    assert list(spool._held) == ["task-2"]


async def test_what_expired_is_swept_with_its_file(spool: Spool, clock: list[float]) -> None:
    path = kept(spool, "task-1", b"rows").sealed.path
    spool.sweep()
    assert path.exists()
    clock[0] += 100.0
    spool.sweep()
    assert (path.exists(), spool.used, list(spool._held)) == (False, 0, [])
