"""One request ends at one place, whoever reads it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.dataset_agent.command_line import Served, served

CHUNKED = b"2\r\n{}\r\n0\r\n\r\n"
SECOND = b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    home: Path = tmp_path_factory.mktemp("home")
    with served("policy", "serve", HOME=str(home)) as running:
        yield running


def said(server: Served, *lines: bytes, body: bytes) -> bytes:
    """Everything that is answered to a request, and to one more that follows it in the same bytes."""
    request = b"\r\n".join((b"POST /v1/data/dataset/decision HTTP/1.1", b"Host: a", *lines)) + b"\r\n\r\n" + body
    port = int(server.url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(request + SECOND)
        return b"".join(iter(lambda: connection.recv(65_536), b""))


@pytest.mark.parametrize("length", [b"0", b"2", b"12", b"9999"])
@pytest.mark.parametrize("order", [1, -1])
def test_a_request_with_two_lengths_is_refused_and_nothing_behind_it_is_read(
    server: Served, length: bytes, order: int
) -> None:
    lines = [b"Content-Length: " + length, b"Transfer-Encoding: chunked"][::order]
    answer = said(server, *lines, body=CHUNKED)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"connection: close" in answer.lower()
    assert answer.count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize(("line", "body"), [(b"Content-Length: 2", b"{}"), (b"Transfer-Encoding: chunked", CHUNKED)])
def test_a_request_with_one_length_is_read_and_so_is_the_next(server: Served, line: bytes, body: bytes) -> None:
    answer = said(server, line, body=body)
    assert answer.count(b"HTTP/1.1 ") == 2
