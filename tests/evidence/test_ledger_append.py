"""What an append promises: durable, complete, concealed, and nothing released where it cannot be kept."""

from __future__ import annotations

import asyncio
import sqlite3
import stat
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contract.canonical import canonical_json
from contract.errors import DatasetAgentError
from contract.verdict import NotGranted, Reason
from evidence.checkpoint import InvalidReceipt, Receipt
from evidence.commit import Commits
from evidence.entry import InvalidLedger, conceal, mismatches, plain
from evidence.founding import first_head
from evidence.ledger import Ledger
from evidence.merkle import EMPTY_ROOT
from evidence.row import COLUMNS, LATER, leaf_data
from evidence.sqlite_store import SqliteStore
from evidence.verify import verify_ledger
from tests.evidence.evidence_builders import (
    CALL_HASH,
    ISSUER,
    NOW,
    RESULT_DIGEST,
    SUBJECT,
    SeedSigner,
    head_as_sql,
    make_row,
    open_ledger,
    refused_row,
    tamper,
)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return open_ledger(tmp_path)


def test_an_empty_ledger_is_true_and_verifies(ledger: Ledger) -> None:
    assert bool(ledger) is True
    assert ledger.checkpoint().root == EMPTY_ROOT
    assert verify_ledger(ledger.path, SeedSigner().public_key).ok


def test_a_receipt_proves_its_row(ledger: Ledger) -> None:
    receipts = [ledger.append(make_row(number)) for number in range(11)]
    assert [receipt.index for receipt in receipts] == list(range(11))
    assert all(receipt.holds((SeedSigner().public_key,)) for receipt in receipts)


def test_a_receipt_survives_json(ledger: Ledger) -> None:
    receipt = ledger.append(make_row())
    assert Receipt.from_json(receipt.to_json()) == receipt


@pytest.mark.parametrize("change", [{"index": -1}, {"extra": 1}, {"leaf_hash": "F" * 64}, {"checkpoint": None}])
def test_a_malformed_receipt_is_refused(ledger: Ledger, change: dict[str, object]) -> None:
    with pytest.raises(InvalidReceipt):
        Receipt.from_json({**ledger.append(make_row()).to_json(), **change})


def test_a_receipt_of_another_key_does_not_hold(ledger: Ledger) -> None:
    assert not ledger.append(make_row()).holds((SeedSigner(2).public_key,))


def test_every_verdict_is_recorded(ledger: Ledger) -> None:
    ledger.append(make_row(0))
    ledger.append(refused_row(1, Reason.GRANT_EXPIRED))
    ledger.append(refused_row(2, Reason.EVALUATOR_TIMEOUT))
    assert [entry.cells["verdict"] for entry in ledger.rows()] == ["GRANTED", "REFUSED", "INDETERMINATE"]


def test_an_entry_reads_back_as_it_was_recorded(ledger: Ledger) -> None:
    ledger.append(make_row(7))
    entry = ledger.get(0)
    assert entry is not None
    assert set(entry.cells) == set(COLUMNS)
    assert entry.cells["recorded_at"] == "2027-01-15T08:00:07.000000Z"
    assert entry.cells["policy_id"] == "BPD-DATA-014"
    assert entry.event_ids() == ["event-1", "event-2"]


def test_a_ledger_reopened_goes_on_where_it_was(tmp_path: Path) -> None:
    first = open_ledger(tmp_path)
    first.append(make_row(0))
    first.close()
    second = open_ledger(tmp_path)
    assert second.append(make_row(1)).index == 1
    assert verify_ledger(second.path, SeedSigner().public_key).size == 2


def test_a_ledger_is_private_to_its_user(tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path / "new")
    ledger.append(make_row())
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "new").iterdir()}
    assert set(modes.values()) == {0o600}
    assert {"ledger.db", "subjects.db"} <= set(modes)


def test_a_ledger_signed_by_nobody_known_is_not_continued(tmp_path: Path) -> None:
    open_ledger(tmp_path).append(make_row())
    with pytest.raises(DatasetAgentError) as caught:
        open_ledger(tmp_path, SeedSigner(2))
    assert caught.value.code == "evidence.ledger.stranger"
    assert str(tmp_path / "ledger.db") in caught.value.message
    assert f"not trusted here (trusted: kid {SeedSigner(2).public_key.thumbprint})" in caught.value.message


def test_a_file_that_is_no_ledger_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / "ledger.db").write_bytes(b"not a database, whatever its name says" * 100)
    with pytest.raises(DatasetAgentError) as caught:
        open_ledger(tmp_path)
    assert caught.value.code == "evidence.ledger.unavailable"


def test_a_ledger_that_became_read_only_releases_nothing(ledger: Ledger) -> None:
    ledger.append(make_row(0))
    ledger._store.connection.execute("PRAGMA query_only=ON")
    with pytest.raises(NotGranted) as caught:
        ledger.append(make_row(1))
    assert caught.value.reason is Reason.EVIDENCE_UNAVAILABLE
    ledger._store.connection.execute("PRAGMA query_only=OFF")
    assert ledger.append(make_row(2)).index == 1


def test_a_full_database_releases_nothing_and_recovers(ledger: Ledger) -> None:
    ledger.append(make_row(0))
    pages = ledger._store.connection.execute("PRAGMA page_count").fetchone()[0]
    ledger._store.connection.execute(f"PRAGMA max_page_count={pages}")
    with pytest.raises(NotGranted) as caught:
        ledger.append_many([make_row(number) for number in range(1, 100)])
    assert caught.value.reason is Reason.EVIDENCE_UNAVAILABLE
    ledger._store.connection.execute("PRAGMA max_page_count=100000")
    assert ledger.append(make_row(100)).index == 1
    assert verify_ledger(ledger.path, SeedSigner().public_key).ok


def test_a_signer_that_fails_leaves_no_half_row(tmp_path: Path) -> None:
    class Failing(SeedSigner):
        broken = False

        def sign(self, message: bytes) -> bytes:
            if self.broken:
                raise OSError("the key service is away")
            return super().sign(message)

    signer = Failing()
    ledger = open_ledger(tmp_path, signer)
    signer.broken = True
    with pytest.raises(NotGranted, match="nothing is released"):
        ledger.append(make_row(0))
    signer.broken = False
    assert ledger.append(make_row(1)).index == 0


def test_a_ledger_rolled_back_under_a_running_service_is_not_continued(tmp_path: Path, ledger: Ledger) -> None:
    ledger.append_many([make_row(0), make_row(1)])
    earlier = head_as_sql(tmp_path)
    ledger.append(make_row(2))
    tamper(tmp_path, "DELETE FROM entries WHERE idx = 2", earlier)
    with pytest.raises(NotGranted) as caught:
        ledger.append(make_row(3))
    assert caught.value.reason is Reason.EVIDENCE_UNAVAILABLE


def test_a_ledger_file_removed_under_a_running_service_is_noticed(tmp_path: Path, ledger: Ledger) -> None:
    ledger.append(make_row(0))
    ledger.path.unlink()
    with pytest.raises(NotGranted):
        ledger.append(make_row(1))
    with pytest.raises(NotGranted):
        ledger.health()


def test_health_needs_a_ledger_that_can_be_written(ledger: Ledger) -> None:
    ledger.health()
    ledger.close()
    with pytest.raises(NotGranted):
        ledger.health()


def test_many_rows_are_committed_all_or_none(ledger: Ledger) -> None:
    receipts = ledger.append_many([make_row(number) for number in range(5)])
    assert [receipt.checkpoint.size for receipt in receipts] == [1, 2, 3, 4, 5]


async def test_rows_that_wait_together_are_committed_together(ledger: Ledger) -> None:
    commits: list[int] = []
    ledger._store.connection.set_trace_callback(lambda sql: commits.append(1) if sql == "COMMIT" else None)
    receipts = await asyncio.gather(*(ledger.append_async(make_row(number)) for number in range(20)))
    assert sorted(receipt.index for receipt in receipts) == list(range(20))
    assert len(commits) == 1
    assert all(receipt.holds((SeedSigner().public_key,)) for receipt in receipts)


async def test_waiting_for_another_process_does_not_stop_the_loop(tmp_path: Path, ledger: Ledger) -> None:
    other = sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    waiting = asyncio.ensure_future(ledger.append_async(make_row(0)))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not waiting.done()
    joined = asyncio.ensure_future(ledger.append_async(make_row(1)))
    await asyncio.sleep(0)
    other.execute("ROLLBACK")
    assert [(await waiting).index, (await joined).index] == [0, 1]
    other.close()


async def test_a_group_that_cannot_be_written_withholds_every_answer(ledger: Ledger) -> None:
    ledger._store.connection.execute("PRAGMA query_only=ON")
    outcomes = await asyncio.gather(
        *(ledger.append_async(make_row(number)) for number in range(3)), return_exceptions=True
    )
    assert [getattr(outcome, "reason", None) for outcome in outcomes] == [Reason.EVIDENCE_UNAVAILABLE] * 3


async def test_a_cancelled_caller_has_written_its_row(ledger: Ledger) -> None:
    task = asyncio.ensure_future(ledger.append_async(make_row(0)))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await ledger.append_async(make_row(1))
    assert [entry.cells["request_id"] for entry in ledger.rows()] == ["req-0", "req-1"]


def test_threads_share_one_ledger(ledger: Ledger) -> None:
    def write(first: int) -> None:
        for number in range(first, first + 25):
            ledger.append(make_row(number))

    threads = [threading.Thread(target=write, args=(first,)) for first in (0, 100, 200, 300)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    report = verify_ledger(ledger.path, SeedSigner().public_key)
    assert (report.ok, report.size) == (True, 100)


_CELL = st.none() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text()


@settings(deadline=None)
@given(st.integers(0, 2**53 - 1), st.dictionaries(st.sampled_from(COLUMNS), _CELL))
def test_leaf_data_is_canonical_json(index: int, cells: dict[str, str | int | None]) -> None:
    hashed = {name: value for name, value in cells.items() if value is not None or name not in LATER}
    assert leaf_data(index, cells) == canonical_json({"index": index, **hashed})


@pytest.mark.parametrize("value", [True, 1.5, b"bytes"])
def test_a_cell_of_a_foreign_type_has_no_leaf(value: object) -> None:
    with pytest.raises(TypeError):
        leaf_data(0, {"reason": value})  # type: ignore[dict-item]


def test_no_personal_value_is_in_any_file_of_the_ledger(tmp_path: Path, ledger: Ledger) -> None:
    ledger.append(make_row())
    ledger.close()
    stored = (tmp_path / "ledger.db").read_bytes()
    assert [value for value in (SUBJECT, CALL_HASH, RESULT_DIGEST) if value.encode() in stored] == []


def test_equal_subjects_have_unequal_commitments(ledger: Ledger) -> None:
    ledger.append_many([make_row(0), make_row(1)])
    one, two = ledger.rows()
    assert one.cells["subject_commitment"] != two.cells["subject_commitment"]
    assert one.cells["call_commitment"] != two.cells["call_commitment"]


def test_a_receipt_opens_its_own_row_only(ledger: Ledger) -> None:
    mine, other = ledger.append_many([make_row(0), make_row(1)])
    entries = list(ledger.rows())
    known = {"subject": (ISSUER, SUBJECT), "call_hash": CALL_HASH, "result_digest": RESULT_DIGEST}
    assert mismatches(entries[0], mine.opening, **known) == ()
    assert mismatches(entries[0], other.opening, **known) == ("subject", "call", "result")
    assert mismatches(entries[0], mine.opening, call_hash="0" * 64) == ("call",)


def test_an_operator_finds_a_person_s_rows_until_the_person_is_forgotten(ledger: Ledger) -> None:
    ledger.append_many([make_row(0), make_row(1, subject="someone-else"), make_row(2)])
    person = (ISSUER, SUBJECT)
    assert [entry.index for entry, _ in ledger.entries_of(person)] == [0, 2]
    assert [ledger.subject_of(entry) for entry in ledger.rows()] == [person, (ISSUER, "someone-else"), person]

    assert ledger.forget(*person) is True
    assert list(ledger.entries_of(person)) == []
    assert [ledger.subject_of(entry) for entry in ledger.rows()] == [None, (ISSUER, "someone-else"), None]
    assert verify_ledger(ledger.path, SeedSigner().public_key).ok


def test_a_forgotten_key_is_gone_from_the_key_file(tmp_path: Path, ledger: Ledger) -> None:
    ledger.append(make_row())
    key = ledger._subjects.existing((ISSUER, SUBJECT))
    assert key is not None
    assert key in (tmp_path / "subjects.db").read_bytes()
    ledger.forget(ISSUER, SUBJECT)
    assert not any(key in path.read_bytes() for path in tmp_path.iterdir())


def test_forgetting_in_another_process_is_noticed_at_the_next_row(tmp_path: Path, ledger: Ledger) -> None:
    ledger.append(make_row(0))
    other = open_ledger(tmp_path)
    assert other.forget(ISSUER, SUBJECT)
    ledger.append(make_row(1))
    assert [entry.index for entry, _ in ledger.entries_of((ISSUER, SUBJECT))] == [1]


def test_forgetting_somebody_unknown_says_so(ledger: Ledger) -> None:
    assert ledger.forget(ISSUER, "nobody") is False


def test_a_row_without_a_verified_subject_opens_by_its_receipt_only(ledger: Ledger) -> None:
    receipt = ledger.append(refused_row(call_hash=CALL_HASH))
    entry = ledger.get(0)
    assert entry is not None
    assert mismatches(entry, receipt.opening, call_hash=CALL_HASH) == ()
    assert ledger.subject_of(entry) is None


def test_time_comes_in(tmp_path: Path) -> None:
    assert open_ledger(tmp_path).checkpoint().time == "2027-01-15T08:00:00.000000Z"
    assert NOW == 1_800_000_000


def test_who_wrote_rows_notices_that_they_are_gone_without_being_told_how_many_there_were(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "ledger.db")
    store.found(lambda: first_head(SeedSigner(), NOW))
    commits, row = Commits(store), conceal(plain(make_row(0)), None)
    commits.commit([row], SeedSigner())
    earlier = head_as_sql(tmp_path)
    commits.commit([row], SeedSigner())
    tamper(tmp_path, "DELETE FROM entries WHERE idx = 1", earlier)
    with pytest.raises(InvalidLedger, match="rolled back"):
        commits.commit([row], SeedSigner())
    store.close()


def test_who_was_told_of_rows_that_are_not_there_writes_none_on_top(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "ledger.db")
    store.found(lambda: first_head(SeedSigner(), NOW))
    row = conceal(plain(make_row(0)), None)
    Commits(store).commit([row], SeedSigner(), behind=0)
    with pytest.raises(InvalidLedger, match="rolled back"):
        Commits(store).commit([row], SeedSigner(), behind=2)
    store.close()
