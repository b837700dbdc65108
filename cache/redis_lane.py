"""One command, one answer, within a budget: the hot path of the Redis store.

The client's own pool probes a connection before each command and keeps statistics, which
costs as much as canonicalising a key. Here a connection is probed by using it.

A primary that sentinels replaced and a slot that moved in a cluster are followed within the
same budget: MOVED and READONLY change what is known, ASK changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from redis.asyncio.connection import AbstractConnection
from redis.exceptions import AskError, MovedError, ReadOnlyError, ResponseError
from redis.exceptions import ConnectionError as Disconnected

from cache.allowance import Limit
from cache.store import OutOfTime, StoreSilent, StoreUnavailable
from contract.redis_options import Address, RedisPlace
from contract.redis_route import Key, route_to

CONCURRENT: Final = 16
Command = tuple[str | bytes | int, ...]
_HOPS: Final = 4


class WrongType(StoreUnavailable):
    """The key holds a value of another type than the command works on; the server itself is well."""


class RedisLanes:
    """At most ``CONCURRENT`` connections in use; a burst waits its turn inside its budget (seconds)."""

    def __init__(self, place: RedisPlace, *, budget_s: float) -> None:
        self._place = place
        self._route = route_to(place)
        self._budget_s = budget_s
        self._turns = asyncio.Semaphore(CONCURRENT)
        self._idle: dict[Address, list[AbstractConnection]] = {}

    async def ask(self, *command: str | bytes | int) -> Any:
        """The answer to an idempotent command. Raises ``StoreUnavailable``.

        The budget, or what the present call has left, holds for waiting, finding the server, connecting, handshake
        and answer together.
        """
        limit = Limit(self._budget_s)
        try:
            async with limit, self._turns:
                return await self._follow(command)
        except Exception as error:
            if isinstance(error, TimeoutError) and not limit.is_fair:
                raise OutOfTime("the call has waited for the cache server as long as it may") from error
            # A client that reads what somebody else wrote may raise anything, such as ``ValueError``.
            raise unavailable(error) from error

    async def ask_each(self, commands: Sequence[Command], *, within_s: float) -> list[Any]:
        """The answers to commands for any keys, one round trip a server. Faults of single commands are answers.

        Nothing is sent twice but what a server said to send elsewhere.
        """
        answers: list[Any] = [None] * len(commands)
        async with self._within(within_s), self._turns:
            groups: dict[Address, list[int]] = {}
            for number, command in enumerate(commands):
                groups.setdefault(await self._address(_key_of(command)), []).append(number)
            for address, numbers in groups.items():
                told = await self._send_all(address, [commands[number] for number in numbers])
                for number, answer in zip(numbers, told, strict=True):
                    answers[number] = answer
            for number, answer in enumerate(answers):
                if isinstance(answer, AskError | ReadOnlyError):
                    answers[number] = await self._as_answer(commands[number])
        return answers

    async def ask_at(self, address: Address, *command: str | bytes | int, within_s: float) -> Any:
        """The answer of one of ``primaries``."""
        async with self._within(within_s), self._turns:
            return await self._send(address, command)

    async def primaries(self, *, within_s: float) -> Sequence[Address]:
        """All servers that hold keys of their own."""
        async with self._within(within_s), self._turns:
            return await self._route.primaries()

    async def close(self) -> None:
        idle, self._idle = self._idle, {}
        for lane in (lane for lanes in idle.values() for lane in lanes):
            await lane.disconnect()

    async def _address(self, key: Key) -> Address:
        return self._route.known(key) or await self._route.find(key)

    async def _follow(self, command: Command) -> Any:
        key = _key_of(command)
        address, asking = await self._address(key), False
        for _ in range(_HOPS):
            try:
                return await self._send(address, command, asking=asking)
            except AskError as error:  # MovedError is one
                asking = not isinstance(error, MovedError)
                address = (error.host or address[0], error.port)
                if not asking:
                    self._route.moved(key, address)
            except (Disconnected, ReadOnlyError):
                await self._lost(address)
                if not self._route.follows:
                    raise
                address, asking = await self._route.find(key), False
            except asyncio.CancelledError:
                await self._lost(address)
                raise
        raise Disconnected("the servers send each other's keys in circles")

    async def _as_answer(self, command: Command) -> Any:
        try:
            return await self._follow(command)
        except ResponseError as error:
            return error

    async def _lost(self, address: Address) -> None:
        """Its idle connections most likely broke too: it costs one call, and not each."""
        self._route.lost(address)
        if self._route.follows:
            for lane in self._idle.pop(address, ()):
                await lane.disconnect(nowait=True)

    def _lane(self, address: Address) -> AbstractConnection:
        idle = self._idle.get(address)
        return idle.pop() if idle else self._place.connection(address)

    def _put_back(self, address: Address, lane: AbstractConnection) -> None:
        self._idle.setdefault(address, []).append(lane)

    async def _send(self, address: Address, command: Command, *, asking: bool = False) -> Any:
        lane = self._lane(address)
        reused = lane.is_connected
        try:
            try:
                return await _exchange(lane, command, asking=asking)
            except Disconnected:
                # A server that restarted closed its idle connections; that alone is no fault.
                if not reused:
                    raise
            return await _exchange(lane, command, asking=asking)
        finally:
            self._put_back(address, lane)

    async def _send_all(self, address: Address, commands: Sequence[Command]) -> list[Any]:
        lane = self._lane(address)
        try:
            await lane.send_packed_command(lane.pack_commands(commands), check_health=False)
            return [await _read(lane) for _ in commands]
        except BaseException:
            await self._lost(address)
            raise
        finally:
            self._put_back(address, lane)

    @asynccontextmanager
    async def _within(self, seconds: float) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(seconds):
                yield
        except Exception as error:
            raise unavailable(error) from error


async def _exchange(lane: AbstractConnection, command: Command, *, asking: bool) -> Any:
    if asking:
        await lane.send_command("ASKING", check_health=False)
        await _answer(lane)
    await lane.send_packed_command(packed(command), check_health=False)
    return await _answer(lane)


def _answer(lane: AbstractConnection) -> Awaitable[Any]:
    """One answer. The connection of one that is cut short ends: its late answer would be the next command's."""
    return lane.read_response(disconnect_on_error=True)


def packed(command: Command) -> bytes:
    """The bytes of a command: an array of bulk strings. The client's own packing costs four times as much."""
    parts = [b"*%d\r\n" % len(command)]
    for part in command:
        data = part if isinstance(part, bytes) else str(part).encode()
        parts.append(b"$%d\r\n%b\r\n" % (len(data), data))
    return b"".join(parts)


async def _read(lane: AbstractConnection) -> Any:
    try:
        return await _answer(lane)
    except ResponseError as error:
        return error


def _key_of(command: Command) -> Key:
    """The key that decides which server is asked; the keys of one command share a slot."""
    place = 3 if command[0] == "EVAL" else 1
    key = command[place] if len(command) > place else None
    return key if isinstance(key, str | bytes) else None


def unavailable(error: Exception) -> StoreUnavailable:
    """What callers of the store see of a client's error. Never its text: it may quote the server."""
    if is_wrong_type(error):
        return WrongType("the key holds a value of another type")
    if isinstance(error, TimeoutError):
        return StoreSilent("the cache server does not answer in time")
    return StoreUnavailable(f"the cache server cannot be used ({type(error).__name__})")


def is_wrong_type(answer: object) -> bool:
    """Whether an error or an answer in a pipeline says that the key is of another type."""
    return isinstance(answer, ResponseError) and str(answer).startswith("WRONGTYPE")
