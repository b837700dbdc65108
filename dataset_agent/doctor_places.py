"""The part of ``doctor`` that looks at places: who else could read what is private, or write what is believed."""

from __future__ import annotations

import itertools
import os
import shlex
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from contract.settings import Settings
from dataset_agent.finding import Finding

_OTHERS: Final = 0o077
_OTHERS_WRITE: Final = 0o022
_WORLD_WRITES: Final = 0o002
_MOST: Final = 20_000


def check_places(settings: Settings) -> Iterator[Finding]:
    """Key stores are looked at where the keys are opened; here is everything else."""
    if not settings.home.is_dir():
        return
    found = [*_trust(settings), *_home(settings), *_strangers(settings), *_datasets(settings)]
    yield from found
    if not found:
        yield Finding("permissions", "ok")


def _trust(settings: Settings) -> Iterator[Finding]:
    """Public, but whoever writes it says who is believed."""
    path = settings.trust_path
    if path.exists():
        yield from _weak(path, _OTHERS_WRITE, "chmod 644", "decide who is believed")
        yield from _weak(path.parent, _OTHERS_WRITE, "chmod go-w", "replace trust.toml")


def _home(settings: Settings) -> Iterator[Finding]:
    """Stores, ledgers, run files: of this user alone. A folder that others may look into hides its files' names only."""
    public = {settings.trust_path, settings.trust_path.with_name(settings.trust_path.name + ".lock")}
    if settings.home != settings.trust_path.parent:
        yield from _weak(settings.home, _OTHERS_WRITE, "chmod go-w", "replace what is in it")
    for path in itertools.islice(sorted(settings.home.rglob("*")), _MOST):
        if path in public or path.is_symlink():
            continue
        if path.is_dir():
            yield from _weak(path, _OTHERS_WRITE, "chmod go-w", "replace what is in it")
        else:
            yield from _weak(path, _OTHERS, "chmod 600", "read or change it")


def _strangers(settings: Settings) -> Iterator[Finding]:
    """Files that a command left as another user, which the user that serves may be unable to read."""
    user, owner = os.geteuid(), settings.home.stat().st_uid
    mine = owner if user == 0 else user
    if mine == 0:  # the superuser reads everything, and in a home of its own cannot tell who serves
        return
    for path in itertools.islice(sorted(settings.home.rglob("*")), _MOST):
        try:
            status = path.stat()
        except OSError:
            continue
        if status.st_uid not in (mine, owner) and not status.st_mode & _OTHERS:
            advice = f"it belongs to user {status.st_uid}; run as that user or as root: chown {mine} {shlex.quote(str(path))}"
            yield Finding(f"owner of {path}", "broken", advice)


def _datasets(settings: Settings) -> Iterator[Finding]:
    """Policies, principals and descriptors decide what is released."""
    for path in itertools.islice([settings.datasets, *sorted(settings.datasets.rglob("*"))], _MOST):
        if not path.is_symlink():
            yield from _weak(path, _WORLD_WRITES, "chmod o-w", "change what is released")


def _weak(path: Path, forbidden: int, command: str, what: str) -> Iterator[Finding]:
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError:  # it went away, or is nobody's business of this user
        return
    if mode & forbidden and not (path.is_dir() and mode & stat.S_ISVTX):
        yield Finding(f"permissions of {path}", "broken", f"others may {what}; run: {command} {shlex.quote(str(path))}")
