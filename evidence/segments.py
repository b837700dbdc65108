"""Where the older rows of a ledger lie once it was rotated: files beside it, each an export of some rows."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_NAME: Final = re.compile(r"(\d{12})-(\d{12})\.jsonl")


@dataclass(frozen=True, slots=True)
class Segment:
    """Rows ``start`` to ``stop`` - 1, as the name of the file says."""

    path: Path
    start: int
    stop: int


def folder_of(ledger: Path) -> Path:
    return ledger.with_name(ledger.name + ".segments")


def segment_path(ledger: Path, start: int, stop: int) -> Path:
    return folder_of(ledger) / f"{start:012d}-{stop:012d}.jsonl"


def segments_of(ledger: Path) -> tuple[Segment, ...]:
    """Those beside the ledger, in the order of their rows."""
    try:
        names = sorted(path.name for path in folder_of(ledger).iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return ()
    found = ((name, _NAME.fullmatch(name)) for name in names)
    return tuple(
        Segment(folder_of(ledger) / name, int(match[1]), int(match[2])) for name, match in found if match is not None
    )
