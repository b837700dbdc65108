"""The side of the agent: a ``contract.signing.Signer`` that asks the daemon, and the factory that a setting names."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

from contract.settings import Settings
from contract.signing import PublicKey
from examples.signer.wire import DONE, KEY, SIGN, SIZES, request

FOLDER = "SIGNER_SOCKETS"
TIMEOUT = "SIGNER_TIMEOUT"


def open_signer(settings: Settings, name: str) -> SocketSigner:
    """``DATASET_AGENT_REMOTE_SIGNER=examples.signer.client:open_signer`` calls this with ``"remote"``.

    The socket is ``remote.sock`` in the folder that ``SIGNER_SOCKETS`` names. Raises
    ``OSError`` where the daemon does not answer, upon which the agent does not start.
    """
    timeout = float(os.environ.get(TIMEOUT, "0.5"))
    return SocketSigner(Path(os.environ[FOLDER]) / f"{name}.sock", timeout=timeout)


class SocketSigner:
    """A key that another process has. ``timeout`` is seconds for one signature, everything included.

    A connection for each signature: many threads may sign at once, nothing has to be
    repaired after a daemon that was away, and connecting costs microseconds.
    """

    def __init__(self, path: Path, *, timeout: float) -> None:
        self._path = path
        self._timeout = timeout
        self._public = PublicKey(self._ask(KEY, b""))

    @property
    def public_key(self) -> PublicKey:
        return self._public

    def sign(self, message: bytes) -> bytes:
        """Raises ``OSError`` (a ``TimeoutError`` is one) where there is no signature in time."""
        return self._ask(SIGN, message)

    def _ask(self, kind: bytes, message: bytes) -> bytes:
        deadline = time.monotonic() + self._timeout
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            _bound(connection, deadline)
            connection.connect(str(self._path))
            connection.sendall(request(kind, message))
            reply = _received(connection, len(DONE) + SIZES[kind], deadline)
        if not reply.startswith(DONE):
            raise ConnectionError("the signer refused")
        return reply[len(DONE) :]


def _received(connection: socket.socket, size: int, deadline: float) -> bytes:
    reply = b""
    while len(reply) < size:
        _bound(connection, deadline)
        part = connection.recv(size - len(reply))
        if not part:
            raise ConnectionError("the signer ended the connection")
        reply += part
    return reply


def _bound(connection: socket.socket, deadline: float) -> None:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("the signer did not answer in time")
    connection.settimeout(left)
