"""Which server to ask: the one, the primary that sentinels name, or who holds a key's slot in a cluster.

What is known is kept until it is told to be wrong: by a server that moved, was demoted, went
away or fell silent. Everything happens inside the caller's budget of time.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol, TypeVar

from redis.asyncio.connection import AbstractConnection
from redis.crc import key_slot
from redis.exceptions import ConnectionError as Disconnected
from redis.exceptions import RedisError

from contract.redis_options import Address, RedisPlace

T = TypeVar("T")
Key = str | bytes | None
_MOST_ASKED: Final = 16
_FAULTS: Final = (RedisError, OSError, ValueError, TypeError, IndexError)


class Route(Protocol):
    """Which server of a deployment a command goes to."""

    follows: bool
    """Whether another server may be found where one is lost."""

    def known(self, key: Key) -> Address | None:
        """Who holds the key, as far as is known."""
        ...

    async def find(self, key: Key) -> Address:
        """The same, asked for where it is not known. Raises ``redis.exceptions.ConnectionError``."""
        ...

    def moved(self, key: Key, address: Address) -> None:
        """A server said that another one holds the key."""
        ...

    def lost(self, address: Address) -> None:
        """It refused, fell silent, or does not take writes."""
        ...

    async def primaries(self) -> Sequence[Address]:
        """All servers that hold keys of their own."""
        ...


def route_to(place: RedisPlace) -> Route:
    """The route for a deployment of this kind. Nothing is asked before it is used."""
    if place.kind == "sentinel":
        return SentinelRoute(place)
    return ClusterRoute(place) if place.kind == "cluster" else OneRoute(place.nodes[0])


class OneRoute:
    """A single server, whatever the key."""

    follows = False

    def __init__(self, address: Address) -> None:
        self._address = address

    def known(self, key: Key) -> Address | None:
        return self._address

    async def find(self, key: Key) -> Address:
        return self._address

    def moved(self, key: Key, address: Address) -> None:
        """A server that is part of a cluster: the URL must say so."""

    def lost(self, address: Address) -> None:
        """There is no other."""

    async def primaries(self) -> Sequence[Address]:
        return (self._address,)


class SentinelRoute:
    """The first sentinel that answers is believed, unless it names the server that was just lost."""

    follows = True

    def __init__(self, place: RedisPlace) -> None:
        self._place = place
        self._primary: Address | None = None
        self._gone: Address | None = None
        self._asking = asyncio.Lock()

    def known(self, key: Key) -> Address | None:
        return self._primary

    async def find(self, key: Key) -> Address:
        async with self._asking:
            if self._primary is None:
                # Once only: where the others are silent, what the first says must do.
                gone, self._gone = self._gone, None
                command = ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._place.service)
                connect = self._place.sentinel_connection
                self._primary = await _first(
                    [_ask(connect, node, command, _named) for node in self._place.nodes], but=gone
                )
            return self._primary

    def moved(self, key: Key, address: Address) -> None:
        """No server behind sentinels says so."""

    def lost(self, address: Address) -> None:
        if address == self._primary:
            self._primary, self._gone = None, address

    async def primaries(self) -> Sequence[Address]:
        return (await self.find(None),)


class ClusterRoute:
    """The map of slots, from whichever server answers first; single slots as servers correct it."""

    follows = True

    def __init__(self, place: RedisPlace) -> None:
        self._place = place
        self._starts: list[int] = []
        self._ranges: list[tuple[int, Address]] = []
        self._corrected: dict[int, Address] = {}
        self._seen: tuple[Address, ...] = ()
        self._asking = asyncio.Lock()

    def known(self, key: Key) -> Address | None:
        if not self._ranges:
            return None
        if key is None:
            return self._ranges[0][1]
        slot = _slot(key)
        if slot in self._corrected:
            return self._corrected[slot]
        place = bisect_right(self._starts, slot) - 1
        return self._ranges[place][1] if place >= 0 and slot <= self._ranges[place][0] else None

    async def find(self, key: Key) -> Address:
        if (address := self.known(key)) is not None:
            return address
        await self._learn()
        if (address := self.known(key)) is None:
            raise Disconnected("no server of the cluster holds the slot")
        return address

    def moved(self, key: Key, address: Address) -> None:
        if key is not None:
            self._corrected[_slot(key)] = address

    def lost(self, address: Address) -> None:
        if any(held == address for _, held in self._ranges) or address in self._corrected.values():
            self._starts, self._ranges, self._corrected = [], [], {}

    async def primaries(self) -> Sequence[Address]:
        self._starts, self._ranges, self._corrected = [], [], {}
        await self._learn()
        return tuple(dict.fromkeys(address for _, address in self._ranges))

    async def _learn(self) -> None:
        async with self._asking:
            if self._ranges:
                return
            nodes = list(dict.fromkeys((*self._seen, *self._place.nodes)))
            connect, command = self._place.connection, ("CLUSTER", "SLOTS")
            asked = [_ask(connect, node, command, _ranges(node)) for node in nodes[:_MOST_ASKED]]
            ranges, self._seen = await _first(asked)
            self._starts = [start for start, _, _ in ranges]
            self._ranges = [(end, address) for _, end, address in ranges]


def _slot(key: str | bytes) -> int:
    return key_slot(key if isinstance(key, bytes) else key.encode("utf-8", "surrogateescape"))


def _named(answer: Any) -> Address:
    """Raises ``TypeError`` for a service that the sentinel does not watch."""
    host, port = answer
    return bytes(host).decode(), int(port)


def _ranges(asked: Address) -> Callable[[Any], tuple[list[tuple[int, int, Address]], tuple[Address, ...]]]:
    """Reads CLUSTER SLOTS: first and last slot with their primary, by slot, and every server that is named."""

    def read(answer: Any) -> tuple[list[tuple[int, int, Address]], tuple[Address, ...]]:
        found = []
        servers = []
        for start, end, *nodes in answer:
            # A server that does not know its own name means: where I was asked.
            told = [(bytes(node[0] or b"").decode() or asked[0], int(node[1])) for node in nodes]
            found.append((int(start), int(end), told[0]))
            servers += told
        if not found:
            raise ValueError("a server that is in no cluster")
        return sorted(found), tuple(dict.fromkeys(servers))

    return read


async def _ask(
    connect: Callable[[Address], AbstractConnection],
    address: Address,
    command: tuple[str, ...],
    read: Callable[[Any], T],
) -> T:
    """One question over a connection of its own: they are seldom asked."""
    connection = connect(address)
    try:
        await connection.send_command(*command, check_health=False)
        return read(await connection.read_response())
    finally:
        await connection.disconnect(nowait=True)


async def _first(asked: Sequence[Awaitable[T]], *, but: T | None = None) -> T:
    """The first answer, another one than ``but`` where there is any. Raises ``redis.exceptions.ConnectionError``."""
    tasks = [asyncio.ensure_future(one) for one in asked]
    otherwise: T | None = None
    try:
        for done in asyncio.as_completed(tasks):
            with suppress(*_FAULTS):
                answer = await done
                if answer != but:
                    return answer
                otherwise = answer
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    if otherwise is None:
        raise Disconnected("nobody tells who the primary is")
    return otherwise
