"""Where several workers serve: one port that each listens on by itself, and a private folder that they share."""

from __future__ import annotations

import os
import secrets
import socket
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from contract.errors import Category, Component, DatasetAgentError
from contract.settings import Settings
from dataset_agent.process import address_of, advertised_address, bind_port, tcp_socket
from remote_agent.siblings import Siblings

_LONGEST: Final = 90
"""A socket's path has at most 103 bytes on some systems."""


@dataclass(frozen=True, slots=True)
class Place:
    """``held`` is bound to the port for as long as they serve, and does not listen."""

    held: socket.socket
    count: int
    public_url: str
    folder: Path
    secret: bytes = field(repr=False)

    @property
    def port(self) -> int:
        return int(self.held.getsockname()[1])

    @property
    def address(self) -> str:
        return address_of(self.held)

    def siblings(self, number: int) -> Siblings:
        return Siblings(number, self.count, self.folder, self.secret)

    def listener(self) -> socket.socket:
        """One more that listens: the system spreads connections over all who do. Raises ``OSError``."""
        listener = _on_shared_port(*self.held.getsockname()[:2])
        listener.listen(2048)
        return listener


@contextmanager
def place_of(settings: Settings, port: int) -> Iterator[Place]:
    """Raises CONFIGURATION where the port is taken, or this system lets no two listen on one."""
    if not hasattr(socket, "SO_REUSEPORT"):
        raise _fault("port", "this system lets one process listen on a port: unset DATASET_AGENT_WORKERS")
    if port:  # two agents that share a port would answer for one another: it must be nobody's
        bind_port(settings.host, port, found_by="DATASET_AGENT_URL").close()
    with (
        closing(_on_shared_port(settings.host, port)) as held,
        tempfile.TemporaryDirectory(prefix="dataset-agent-", ignore_cleanup_errors=True) as folder,
    ):
        if len(os.fsencode(folder)) > _LONGEST:
            raise _fault("folder", f"{folder} is too long for a socket: set TMPDIR to a shorter folder")
        url = advertised_address(settings, held)
        yield Place(held, settings.workers, url, Path(folder), secrets.token_bytes(32))


def _on_shared_port(host: str, port: int) -> socket.socket:
    found = tcp_socket(host)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        found.bind((host, port))
    except OSError as error:
        found.close()
        raise _fault("port", f"cannot listen on {host}:{port} ({error.strerror}): choose another --port") from error
    return found


def _fault(code: str, message: str) -> DatasetAgentError:
    return DatasetAgentError(Component.COMMAND, Category.CONFIGURATION, f"command.serve.{code}", message)
