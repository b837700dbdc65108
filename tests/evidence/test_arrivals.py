"""A request that was taken in has exactly one terminal row, whoever dies, whatever is full, and whoever was told what."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from contract.errors import DatasetAgentError
from contract.verdict import NotGranted, Reason
from evidence import arrivals as module
from evidence.arrivals import Arrival, Arrivals, ArrivalsFull
from evidence.keeping import rotate
from evidence.ledger import Ledger
from evidence.reader import LedgerFile
from evidence.row import Side
from evidence.verify import verify_ledger
from tests.evidence.evidence_builders import AGENT, NOW, SeedSigner, make_row, open_ledger
from tests.evidence.writer_world import connected, thread_writer, using

KEY = SeedSigner().public_key
ROOT = Path(__file__).resolve().parents[2]


def attended(folder: Path) -> Ledger:
    ledger = open_ledger(folder)
    attend(ledger, folder)
    return ledger


def attend(ledger: Ledger, folder: Path) -> None:
    ledger.attend(folder / "arrivals", side=Side.REMOTE, agent_id=AGENT, now=NOW)


def terminal(folder: Path) -> Counter[str]:
    rows = LedgerFile(folder / "ledger.db").rows()
    return Counter(str(entry.cells["request_id"]) for entry in rows if entry.cells["kind"] == "terminal")


def reasons(folder: Path) -> dict[str, object]:
    return {str(entry.cells["request_id"]): entry.cells["reason"] for entry in LedgerFile(folder / "ledger.db").rows()}


def left_behind(folder: Path) -> list[Path]:
    return list((folder / "arrivals").iterdir())


def die(folder: Path, code: str) -> None:
    """A process that attends a ledger, runs ``code`` and is killed."""
    program = (
        "import asyncio, os, signal, sys\nfrom pathlib import Path\n"
        "from evidence.arrivals import Arrival\n"
        "from tests.evidence.evidence_builders import make_row\n"
        "from tests.evidence.test_arrivals import attended\n"
        f"ledger = attended(Path({str(folder)!r}))\n{code}\nos.kill(os.getpid(), signal.SIGKILL)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False, capture_output=True, text=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr


@pytest.mark.live
def test_requests_of_a_process_that_died_end_when_the_next_one_starts(tmp_path: Path) -> None:
    die(
        tmp_path,
        "ledger.expect(Arrival('req-0', client='urn:a', trace_id='t' * 32, task_id='task-0'))\n"
        "ledger.expect(Arrival('req-1'))\n"
        "async def one():\n    await ledger.append_async(make_row(1))\n    await asyncio.sleep(0)\n"
        "asyncio.run(one())\n"
        "ledger.expect(Arrival('req-2'))\n",
    )
    attended(tmp_path).close()
    assert terminal(tmp_path) == Counter(["req-0", "req-1", "req-2"])
    told = {str(entry.cells["request_id"]): entry.cells for entry in LedgerFile(tmp_path / "ledger.db").rows()}
    assert (told["req-0"]["verdict"], told["req-0"]["reason"]) == ("INDETERMINATE", "EXECUTION_FAILED")
    assert (told["req-0"]["client"], told["req-0"]["trace_id"], told["req-0"]["task_id"]) == (
        "urn:a",
        "t" * 32,
        "task-0",
    )
    assert told["req-1"]["reason"] == "PRINCIPAL_AUTHORIZED"
    assert left_behind(tmp_path) == []
    assert verify_ledger(tmp_path / "ledger.db", KEY).ok


@pytest.mark.live
def test_a_row_that_was_written_before_its_process_could_say_so_is_not_written_again(tmp_path: Path) -> None:
    die(tmp_path, "ledger.expect(Arrival('req-7'))\nledger.append(make_row(7))\n")
    attended(tmp_path).close()
    assert terminal(tmp_path) == Counter(["req-7"])
    assert reasons(tmp_path)["req-7"] == "PRINCIPAL_AUTHORIZED"


@pytest.mark.live
def test_a_row_that_was_rotated_meanwhile_is_found(tmp_path: Path) -> None:
    die(tmp_path, "ledger.expect(Arrival('req-7'))\nledger.append(make_row(7))\n")
    rotate(tmp_path / "ledger.db", (KEY,))
    attended(tmp_path).close()
    assert terminal(tmp_path) == Counter(["req-7"])


@pytest.mark.live
def test_a_release_that_started_and_whose_process_died_ends(tmp_path: Path) -> None:
    die(
        tmp_path,
        "from evidence.row import Kind\n"
        "ledger.expect(Arrival('req-3'))\nledger.append(make_row(3, kind=Kind.RELEASE_STARTED, bytes_released=9))\n",
    )
    attended(tmp_path).close()
    assert terminal(tmp_path) == Counter(["req-3"])


def test_those_of_a_process_that_lives_are_left_to_it(tmp_path: Path) -> None:
    living = attended(tmp_path)
    living.expect(Arrival("req-0"))
    attended(tmp_path).close()
    assert terminal(tmp_path) == Counter()
    living.close()
    attended(tmp_path).close()
    assert terminal(tmp_path) == Counter(["req-0"])


async def test_a_row_that_could_not_be_written_is_written_with_the_next_that_is(tmp_path: Path) -> None:
    ledger = attended(tmp_path)
    pages = ledger._store.connection.execute("PRAGMA page_count").fetchone()[0]
    ledger._store.connection.execute(f"PRAGMA max_page_count={pages}")
    for number in range(20):
        ledger.expect(Arrival(f"req-{number}"))
    rows = [ledger.append_async(make_row(number, session_id="s" * 200)) for number in range(20)]
    outcomes = await asyncio.gather(*rows, return_exceptions=True)
    assert {outcome.reason for outcome in outcomes if isinstance(outcome, NotGranted)} == {Reason.EVIDENCE_UNAVAILABLE}
    assert len(outcomes) == 20
    ledger._store.connection.execute("PRAGMA max_page_count=100000")
    ledger.expect(Arrival("req-20"))
    await ledger.append_async(make_row(20))
    assert ledger._attendance is not None
    while ledger._attendance.arrivals.are_pending:
        ledger._attendance._not_before = 0.0
        await asyncio.sleep(0.01)
        ledger.health()
    assert terminal(tmp_path) == Counter(f"req-{number}" for number in range(21))
    assert reasons(tmp_path)["req-3"] == "EVIDENCE_UNAVAILABLE"
    ledger.close()
    assert left_behind(tmp_path) == []
    assert verify_ledger(tmp_path / "ledger.db", KEY).ok


async def test_a_caller_that_left_while_its_row_was_written_has_one(tmp_path: Path) -> None:
    ledger = attended(tmp_path)
    ledger.expect(Arrival("req-0"))
    row = ledger.append_async(make_row(0))
    row.cancel()
    await asyncio.gather(row, return_exceptions=True)
    await asyncio.sleep(0)
    ledger.health()
    assert terminal(tmp_path) == Counter(["req-0"])
    ledger.close()


async def test_what_no_row_could_be_written_for_is_kept_for_the_next_start(tmp_path: Path) -> None:
    ledger = attended(tmp_path)
    ledger.expect(Arrival("req-0"))
    ledger._store.connection.execute("PRAGMA query_only=ON")
    with pytest.raises(NotGranted):
        await ledger.append_async(make_row(0))
    await asyncio.sleep(0)
    ledger.close()
    assert terminal(tmp_path) == Counter()
    attended(tmp_path).close()
    assert reasons(tmp_path) == {"req-0": "EVIDENCE_UNAVAILABLE"}


async def test_a_row_given_to_a_writer_that_hung_is_written_once(tmp_path: Path) -> None:
    """The client leaves the writer, ends the request itself, and the writer wakes up with the row in hand."""
    with thread_writer(open_ledger(tmp_path)) as place:
        ledger = using(tmp_path, place)
        attend(ledger, tmp_path)
        await connected(ledger)
        other = open_ledger(tmp_path)
        other._store.connection.execute("BEGIN IMMEDIATE")  # the writer waits for the lock
        ledger.expect(Arrival("req-0"))
        row = ledger.append_async(make_row(0))
        await asyncio.sleep(0.05)
        assert ledger._writer is not None
        ledger._writer._lines[asyncio.get_running_loop()].abort()
        with pytest.raises(NotGranted):
            await row
        await asyncio.sleep(0)
        ended = asyncio.ensure_future(asyncio.to_thread(ledger._attendance.run, NOW))  # type: ignore[union-attr]
        await asyncio.sleep(0.05)
        other._store.connection.execute("ROLLBACK")
        await ended
        await asyncio.sleep(0.05)
        ledger.close()
        other.close()
    assert terminal(tmp_path) == Counter(["req-0"])
    assert verify_ledger(tmp_path / "ledger.db", KEY).ok


def test_more_than_can_be_kept_are_not_taken_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SLOTS", 2)
    ledger = attended(tmp_path)
    ledger.expect(Arrival("req-0"))
    ledger.expect(Arrival("req-1"))
    with pytest.raises(NotGranted) as stop:
        ledger.expect(Arrival("req-2"))
    assert stop.value.reason is Reason.EVIDENCE_UNAVAILABLE
    assert isinstance(stop.value.__cause__, ArrivalsFull)
    ledger.close()


async def test_one_client_and_one_person_leave_room_for_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_OF_PERSON", 2)
    monkeypatch.setattr(module, "_OF_CLIENT", 3)
    ledger = attended(tmp_path)

    def stopped(name: str, client: str | None, *person: str) -> bool:
        try:
            ledger.expect(Arrival(name, client=client), person)
        except NotGranted as stop:
            return (stop.reason, stop.retry_after_s) == (Reason.CONCURRENCY_LIMITED, 1.0)
        return False

    of_one = [stopped(f"req-{at}", "urn:a", "issuer", "u-1") for at in range(3)]
    assert of_one == [False, False, True]
    assert [stopped(f"req-o{at}", "urn:a", "issuer", "u-2") for at in range(2)] == [False, True]
    assert stopped("req-n", "urn:a")
    assert not stopped("req-b", "urn:b", "issuer", "u-1")
    assert [stopped(f"req-r{at}", None, "issuer", "u-1") for at in range(3)] == [False, False, True]
    assert not any(stopped(f"req-x{at}", None) for at in range(5))
    await ledger.append_async(make_row(0, request_id="req-0"))
    await asyncio.sleep(0)
    assert [stopped(f"req-l{at}", "urn:a", "issuer", "u-1") for at in range(2)] == [False, True]
    ledger.close()


@pytest.mark.parametrize("length", [10, 200, 480, 5000])
def test_ids_of_any_length_leave_a_readable_slot(tmp_path: Path, length: int) -> None:
    arrivals = Arrivals(tmp_path)
    told = Arrival("req-" + "0" * 32, client="urn:" + "c" * 190, trace_id="t" * length, task_id="k" * length)
    arrivals.take(told, 0)
    arrivals.lose(told.request_id)
    (read,) = arrivals.pending()
    assert (read.request_id, read.lost) == (told.request_id, True)
    assert read.client == told.client
    arrivals.close()


def test_a_file_that_is_none_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "arrivals").mkdir()
    (tmp_path / "arrivals" / "rubbish.slots").write_bytes(b"rubbish")
    ledger = attended(tmp_path)
    ledger.close()
    assert [path.name for path in left_behind(tmp_path)] == ["rubbish.slots"]


def test_a_place_that_cannot_be_written_is_a_fault_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "arrivals").write_text("a file")
    with pytest.raises(DatasetAgentError) as caught:
        attended(tmp_path)
    assert caught.value.code == "evidence.arrivals.unavailable"


def test_what_a_slot_holds_is_no_person_and_no_argument() -> None:
    told = json.dumps(sorted(Arrival.__dataclass_fields__))
    assert told == json.dumps(["behind", "client", "lost", "request_id", "task_id", "trace_id"])
