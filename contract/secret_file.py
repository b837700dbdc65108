"""A secret in a file: read where nobody but its owner can read or change it."""

from __future__ import annotations

import os
import shlex
import stat
from pathlib import Path
from typing import Literal


class SecretFileError(Exception):
    """Why a secret is not read. ``code`` is one of four words; the message says what to do and repeats nothing."""

    def __init__(self, code: Literal["missing", "permissions", "unreadable", "malformed"], message: str) -> None:
        super().__init__(message)
        self.code = code


def read_secret(path: Path, *, what: str, limit: int) -> bytes:
    """The bytes of a regular file of mode 0600, of this user or of root, of at most ``limit`` bytes.

    It is the file that a link leads to that is judged. ``what`` names it in messages. Raises ``SecretFileError``.
    """
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise SecretFileError("unreadable", f"{path} is no file: put {what} there")
            if stat.S_IMODE(status.st_mode) & 0o077:
                raise SecretFileError("permissions", f"others may read {what}; run: chmod 600 {shlex.quote(str(path))}")
            if status.st_uid not in (os.geteuid(), 0):
                told = f"{path} with {what} belongs to another user; run: chown {os.geteuid()} {shlex.quote(str(path))}"
                raise SecretFileError("permissions", told)
            data = file.read(limit + 1)
    except FileNotFoundError as error:
        raise SecretFileError("missing", f"there is no file with {what} at {path}") from error
    except OSError as error:
        raise SecretFileError("unreadable", f"{what} at {path} cannot be read: {error.strerror}") from error
    if len(data) > limit:
        raise SecretFileError("malformed", f"{path} is too large to be {what}")
    return data
