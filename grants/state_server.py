"""The Redis server that holds the memory, also where sentinels or a cluster say which one that is.

A server that only moved is followed within the caller's budget: it ran nothing. So is a slot on its
way: while each of two servers has a part of the memory neither answers (TRYAGAIN), and the question
waits; when all of it has arrived, it is asked there (ASK). Whatever else fails is not asked again,
since it may have spent the leaf; the next question looks for the server anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, TypeVar, cast

from redis.asyncio import BlockingConnectionPool, Redis
from redis.exceptions import AskError, MovedError, ReadOnlyError, RedisError, TryAgainError
from redis.exceptions import ConnectionError as Disconnected

from contract.redis_options import Address, read_place
from contract.redis_route import route_to
from grants.state import BUDGET

T = TypeVar("T")
_CONNECTIONS: Final = 32
_HOPS: Final = 4
_AGAIN_S: Final = 0.01
"""Between two looks at a memory that is on its way."""


class StateServer:
    """``key`` decides which server of a cluster is asked. ``waiting`` seconds at most for a free connection."""

    def __init__(self, url: str, *, key: str, waiting: float) -> None:
        """Raises ``ValueError`` with what is wrong with the URL, or its files of TLS."""
        self._place = read_place(url)
        self._place.check_files()
        self._route = route_to(self._place)
        self._key = key
        self._waiting = waiting
        self._clients: dict[Address, Redis] = {}

    @classmethod
    def reach(cls, url: str, key: str) -> StateServer:
        """With the budget of the state store, for what else lies beside it."""
        return cls(url, key=key, waiting=BUDGET)

    async def ask(self, question: Callable[[Redis], Awaitable[T]]) -> T:
        """What ``question`` returns of the server's client. Raises what the client raises."""
        hops, arrived = 0, None
        while hops < _HOPS:
            address = arrived or self._route.known(self._key) or await self._route.find(self._key)
            try:
                if arrived is None:
                    return await question(self._client(address))
                async with self._asking(address) as server:
                    return await question(server)
            except TryAgainError:  # the budget ends it
                arrived = None
                await asyncio.sleep(_AGAIN_S)
            except AskError as error:  # MovedError is one
                hops += 1
                to = (error.host or address[0], error.port)
                arrived = None if isinstance(error, MovedError) else to
                if arrived is None:
                    self._route.moved(self._key, to)
            except (Disconnected, ReadOnlyError, asyncio.CancelledError) as error:
                await self._lost(address, broken=isinstance(error, Disconnected))
                raise
        raise Disconnected("the servers send each other's keys in circles")

    async def lost(self) -> None:
        """Whoever answered is not the primary."""
        address = self._route.known(self._key)
        if address is not None:
            await self._lost(address, broken=self._route.follows)

    async def __aenter__(self) -> StateServer:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        clients, self._clients = self._clients, {}
        for client in clients.values():
            await client.aclose()
            await client.connection_pool.disconnect()

    async def _lost(self, address: Address, *, broken: bool) -> None:
        """Where one connection broke the idle ones most likely did: one call meets the end of a server, not each."""
        self._route.lost(address)
        if broken and address in self._clients:
            with suppress(RedisError, OSError):
                await self._clients[address].connection_pool.disconnect(inuse_connections=False)

    @asynccontextmanager
    async def _asking(self, address: Address) -> AsyncIterator[Redis]:
        """Its client for what it does not own yet."""
        client = _Asking(connection_pool=self._client(address).connection_pool, single_connection_client=True)
        try:
            yield client
        finally:
            await client.aclose()

    def _client(self, address: Address) -> Redis:
        found = self._clients.get(address)
        if found is None:
            pool = BlockingConnectionPool(
                connection_class=self._place.connection_class(),
                max_connections=_CONNECTIONS,
                timeout=self._waiting,
                decode_responses=True,
                **self._place.where(address),
                **self._place.connection_kwargs(),
            )
            found = self._clients[address] = Redis.from_pool(pool)
        return found


class _Asking(Redis):
    """Says ASKING before each command, over the same connection: it holds for one."""

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        await cast(Any, super()).execute_command("ASKING")
        return await cast(Any, super()).execute_command(*args, **options)
