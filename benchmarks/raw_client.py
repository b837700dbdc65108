"""A raw keep-alive HTTP/1.1 client: it sends prepared bytes and measures, and does nothing else."""

from __future__ import annotations

import json
import selectors
import socket
import time
from collections.abc import Sequence


def request_bytes(port: int, body: dict[str, object], headers: dict[str, str]) -> bytes:
    """One POST to the JSON-RPC root."""
    payload = json.dumps(body).encode()
    lines = [
        "POST / HTTP/1.1",
        f"Host: 127.0.0.1:{port}",
        "Content-Type: application/json",
        f"Content-Length: {len(payload)}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + payload


class Connection:
    """One keep-alive connection."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = b""

    def exchange(self, request: bytes) -> bytes:
        """Send one request and return the response's body."""
        self.socket.sendall(request)
        while (body := self.take()) is None:
            self.fill()
        return body

    def fill(self) -> None:
        chunk = self.socket.recv(1 << 20)
        if not chunk:
            raise ConnectionError("the server closed the connection")
        self._buffer += chunk

    def take(self) -> bytes | None:
        """A complete body from the buffer, or ``None`` while there is none."""
        head, found, rest = self._buffer.partition(b"\r\n\r\n")
        if not found:
            return None
        length = next(
            int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")
        )
        if len(rest) < length:
            return None
        self._buffer = rest[length:]
        return rest[:length]

    def close(self) -> None:
        self.socket.close()


def latencies(connection: Connection, requests: Sequence[bytes]) -> tuple[list[float], list[bytes]]:
    """Milliseconds of each request on one connection, and the bodies."""
    times: list[float] = []
    bodies: list[bytes] = []
    for request in requests:
        started = time.perf_counter()
        bodies.append(connection.exchange(request))
        times.append((time.perf_counter() - started) * 1000)
    return times, bodies


def throughput(port: int, requests: Sequence[bytes], connections: int = 16) -> float:
    """Requests a second with ``connections`` always busy."""
    started = time.perf_counter()
    loaded_latencies(port, requests, connections)
    return len(requests) / (time.perf_counter() - started)


def loaded_latencies(port: int, requests: Sequence[bytes], connections: int) -> tuple[list[float], list[bytes]]:
    """Milliseconds of each request with ``connections`` always busy, and the bodies, as they came."""
    waiting = list(reversed(requests))
    selector = selectors.DefaultSelector()
    times: list[float] = []
    bodies: list[bytes] = []
    sent: dict[Connection, float] = {}
    for _ in range(min(connections, len(waiting))):
        connection = Connection(port)
        selector.register(connection.socket, selectors.EVENT_READ, connection)
        sent[connection] = time.perf_counter()
        connection.socket.sendall(waiting.pop())
    while len(bodies) < len(requests):
        for key, _ in selector.select():
            connection = key.data
            connection.fill()
            body = connection.take()
            if body is None:
                continue
            times.append((time.perf_counter() - sent[connection]) * 1000)
            bodies.append(body)
            if waiting:
                sent[connection] = time.perf_counter()
                connection.socket.sendall(waiting.pop())
            else:
                selector.unregister(connection.socket)
                connection.close()
    return times, bodies
