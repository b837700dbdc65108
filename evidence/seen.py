"""What a process knows of its ledger from the receipts it was given, whoever wrote the rows."""

from __future__ import annotations

from dataclasses import dataclass

from evidence.checkpoint import Receipt
from evidence.entry import InvalidLedger


@dataclass(slots=True)
class Seen:
    """``rows`` are there at least, of the ledger that is called ``origin``.

    A writer may be younger than the process that it writes for, and know less of the ledger.
    """

    origin: str
    rows: int = 0
    is_whole: bool = True

    def check(self) -> None:
        """Raises ``InvalidLedger`` for good once a row was lost: what is written after that would hide it."""
        if not self.is_whole:
            raise InvalidLedger("the ledger was rolled back")

    def take(self, receipt: Receipt, *, behind: int) -> None:
        """A receipt of a row that was submitted when ``behind`` rows were known. Raises ``InvalidLedger``."""
        if receipt.checkpoint.origin != self.origin or receipt.index < behind:
            self.is_whole = False
        self.check()
        self.rows = max(self.rows, receipt.index + 1)

    def took(self, receipts: list[Receipt]) -> list[Receipt]:
        """The receipts of rows that this process committed behind ``rows``."""
        for newest in receipts[-1:]:
            self.rows = max(self.rows, newest.index + 1)
        return receipts
