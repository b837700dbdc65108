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

from contract.errors import DatasetAgentError
from contract.files import read_bounded
from contract.ids import new_id
from grants.state import Progress, fault

KEPT_EVERY: Final = 1.0
"""Seconds between two writings while leaves are spent."""
_MOST: Final = 4_096
_LATE: Final = 2.0
"""Seconds that writing the file may take; a later change of it is not ours."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """The last known progress; ``put_back`` where the file itself was restored or touched by another hand.

    ``progress`` is ``None`` where another hand left nothing of it.
    """

    progress: Progress | None
    put_back: bool


class SeenFile:
    """One home's sighting. One that cannot be written is none; one that is there must be legible.

    File times are the machine's clock, so this reads it too.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._kept: Progress | None = None
        self._due = 0.0

    def read(self) -> Sighting | None:
        """``None`` where there is no file. Raises ``grants.state.seen`` for one that cannot be read.

        What it says may be that a memory was lost, so not to know it is no reason to believe the store.
        """
        if self._path is None:
            return None
        try:
            text = read_bounded(self._path, _MOST)
            changed = self._path.stat().st_ctime
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise fault(
                "seen",
                f"{self._path} cannot be read ({error.strerror}), and it may say that the memory was lost: "
                "give it to the user that serves (chown), or remove it together with the state store",
            ) from error
        try:
            raw = json.loads(text)
            progress = Progress(str(raw["memory"]), int(raw["epoch"]), int(raw["seq"]))
            late = changed - float(raw["written"]) > _LATE
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            return Sighting(None, put_back=True)
        return Sighting(progress, late)

    def keep(self, progress: Progress | None, *, soon: bool = False) -> None:
        """Write what was seen; with ``soon`` at most once in ``KEPT_EVERY`` seconds."""
        now = time.monotonic()
        if self._path is None or progress is None or progress == self._kept or (soon and now < self._due):
            return
        self._kept, self._due = progress, now + KEPT_EVERY
        try:
            self._write(self._path, progress)
        except (OSError, DatasetAgentError):  # the next start says so
            return

    def _write(self, path: Path, progress: Progress) -> None:
        held = self.read()
        if held is not None and held.progress is not None and _covers(held.progress, progress):
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
