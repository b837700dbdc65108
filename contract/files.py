"""Files as who did not make them finds them: read whole within a bound, and judged by whose they are."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def read_bounded(path: Path, limit: int) -> bytes:
    """The bytes of a regular file, wherever links lead to it.

    Raises ``OSError``: also for what is no file (a device or a pipe has no end, and may
    never answer), and ``EFBIG`` for one of more than ``limit`` bytes.
    """
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", str(path))
        data = file.read(limit + 1)
    if len(data) > limit:
        raise OSError(errno.EFBIG, f"it is larger than {limit} bytes", str(path))
    return data


def of_another_user(folder: Path, *files: Path) -> tuple[Path, int] | None:
    """A path and its owner's id, where what this process writes into ``folder`` would be in another user's way.

    Files that are there tell whose it is; where none is, the superuser goes by the folder,
    and for everybody else its permissions say enough.
    """
    user, owners = os.geteuid(), {path: _owner(path) for path in (*files, folder)}
    known = [path for path in files if owners[path] is not None] or [folder] * (user == 0)
    for path in known:
        owner = owners[path]
        if owner is not None and owner != user:
            return path, owner
    return None


def _owner(path: Path) -> int | None:
    try:
        return path.stat().st_uid
    except OSError:
        return None
