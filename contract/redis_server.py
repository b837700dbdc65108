"""A Redis or Valkey server as whoever keeps things on it sees it, wherever it is just now."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from redis.asyncio import Redis

T = TypeVar("T")


class RedisServer(Protocol):
    """Whoever holds one key now, and the way to it (``grants.state_server.StateServer`` is one)."""

    async def ask(self, question: Callable[[Redis], Awaitable[T]]) -> T:
        """What ``question`` returns of the server's client. Raises what the client raises."""
        ...

    async def close(self) -> None:
        """Give its connections back."""
        ...
