"""``make test-bigquery``: an emulator in an environment of its own, the tests marked ``bigquery`` against it, and its end.

Nothing outside the folder ``.venv/bigquery-emulator`` is written: the extension that the
emulator loads lies in a home of its own.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".venv" / "bigquery-emulator"
LOCK = Path(__file__).with_name("requirements-emulator.lock")
READY_SECONDS = 60.0
REST, STORAGE = "BIGQUERY_EMULATOR_HOST", "BIGQUERY_EMULATOR_STORAGE"
_WHERE = (
    "import duckdb, duckdb_extension_spatial as s, pathlib; "
    "print(duckdb.__version__, duckdb.sql('PRAGMA platform').fetchone()[0], pathlib.Path(s.__file__).parent)"
)


def installed() -> Path:
    """The environment's folder, made where it is missing or of another lock."""
    stamp, wanted = FOLDER / "lock.sha256", hashlib.sha256(LOCK.read_bytes()).hexdigest()
    if stamp.is_file() and stamp.read_text() == wanted:
        return FOLDER
    venv.create(FOLDER, with_pip=True, clear=True)
    python = FOLDER / "bin" / "python"
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes"]
    subprocess.run([*pip, "-r", LOCK], check=True)
    found = subprocess.run([python, "-c", _WHERE], capture_output=True, text=True, check=True).stdout
    version, platform, package = found.strip().split(" ", 2)
    extensions = Path("extensions") / f"v{version}"
    target = FOLDER / "home" / ".duckdb" / extensions / platform
    target.mkdir(parents=True)
    shutil.copy(Path(package) / extensions / "spatial.duckdb_extension", target)
    stamp.write_text(wanted)
    return FOLDER


@contextmanager
def emulator(folder: Path) -> Iterator[dict[str, str]]:
    """The emulator on loopback while it is needed: the variables that say where it listens."""
    rest, storage = _free_port(), _free_port()
    environment = {"HOME": str(folder / "home"), "PATH": os.environ.get("PATH", ""), "TZ": "UTC"}
    command = [folder / "bin" / "bqemulator", "start", "--ephemeral", "--log-level", "warning"]
    ports = ["--rest-port", str(rest), "--grpc-port", str(storage)]
    with (folder / "emulator.log").open("w") as log:
        process = subprocess.Popen([*command, *ports], env=environment, cwd=folder, stdout=log, stderr=log)
        try:
            _wait_for(process, f"http://127.0.0.1:{rest}/healthz")
            yield {REST: f"http://127.0.0.1:{rest}", STORAGE: f"127.0.0.1:{storage}"}
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_for(process: subprocess.Popen[bytes], url: str) -> None:
    until = time.monotonic() + READY_SECONDS
    while time.monotonic() < until:
        if process.poll() is not None:
            raise SystemExit(f"the emulator ended with {process.returncode}: see {FOLDER / 'emulator.log'}")
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise SystemExit(f"the emulator is not ready after {READY_SECONDS:g} s: see {FOLDER / 'emulator.log'}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def main() -> int:
    with emulator(installed()) as where:
        command = [sys.executable, "-m", "pytest", "tests/bigquery", "-m", "bigquery", *sys.argv[1:]]
        return subprocess.run(command, cwd=ROOT, env={**os.environ, **where}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
