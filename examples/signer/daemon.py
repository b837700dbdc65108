"""The side that has the key: it signs for processes of its own user, and hands the key to nobody."""

from __future__ import annotations

import argparse
import os
import signal
import socket
import socketserver
import struct
import sys
import threading
from pathlib import Path

from contract.errors import DatasetAgentError
from examples.signer.wire import DONE, KEY, MAX_MESSAGE, SIGN
from grants.key_files import FileSigner, make_store

PATIENCE_S = 5.0


class Daemon(socketserver.ThreadingUnixStreamServer):
    """A socket of mode 0600 in a folder of mode 0700; each request has a thread of its own."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, path: Path, signer: FileSigner) -> None:
        self.signer = signer
        make_store(path.parent)
        path.unlink(missing_ok=True)
        os.umask(0o177)
        super().__init__(str(path), Request)


class Request(socketserver.StreamRequestHandler):
    """One request; whoever is another user, late or malformed gets no answer."""

    timeout = PATIENCE_S

    def handle(self) -> None:
        if peer_uid(self.request) != os.geteuid() or not isinstance(self.server, Daemon):
            return
        try:
            head = self.rfile.read(5)
            if len(head) < 5:
                return
            kind, size = head[:1], int.from_bytes(head[1:], "big")
            message = self.rfile.read(size) if size <= MAX_MESSAGE else b""
            if kind == KEY and size == 0:
                self.wfile.write(DONE + self.server.signer.public_key.raw)
            elif kind == SIGN and len(message) == size:
                self.wfile.write(DONE + self.server.signer.sign(message))
        except OSError:  # who asked went away
            return


def peer_uid(connection: socket.socket) -> int:
    """The user of the process at the other end (Linux)."""
    _, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    return int(uid)


def main() -> None:
    """Serve until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--key", type=Path, required=True, help="a private JWK, mode 0600 in a folder of mode 0700")
    parser.add_argument("--socket", type=Path, required=True, help="where to listen")
    parser.add_argument("--make", action="store_true", help="make the key where there is none")
    given = parser.parse_args()
    try:
        new = given.make and not given.key.exists()
        signer = (FileSigner.generate if new else FileSigner.load)(given.key)
        daemon = Daemon(given.socket, signer)
    except (DatasetAgentError, OSError) as error:
        sys.exit(f"error: {error}")
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: threading.Thread(target=daemon.shutdown).start())
    print(f"signs as {signer.public_key.thumbprint} at {given.socket}", flush=True)
    with daemon:
        daemon.serve_forever()
    given.socket.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
