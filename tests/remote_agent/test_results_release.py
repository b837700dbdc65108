"""What happens between two pieces of a result that is streamed: each question is asked, and its answer is heeded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from contract.call import ARROW_MEDIA_TYPE, GET_RESULTS, Operation
from contract.result import StoredResult
from contract.verdict import NotGranted, Reason
from evidence.row import LedgerRow
from remote_agent import results_release
from remote_agent.believing import Basis
from remote_agent.measures import Measures
from remote_agent.outcome import Request
from remote_agent.results_range import span_of
from remote_agent.results_release import Broken, Release
from remote_agent.results_trail import ReleaseTrail
from remote_agent.service import Service
from remote_agent.spool import Held, Terms
from remote_agent.spool_file import CHUNK, ChunkReader, ChunkWriter
from tests.authority_builder import NOW, REMOTE, ROOT, make_authority

BODY = b"".join(bytes([number]) * CHUNK for number in (1, 2, 3))


@dataclass
class Stage:
    """A release of three chunks, what is asked meanwhile, what is recorded, and what came out, in order."""

    happened: list[Any] = field(default_factory=list)
    recheck: Callable[[], None] = lambda: None
    record: Callable[[], None] = lambda: None
    release: Release = field(init=False)
    service: Any = None

    async def ask(self, *_: Any, **__: Any) -> None:
        self.happened.append("asked")
        self.recheck()

    async def append(self, row: LedgerRow) -> None:
        self.record()
        self.happened.append((row.reason, row.bytes_released))

    async def begin(self, _: Release) -> None:
        return

    async def send(self, data: bytes, ends: bool) -> None:
        self.happened.append(data[:1])

    def distrust(self) -> None:
        """The trust file is replaced by one that has no agent."""
        self.service.trust = SimpleNamespace(agent=lambda _: None)

    @property
    def rows(self) -> list[Any]:
        return [event for event in self.happened if isinstance(event, tuple)]

    @property
    def sent(self) -> list[Any]:
        return [event for event in self.happened if isinstance(event, bytes)]


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    writer = ChunkWriter(tmp_path / "file", "task-1")
    writer.write(BODY)
    sealed = writer.finish()
    authority = make_authority()
    told = StoredResult("task-1", "", ARROW_MEDIA_TYPE, sealed.digest, sealed.size, 1, False, "", float(NOW))
    held = Held(sealed, told, Terms(authority, "e" * 64), released=True)
    request = Request(client=ROOT, operation=Operation(GET_RESULTS, task="task-1"), grants=(), trace_id="0" * 32)
    trail, made = ReleaseTrail(request, held=held, authority=authority), Stage()
    service = SimpleNamespace(
        state=SimpleNamespace(recheck=made.ask),
        ledger=SimpleNamespace(append_async=made.append),
        trust=None,
        world=SimpleNamespace(policy_version="1", evaluator=SimpleNamespace(version=lambda: "1")),
        clock=lambda: float(NOW),
        agent_id=REMOTE,
        measures=Measures(),
    )
    files = ExitStack()
    reader = ChunkReader(sealed)
    files.callback(reader.close)
    async with AsyncExitStack() as leaving:
        leaving.callback(files.close)
        span, first = span_of(None, sealed.size), reader.read(0)
        made.service = asked = cast(Service, service)
        basis = Basis.of(trail.request, asked)
        made.release = Release(trail, held, authority, basis, span, reader, first, files, asked)
        yield made


def _revoked() -> None:
    raise NotGranted(Reason.GRANT_REVOKED, "revoked")


async def test_the_row_of_the_end_is_there_before_the_last_piece(stage: Stage) -> None:
    await stage.release.stream(stage.begin, stage.send)
    assert stage.happened == [b"\x01", b"\x02", ("PRINCIPAL_AUTHORIZED", len(BODY)), b"\x03"]


async def test_a_last_piece_whose_row_cannot_be_written_stays_here(stage: Stage) -> None:
    def lost() -> None:
        raise NotGranted(Reason.EVIDENCE_UNAVAILABLE, "no room")

    stage.record = lost
    with pytest.raises(Broken):
        await stage.release.stream(stage.begin, stage.send)
    assert stage.sent == [b"\x01", b"\x02"]


async def test_a_reader_that_is_fast_is_asked_about_between_pieces(stage: Stage) -> None:
    stage.recheck = _revoked
    stage.release._asked -= 3_600
    with pytest.raises(Broken):
        await stage.release.stream(stage.begin, stage.send)
    assert stage.happened == ["asked", ("GRANT_REVOKED", 0)]


async def test_a_reader_that_is_slow_is_asked_about_while_it_takes_a_piece(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results_release, "RECHECK_S", 0.01)
    monkeypatch.setattr(results_release, "STALL_S", 2.0)
    taking = asyncio.Event()

    async def slow(data: bytes, ends: bool) -> None:
        taking.set()
        await asyncio.Event().wait()

    stage.recheck = lambda: _revoked() if taking.is_set() else None
    with pytest.raises(Broken):
        await stage.release.stream(stage.begin, slow)
    assert stage.rows == [("GRANT_REVOKED", 0)]


async def test_a_reader_that_takes_nothing_is_left(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results_release, "RECHECK_S", 0.01)
    monkeypatch.setattr(results_release, "STALL_S", 0.0)

    async def never(data: bytes, ends: bool) -> None:
        await asyncio.Event().wait()

    async with asyncio.timeout(30):
        with pytest.raises(Broken):
            await stage.release.stream(stage.begin, never)
    assert stage.rows == [("CANCELLED", 0)]


@pytest.mark.parametrize("taken", [1, 2])
async def test_the_piece_after_the_trust_file_was_replaced_stays_here(stage: Stage, taken: int) -> None:
    async def send(data: bytes, ends: bool) -> None:
        await stage.send(data, ends)
        if len(stage.sent) == taken:
            stage.distrust()

    with pytest.raises(Broken):
        await stage.release.stream(stage.begin, send)
    assert stage.sent == [b"\x01", b"\x02"][:taken]
    assert stage.rows == [("GRANT_KEY_UNTRUSTED", taken * CHUNK)]


async def test_a_reader_that_is_slow_gets_no_more_once_the_trust_file_is_replaced(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results_release, "RECHECK_S", 0.01)
    monkeypatch.setattr(results_release, "STALL_S", 2.0)

    async def slow(data: bytes, ends: bool) -> None:
        stage.distrust()
        await asyncio.Event().wait()

    with pytest.raises(Broken):
        await stage.release.stream(stage.begin, slow)
    assert stage.rows == [("GRANT_KEY_UNTRUSTED", 0)]
