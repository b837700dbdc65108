"""Starting the writer of a ledger as a child, and starting it again where it died."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)

_SOONEST: Final = 0.5
_LATEST: Final = 60.0
_END_SECONDS: Final = 10.0
_ADDRESS_BYTES: Final = 100


@dataclass(frozen=True, slots=True)
class WriterElsewhere:
    """A writer that another process started and keeps running."""

    address: Path

    def ensure(self) -> None:
        """It is not this process's to start."""


class WriterProcess:
    """A writer that is a child of this process. ``command`` gets the address as its last argument.

    It listens in a folder that only this user can open, and ends when its standard input does:
    with this process, however that ends.
    """

    def __init__(self, command: Sequence[str]) -> None:
        """Raises ``OSError`` where there is no folder for it to listen in."""
        self._command = tuple(command)
        self._folder = Path(tempfile.mkdtemp(prefix="dataset-agent-"))
        if len(os.fsencode(self.address)) > _ADDRESS_BYTES:
            self._folder.rmdir()
            raise OSError(f"the folder for temporary files, {self._folder.parent}, has too long a name for a socket")
        self._process: subprocess.Popen[bytes] | None = None
        self._pause = _SOONEST
        self._not_before = 0.0

    @property
    def address(self) -> Path:
        return self._folder / "writer"

    @property
    def pid(self) -> int | None:
        """The process id of the newest one."""
        return None if self._process is None else self._process.pid

    def ensure(self) -> None:
        """Start it where it does not run; one that dies again and again is started ever more rarely."""
        if self._process is not None and self._process.poll() is None:
            return
        now = time.monotonic()
        if now < self._not_before:
            return
        if self._process is not None:
            log.warning("the writer of the ledger ended with %s: it is started again", self._process.returncode)
            self._let_go(self._process)
        long_enough = now > self._not_before + _LATEST
        self._pause = _SOONEST if long_enough else min(2 * self._pause, _LATEST)
        self._not_before = now + self._pause
        self._process = subprocess.Popen(  # noqa: S603 - our own command
            [*self._command, str(self.address)], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
        )

    def close(self) -> None:
        """End it after what it was sent, and take its folder away."""
        if self._process is not None:
            self._let_go(self._process)
            try:
                self._process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    @staticmethod
    def _let_go(process: subprocess.Popen[bytes]) -> None:
        if process.stdin is not None:
            with suppress(OSError):
                process.stdin.close()
