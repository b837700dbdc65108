"""Where a ledger lies: what a place must do to be one, whatever it is made of.

``evidence.commit`` grows the tree and signs; a store keeps what it is given. The tests of
``tests/evidence/test_store_contract.py`` are the contract, and run over every store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from evidence.entry import Entry, Head
from evidence.subjects import Subject


class LedgerBusy(Exception):
    """Another process holds the write lock."""


class StoreFault(Exception):
    """A store cannot be read or written: full, read-only, gone. Its text holds no value of a row."""


class StoreAway(StoreFault):
    """The server of a store is not reached, or lets nobody in."""


class StoreAbsent(StoreFault):
    """Nothing was ever written there."""


class Writing(Protocol):
    """The one writer of a store, inside ``LedgerStore.writing``."""

    def head(self) -> Head:
        """The newest head: the very object of the last commit where nobody wrote since. Raises ``InvalidLedger``."""
        ...

    def append(self, entries: Sequence[Entry], head: Head) -> None:
        """The entries behind the last one, and the head that speaks of them."""
        ...

    def ended(self, since: int) -> frozenset[str]:
        """The request ids of the terminal rows from row ``since`` on, wherever they lie now; maybe of more."""
        ...

    def begin_at(self, base: Head) -> None:
        """From now on the store begins at ``base.frontier.size``; what is before lies somewhere else."""
        ...

    def drop(self, most: int) -> int:
        """Remove at most ``most`` of the entries before the beginning; how many went."""
        ...


class Reading(Protocol):
    """A store as of one commit. Nothing in it is verified (``evidence.verify``)."""

    def head(self) -> Head:
        """Raises ``InvalidLedger``."""
        ...

    def base(self) -> Head | None:
        """What the first entry stands on: a checkpoint and the peaks of its tree. ``None`` for row 0."""
        ...

    def entries(self, start: int = 0) -> Iterator[Entry]:
        """In the order of their index, from the beginning or from ``start``. Raises ``InvalidLedger``."""
        ...

    def find(self, column: str, value: str) -> Iterator[Entry]:
        """Those whose ``column`` has this value; may read every row."""
        ...


class LedgerStore(Protocol):
    """One process's handle; several processes may have one each. Threads are serialised by the caller.

    Everything raises what the place raises: ``sqlite3.Error``, ``OSError`` or ``StoreFault``.
    """

    @property
    def name(self) -> str:
        """What people call it: a path, or an address without its secret."""
        ...

    def found(self, first: Callable[[], Head]) -> Head:
        """The head; of a place that is no ledger yet ``first()``, laid there once whoever else founds it too.

        A place of an earlier release gets what it lacks. Raises ``InvalidLedger``.
        """
        ...

    def writing(self) -> AbstractContextManager[Writing]:
        """The write lock, or ``LedgerBusy`` at once. When the block ends everything is durable; nothing is where it raised."""
        ...

    def head(self) -> Head:
        """The newest head that is committed."""
        ...

    def reading(self) -> AbstractContextManager[Reading]: ...

    def check(self) -> None:
        """That it is the place that was opened. Raises ``InvalidLedger``."""
        ...

    def close(self) -> None: ...


class SubjectStore(Protocol):
    """One random key for each (issuer, subject), which can be erased; several processes share it."""

    def key(self, subject: Subject) -> bytes:
        """The subject's key, made at first use."""
        ...

    def keys(self, subjects: Sequence[Subject | None]) -> list[bytes | None]:
        """``key`` of each, as of one moment; ``None`` for nobody."""
        ...

    def existing(self, subject: Subject) -> bytes | None:
        """``None`` where there is none, or it was forgotten."""
        ...

    def all(self) -> Iterator[tuple[Subject, bytes]]:
        """Every subject that is not forgotten."""
        ...

    def forget(self, subject: Subject) -> bool:
        """Erase the key; whether there was one. Other processes see it at their next row."""
        ...

    def close(self) -> None: ...
