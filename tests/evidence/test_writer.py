"""The writer of a ledger: rows of other processes, each written once before its receipt, or not released."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import orjson
import pytest

from contract.key_ring import KeyRing
from contract.verdict import NotGranted, Reason
from evidence import ledger as ledger_module
from evidence import writer_client, writer_process
from evidence.checkpoint import Receipt
from evidence.entry import plain
from evidence.frames import LOST, framed
from evidence.reader import LedgerFile
from evidence.verify import verify_ledger
from evidence.writer_process import WriterProcess
from tests.evidence.evidence_builders import SeedSigner, head_as_sql, make_row, open_ledger, tamper
from tests.evidence.writer_world import CHILD, child_writer, connected, outcome, thread_writer, using

KEY = SeedSigner().public_key


def names(folder: Path) -> list[str]:
    return [str(entry.cells["request_id"]) for entry in LedgerFile(folder / "ledger.db").rows()]


async def test_rows_that_wait_together_come_back_with_their_own_receipts(tmp_path: Path) -> None:
    with thread_writer(open_ledger(tmp_path)) as place:
        ledger = using(tmp_path, place)
        await connected(ledger)
        first = ledger.size
        receipts = await asyncio.gather(*(ledger.append_async(make_row(number)) for number in range(40)))
        assert [receipt.index for receipt in receipts] == list(range(first, first + 40))
        assert all(receipt.holds((KEY,)) for receipt in receipts)
        ledger.close()
    report = verify_ledger(tmp_path / "ledger.db", KEY, receipt=receipts[-1])
    assert (report.ok, report.size) == (True, first + 40)


async def test_the_writer_conceals_a_row_as_the_process_itself_does(tmp_path: Path) -> None:
    with thread_writer(open_ledger(tmp_path)) as place:
        ledger = using(tmp_path, place)
        await connected(ledger)
        elsewhere = await ledger.append_async(make_row(7))
        here = ledger.append(make_row(7))
        entries = [ledger.get(receipt.index) for receipt in (elsewhere, here)]
        random = {"salt", "subject_commitment", "call_commitment", "result_commitment"}
        told = [{name: cell for name, cell in entry.cells.items() if name not in random} for entry in entries if entry]
        assert told[0] == told[1]
        person = ("https://issuer.dataset-agent.example", "u-eng-01")
        found = {entry.index: opening for entry, opening in ledger.entries_of(person)}
        assert (found[elsewhere.index], found[here.index]) == (elsewhere.opening, here.opening)
        ledger.close()


async def test_thirty_two_clients_lose_and_repeat_nothing(tmp_path: Path) -> None:
    with thread_writer(open_ledger(tmp_path)) as place:
        ledgers = [using(tmp_path, place) for _ in range(32)]
        for ledger in ledgers:
            await connected(ledger)
        before = ledgers[0].size
        rows = (outcome(ledger, number, f"c{at}") for at, ledger in enumerate(ledgers) for number in range(8))
        receipts = await asyncio.gather(*rows)
        indexes = [receipt.index for receipt in receipts if isinstance(receipt, Receipt)]
        assert sorted(indexes) == list(range(before, before + 256))
        for ledger in ledgers:
            ledger.close()
    assert sorted(names(tmp_path)[before:]) == sorted(f"c{at}-{number}" for at in range(32) for number in range(8))
    assert verify_ledger(tmp_path / "ledger.db", KEY).ok


@pytest.mark.parametrize("pause", [0.0, 0.004])
async def test_a_writer_killed_while_rows_wait_loses_no_receipt_and_writes_none_twice(
    tmp_path: Path, pause: float
) -> None:
    open_ledger(tmp_path).close()
    with child_writer(tmp_path) as place:
        ledger = using(tmp_path, place)
        await connected(ledger)
        waiting = [asyncio.create_task(outcome(ledger, number)) for number in range(64)]
        await asyncio.sleep(pause)
        assert place.pid is not None
        os.kill(place.pid, signal.SIGKILL)
        waiting += [asyncio.create_task(outcome(ledger, number)) for number in range(64, 128)]
        outcomes = await asyncio.gather(*waiting)
        ledger.close()
    written = names(tmp_path)
    for number, told in enumerate(outcomes):
        if isinstance(told, Receipt):
            assert told.holds((KEY,))
            assert written[told.index] == f"row-{number}"
        else:
            assert told.reason is Reason.EVIDENCE_UNAVAILABLE
    assert all(written.count(f"row-{number}") <= 1 for number in range(128))
    assert verify_ledger(tmp_path / "ledger.db", KEY).ok


async def test_a_writer_that_died_is_started_again_and_nobody_waits_for_it(tmp_path: Path) -> None:
    with child_writer(tmp_path) as place:
        ledger = using(tmp_path, place)
        await connected(ledger)
        first = place.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        while ledger._writer is not None and ledger._writer.connected:
            await asyncio.sleep(0.001)
        receipt = await ledger.append_async(make_row(1, request_id="meanwhile"))
        assert names(tmp_path)[receipt.index] == "meanwhile"
        await connected(ledger)
        assert place.pid != first
        assert isinstance(await outcome(ledger, 2), Receipt)
        ledger.close()


async def test_a_writer_that_hangs_is_left_and_releases_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_client, "_PATIENCE", 0.05)
    with child_writer(tmp_path) as place:
        ledger = using(tmp_path, place)
        await connected(ledger)
        assert place.pid is not None
        os.kill(place.pid, signal.SIGSTOP)
        told = await outcome(ledger, 0, "hung")
        assert isinstance(told, NotGranted)
        assert told.reason is Reason.EVIDENCE_UNAVAILABLE
        os.kill(place.pid, signal.SIGCONT)
        ledger.close()
    assert names(tmp_path).count("hung-0") <= 1


async def test_rows_one_by_one_are_committed_here_until_one_waits_beside_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_module, "_SLOW_SECONDS", 1_000.0)
    written = open_ledger(tmp_path)
    with thread_writer(written) as place:
        ledger = using(tmp_path, place)
        await connected(ledger)
        for number in range(20):
            assert isinstance(await outcome(ledger, number), Receipt)
        written._store.connection.execute("PRAGMA query_only=ON")  # the writer cannot write, this process can
        assert isinstance(await outcome(ledger, 20), Receipt)
        pair = await asyncio.gather(outcome(ledger, 21), outcome(ledger, 22))
        assert [isinstance(one, NotGranted) for one in pair] == [True, True]
        assert isinstance(await outcome(ledger, 23), NotGranted)
        ledger.close()
    assert names(tmp_path) == [f"row-{number}" for number in range(21)]


async def test_a_loop_that_a_slow_disk_held_up_leaves_the_next_rows_to_the_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_module, "_SLOW_SECONDS", 0.0)
    monkeypatch.setattr(ledger_module, "_SPARED", 1_000_000)
    written = open_ledger(tmp_path)
    with thread_writer(written) as place:
        ledger = using(tmp_path, place)
        await connected(ledger)
        for number in range(20):
            assert isinstance(await outcome(ledger, number), Receipt)
        written._store.connection.execute("PRAGMA query_only=ON")
        assert isinstance(await outcome(ledger, 20), NotGranted)
        ledger.close()


async def test_another_process_that_writes_is_not_waited_for_by_the_loop(tmp_path: Path) -> None:
    with thread_writer(open_ledger(tmp_path)) as place:
        ledger = using(tmp_path, place)
        await connected(ledger)
        for number in range(20):
            await outcome(ledger, number)
        other = sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        waiting = asyncio.ensure_future(outcome(ledger, 20))
        for _ in range(20):
            await asyncio.sleep(0.001)
        assert not waiting.done()
        other.execute("ROLLBACK")
        other.close()
        assert isinstance(await waiting, Receipt)
        ledger.close()


async def test_a_full_disk_withholds_every_answer_and_keeps_what_was_written(tmp_path: Path) -> None:
    open_ledger(tmp_path).close()
    with child_writer(tmp_path, "300000") as place:
        ledger = using(tmp_path, place)
        await connected(ledger)
        told: list[Receipt | NotGranted] = []
        for first in range(0, 100, 2):
            told += await asyncio.gather(*(outcome(ledger, number) for number in (first, first + 1)))
        stopped = [one for one in told if isinstance(one, NotGranted)]
        assert {one.reason for one in stopped} == {Reason.EVIDENCE_UNAVAILABLE}
        ledger.close()
    kept = [receipt for receipt in told if isinstance(receipt, Receipt)]
    report = verify_ledger(tmp_path / "ledger.db", KEY, receipt=kept[-1])
    assert (report.ok, report.size) == (True, kept[-1].index + 1)


async def test_a_ledger_that_became_read_only_withholds_and_recovers(tmp_path: Path) -> None:
    written = open_ledger(tmp_path)
    with thread_writer(written) as place:
        ledger = using(tmp_path, place)
        await connected(ledger)
        size = ledger.size
        written._store.connection.execute("PRAGMA query_only=ON")
        told = await asyncio.gather(*(outcome(ledger, number) for number in range(3)))
        assert [getattr(one, "reason", None) for one in told] == [Reason.EVIDENCE_UNAVAILABLE] * 3
        written._store.connection.execute("PRAGMA query_only=OFF")
        assert (await ledger.append_async(make_row(9))).index == size
        ledger.close()


async def test_the_writer_signs_with_the_key_that_each_agent_asks_for_and_with_no_other(tmp_path: Path) -> None:
    old, new, stranger = SeedSigner(1), SeedSigner(2), SeedSigner(3)
    with thread_writer(open_ledger(tmp_path, old), old, new) as place:
        ring = KeyRing(old)
        ledger = using(tmp_path, place, ring)
        await connected(ledger)
        waiting = [asyncio.create_task(outcome(ledger, number)) for number in range(3)]
        for signer in (stranger, new):
            await asyncio.sleep(0)
            ring.take(KeyRing(signer))
            waiting += [asyncio.create_task(outcome(ledger, number)) for number in range(3)]
        told = await asyncio.gather(*waiting)
        assert [isinstance(one, Receipt) and one.checkpoint.verifies((old.public_key,)) for one in told[:3]] == [
            True
        ] * 3
        assert [isinstance(one, NotGranted) for one in told[3:6]] == [True] * 3
        assert [isinstance(one, Receipt) and one.checkpoint.verifies((new.public_key,)) for one in told[6:]] == [
            True
        ] * 3
        ledger.close()
    assert verify_ledger(tmp_path / "ledger.db", (new.public_key, old.public_key)).ok


async def test_a_caller_that_leaves_has_written_its_row(tmp_path: Path) -> None:
    with thread_writer(open_ledger(tmp_path)) as place:
        ledger = using(tmp_path, place)
        await connected(ledger)
        task = asyncio.create_task(outcome(ledger, 1, "left"))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await outcome(ledger, 2, "stays")
        assert names(tmp_path)[-2:] == ["left-1", "stays-2"]
        ledger.close()


async def test_a_younger_writer_does_not_go_on_in_a_ledger_that_was_rolled_back(tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path)
    await ledger.append_async(make_row(0))
    earlier = head_as_sql(tmp_path)
    with thread_writer(open_ledger(tmp_path)) as place:
        ledger.use(place)
        await connected(ledger)
        assert isinstance(await outcome(ledger, 1), Receipt)
        size = ledger.size
        ledger._writer.close()  # type: ignore[union-attr]
    tamper(tmp_path, "DELETE FROM entries WHERE idx > 0", earlier)
    assert size > 1
    with thread_writer(open_ledger(tmp_path)) as place:
        ledger.use(place)
        for _ in range(20):  # by whichever of the two: nothing is released
            assert isinstance(await outcome(ledger, 2), NotGranted)
            await asyncio.sleep(0.01)
        with pytest.raises(NotGranted):
            ledger.health()
        ledger.close()


async def test_a_writer_of_another_file_is_not_written_to(tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path)
    await ledger.append_async(make_row(0))
    for suffix in ("", "-wal", "-shm"):
        Path(f"{ledger.path}{suffix}").rename(f"{ledger.path}.moved{suffix}")
    with thread_writer(open_ledger(tmp_path)) as place:
        ledger.use(place)
        for _ in range(20):
            assert isinstance(await outcome(ledger, 1), NotGranted)
            await asyncio.sleep(0.01)
        assert names(tmp_path) == []
        ledger.close()


async def test_a_client_that_sends_nonsense_is_left_and_the_others_are_served(tmp_path: Path) -> None:
    with thread_writer(open_ledger(tmp_path)) as place:
        ledger = using(tmp_path, place)
        await connected(ledger)
        key, row = KEY.raw.hex(), orjson.loads(orjson.dumps(plain(make_row(0))))
        bodies: list[object] = [
            [],
            7,
            [key, []],
            [key, {}],
            [key, [{}]],
            [["a"], [row]],
            [key, [row | {"more": 1}]],
            [key, [row, 1]],
        ]
        strange: tuple[object, ...] = ({}, 1.5, [1])
        bodies += [[key, [row | {name: value}]] for name in ("subject", "event_ids") for value in strange]
        for nonsense in (b"\xff" * 8, framed(b"no json"), *(framed(orjson.dumps(body)) for body in bodies)):
            with socket.socket(socket.AF_UNIX) as line:
                line.connect(str(place.address))
                line.sendall(nonsense)
                assert line.recv(100) in (b"", framed(LOST))
        assert isinstance(await outcome(ledger, 1), Receipt)
        ledger.close()


def test_a_writer_ends_with_the_process_that_started_it_however_that_ends(tmp_path: Path) -> None:
    program = (
        "import sys, time; from evidence.writer_process import WriterProcess\n"
        f"place = WriterProcess([sys.executable, {str(CHILD)!r}, {str(tmp_path)!r}])\n"
        "place.ensure(); print(place.pid, flush=True); time.sleep(60)"
    )
    house = Path(__file__).resolve().parents[2]
    with subprocess.Popen([sys.executable, "-c", program], cwd=house, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        writer = int(parent.stdout.readline())
        parent.kill()
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and _runs(writer):
        time.sleep(0.01)
    assert not _runs(writer)


def _runs(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def test_a_writer_that_dies_at_once_is_started_ever_more_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(writer_process, "time", SimpleNamespace(monotonic=lambda: now))
    place = WriterProcess(["false"])
    started: dict[int | None, float] = {}
    try:
        for _ in range(32):
            place.ensure()
            started.setdefault(place.pid, now - 100.0)
            assert place._process is not None
            place._process.wait(30)
            now += 0.5
    finally:
        place.close()
    assert list(started.values()) == [0.0, 0.5, 1.5, 3.5, 7.5, 15.5]
    assert not place.address.parent.exists()


def test_a_folder_whose_name_is_too_long_for_a_socket_is_told_and_left_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("long" * 25)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    with pytest.raises(OSError, match="too long a name"):
        WriterProcess(["unused"])
    assert not any(deep.iterdir())
