"""One client agent, or one person, that keeps large results or reads them leaves room for the others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.verdict import NotGranted, Reason
from remote_agent.owners import Owner
from remote_agent.spool import MAX_READERS, Spool
from remote_agent.spool_file import CHUNK
from remote_agent.spool_shares import Shares
from tests.remote_agent.test_spool import kept, spool_at

ANN: Owner = ("urn:agent:a", "i", "t", "ann")
BOB: Owner = ("urn:agent:a", "i", "t", "bob")
CID: Owner = ("urn:agent:a", "i", "t", "cid")
DAN: Owner = ("urn:agent:b", "i", "t", "dan")
OWNERS = (ANN, BOB, CID, DAN, ("urn:agent:b", "i", "t2", "dan"))
OF_ANN = {"client": "urn:agent:a", "subject": "ann"}
OF_BOB = {"client": "urn:agent:a", "subject": "bob"}
OF_DAN = {"client": "urn:agent:b", "subject": "dan"}


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    made = spool_at(tmp_path, spool_max_bytes=16 * CHUNK, spool_max_result_bytes=CHUNK)
    yield made
    made.close()


def fill(spool: Spool, most: int = 100, **whose: Any) -> int:
    """Keep results of one chunk until no more are taken; how many were."""
    for number in range(most):
        try:
            kept(spool, f"task-{whose['subject']}-{number}", b"x" * (CHUNK - 64), **whose)
        except NotGranted:
            return number
    return most


async def test_a_person_who_fills_the_spool_leaves_room_for_others_of_the_same_agent(spool: Spool) -> None:
    assert fill(spool, **OF_ANN) == 4
    assert fill(spool, **OF_BOB) == 4


async def test_an_agent_that_fills_the_spool_leaves_half_of_it_to_other_agents(spool: Spool) -> None:
    taken = sum(fill(spool, client="urn:agent:a", subject=name) for name in ("ann", "bob", "cid", "eve"))
    assert taken == 8
    assert fill(spool, **OF_DAN) == 4


async def test_what_is_dropped_is_given_back_to_whoever_had_it(spool: Spool) -> None:
    fill(spool, **OF_ANN)
    spool.drop("task-ann-0")
    assert fill(spool, 1, **OF_ANN) == 1
    for number in range(4):
        spool.drop(f"task-ann-{number}")
    assert (spool.used, spool._results.used) == (0, 0)


async def test_one_of_the_largest_results_fits_however_small_a_part_is(tmp_path: Path) -> None:
    spool = spool_at(tmp_path, spool_max_bytes=2 * CHUNK, spool_max_result_bytes=CHUNK)
    kept(spool, "task-1", b"x" * CHUNK, **OF_ANN)
    with pytest.raises(NotGranted) as full:
        kept(spool, "task-2", b"x" * CHUNK, **OF_ANN)
    assert full.value.reason is Reason.RESULT_STORE_UNAVAILABLE
    spool.close()


async def test_what_is_refused_for_want_of_room_leaves_no_count(spool: Spool) -> None:
    fill(spool, **OF_ANN)
    before = spool.used, spool._results.used
    writing = spool.begin("task-more", spool._held["task-ann-0"].terms.owner)
    with pytest.raises(NotGranted):
        writing.write(b"x" * CHUNK)
    writing.discard()
    assert (spool.used, spool._results.used) == before


async def test_a_person_who_reads_all_the_time_leaves_downloads_for_others(spool: Spool) -> None:
    mine, theirs = kept(spool, "task-1", b"rows", **OF_ANN), kept(spool, "task-2", b"rows", **OF_DAN)
    with ExitStack() as open_ones:
        for _ in range(MAX_READERS // 4):
            open_ones.enter_context(spool.reading(mine))
        with pytest.raises(NotGranted) as busy, spool.reading(mine):
            pass
        assert busy.value.reason is Reason.RESULT_STORE_UNAVAILABLE
        with spool.reading(theirs) as reader:
            assert reader.read(0) == b"rows"
    assert spool._readers.used == 0


@given(st.lists(st.tuples(st.sampled_from(OWNERS), st.integers(0, 40)), max_size=40), st.integers(1, 30))
def test_no_one_ever_has_more_than_a_part_and_what_is_given_back_is_forgotten(
    asked: list[tuple[Owner, int]], least: int
) -> None:
    shares, held = Shares(100, least=least), []
    for owner, more in asked:
        if shares.take(owner, more):
            held.append((owner, more))
        assert shares.used == sum(size for _, size in held) <= 100
        for one in OWNERS:
            assert sum(size for who, size in held if who == one) <= max(25, least)
            assert sum(size for who, size in held if who[0] == one[0]) <= max(50, least)
    for owner, size in held:
        shares.give_back(owner, size)
    assert not any(shares._used.values())
