"""The folder that one process keeps its large results in, and the end of those that dead processes left."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_LOCK: Final = "lock"


class ProcessFolder:
    """A folder of this process's own inside ``shared``, under a lock for as long as the process lives."""

    def __init__(self, shared: Path) -> None:
        self.shared = shared
        self._own: Path | None = None
        self._lock = -1

    def place(self) -> Path:
        """The folder, made when it is first needed; its owner's only. Raises ``OSError``."""
        if self._own is None:
            self.shared.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.chmod(self.shared, 0o700)
            own = self.shared / f"{os.getpid()}-{secrets.token_hex(8)}"
            with _alone_in(self.shared):  # or a process that starts now could take it for a dead one's
                own.mkdir(mode=0o700)
                self._lock = _locked(own / _LOCK, fcntl.LOCK_EX)
            self._own = own
        return self._own

    def sweep_dead(self) -> None:
        """Delete the folders that no living process has locked. Raises ``OSError``."""
        if not self.shared.exists():
            return
        os.chmod(self.shared, 0o700)
        with _alone_in(self.shared):
            for left in self.shared.iterdir():
                if left.is_dir() and left != self._own and (lock := _lock_of(left)) is not None:
                    shutil.rmtree(left, ignore_errors=True)
                    os.close(lock)

    def close(self) -> None:
        """Delete the folder and all that is in it."""
        if self._own is not None:
            shutil.rmtree(self._own, ignore_errors=True)
            os.close(self._lock)
            self._own = None


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """While no other process makes or sweeps folders there. Raises ``OSError``."""
    descriptor = _locked(folder / _LOCK, fcntl.LOCK_EX)
    try:
        yield
    finally:
        os.close(descriptor)


def _lock_of(folder: Path) -> int | None:
    """The lock of a folder that nobody has, taken; ``None`` where its process lives."""
    try:
        return _locked(folder / _LOCK, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return None


def _locked(path: Path, how: int) -> int:
    """The descriptor of a lock file that is held until it is closed. Raises ``OSError``."""
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, how)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
