"""What runs behind answers: each once, few at once, none after the end, and nothing of the request goes on in it."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar

import pytest

from remote_agent.refreshes import MOST, MOST_OF_PERSON, Refreshes

PERSON = ("issuer", "tenant", "u-1")


class Held:
    """Work that waits until it is let go, and says how it ended."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.ended: list[str] = []

    async def work(self) -> None:
        try:
            await self.go.wait()
            self.ended.append("done")
        except asyncio.CancelledError:
            await asyncio.sleep(0)  # as a row that is written
            self.ended.append("stopped")
            raise


async def test_one_runs_for_each_key() -> None:
    refreshes, held = Refreshes(), Held()
    assert [refreshes.begin(key, PERSON, held.work) for key in ("a", "a", "b", "a")] == [True, False, True, False]
    held.go.set()
    while refreshes._running:
        await asyncio.sleep(0)
    assert held.ended == ["done"] * 2
    assert refreshes.begin("a", PERSON, held.work)
    await refreshes.close()


async def test_no_more_run_than_there_is_room_for() -> None:
    refreshes, held = Refreshes(most=3), Held()
    assert [refreshes.begin(str(number), (str(number),), held.work) for number in range(5)] == [True] * 3 + [False] * 2
    await refreshes.close()


async def test_one_person_leaves_room_for_the_refreshes_of_others() -> None:
    refreshes, held = Refreshes(), Held()
    begun = [refreshes.begin(f"a{number}", PERSON, held.work) for number in range(MOST)]
    assert begun == [True] * MOST_OF_PERSON + [False] * (MOST - MOST_OF_PERSON)
    assert refreshes.begin("b", ("issuer", "tenant", "u-2"), held.work)
    held.go.set()
    while refreshes._running:
        await asyncio.sleep(0)
    assert refreshes.begin("a9", PERSON, held.work)
    await refreshes.close()
    assert not refreshes._of


async def test_the_end_stops_them_waits_until_they_are_recorded_and_lets_none_begin() -> None:
    refreshes, held = Refreshes(), Held()
    refreshes.begin("a", PERSON, held.work)
    refreshes.begin("b", PERSON, held.work)
    await asyncio.sleep(0)
    await refreshes.close()
    assert held.ended == ["stopped"] * 2
    assert not refreshes.begin("c", PERSON, held.work)


async def test_nothing_of_the_request_goes_on_in_it() -> None:
    of_the_request: ContextVar[str] = ContextVar("of_the_request", default="nothing")
    of_the_request.set("who asked")
    seen: list[str] = []

    async def work() -> None:
        seen.append(of_the_request.get())

    refreshes = Refreshes()
    refreshes.begin("a", PERSON, work)
    while refreshes._running:
        await asyncio.sleep(0)
    assert seen == ["nothing"]


async def test_of_a_fault_only_its_type_is_told(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        raise ValueError("ROW-SECRET-7")

    refreshes = Refreshes()
    refreshes.begin("a", PERSON, work)
    while refreshes._running:
        await asyncio.sleep(0)
    assert caplog.messages == ["a refresh failed with ValueError"]
