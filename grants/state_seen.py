"""What a home saw of its state store: a small file beside it, so that the next process knows a memory that was lost.

The store alone cannot say that it was emptied, exchanged or put back to an earlier copy
while nobody was looking. The file may be lost with it, or be put back with it; the
second is seen by the file's own change time, which no copy carries along.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from contract.ids import new_id
from grants.state import Progress

KEPT_EVERY: Final = 1.0
"""Seconds between two writings while leaves are spent."""
_LATE: Final = 2.0
"""Seconds that writing the file may take; a later change of it is not ours."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """The last known progress; ``put_back`` where the file itself was restored or touched by another hand."""

    progress: Progress
    put_back: bool


class SeenFile:
    """One home's sighting. It is an aid: a file that cannot be read or written is none.

    File times are the machine's clock, so this reads it too.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._kept: Progress | None = None
        self._due = 0.0

    def read(self) -> Sighting | None:
        if self._path is None:
            return None
        try:
            raw = json.loads(self._path.read_bytes())
            changed = self._path.stat().st_ctime
            progress = Progress(str(raw["memory"]), int(raw["epoch"]), int(raw["seq"]))
            late = changed - float(raw["written"]) > _LATE
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return Sighting(progress, late)

    def keep(self, progress: Progress | None, *, soon: bool = False) -> None:
        """Write what was seen; with ``soon`` at most once in ``KEPT_EVERY`` seconds."""
        now = time.monotonic()
        if self._path is None or progress is None or progress == self._kept or (soon and now < self._due):
            return
        self._kept, self._due = progress, now + KEPT_EVERY
        try:
            self._write(self._path, progress)
        except OSError:
            return

    def _write(self, path: Path, progress: Progress) -> None:
        held = self.read()
        if held is not None and _covers(held.progress, progress):
            return
        beside = path.with_name(f"{path.name}.{new_id('new')}")
        text = json.dumps(asdict(progress) | {"written": time.time()})
        try:
            with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(text)
            os.replace(beside, path)
        finally:
            beside.unlink(missing_ok=True)


def _covers(held: Progress, progress: Progress) -> bool:
    """Another process of this home saw as much of the same memory already."""
    return held.memory == progress.memory and not held.behind(progress)
