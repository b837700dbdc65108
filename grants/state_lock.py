"""What the connections of one SQLite state store share, and the block in which one of them writes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from contract.grant import VerifiedGrant
from grants.once import Once
from grants.state import Progress
from grants.state_known import Reading


class Asked(NamedTuple):
    """A leaf that is to be spent, and the clock of whoever asks."""

    grant: VerifiedGrant
    policy: str | None
    now: float


class AskedOnce(NamedTuple):
    """The same of what is no leaf."""

    once: Once
    now: float


@dataclass(slots=True)
class Memory:
    """What the connections of a store know together; ``lost`` is a loss which the file itself cannot tell."""

    seen: Progress | None = None
    lost: bool = False

    def note(self, progress: Progress) -> None:
        if self.seen is None or self.seen.behind(progress):
            self.seen = progress


class Locked:
    """The write lock of a file, for a block that is committed as a whole and seen by others, or not at all.

    What refuses a grant is an outcome of the block: only faults leave it by an exception. ``begun``
    looks at the files under the lock, ``ended`` after the commit; both raise where they were replaced.
    """

    __slots__ = ("_begun", "_ended", "_reading")

    def __init__(self, reading: Reading, begun: Callable[[], object], ended: Callable[[], object]) -> None:
        self._reading = reading
        self._begun = begun
        self._ended = ended

    def __enter__(self) -> Reading:
        self._reading.connection.execute("BEGIN IMMEDIATE")
        try:
            self._begun()
        except BaseException:
            self._undo()
            raise
        return self._reading

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, trace: object) -> None:
        if kind is not None:
            self._undo()
            return
        self._reading.connection.execute("COMMIT")
        self._ended()  # or nobody else would ever see what was committed

    def _undo(self) -> None:
        if self._reading.connection.in_transaction:
            self._reading.connection.execute("ROLLBACK")
