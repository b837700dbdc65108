"""What every place of a ledger does: a test class of a store inherits this and says how a store is opened."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from contract.errors import DatasetAgentError
from evidence.commit import Commits
from evidence.entry import Entry, Head, InvalidLedger, conceal, plain
from evidence.founding import first_head
from evidence.ledger import Ledger
from evidence.store import LedgerBusy, LedgerStore, SubjectStore
from tests.evidence.evidence_builders import ISSUER, NOW, SUBJECT, SeedSigner, make_row, refused_row

SIGNER = SeedSigner()
PERSON = (ISSUER, SUBJECT)


class Place:
    """One place: ``store()`` and ``subjects()`` open a further handle on it, as another process would."""

    def __init__(self, store: Callable[[], LedgerStore], subjects: Callable[[], SubjectStore]) -> None:
        self.new_store, self.new_subjects = store, subjects
        self.opened: list[LedgerStore | SubjectStore] = []

    def store(self) -> LedgerStore:
        store = self.new_store()
        self.opened.append(store)
        store.found(lambda: first_head(SIGNER, NOW))
        return store

    def subjects(self) -> SubjectStore:
        keys = self.new_subjects()
        self.opened.append(keys)
        return keys

    def ledger(self, signer: SeedSigner = SIGNER) -> Ledger:
        ledger = Ledger.on(self.new_store(), self.new_subjects, signer, now=NOW)
        self.opened.append(ledger)  # type: ignore[arg-type]
        return ledger

    def close(self) -> None:
        for one in self.opened:
            one.close()


def write(store: LedgerStore, count: int, *, first: int = 0) -> Head:
    """``count`` rows in one commit; the head behind them."""
    rows = [conceal(plain(make_row(first + number)), b"k" * 32) for number in range(count)]
    Commits(store).commit(rows, SIGNER)
    return store.head()


def entries(store: LedgerStore, start: int = 0) -> list[Entry]:
    with store.reading() as reading:
        return list(reading.entries(start))


class StoreContract:
    """``make_place`` is the subclass's; every test gets a place of its own."""

    @pytest.fixture
    def make_place(self) -> Place:
        raise NotImplementedError

    @pytest.fixture
    def place(self, make_place: Place) -> Iterator[Place]:
        yield make_place
        make_place.close()

    def test_a_place_is_founded_once_whoever_comes(self, place: Place) -> None:
        origins = {place.store().head().checkpoint.origin for _ in range(3)}
        assert len(origins) == 1

    def test_places_founded_at_once_are_one_ledger(self, place: Place) -> None:
        origins: list[str] = []
        threads = [
            threading.Thread(target=lambda: origins.append(place.store().head().checkpoint.origin)) for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(origins) == 4
        assert len(set(origins)) == 1

    def test_what_was_appended_reads_back_by_every_handle_in_order(self, place: Place) -> None:
        store = place.store()
        head = write(store, 5)
        other = place.store()
        assert other.head() == head
        assert [entry.index for entry in entries(other)] == list(range(5))
        assert entries(other) == entries(store)
        assert all(entry.computed_leaf() == entry.leaf_hash for entry in entries(other))
        assert [entry.index for entry in entries(other, 3)] == [3, 4]

    def test_the_head_of_the_last_commit_is_the_same_object_until_another_writes(self, place: Place) -> None:
        store, other = place.store(), place.store()
        mine = write(store, 1)
        assert store.head() is mine
        write(other, 1, first=1)
        assert store.head().checkpoint.size == 2

    def test_a_block_that_raises_leaves_nothing(self, place: Place) -> None:
        store = place.store()
        before = write(store, 2)
        entry = entries(store)[0]

        def write_and_fail() -> None:
            with store.writing() as writing:
                writing.append([Entry(2, entry.cells, entry.leaf_hash, entry.root, entry.signature)], before)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            write_and_fail()
        assert store.head() == before
        assert len(entries(store)) == 2

    def test_a_second_writer_is_told_so_at_once(self, place: Place) -> None:
        store, other = place.store(), place.store()
        with store.writing(), pytest.raises(LedgerBusy), other.writing():
            raise AssertionError("two writers at once")
        with other.writing() as writing:
            assert writing.head().checkpoint.size == 0

    def test_reading_is_as_of_one_commit(self, place: Place) -> None:
        store, other = place.store(), place.store()
        write(store, 2)
        with store.reading() as reading:
            size = reading.head().checkpoint.size
            write(other, 3, first=2)
            assert size == len(list(reading.entries())) == 2

    def test_entries_are_found_by_a_column_of_the_ledger_only(self, place: Place) -> None:
        store = place.store()
        write(store, 3)
        with store.reading() as reading:
            assert [entry.index for entry in reading.find("request_id", "req-1")] == [1]
            with pytest.raises(ValueError, match="no column"):
                next(reading.find("1=1 --", "x"))

    def test_a_place_begins_where_it_is_told_and_what_lies_before_is_dropped_in_steps(self, place: Place) -> None:
        store, other = place.store(), place.store()
        base = write(store, 5)
        with store.reading() as reading:
            assert reading.base() is None
        write(store, 2, first=5)
        with store.writing() as writing:
            writing.begin_at(base)
        with other.reading() as reading:
            assert reading.base() == base
            assert [entry.index for entry in reading.entries()] == [5, 6]
            assert list(reading.find("request_id", "req-1")) == []
        gone = []
        for _ in range(3):
            with other.writing() as writing:
                gone.append(writing.drop(3))
        assert gone == [3, 2, 0]
        assert [entry.index for entry in entries(store)] == [5, 6]
        assert write(store, 1, first=7).checkpoint.size == 8

    def test_a_store_that_was_not_replaced_is_the_one_that_was_opened(self, place: Place) -> None:
        store = place.store()
        write(store, 1)
        store.check()

    def test_one_person_has_one_key_for_every_handle_until_it_is_forgotten(self, place: Place) -> None:
        keys, other = place.subjects(), place.subjects()
        key = keys.key(PERSON)
        assert other.existing(PERSON) == key == other.key(PERSON)
        assert keys.keys([None, PERSON, ("i", "somebody else")])[:2] == [None, key]
        assert dict(other.all())[PERSON] == key
        assert other.forget(PERSON) is True
        assert other.forget(PERSON) is False
        assert keys.existing(PERSON) is None
        assert keys.key(PERSON) != key

    def test_a_ledger_goes_on_over_it_with_receipts_that_hold(self, place: Place) -> None:
        ledger, second = place.ledger(), place.ledger()
        receipts = [(ledger, second)[number % 2].append(make_row(number)) for number in range(6)]
        receipts.append(second.append(refused_row(6)))
        assert [receipt.index for receipt in receipts] == list(range(7))
        assert all(receipt.holds((SIGNER.public_key,)) for receipt in receipts)
        assert [entry.index for entry, _ in ledger.entries_of(PERSON)] == list(range(6))
        assert ledger.forget(*PERSON)
        assert list(second.entries_of(PERSON)) == []
        entry = second.get(3)
        assert entry is not None
        assert entry.cells["request_id"] == "req-3"
        assert second.get(7) is None

    def test_a_ledger_over_it_is_not_continued_by_a_stranger(self, place: Place) -> None:
        place.ledger().append(make_row())
        with pytest.raises(DatasetAgentError) as caught:
            place.ledger(SeedSigner(2))
        assert caught.value.code == "evidence.ledger.stranger"

    def test_rows_that_vanish_stop_the_writing(self, place: Place) -> None:
        store = place.store()
        commits = Commits(store)
        first = conceal(plain(make_row(0)), None)
        commits.commit([first], SIGNER)
        with pytest.raises(InvalidLedger, match="rolled back"):
            commits.commit([first], SIGNER, behind=2)
