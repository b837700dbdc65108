"""What lies on a server, as the file that verifies offline."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from evidence.export import entry_line, first_line
from evidence.store import Reading

_TELL_EVERY = 512


def write_reading(opened: Reading, file: Path, percent: Callable[[int], None] | None = None) -> None:
    """An export of a ledger as of one commit, readable by its user only. Raises what the store raises, ``OSError``."""
    head, base = opened.head(), opened.base()
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as out:
        out.write(first_line(head.checkpoint, base) + "\n")
        for entry in opened.entries():
            out.write(entry_line(entry) + "\n")
            if percent is not None and entry.index % _TELL_EVERY == 0:
                percent(min(100, 100 * entry.index // max(1, head.checkpoint.size)))
