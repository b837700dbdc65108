"""A result on its way: no faster than it is read, stopped when it may not go on, and nothing stays behind."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

from contract.canonical import sha256_hex
from grants.state import RevocationKind
from remote_agent import results_release
from remote_agent.spool_file import CHUNK, ChunkReader
from tests.large_world import ARROW, Fetcher, described, large_agent
from tests.running_agent import RunningAgent

ROWS = 150_000


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAgent]:
    with large_agent(tmp_path_factory.mktemp("streamed"), rows=ROWS) as served:
        yield served


@pytest.fixture(scope="module")
def fetcher(agent: RunningAgent) -> Fetcher:
    return Fetcher(agent.settings, agent.url)


@pytest.fixture(scope="module")
def task(fetcher: Fetcher) -> dict[str, Any]:
    return fetcher.large(ROWS)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of the chunks that are read from disk, as it happens."""
    seen: list[int] = []
    read = ChunkReader.read

    def counted(self: ChunkReader, number: int) -> bytes:
        seen.append(number)
        return read(self, number)

    monkeypatch.setattr(ChunkReader, "read", counted)
    return seen


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask every few milliseconds whether a stream may go on, and not every second."""
    monkeypatch.setattr(results_release, "RECHECK_S", 0.02)


@contextmanager
def lazy_reader(fetcher: Fetcher, task_id: str) -> Iterator[socket.socket]:
    """A reader that has asked, and takes nothing yet; its own buffer is small."""
    place = urlsplit(fetcher.url)
    headers = fetcher.headers(fetcher.leaf(task_id))
    lines = [f"GET /results/{task_id} HTTP/1.1", f"Host: {place.netloc}", *(f"{n}: {v}" for n, v in headers.items())]
    with socket.socket() as reader:
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.settimeout(30)
        reader.connect((place.hostname, place.port))
        reader.sendall("\r\n".join(lines).encode() + b"\r\n\r\n")
        yield reader


def rest_of(reader: socket.socket) -> bytes:
    """The body of the whole response."""
    received = bytearray()
    while piece := reader.recv(1 << 20):
        received += piece
        head, found, _ = bytes(received[:4096]).partition(b"\r\n\r\n")
        if found:
            length = next(int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
            if len(received) >= len(head) + 4 + length:
                break
    return bytes(received).partition(b"\r\n\r\n")[2]


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def ended(agent: RunningAgent, before: int) -> dict[str, Any]:
    """The terminal row of the one download since."""
    until(lambda: len(agent.rows()) == before + 2)
    return dict(agent.rows()[-1].cells)


def open_files(agent: RunningAgent) -> list[str]:
    """The spool files that this process has open."""
    spool, found = str(agent.settings.home / "remote" / "spool"), []
    for entry in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{entry}")
        except OSError:
            continue
        if target.startswith(spool) and not target.endswith("lock"):
            found.append(target)
    return found


def test_a_slow_reader_gets_everything_and_is_not_read_ahead_for(
    agent: RunningAgent, fetcher: Fetcher, task: dict[str, Any], reads: list[int]
) -> None:
    size = int(described(task)["size"])
    with lazy_reader(fetcher, task["id"]) as reader:
        until(lambda: len(reads) >= 2)
        time.sleep(0.2)
        waiting = len(reads)
        body = rest_of(reader)
    assert size > 9 * CHUNK
    assert waiting < size // CHUNK, "what nobody takes stays on the disk"
    assert sha256_hex(body) == described(task)["sha256"]
    assert open_files(agent) == []


def test_a_reader_who_leaves_frees_the_file_and_the_row_says_how_far_it_came(
    agent: RunningAgent, fetcher: Fetcher, task: dict[str, Any]
) -> None:
    before = len(agent.rows())
    with lazy_reader(fetcher, task["id"]) as reader:
        reader.recv(100)
        until(lambda: len(open_files(agent)) == 1)
    row = ended(agent, before)
    assert (row["kind"], row["reason"]) == ("terminal", "CANCELLED")
    assert 0 < row["bytes_released"] < described(task)["size"]
    until(lambda: open_files(agent) == [])
    assert agent.lifecycle.service.spool._readers.used == 0


@pytest.mark.usefixtures("often")
def test_a_grant_that_is_revoked_meanwhile_ends_the_stream(
    agent: RunningAgent, fetcher: Fetcher, task: dict[str, Any]
) -> None:
    before = len(agent.rows())
    state = agent.lifecycle.service.state
    with lazy_reader(fetcher, task["id"]) as reader:
        reader.recv(100)
        jti = agent.rows()[before].cells["root_jti"]
        agent.run(state.revoke(RevocationKind.GRANT, str(jti), not_before=time.time() + 5))
        row = ended(agent, before)
        received = 0
        while piece := reader.recv(1 << 20):
            received += len(piece)
    assert row["reason"] == "GRANT_REVOKED"
    assert 0 < row["bytes_released"] < described(task)["size"]
    assert received < described(task)["size"]
    assert open_files(agent) == []


@pytest.mark.usefixtures("often")
def test_a_root_token_that_ends_meanwhile_ends_the_stream(
    agent: RunningAgent, fetcher: Fetcher, task: dict[str, Any]
) -> None:
    before, service = len(agent.rows()), agent.lifecycle.service
    clock = service.clock
    with lazy_reader(fetcher, task["id"]) as reader:
        reader.recv(100)
        service.clock = lambda: time.time() + 400
        try:
            row = ended(agent, before)
        finally:
            service.clock = clock
    assert row["reason"] == "GRANT_EXPIRED"


@pytest.mark.usefixtures("often")
def test_a_reader_that_takes_nothing_for_too_long_is_left(
    agent: RunningAgent, fetcher: Fetcher, task: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results_release, "STALL_S", 0.1)
    before = len(agent.rows())
    with lazy_reader(fetcher, task["id"]):
        row = ended(agent, before)
    assert row["reason"] == "CANCELLED"
    until(lambda: open_files(agent) == [])


def test_many_download_at_once_and_each_gets_all_of_it(
    agent: RunningAgent, fetcher: Fetcher, task: dict[str, Any]
) -> None:
    before = len(agent.rows())
    with ThreadPoolExecutor(8) as threads:
        bodies = list(threads.map(lambda _: fetcher.fetch(task).content, range(8)))
    assert {sha256_hex(body) for body in bodies} == {described(task)["sha256"]}
    kinds = sorted(str(row.cells["kind"]) for row in agent.rows()[before:])
    assert kinds == ["release_started"] * 8 + ["terminal"] * 8
    assert open_files(agent) == []


def test_more_downloads_than_there_may_be_are_sent_away(
    agent: RunningAgent, fetcher: Fetcher, task: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent.lifecycle.service.spool._readers, "most", 1)
    with lazy_reader(fetcher, task["id"]) as reader:
        reader.recv(100)
        response = fetcher.fetch(task)
    assert response.status_code == 503
    assert response.json()["decision"]["reason"] == "RESULT_STORE_UNAVAILABLE"
    until(lambda: open_files(agent) == [])
    assert fetcher.fetch(task, range="bytes=0-9").status_code == 206


def test_what_expires_while_it_is_read_is_read_to_its_end(agent: RunningAgent, fetcher: Fetcher) -> None:
    waiting = fetcher.large(ROWS, accept=ARROW)
    spool = agent.lifecycle.service.spool
    path = spool._held[waiting["id"]].sealed.path
    with lazy_reader(fetcher, waiting["id"]) as reader:
        reader.recv(100)
        spool.drop(waiting["id"])
        assert not path.exists()
        body = rest_of(reader)
    assert len(body) > described(waiting)["size"] - 100
