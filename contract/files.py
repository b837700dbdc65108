"""Files as who did not make them finds them: read whole within a bound, and judged by whose they are."""

from __future__ import annotations

import errno
import os
import stat
from io import FileIO
from pathlib import Path

_READING = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_WALKING = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class OutsideFolder(OSError):
    """A path that leads out of the folder that it is to be in."""


def read_bounded(path: Path, limit: int) -> bytes:
    """The bytes of a regular file, wherever links lead to it.

    Raises ``OSError``: also for what is no file (a device or a pipe has no end, and may
    never answer), and ``EFBIG`` for one of more than ``limit`` bytes.
    """
    with open(os.open(path, _READING), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", str(path))
        data = file.read(limit + 1)
    if len(data) > limit:
        raise OSError(errno.EFBIG, f"it is larger than {limit} bytes", str(path))
    return data


def open_inside(folder: Path, name: str) -> FileIO:
    """The regular file ``name`` of ``folder``, open for reading. Links may lead elsewhere inside, and not out.

    Who may write in the folder may exchange what was looked at for a link before it is opened. So
    each step is made from the open folder before it, and follows none: what is open is inside.
    Raises ``OutsideFolder``; ``OSError`` for what is not there, is no regular file or became a
    link meanwhile; ``RuntimeError`` or ``ValueError`` for what no file can be called.
    """
    root = folder.resolve()
    path = (root / name).resolve()
    if not path.is_relative_to(root):
        raise OutsideFolder(errno.EXDEV, "it lies outside its folder", name)
    *above, last = path.relative_to(root).parts or (".",)
    held = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in above:
            below = os.open(part, _WALKING, dir_fd=held)
            os.close(held)
            held = below
        found = os.open(last, _READING | os.O_NOFOLLOW, dir_fd=held)
    finally:
        os.close(held)
    if not stat.S_ISREG(os.fstat(found).st_mode):
        os.close(found)
        raise OSError(errno.EINVAL, "it is no regular file", name)
    return FileIO(found, "rb")


def path_of(file: FileIO) -> Path:
    """A path to what is open, whatever has its name by now; for who reads files by their path, from the beginning."""
    file.seek(0)
    return Path(f"/dev/fd/{file.fileno()}")


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
