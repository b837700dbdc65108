"""A look that many share is one that began after each of them asked."""

from __future__ import annotations

import asyncio

import pytest

from contract.shared_look import SharedLook


class Looked:
    def __init__(self) -> None:
        self.began = self.at_once = self.most = 0
        self.go = asyncio.Event()
        self.fault: Exception | None = None

    async def __call__(self) -> int:
        self.began += 1
        number = self.began
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        try:
            await self.go.wait()
        finally:
            self.at_once -= 1
        if self.fault is not None:
            raise self.fault
        return number


async def test_all_who_ask_before_it_begins_share_one_and_who_asks_later_has_the_next() -> None:
    looked = Looked()
    look = SharedLook(looked, gap_s=0)
    first = [asyncio.create_task(look()) for _ in range(50)]
    while not looked.began:
        await asyncio.sleep(0)
    later = [asyncio.create_task(look()) for _ in range(50)]
    await asyncio.sleep(0.01)
    assert looked.began == 1
    looked.go.set()
    assert set(await asyncio.gather(*first)) == {1}
    assert set(await asyncio.gather(*later)) == {2}
    assert looked.most == 1


async def test_between_two_looks_is_a_gap_whoever_asks() -> None:
    looked = Looked()
    looked.go.set()
    look, loop = SharedLook(looked, gap_s=0.1), asyncio.get_running_loop()
    end = loop.time() + 0.35
    while loop.time() < end:
        await asyncio.gather(*(look() for _ in range(20)))
    assert looked.began <= 5


async def test_who_leaves_leaves_it_to_the_others_and_a_fault_is_told_to_all(caplog: pytest.LogCaptureFixture) -> None:
    looked = Looked()
    looked.fault = ValueError("away")
    look = SharedLook(looked, gap_s=0)
    asked = [asyncio.create_task(look()) for _ in range(3)]
    while not looked.began:
        await asyncio.sleep(0)
    asked[0].cancel()
    looked.go.set()
    ended = await asyncio.gather(*asked, return_exceptions=True)
    assert isinstance(ended[0], asyncio.CancelledError)
    assert [str(fault) for fault in ended[1:]] == ["away", "away"]
    alone = asyncio.create_task(look())
    looked.go.clear()
    while looked.began < 2:
        await asyncio.sleep(0)
    alone.cancel()
    looked.go.set()
    await asyncio.gather(alone, return_exceptions=True)
    await asyncio.sleep(0.01)
    assert not caplog.records
    looked.fault = None
    assert await look() == 3
