"""Whether a ledger is what its signer committed to, and where it stops being so; works offline."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from contract.signing import PublicKey
from contract.sqlite_snapshot import WrittenMeanwhile
from evidence.damage import Broken, Damage
from evidence.entry import Entry, InvalidLedger, NotALedger
from evidence.parts import Part, Source
from evidence.reader import check_there, written_meanwhile
from evidence.walk import Held, Removed, SignedRows, Walk, entries_behind

__all__ = ["LedgerReport", "SignedRows", "verify_ledger"]

_ATTEMPTS: Final = 3


@dataclass(frozen=True, slots=True)
class LedgerReport:
    """``size`` rows were good before the walk ended; ``bad_row`` is the first that is not.

    ``bad_row`` is ``None`` on a good ledger, and on a problem that is no row's (a head
    nobody trusted signed, a receipt of another ledger). ``damage`` names the kind of what is
    wrong. ``begins`` is the first row that the file has anything of, ``removed`` what rows say
    that retention removed. ``signed_by`` says which of the keys signed the good rows, the newest
    signer last; ``compared`` how many of the receipts given speak of rows that are here.
    """

    ok: bool
    size: int
    origin: str | None = None
    root: str | None = None
    bad_row: int | None = None
    problem: str | None = None
    damage: Damage | None = None
    signed_by: tuple[SignedRows, ...] = ()
    begins: int = 0
    removed: tuple[Removed, ...] = ()
    compared: int = 0

    @property
    def is_ledger(self) -> bool:
        """False for a file that is something else."""
        return self.damage is not Damage.NOT_A_LEDGER

    def public(self) -> dict[str, Any]:
        return {
            "ok": self.ok,
            "size": self.size,
            "origin": self.origin,
            "root": self.root,
            "bad_row": self.bad_row,
            "damage": None if self.damage is None else self.damage.value,
            "problem": self.problem,
            "begins": self.begins,
            "removed": [asdict(removed) for removed in self.removed],
            "compared": self.compared,
            "signed_by": [asdict(rows) for rows in self.signed_by],
        }


def verify_ledger(
    path: Path,
    key: PublicKey | tuple[PublicKey, ...],
    *,
    receipt: Held | Sequence[Held] | None = None,
    part: bool = False,
    progress: Callable[[Iterator[Part]], Iterator[Part]] = lambda parts: parts,
) -> LedgerReport:
    """Check every row, every checkpoint and the head of the ledger, or of its export, at ``path``.

    ``key`` is the ledger's key, or that and its retired ones. A cut tail that was cut
    carefully shows only against something taken away earlier: ``receipt`` is any later
    receipt or checkpoint of this ledger, or several, of which one at least has to be. ``part``
    says that rows before the first one of the file are known to be elsewhere. ``progress``
    sees what is read. Raises ``DatasetAgentError``: not found where there is no file,
    unavailable where it is written to again and again; everything else is in the report.
    """
    check_there(path)
    keys = key if isinstance(key, tuple) else (key,)
    held = () if receipt is None else tuple(receipt) if isinstance(receipt, Sequence) else (receipt,)
    for _ in range(_ATTEMPTS):
        try:
            return _verified(Source(path), Walk(keys, held, part=part), progress)
        except WrittenMeanwhile:
            continue  # its service was started: what was read may be of two commits
    raise written_meanwhile(path)


def _verified(source: Source, walk: Walk, progress: Callable[[Iterator[Part]], Iterator[Part]]) -> LedgerReport:
    try:
        with source.parts() as parts:
            walk.run(progress(parts), lambda: _behind(source, walk.frontier.size))
    except Broken as broken:
        return _bad(walk, broken.damage, broken.problem, broken.bad_row)
    except NotALedger as error:
        return LedgerReport(ok=False, size=0, problem=f"not a ledger: {error}", damage=Damage.NOT_A_LEDGER)
    except InvalidLedger as error:
        return _bad(walk, Damage.FILE_DAMAGED, str(error), None if walk.head is None else walk.frontier.size)
    except WrittenMeanwhile:
        raise
    except (sqlite3.Error, OSError) as error:
        at = walk.frontier.size
        return _bad(walk, Damage.FILE_DAMAGED, f"the file cannot be read from row {at} on: {error}", at)
    return _report(walk)


def _behind(source: Source, row: int) -> Iterator[Entry]:
    """The entries that stand at ``row`` and behind it, whatever their index says."""
    with source.parts() as parts:
        yield from entries_behind(parts, row)


def _bad(walk: Walk, damage: Damage, problem: str, bad_row: int | None) -> LedgerReport:
    return replace(_report(walk), ok=False, damage=damage, problem=problem, bad_row=bad_row)


def _report(walk: Walk) -> LedgerReport:
    return LedgerReport(
        ok=True,
        size=walk.frontier.size,
        origin=None if walk.head is None else walk.head.origin,
        root=walk.frontier.root().hex(),
        signed_by=walk.signed_by,
        begins=walk.begins,
        removed=tuple(walk.removed),
        compared=walk.compared,
    )
