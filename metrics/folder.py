"""The tables of an agent's processes, each in a file of its own in one private folder, added up by whoever is asked.

Each process writes its own table into memory that the file is mapped to, and reads those of the
others. A process that ends leaves its counts; one that is started in its place goes on with them,
so that a sum never falls. Nothing is in the files but numbers.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from metrics.table import Kind, Metric, Table, layout_of, size_of

_HEAD: Final = struct.Struct("<32sq")
"""What the table means, and the process that writes it."""
_SUFFIX: Final = ".table"


class TableFile:
    """One process's table in ``folder``, under a ``number`` that no other process has at the same time."""

    def __init__(self, folder: Path, number: int, metrics: Sequence[Metric]) -> None:
        folder.mkdir(mode=0o700, exist_ok=True)
        self._folder = folder
        self._path = folder / f"{number}{_SUFFIX}"
        self._metrics = tuple(metrics)
        size = _HEAD.size + size_of(metrics)
        with open(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600), "r+b") as file:
            if file.read(32) != layout_of(metrics) or os.fstat(file.fileno()).st_size != size:
                file.seek(0)
                file.truncate()
                file.write(bytes(size))  # not as a hole: what is mapped has its place on disk before it is written to
                file.flush()
                os.fsync(file.fileno())
            memory = mmap.mmap(file.fileno(), size)
        memory[: _HEAD.size] = _HEAD.pack(layout_of(metrics), os.getpid())
        self.table = Table(metrics, memoryview(memory)[_HEAD.size :])  # which keeps it as long as it is there
        self.table.zero(Kind.GAUGE)

    def tables(self) -> list[list[float]]:
        """This process's numbers, then those of the others in the folder."""
        found = [list(self.table.cells)]
        for path in sorted(self._folder.glob(f"*{_SUFFIX}")):
            if path != self._path and (numbers := _read(path, self._metrics)) is not None:
                found.append(numbers)
        return found


def _read(path: Path, metrics: Sequence[Metric]) -> list[float] | None:
    """The numbers of another process; ``None`` where they mean something else. Of one that is gone only its counts."""
    size = size_of(metrics)
    try:
        data = path.read_bytes()
    except OSError:
        return None
    if len(data) != _HEAD.size + size:
        return None
    layout, pid = _HEAD.unpack_from(data)
    if layout != layout_of(metrics):
        return None
    table = Table(metrics, memoryview(bytearray(data[_HEAD.size :])))
    if not _is_there(pid):
        table.zero(Kind.GAUGE)
    return list(table.cells)


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
