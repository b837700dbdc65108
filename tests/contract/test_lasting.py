"""What is done is not taken back by who stops waiting for it."""

from __future__ import annotations

import asyncio

import pytest

from contract.lasting import Lasting, through


async def test_who_is_cancelled_while_waiting_has_what_it_waited_for_and_is_cancelled_no_more() -> None:
    future: Lasting[int] = Lasting(loop=asyncio.get_running_loop())

    async def wait() -> tuple[int, int]:
        found = await through(future)
        task = asyncio.current_task()
        return found, -1 if task is None else task.cancelling()

    waiting = asyncio.ensure_future(wait())
    for _ in range(3):
        await asyncio.sleep(0)
        waiting.cancel()
    await asyncio.sleep(0)
    assert not waiting.done()
    future.set_result(7)
    assert await waiting == (7, 0)


async def test_a_fault_is_told_to_who_was_cancelled_meanwhile() -> None:
    future: Lasting[int] = Lasting(loop=asyncio.get_running_loop())
    waiting = asyncio.ensure_future(through(future))
    await asyncio.sleep(0)
    waiting.cancel()
    future.set_exception(OSError("the disk is full"))
    with pytest.raises(OSError, match="full"):
        await waiting


async def test_who_was_cancelled_just_before_waits_all_the_same() -> None:
    future: Lasting[int] = Lasting(loop=asyncio.get_running_loop())

    async def wait() -> int:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await through(future)
        return task.cancelling()

    waiting = asyncio.ensure_future(wait())
    await asyncio.sleep(0)
    future.set_result(1)
    assert await waiting == 0


async def test_it_cannot_be_cancelled_itself() -> None:
    future: Lasting[int] = Lasting(loop=asyncio.get_running_loop())
    assert not future.cancel()
    assert not future.cancelled()
    future.set_result(1)
    assert await future == 1
