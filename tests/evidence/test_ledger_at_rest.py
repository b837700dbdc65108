"""A ledger that is only read: nothing is left beside it, wherever it lies, and whoever writes meanwhile."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from contract.errors import DatasetAgentError
from evidence import sqlite_store as store_module
from evidence.entry import Entry
from evidence.ledger import Ledger
from evidence.reader import LedgerFile
from evidence.verify import verify_ledger
from tests.evidence.evidence_builders import SeedSigner, make_row, open_ledger

KEY = SeedSigner().public_key


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Ledger]:
    """A ledger of two rows that its service has open."""
    ledger = open_ledger(tmp_path / "home")
    for number in range(2):
        ledger.append(make_row(number))
    yield ledger
    ledger.close()


@pytest.fixture
def copy(live: Ledger, tmp_path: Path) -> Path:
    """Taken away after the service had ended."""
    live.close()
    (tmp_path / "away").mkdir()
    return Path(shutil.copy(live.path, tmp_path / "away" / "copy.sqlite"))


def names(path: Path) -> list[str]:
    return sorted(child.name for child in path.parent.iterdir())


def test_verifying_and_listing_leave_nothing_beside_the_file(copy: Path) -> None:
    assert verify_ledger(copy, KEY).ok
    assert len(list(LedgerFile(copy).rows())) == 2
    assert names(copy) == ["copy.sqlite"]


def test_a_copy_with_its_newest_rows_beside_it_is_read_whole_and_left_as_it_is(live: Ledger, tmp_path: Path) -> None:
    away = tmp_path / "away"
    away.mkdir()
    for suffix in ("", "-wal"):
        shutil.copy(f"{live.path}{suffix}", away / f"copy.sqlite{suffix}")
    before = {path.name: path.read_bytes() for path in away.iterdir()}
    assert verify_ledger(away / "copy.sqlite", KEY).size == 2
    assert {path.name: path.read_bytes() for path in away.iterdir()} == before


def test_a_ledger_in_use_is_read_with_its_newest_rows(live: Ledger) -> None:
    assert verify_ledger(live.path, KEY).size == 2
    live.append(make_row(2))
    assert verify_ledger(live.path, KEY).size == 3


def test_a_service_that_comes_back_meanwhile_is_noticed(copy: Path) -> None:
    def reading() -> Iterator[Entry]:
        yield from LedgerFile(copy).rows()

    rows = reading()
    next(rows)
    service = Ledger.open(copy, SeedSigner(), subject_key_path=copy.with_name("subjects.db"), now=0.0)
    service.append(make_row(2))
    with pytest.raises(DatasetAgentError, match="written to now") as stop:
        list(rows)
    assert stop.value.is_retryable
    service.close()


def test_verifying_begins_again_where_a_service_comes_back(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    services: list[Ledger] = []
    read = store_module.read_entries

    def slow(*arguments: object) -> Iterator[Entry]:
        for entry in read(*arguments):  # type: ignore[arg-type]
            if not services:
                service = Ledger.open(copy, SeedSigner(), subject_key_path=copy.with_name("subjects.db"), now=0.0)
                service.append(make_row(2))
                services.append(service)
            yield entry

    monkeypatch.setattr(store_module, "read_entries", slow)
    report = verify_ledger(copy, KEY)
    services[0].close()
    assert (report.ok, report.size) == (True, 3)
