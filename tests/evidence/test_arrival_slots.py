"""The file of a process's requests, and when those of it that have no row are ended: without any process that dies."""

from __future__ import annotations

import asyncio
import fcntl
import mmap
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from contract.verdict import NotGranted
from evidence import arrivals as module
from evidence.arrivals import Arrival, Arrivals, ArrivalsFull
from evidence.attendance import Attendance
from evidence.ledger import Ledger
from tests.evidence.evidence_builders import NOW, make_row
from tests.evidence.test_arrivals import attended, reasons, terminal

PATIENT_S = 20.0


def names(arrivals: Arrivals) -> list[str]:
    return [arrival.request_id for arrival in arrivals.pending()]


def attendance_of(ledger: Ledger) -> Attendance:
    assert ledger._attendance is not None
    return ledger._attendance


def test_nobody_else_reads_the_file_and_a_full_disk_takes_nothing_from_it(tmp_path: Path) -> None:
    arrivals = Arrivals(tmp_path / "arrivals")
    (file,) = (tmp_path / "arrivals").iterdir()
    found = file.stat()
    assert stat.S_IMODE(found.st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert found.st_blocks * 512 >= found.st_size > 0
    arrivals.close()


def test_of_what_a_process_left_only_requests_without_a_row_are_pending(tmp_path: Path) -> None:
    left = Arrivals(tmp_path)
    for name in ("req-0", "req-1", "req-2"):
        left.take(Arrival(name), behind=4)
    left.end("req-1")
    left.lose("req-2")
    left.close()
    found = Arrivals(tmp_path)
    told = sorted(found.pending(), key=lambda arrival: arrival.request_id)
    assert told == [Arrival("req-0", behind=4), Arrival("req-2", behind=4, lost=True)]
    found.settle(told)
    assert (found.are_pending, found.pending()) == (False, [])
    found.close()
    assert list(tmp_path.iterdir()) == []


def test_a_request_that_was_lost_and_has_its_row_after_all_is_pending_no_more(tmp_path: Path) -> None:
    arrivals = Arrivals(tmp_path)
    arrivals.take(Arrival("req-0"), 0)
    arrivals.lose("req-0")
    assert (arrivals.are_pending, names(arrivals)) == (True, ["req-0"])
    arrivals.end("req-0")
    assert (arrivals.are_pending, names(arrivals)) == (False, [])
    arrivals.close()


def test_who_has_its_row_leaves_its_place_to_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SLOTS", 2)
    arrivals = Arrivals(tmp_path)
    for number in range(6):
        arrivals.take(Arrival(f"req-{number}"), 0)
        arrivals.end(f"req-{number}")
    arrivals.take(Arrival("req-6"), 0)
    arrivals.take(Arrival("req-7"), 0)
    with pytest.raises(ArrivalsFull):
        arrivals.take(Arrival("req-8"), 0)
    arrivals.close()


def test_a_request_counts_once_all_of_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is killed in the middle has then taken nothing in."""
    written: list[int | slice] = []

    class Watched(mmap.mmap):
        def __setitem__(self, key: int | slice, value: int | bytes) -> None:  # type: ignore[override]
            written.append(key)
            super().__setitem__(key, value)  # type: ignore[index,assignment]

    monkeypatch.setattr(module.mmap, "mmap", Watched)
    arrivals = Arrivals(tmp_path)
    arrivals.take(Arrival("req-0"), 0)
    *before, last = written
    assert isinstance(last, int)
    assert before and all(isinstance(key, slice) and key.start > last for key in before)
    arrivals.close()


def test_a_file_that_somebody_else_ended_meanwhile_is_not_taken_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = Arrivals(tmp_path)
    left.take(Arrival("req-0"), 0)
    left.close()
    (file,) = tmp_path.iterdir()
    lock = fcntl.flock

    def late(descriptor: int, how: int) -> None:
        if how & fcntl.LOCK_NB:  # between its opening and its lock
            file.unlink()
        lock(descriptor, how)

    monkeypatch.setattr(module.fcntl, "flock", late)
    arrivals = Arrivals(tmp_path)
    monkeypatch.undo()
    assert (arrivals.are_pending, arrivals.pending()) == (False, [])
    arrivals.close()


@pytest.mark.parametrize("length", [0, 7, 2**20 - 1, 2**20 + 1, 2**21])
def test_a_file_of_another_size_is_left_alone(tmp_path: Path, length: int) -> None:
    (tmp_path / "other.slots").write_bytes(b"\x01" * length)
    arrivals = Arrivals(tmp_path)
    assert not arrivals.are_pending
    arrivals.close()
    assert [path.name for path in tmp_path.iterdir()] == ["other.slots"]


def test_rows_are_looked_for_since_the_first_of_the_requests_came(tmp_path: Path) -> None:
    ledger = attended(tmp_path)
    ledger.expect(Arrival("req-7"))
    ledger.append(make_row(7))
    ledger.expect(Arrival("req-8"))
    ledger.close()
    attended(tmp_path).close()
    assert sorted(terminal(tmp_path).items()) == [("req-7", 1), ("req-8", 1)]
    assert reasons(tmp_path)["req-7"] == "PRINCIPAL_AUTHORIZED"


async def lost(ledger: Ledger, number: int) -> None:
    """A request whose row cannot be written; the next one can."""
    ledger.expect(Arrival(f"req-{number}"))
    ledger._store.connection.execute("PRAGMA query_only=ON")  # type: ignore[attr-defined]
    with pytest.raises(NotGranted):
        await ledger.append_async(make_row(number))
    await asyncio.sleep(0)
    ledger._store.connection.execute("PRAGMA query_only=OFF")  # type: ignore[attr-defined]


async def written(ledger: Ledger, number: int) -> None:
    ledger.expect(Arrival(f"req-{number}"))
    await ledger.append_async(make_row(number))
    await asyncio.sleep(0)


async def until(told: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENT_S):
        while not told():
            await asyncio.sleep(0.001)


async def test_a_row_that_is_written_brings_those_that_were_lost(tmp_path: Path) -> None:
    ledger = attended(tmp_path)
    attendance = attendance_of(ledger)
    for number in (0, 10):
        await lost(ledger, number)
        attendance._not_before = 0.0
        await written(ledger, number + 1)
        await until(lambda: not attendance.arrivals.are_pending and attendance._running is None)
    assert sorted(terminal(tmp_path)) == ["req-0", "req-1", "req-10", "req-11"]
    ledger.close()


async def test_those_that_were_lost_are_ended_by_one_at_a_time(tmp_path: Path) -> None:
    ledger = attended(tmp_path)
    attendance = attendance_of(ledger)
    await lost(ledger, 0)
    attendance._not_before = 0.0
    go, runs = threading.Event(), list[float]()

    def slow(now: float) -> int:
        runs.append(now)
        go.wait(30)
        return 0

    attendance.run = slow  # type: ignore[method-assign]
    for number in (1, 2, 3):
        await written(ledger, number)
    assert len(runs) == 1
    go.set()
    await until(lambda: attendance._running is None)
    await written(ledger, 4)
    await until(lambda: attendance._running is None)
    assert len(runs) == 2
    ledger.close()


async def test_a_ledger_that_cannot_be_written_is_tried_again_after_a_while_and_nothing_is_forgotten(
    tmp_path: Path,
) -> None:
    ledger = attended(tmp_path)
    attendance = attendance_of(ledger)
    await lost(ledger, 0)
    ledger._store.connection.execute("PRAGMA query_only=ON")  # type: ignore[attr-defined]
    attendance._not_before = 0.0
    assert attendance.is_due
    assert attendance.run(NOW) == 0
    assert (attendance.is_due, attendance.arrivals.are_pending) == (False, True)
    ledger._store.connection.execute("PRAGMA query_only=OFF")  # type: ignore[attr-defined]
    assert attendance.run(NOW) == 1
    assert reasons(tmp_path) == {"req-0": "EVIDENCE_UNAVAILABLE"}
    ledger.close()
