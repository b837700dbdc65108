"""Connections whose peers are waited for: each wait has an end, and their number leaves room for everybody else."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import h11
import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from dataset_agent import connection
from dataset_agent.connection import FEWEST, KEPT_FILES, MOST, most_connections
from dataset_agent.process import bind_port, server_settings

LARGE = 32 * 2**20
"""Much more than the system holds for a peer that reads nothing."""
WHOLE = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
UPGRADE = (
    b"GET %s HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n%s\r\n"
)
KEY = b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"


class Held:
    """An application that answers when it is told to, and a server around it."""

    def __init__(self) -> None:
        self.listener = bind_port("127.0.0.1", 0)
        self.go = threading.Event()
        self.arrived = threading.Semaphore(0)
        self.made: list[socket.socket] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.arrived.release()
        while scope["path"] == "/slow" and not self.go.is_set():
            await asyncio.sleep(0.01)
        if scope["path"] == "/read":
            while (await receive()).get("more_body"):
                pass
        size = LARGE if scope["path"] == "/large" else 2
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % size)]})
        await send({"type": "http.response.body", "body": b"o" * size})

    def connect(self, data: bytes = b"") -> socket.socket:
        made = socket.create_connection(self.listener.getsockname(), timeout=20)
        made.sendall(data)
        self.made.append(made)
        return made


@pytest.fixture
def held() -> Iterator[Held]:
    app = Held()
    with serving(app):
        yield app
        app.go.set()
        for made in app.made:
            made.close()


@contextmanager
def serving(app: Held) -> Iterator[None]:
    server = uvicorn.Server(uvicorn.Config(app, lifespan="off", **server_settings()))
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[app.listener])), daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join(20)


def is_answered(one: socket.socket) -> bool:
    return one.recv(12) == b"HTTP/1.1 200"


def is_ended(one: socket.socket) -> bool:
    """Whether the server closes it; nothing but a timeout of the test ends the wait where it does not."""
    try:
        while one.recv(65_536):
            pass
    except ConnectionResetError:
        return True
    return True


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    for phase in (h11.IDLE, h11.SEND_BODY):
        monkeypatch.setitem(connection._LIMITS, phase, 0.2)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    "begun",
    [
        b"",
        b"GET / HTTP/1.1\r\nHost: a\r\nX-Slow: ",
        b"POST /read HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\na",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n",
        WHOLE + b"GET / HTTP/1.1\r\nX-Slow: ",
    ],
    ids=["nothing", "half a head", "half a body", "a body that nobody reads", "half a second head"],
)
def test_a_connection_without_a_whole_request_ends(held: Held, begun: bytes) -> None:
    assert is_ended(held.connect(begun))


@pytest.mark.usefixtures("impatient")
def test_a_head_that_drips_is_no_less_late(held: Held) -> None:
    one = held.connect(b"GET / HTTP/1.1\r\nHost: a\r\nX-Slow: ")
    assert any(dripped(one) for _ in range(400))


def dripped(one: socket.socket) -> bool:
    """Send one byte more; whether the connection has ended by then."""
    one.settimeout(0.05)
    try:
        one.sendall(b"a")
        return one.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


@pytest.mark.usefixtures("impatient")
def test_a_request_may_be_worked_on_for_longer_than_its_peer_is_waited_for(held: Held) -> None:
    one = held.connect(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
    assert held.arrived.acquire(timeout=20)
    assert is_ended(held.connect())  # so the time is over that the other would have had
    held.go.set()
    assert is_answered(one)


@pytest.mark.usefixtures("impatient")
def test_what_was_answered_is_there_for_who_reads_slowly(held: Held) -> None:
    one = held.connect(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
    assert one.recv(1)
    assert is_ended(held.connect())  # so the time is over in which another request had to come
    assert is_ended(held.connect())
    assert read_whole(one)


def test_more_connections_than_there_may_be_end_the_one_that_was_waited_for_longest(
    held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "most_connections", lambda: 8)
    working = held.connect(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
    assert held.arrived.acquire(timeout=20)
    silent = [held.connect(b"GET / HTTP/1.1\r\nX: ") for _ in range(20)]
    asking = held.connect(WHOLE)
    assert is_answered(asking)
    assert all(is_ended(one) for one in silent[:12])
    held.go.set()
    assert is_answered(working)


def test_a_peer_that_does_not_read_goes_when_room_is_needed(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "most_connections", lambda: 2)
    greedy = [held.connect(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n") for _ in range(2)]
    for _ in greedy:
        assert held.arrived.acquire(timeout=20)
    for one in greedy:
        assert one.recv(1)
    assert is_answered(held.connect(WHOLE))


def test_answers_that_lie_unread_are_held_up_to_a_bound_and_the_oldest_goes(
    held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them lies whole in memory: so many peers that read nothing would be all the memory there is."""
    monkeypatch.setattr(connection, "MOST_UNREAD", LARGE * 5 // 4)
    greedy = []
    for _ in range(3):
        greedy.append(held.connect(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n"))
        assert held.arrived.acquire(timeout=20)
        assert greedy[-1].recv(1)
    assert is_answered(held.connect(WHOLE))
    assert [read_whole(one) for one in greedy] == [False, False, True]


def read_whole(one: socket.socket) -> bool:
    """Whether all of a large answer comes."""
    size = 0
    with contextlib.suppress(ConnectionResetError):
        while size < LARGE - 1 and (data := one.recv(2**20)):
            size += len(data)
    return size >= LARGE - 1


def test_where_all_are_worked_on_the_newest_goes(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "most_connections", lambda: 2)
    working = [held.connect(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n") for _ in range(2)]
    for _ in working:
        assert held.arrived.acquire(timeout=20)
    assert is_ended(held.connect())
    held.go.set()
    assert all(is_answered(one) for one in working)


@pytest.mark.parametrize(
    ("files", "most"),
    [(1_024, 768), (200, 100), (64, FEWEST), (2**20, MOST), (resource.RLIM_INFINITY, MOST)],
)
def test_connections_leave_open_files_for_everything_else(
    files: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (files, files))
    assert most_connections() == most
    assert most == FEWEST or most <= max(files - min(KEPT_FILES, files // 2), 0) or files == resource.RLIM_INFINITY


@pytest.mark.parametrize("key", [KEY, b""], ids=["whole", "without a key"])
def test_a_websocket_is_not_begun_and_leaves_no_line_in_the_log(
    held: Held, key: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        assert is_answered(held.connect(UPGRADE % (b"/?token=secret", key)))
    assert not [line for line in caplog.records if line.levelno > logging.INFO]
