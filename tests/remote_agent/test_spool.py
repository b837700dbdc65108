"""What the spool promises of a disk: nothing readable, nothing left behind, never more than its bounds."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import time
import weakref
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import httpx
import pytest
from google.adk.sessions import InMemorySessionService
from hypothesis import given, settings
from hypothesis import strategies as st

from contract.call import Operation
from contract.canonical import sha256_hex
from contract.result import StoredResult
from contract.settings import Settings
from contract.verdict import NotGranted, Reason
from remote_agent.results_range import Unsatisfiable, span_of
from remote_agent.spool import Held, Spool, Terms
from remote_agent.spool_file import CHUNK, ChunkReader, ChunkWriter, Damaged, stored_size
from tests.authority_builder import make_authority
from tests.engine_taps import tap
from tests.large_world import ARROW, DATASET, MARKER, Fetcher, large_agent, part_of
from tests.running_agent import RunningAgent, decision_of, message

ROWS = 30_000
OWNER = Terms(make_authority(), "t").owner


def spool_at(folder: Path, **bounds: Any) -> Spool:
    found = Settings(home=folder, **bounds)
    return Spool.open(found, clock=time.time)


def files_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and path.name != "lock"]


def kept(spool: Spool, name: str, body: bytes, **whose: Any) -> Held:
    """A whole result in the spool."""
    terms = Terms(make_authority(**whose), "t")
    writing = spool.begin(name, terms.owner)
    try:
        writing.write(body)
        sealed = writing.finish()
    except NotGranted:
        writing.discard()
        raise
    told = StoredResult(name, "", ARROW, sealed.digest, sealed.size, 1, False, "2026-01-01T00:00:00Z", spool.expiry())
    writing.keep(sealed, told, terms)
    return spool._held[name]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 2 * CHUNK // 3), max_size=6))
def test_what_was_written_in_any_pieces_is_read_chunk_by_chunk(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int]
) -> None:
    body = b"".join(bytes([place]) * size for place, size in enumerate(sizes))
    path = tmp_path_factory.mktemp("chunks") / "file"
    writer = ChunkWriter(path, "task-1")
    at = 0
    for size in sizes:
        writer.write(body[at : at + size])
        at += size
    sealed = writer.finish()
    assert (sealed.digest, sealed.size) == (sha256_hex(body), len(body))
    assert path.stat().st_size == sealed.stored == stored_size(len(body))
    reader = ChunkReader(sealed)
    assert b"".join(reader.read(number) for number in range(max(1, -(-len(body) // CHUNK)))) == body
    reader.close()


@pytest.mark.parametrize("size", [1, CHUNK, CHUNK + 1, 3 * CHUNK])
def test_no_plaintext_reaches_the_disk(tmp_path: Path, size: int) -> None:
    writer = ChunkWriter(tmp_path / "file", "task-1")
    writer.write((MARKER.encode() * (size // len(MARKER) + 1))[:size])
    writer.finish()
    assert MARKER[:8].encode() not in (tmp_path / "file").read_bytes()


def test_no_two_results_have_a_key_in_common(tmp_path: Path) -> None:
    keys = {ChunkWriter(tmp_path / str(n), "task-1").finish().key for n in range(8)}
    assert len(keys) == 8


def test_a_key_is_in_no_representation(tmp_path: Path) -> None:
    writer = ChunkWriter(tmp_path / "file", "task-1")
    sealed = writer.finish()
    assert sealed.key.hex() not in repr(sealed)
    assert repr(sealed.key) not in repr(sealed)


def test_a_chunk_opens_at_its_own_place_only(tmp_path: Path) -> None:
    writer = ChunkWriter(tmp_path / "file", "task-1")
    writer.write(b"a" * (2 * CHUNK + 5))
    sealed = writer.finish()
    for name, size in (("task-2", sealed.size), ("task-1", sealed.size - CHUNK), ("task-1", sealed.size - 1)):
        other = type(sealed)(sealed.path, name, sealed.key, sealed.digest, size)
        with contextlib.closing(ChunkReader(other)) as reader, pytest.raises(Damaged):
            list(map(reader.read, range(-(-size // CHUNK))))


async def test_folders_and_files_are_their_owners_only(tmp_path: Path) -> None:
    spool = spool_at(tmp_path)
    held = kept(spool, "task-1", b"rows")
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (held.sealed.path, *held.sealed.path.parents[:2])]
    assert modes == [0o600, 0o700, 0o700]


async def test_what_a_dead_process_left_is_gone_at_the_next_start_and_a_living_ones_is_not(tmp_path: Path) -> None:
    living, spooled = spool_at(tmp_path), tmp_path / "remote" / "spool"
    kept(living, "task-1", b"rows of the living")
    dead = spooled / "1-dead"
    dead.mkdir()
    (dead / "lock").touch()
    (dead / "some-result").write_bytes(b"ciphertext")
    unlocked = spooled / "2-older"
    unlocked.mkdir()
    spool_at(tmp_path)
    assert [path.read_bytes() != b"" for path in files_below(spooled)] == [True]
    assert living._held["task-1"].sealed.path.exists()
    assert not dead.exists()
    assert not unlocked.exists()


def test_a_process_that_is_killed_leaves_nothing_that_can_be_read(tmp_path: Path) -> None:
    program = f"""
import asyncio, time
from pathlib import Path
from tests.remote_agent.test_spool import kept, spool_at
async def main():
    kept(spool_at(Path({str(tmp_path)!r})), "task-1", b"{MARKER}" * 100_000)
    print("kept", flush=True)
    time.sleep(60)
asyncio.run(main())
"""
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, cwd=Path(__file__).parents[2])
    assert process.stdout is not None
    assert process.stdout.readline() == b"kept\n"
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    (left,) = files_below(tmp_path / "remote" / "spool")
    assert MARKER.encode() not in left.read_bytes()
    spool_at(tmp_path)
    assert files_below(tmp_path) == []


async def test_a_spool_that_is_closed_leaves_nothing(tmp_path: Path) -> None:
    spool = spool_at(tmp_path)
    kept(spool, "task-1", b"rows")
    spool.close()
    assert (files_below(tmp_path), spool.used) == ([], 0)


async def test_room_is_counted_while_it_is_written_and_given_back(tmp_path: Path) -> None:
    spool = spool_at(tmp_path, spool_max_bytes=3 * CHUNK)
    kept(spool, "task-1", b"x" * CHUNK)
    writing = spool.begin("task-2", OWNER)
    writing.write(b"x" * CHUNK)
    assert spool.used == 2 * stored_size(CHUNK)
    with pytest.raises(NotGranted) as full:
        writing.write(b"x" * CHUNK)
    assert full.value.reason is Reason.RESULT_STORE_UNAVAILABLE
    writing.discard()
    assert spool.used == stored_size(CHUNK)
    spool.drop("task-1")
    assert (spool.used, files_below(tmp_path)) == (0, [])


async def test_one_result_has_its_own_bound(tmp_path: Path) -> None:
    spool = spool_at(tmp_path, spool_max_result_bytes=2**20)
    writing = spool.begin("task-1", OWNER)
    writing.write(b"x" * 2**20)
    with pytest.raises(NotGranted) as large:
        writing.write(b"x")
    assert large.value.reason is Reason.RESULT_TOO_LARGE
    writing.discard()
    writing.discard()
    assert (spool.used, files_below(tmp_path)) == (0, [])


async def test_a_later_result_of_a_task_replaces_the_earlier_one(tmp_path: Path) -> None:
    spool = spool_at(tmp_path)
    first = kept(spool, "task-1", b"first")
    kept(spool, "task-1", b"second")
    assert not first.sealed.path.exists()
    assert spool.used == stored_size(len(b"second"))


async def test_what_expired_is_dropped_while_the_process_runs(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "s", max_bytes=2**30, max_result_bytes=2**30, ttl=-0.99, clock=time.time)
    kept(spool, "task-1", b"rows")
    await asyncio.sleep(0.1)
    assert (files_below(tmp_path), spool.used, dict(spool._held)) == ([], 0, {})


async def test_too_many_results_are_too_many_however_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("remote_agent.spool.MAX_RESULTS", 1)
    spool = spool_at(tmp_path)
    kept(spool, "task-1", b"rows")
    with pytest.raises(NotGranted) as full:
        spool.begin("task-2", OWNER)
    assert full.value.reason is Reason.RESULT_STORE_UNAVAILABLE


def test_a_place_that_cannot_be_used_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "remote").mkdir()
    (tmp_path / "remote" / "spool").write_text("in the way")
    with pytest.raises(Exception, match="make it a folder"):
        spool_at(tmp_path)


@given(st.integers(1, 10**6), st.integers(0, 2 * 10**6), st.integers(0, 2 * 10**6) | st.none())
def test_a_span_is_what_a_slice_would_be(size: int, first: int, last: int | None) -> None:
    try:
        span = span_of(f"bytes={first}-{'' if last is None else last}", size)
    except Unsatisfiable:
        assert first >= size or (last is not None and last < first)
        return
    assert (span.first, span.last + 1) == (first, min(size, size if last is None else last + 1))
    assert 0 < span.length <= size


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    seen: list[str] = []
    append = InMemorySessionService.append_event

    async def recording(self: InMemorySessionService, session: Any, event: Any) -> Any:
        seen.append(event.model_dump_json())
        return await append(self, session, event)

    monkeypatch.setattr(InMemorySessionService, "append_event", recording)
    return seen


def on_disk(home: Path) -> str:
    """The bytes of every file a run left, and the text of every table; keys and engine files aside."""
    found = []
    for path in home.rglob("*"):
        if path.is_file() and not {"keys", "engines"} & set(path.relative_to(home).parts):
            found.append(path.read_bytes().decode("latin-1"))
            if path.suffix == ".sqlite":
                with sqlite3.connect(path) as connection:
                    found.append("\n".join(connection.iterdump()))
    return "\n".join(found)


def test_rows_that_are_fetched_are_in_no_log_session_task_or_file(
    tmp_path: Path, events: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with large_agent(tmp_path, rows=ROWS) as agent:
        fetcher = Fetcher(agent.settings, agent.url)
        tasks = [fetcher.large(), fetcher.large(accept=ARROW)]
        grants = [fetcher.leaf(task["id"]) for task in tasks]
        bodies = [fetcher.fetch(task, grant=grant) for task, grant in zip(tasks, grants, strict=True)]
        stored = fetcher.rpc("ListTasks", {"includeArtifacts": True}, fetcher.headers()).text
        disk = on_disk(agent.settings.home)
    assert all(MARKER.encode() in body.content for body in bodies)
    assert events
    secrets = [MARKER, *(token for grant in grants for token in grant.split(","))]
    for place, text in {"log": caplog.text, "sessions": "".join(events), "tasks": stored, "disk": disk}.items():
        assert [secret for secret in secrets if secret in text] == [], place


@contextlib.contextmanager
def own(folder: Path, **bounds: Any) -> Iterator[tuple[RunningAgent, Fetcher]]:
    with large_agent(folder, rows=ROWS, **bounds) as agent:
        yield agent, Fetcher(agent.settings, agent.url)


def test_an_agent_that_keeps_nothing_refuses_what_is_large_and_offers_no_arrow(tmp_path: Path) -> None:
    with own(tmp_path, spool_max_bytes=0) as (agent, fetcher):
        assert decision_of(fetcher.large())["reason"] == "RESULT_TOO_LARGE"
        assert decision_of(fetcher.large(5, accept=ARROW))["reason"] == "RESULT_STORE_UNAVAILABLE"
        assert "raw" in part_of(fetcher.large(5))
        assert not (agent.settings.home / "remote" / "spool").exists()


def test_a_full_spool_is_no_verdict_about_the_person_and_small_results_go_on(tmp_path: Path) -> None:
    with own(tmp_path, spool_max_bytes=3 * 2**20) as (agent, fetcher):
        first = fetcher.large()
        refused = decision_of(fetcher.large())
        assert (refused["verdict"], refused["reason"]) == ("INDETERMINATE", "RESULT_STORE_UNAVAILABLE")
        assert decision_of(fetcher.large(10))["verdict"] == "GRANTED"
        assert fetcher.fetch(first).status_code == 200
        assert agent.lifecycle.service.spool.used == sum(
            path.stat().st_size for path in files_below(agent.settings.home / "remote" / "spool")
        )


def test_a_query_that_fails_at_its_end_leaves_nothing(tmp_path: Path) -> None:
    with own(tmp_path) as (agent, fetcher):
        service = agent.lifecycle.service

        async def fail(_: Any) -> None:
            assert service.spool.used > 2**20
            raise RuntimeError("cell zebra")

        tap(service.world.datasets[DATASET].engine, after=fail)
        assert decision_of(fetcher.large())["reason"] == "EXECUTION_FAILED"
        assert service.spool.used == 0
        assert files_below(agent.settings.home / "remote" / "spool") == []


def test_a_caller_who_leaves_while_it_is_written_leaves_nothing(tmp_path: Path) -> None:
    with own(tmp_path) as (agent, fetcher):
        service = agent.lifecycle.service

        async def wait(_: Any) -> None:
            await asyncio.sleep(30)

        tap(service.world.datasets[DATASET].engine, after=wait)
        call = fetcher.call(DATASET, "list", {"below": ROWS})
        grant = fetcher.grant(fetcher.scope(DATASET, "list"), Operation("SendMessage", call_hash=sha256_hex(call)))
        body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message(call)}}
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(agent.url + "/", json=body, headers=fetcher.headers(grant), timeout=0.5)
        deadline = time.monotonic() + 10
        while not agent.rows() and time.monotonic() < deadline:
            time.sleep(0.02)
        assert [row.cells["reason"] for row in agent.rows()] == ["CANCELLED"]
        assert service.spool.used == 0
        assert files_below(agent.settings.home / "remote" / "spool") == []


async def test_what_waits_keeps_nothing_else_of_the_request_that_made_it(tmp_path: Path) -> None:
    class Anything:
        pass

    held: ContextVar[Anything] = ContextVar("held")
    spool = spool_at(tmp_path)

    async def request() -> weakref.ref[Anything]:
        held.set(Anything())
        kept(spool, "task-1", b"x")
        return weakref.ref(held.get())

    left = await asyncio.create_task(request())
    await asyncio.sleep(0)  # the loop itself has the last step's until its next
    gc.collect()
    assert left() is None
    spool.close()
