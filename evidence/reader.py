"""Reading a ledger file: by a service, by an operator, or by an auditor with nothing else running."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from contract.errors import Category, Component, DatasetAgentError
from contract.signing import PublicKey
from contract.sqlite_snapshot import WrittenMeanwhile
from evidence.checkpoint import Checkpoint, by_a_stranger
from evidence.entry import Entry, InvalidLedger, NotALedger
from evidence.export import is_export
from evidence.export_reading import ExportReading
from evidence.sqlite_store import reading_file
from evidence.store import LedgerStore, Reading, StoreAbsent, StoreAway, StoreFault

SERVER: Final = "postgresql://"
"""How the name of a ledger on a server begins."""


@dataclass(frozen=True, slots=True)
class LedgerFile:
    """A ledger as it lies on disk, or an export of one. Entries are *unverified* (see ``evidence.verify``).

    Every method raises ``DatasetAgentError``: ``evidence.ledger.not_found``,
    ``evidence.ledger.foreign`` for a file that is something else, or
    ``evidence.ledger.unreadable``.
    """

    path: Path

    def rows(self, *, start: int = 0) -> Iterator[Entry]:
        """Entries from ``start`` on, as of one commit."""
        with self.reading() as opened:
            yield from opened.entries(start)

    def get(self, index: int) -> Entry | None:
        with self.reading() as opened:
            found = next(opened.entries(index), None)
        return found if found is not None and found.index == index else None

    def find(self, column: str, value: str) -> Iterator[Entry]:
        """Entries whose ``column`` (``trace_id``, ``decision_id``, ``txn`` …) equals ``value``; reads every row."""
        with self.reading() as opened:
            yield from opened.find(column, value)

    def checkpoint(self) -> Checkpoint:
        with self.reading() as opened:
            return opened.checkpoint() if isinstance(opened, ExportReading) else opened.head().checkpoint

    def trusted_checkpoint(self, keys: tuple[PublicKey, ...]) -> Checkpoint:
        """The newest checkpoint where one of ``keys`` signed it. Raises ``evidence.ledger.stranger`` too."""
        newest = self.checkpoint()
        if not newest.verifies(keys):
            raise stranger(self.path, keys)
        return newest

    @contextmanager
    def reading(self) -> Iterator[Reading]:
        """The file as of one commit."""
        check_there(self.path)
        with told(str(self.path)):
            if is_export(self.path):
                yield ExportReading(self.path)
                return
            with reading_file(self.path) as opened:
                yield opened


def check_there(path: Path) -> None:
    """That there is a file. Raises ``DatasetAgentError`` (``evidence.ledger.not_found``)."""
    if not path.is_file():
        raise absent(path)


def absent(place: Path | str) -> DatasetAgentError:
    """The fault of a ledger that was never begun."""
    return DatasetAgentError(
        Component.EVIDENCE,
        Category.NOT_FOUND,
        "evidence.ledger.not_found",
        f"there is no ledger at {place}: name the file, or ask something first",
    )


@contextmanager
def reading(store: LedgerStore) -> Iterator[Reading]:
    """``store`` as of one commit. Raises ``DatasetAgentError`` as ``LedgerFile``."""
    with told(store.name), store.reading() as opened:
        yield opened


@contextmanager
def told(name: str) -> Iterator[None]:
    """What goes wrong when a ledger is read, as a fault."""
    try:
        yield
    except NotALedger as error:
        raise DatasetAgentError(
            Component.EVIDENCE,
            Category.CONFLICT,
            "evidence.ledger.foreign",
            f"{name} is not a ledger ({error}): name a ledger.sqlite, or a copy of one",
        ) from error
    except WrittenMeanwhile as error:
        raise written_meanwhile(name) from error
    except StoreAbsent as error:
        raise absent(name) from error
    except StoreAway as error:
        raise unavailable(name, error) from error
    except (sqlite3.Error, StoreFault, InvalidLedger) as error:
        raise DatasetAgentError(
            Component.EVIDENCE,
            Category.CONFLICT,
            "evidence.ledger.unreadable",
            f"{name} cannot be read as a ledger ({error}): run dataset-agent evidence verify on it",
        ) from error


def written_meanwhile(path: Path | str) -> DatasetAgentError:
    """The fault of a file whose service came back while it was read as a file at rest."""
    return DatasetAgentError(
        Component.EVIDENCE, Category.UNAVAILABLE, "evidence.ledger.busy", f"{path} is written to now: read it again"
    )


def stranger(path: Path | str, keys: Sequence[PublicKey]) -> DatasetAgentError:
    """The fault of a ledger that none of ``keys`` signed: its service must not sign on top of that."""
    return DatasetAgentError(
        Component.EVIDENCE,
        Category.CONFIGURATION,
        "evidence.ledger.stranger",
        f"the ledger {path} cannot be continued: its newest checkpoint is {by_a_stranger(keys)}; add the public key "
        "it was signed by to the agent's retired_keys in trust.toml, or move it away; a new one is begun",
    )


def unavailable(name: str, error: Exception) -> DatasetAgentError:
    """The fault of a ledger that a service cannot open or write, and of a server that nobody reaches."""
    advice = "make the place of its files writable and free disk space"
    if isinstance(error, StoreFault) and name.startswith(SERVER):
        advice = "look at its server"
    if isinstance(error, StoreAway):
        advice = "start its server and let this account in, or correct DATASET_AGENT_LEDGER_URL"
    return DatasetAgentError(
        Component.EVIDENCE,
        Category.UNAVAILABLE,
        "evidence.ledger.unavailable",
        f"the ledger {name} cannot be opened ({error}): {advice}",
    )


def damaged(name: str, why: str) -> DatasetAgentError:
    """The fault of a ledger whose head does not fit together."""
    return DatasetAgentError(
        Component.EVIDENCE,
        Category.CONFIGURATION,
        "evidence.ledger.damaged",
        f"the ledger {name} cannot be continued ({why}): run dataset-agent evidence verify, then move it away; "
        "a new one is begun",
    )
