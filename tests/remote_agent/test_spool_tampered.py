"""Something else in the place of a stored result: nothing waits for it, and nothing but that result is lost."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from remote_agent.spool_file import ChunkReader, ChunkWriter
from tests.large_world import ARROW, Fetcher, large_agent
from tests.running_agent import RunningAgent

ROWS = 30_000


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "in it").touch()


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAgent]:
    with large_agent(tmp_path_factory.mktemp("tampered"), rows=ROWS) as served:
        yield served


def test_a_pipe_in_the_place_of_a_file_is_opened_and_read_without_waiting(tmp_path: Path) -> None:
    writer = ChunkWriter(tmp_path / "file", "task-1")
    writer.write(b"rows")
    sealed = writer.finish()
    _pipe(sealed.path)
    reader = ChunkReader(sealed)
    with pytest.raises(OSError):
        reader.read(0)
    reader.close()


@pytest.mark.parametrize("put", [_pipe, _folder])
def test_what_is_no_file_is_an_unavailable_result_and_the_others_are_served(
    agent: RunningAgent, put: Callable[[Path], None]
) -> None:
    fetcher, spool = Fetcher(agent.settings, agent.url), agent.lifecycle.service.spool
    task, other = fetcher.large(accept=ARROW), fetcher.large(accept=ARROW)
    put(spool._held[task["id"]].sealed.path)
    before = len(agent.rows())
    refused = fetcher.fetch(task)
    assert (refused.status_code, refused.json()["decision"]["reason"]) == (503, "RESULT_STORE_UNAVAILABLE")
    (row,) = agent.rows()[before:]
    assert (row.cells["kind"], row.cells["reason"]) == ("terminal", "RESULT_STORE_UNAVAILABLE")
    assert fetcher.fetch(task).status_code == 404
    assert fetcher.fetch(other).status_code == 200


def test_a_result_that_cannot_be_deleted_keeps_no_other_from_being_swept(agent: RunningAgent) -> None:
    fetcher, spool = Fetcher(agent.settings, agent.url), agent.lifecycle.service.spool
    first, second = (spool._held[fetcher.large(accept=ARROW)["id"]] for _ in range(2))
    _folder(first.sealed.path)
    later = time.time() + spool._ttl + 1
    spool._clock, clock = (lambda: later), spool._clock
    try:
        spool.sweep()
    finally:
        spool._clock = clock
    assert not spool._held
    assert not second.sealed.path.exists()
