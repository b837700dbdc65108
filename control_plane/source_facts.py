"""What a dataset's source says of itself: which revision its data is, and when it was last true.

A descriptor may state both, or leave them to the source: ``revision: auto`` and ``as_of: auto``.
For files they are the digest of the bytes and the newest modification time. A command of the
dataset's folder may say them instead; that is code of whoever writes the folder, so it runs
only where the operator allows it.
"""

from __future__ import annotations

import hashlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from contract.canonical import digest
from contract.errors import Category, Component, DatasetAgentError
from contract.files import OutsideFolder, open_inside
from contract.ids import is_version

AUTO: Final = "auto"
FROM_SOURCE: Final = datetime.min.replace(tzinfo=UTC)
"""Stands for an ``as_of`` that the source is yet to tell; older than any data, so nothing is fresh by it."""

COMMAND_TIMEOUT: Final = 20.0
_MAX_OUTPUT: Final = 4_096
_PAUSE_S: Final = 0.005
_KEPT: Final = ("PATH", "LANG", "LC_ALL", "TZ", "TMPDIR")
_LONGEST_SKEW: Final = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """``as_of`` is ``None`` where the source does not know."""

    revision: str
    as_of: datetime | None


def file_facts(folder: Path, files: Iterable[str]) -> SourceFacts:
    """Of files relative to ``folder``. Raises a CONFIGURATION fault where one cannot be read or lies outside."""
    digests, newest = {}, 0.0
    for name in sorted(set(files)):
        try:
            with open_inside(folder, name) as file:
                newest = max(newest, os.fstat(file.fileno()).st_mtime)
                digests[name] = hashlib.file_digest(file, "sha256").hexdigest()
        except OutsideFolder as error:
            raise _fault("file", f"{folder.name}/{name}: the file lies outside the dataset's folder") from error
        except OSError as error:
            raise _fault("file", f"{folder.name}/{name}: cannot be read: {error.strerror}; is it there?") from error
    revision = f"sha256-{digest('dataset-agent/revision/1', digests)[:32]}"
    return SourceFacts(revision, datetime.fromtimestamp(newest, UTC) if digests else None)


def command_facts(folder: Path, command: Sequence[str], *, timeout: float = COMMAND_TIMEOUT) -> SourceFacts:
    """What ``command`` prints: one line, a revision and perhaps an instant in RFC 3339.

    It runs in ``folder`` without a shell, standard input, or settings of this process, and is
    killed with its children after ``timeout`` seconds. What it prints is in no message. Raises
    a CONFIGURATION fault.
    """
    where = f"{folder.name}: revision_command"
    parts = _output(folder, command, timeout, where).split()
    if not 1 <= len(parts) <= 2 or not is_version(parts[0]):
        raise _fault("command", f"{where}: print one line: a revision of letters, digits and '._+-', and perhaps as_of")
    if len(parts) == 1:
        return SourceFacts(parts[0], None)
    try:
        as_of = datetime.fromisoformat(parts[1])
        if as_of.tzinfo is not None:
            as_of = as_of.astimezone(UTC)
    except (ValueError, OverflowError):  # the first day of the calendar may lie before it in UTC
        raise _fault("command", f"{where}: its second word is no instant such as 2026-08-31T22:00:00Z") from None
    if as_of.tzinfo is None:
        raise _fault("command", f"{where}: its instant needs a zone, such as 2026-08-31T22:00:00Z")
    return SourceFacts(parts[0], as_of)


def _output(folder: Path, command: Sequence[str], timeout: float, where: str) -> str:
    environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
    try:
        process = subprocess.Popen(  # noqa: S603 - allowed by the operator's setting, and no shell
            list(command),
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        raise _fault("command", f"{where}: cannot be started: {error.strerror}") from error
    except ValueError as error:  # NUL, or text that is no Unicode
        raise _fault("command", f"{where}: holds what is no argument of a command") from error
    with process:
        try:
            printed = _printed(process, time.monotonic() + timeout)
        finally:
            _kill(process)  # not reaped yet, so its group is still its own
    if printed is None:
        raise _fault("command", f"{where}: took longer than {timeout:g} s")
    if len(printed) > _MAX_OUTPUT:
        raise _fault("command", f"{where}: printed more than {_MAX_OUTPUT} bytes")
    if process.returncode != 0:
        raise _fault("command", f"{where}: ended with {process.returncode}; run it in the dataset's folder to see why")
    return printed.decode("utf-8", "replace")


def _printed(process: subprocess.Popen[bytes], deadline: float) -> bytes | None:
    """What it prints until it ends, one byte too many of what is too much; ``None`` where time runs out first.

    Something it left running may hold its output open for ever: that is waited for no longer either.
    """
    printed = b""
    if process.stdout is None:
        return printed
    while (left := deadline - time.monotonic()) > 0 and select.select([process.stdout], [], [], left)[0]:
        piece = os.read(process.stdout.fileno(), _MAX_OUTPUT + 1 - len(printed))
        printed += piece
        if len(printed) > _MAX_OUTPUT:
            return printed
        if not piece:
            return printed if _ends(process, deadline) else None
    return None


def _ends(process: subprocess.Popen[bytes], deadline: float) -> bool:
    """Whether it ends in time; it is left to be reaped."""
    while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
        if time.monotonic() > deadline:
            return False
        time.sleep(_PAUSE_S)
    return True


def _kill(process: subprocess.Popen[bytes]) -> None:
    """The command and what it started and left behind."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def check_age(name: str, facts: SourceFacts, now: float) -> SourceFacts:
    """Refuse an instant that is yet to come: data would look fresh until then. Raises a CONFIGURATION fault."""
    if facts.as_of is not None and facts.as_of > datetime.fromtimestamp(now, UTC) + _LONGEST_SKEW:
        raise _fault("age", f"{name}: its source says it was changed in the future; correct a clock, or state as_of")
    return facts


def not_allowed(name: str) -> DatasetAgentError:
    return _fault(
        "not_allowed",
        f"{name}: revision_command runs code of the dataset's folder; "
        "allow it by DATASET_AGENT_REVISION_COMMANDS=true, or state a revision",
    )


def _fault(code: str, message: str) -> DatasetAgentError:
    return DatasetAgentError(Component.CONTROL_PLANE, Category.CONFIGURATION, f"control_plane.source.{code}", message)
