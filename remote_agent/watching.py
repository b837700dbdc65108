"""Edits below the datasets folder, noticed by the stamps of its files and taken over when they have settled."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, TypeVar

log = logging.getLogger(__name__)
T = TypeVar("T")
Stamp = tuple[int, int, int, int]
Stamps = Mapping[str, Stamp]
"""Of each file below a folder its size, times of modification and change in nanoseconds, and inode."""

_DEEPEST: Final = 8
_MOST: Final = 100_000


def stamps_of(folder: Path) -> Stamps:
    """Of every file below ``folder`` but hidden ones and what editors leave beside one. Nothing is read but stamps.

    A file that goes away meanwhile is not there; so is a folder that cannot be listed.
    """
    found: dict[str, Stamp] = {}
    for path in _files(str(folder), 0):
        try:
            held = os.stat(path)
        except OSError:
            continue
        found[path] = (held.st_size, held.st_mtime_ns, held.st_ctime_ns, held.st_ino)
        if len(found) >= _MOST:
            break
    return found


def _files(folder: str, depth: int) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            held = [entry for entry in entries if not entry.name.startswith((".", "__")) and entry.name[-1] != "~"]
    except OSError:
        return
    for entry in held:
        if _is_folder(entry):
            if depth < _DEEPEST:
                yield from _files(entry.path, depth + 1)
        else:
            yield entry.path


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


async def watch(
    folder: Path, interval: float, *, taken: Callable[[], Stamps], reload: Callable[[], Awaitable[None]]
) -> None:
    """Call ``reload`` after every edit, until cancelled.

    ``taken`` are the stamps of what is in force. An edit is over when nothing changes for one
    interval, so that a half-written file is left alone; one that cannot be used is tried once.
    """
    before = taken()
    while True:
        await asyncio.sleep(interval)
        now = await asyncio.to_thread(stamps_of, folder)
        if now == before and now != taken():
            log.info("the datasets folder was edited: reloading")
            await _tried(reload())
        before = now


async def watch_sources(
    interval: float, *, changed: Callable[[], Awaitable[bool]], reload: Callable[[], Awaitable[None]]
) -> None:
    """Call ``reload`` whenever ``changed`` says so, until cancelled; it is asked once an interval."""
    while True:
        await asyncio.sleep(interval)
        if await _tried(changed()):
            log.info("a source elsewhere has changed: reloading")
            await _tried(reload())


async def _tried(step: Awaitable[T]) -> T | None:
    """Whatever one round holds, the next change is noticed."""
    try:
        return await step
    except Exception as error:
        log.error("looking for edits failed: %s", type(error).__name__)
        return None
