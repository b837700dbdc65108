"""One stored result on disk: chunks under AES-256-GCM, each bound to its result and its place.

The key is random, one for each result, and only ever in the memory of the process that made it.
So nothing that is left on a disk, by a crash or by a thief, can be read by anybody, this agent
included. A chunk is the ciphertext of at most ``CHUNK`` bytes and its tag; its nonce is its
number, its additional data the result's id, its number and whether it is the last: no chunk opens
in another place or another file, and a file that was cut does not end.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

CHUNK: Final = 1024 * 1024
"""Bytes of a result in one chunk; the last may have fewer."""
TAG: Final = 16
_NONCE: Final = 12
_CONTEXT: Final = b"dataset-agent/spool/1\x00"


class Damaged(Exception):
    """A chunk that is not what was written there."""


@dataclass(frozen=True, slots=True)
class Sealed:
    """A result as it lies on disk. ``digest`` is of its ``size`` bytes as they are sent."""

    path: Path
    result_id: str
    key: bytes = field(repr=False)
    digest: str
    size: int

    @property
    def stored(self) -> int:
        """Bytes on disk."""
        return stored_size(self.size)


def stored_size(size: int) -> int:
    """Bytes on disk of a result of ``size`` bytes; an empty one has one chunk too."""
    return size + TAG * max(1, -(-size // CHUNK))


class ChunkWriter:
    """Writes one file, from start to end. Not for two threads at a time."""

    def __init__(self, path: Path, result_id: str) -> None:
        """Creates the file, readable by its owner only. Raises ``OSError``."""
        self._path = path
        self._result_id = result_id
        self._key = os.urandom(32)
        self._cipher = AESGCM(self._key)
        self._digest = hashlib.sha256()
        self._waiting = bytearray()
        self._chunks = 0
        self._size = 0
        self._file = os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb", buffering=0)

    def write(self, data: bytes) -> None:
        """Append bytes of the result. Raises ``OSError``."""
        self._digest.update(data)
        self._size += len(data)
        left = memoryview(data)
        # What may turn out to be the last chunk is kept back.
        while len(self._waiting) + len(left) > CHUNK:
            room = CHUNK - len(self._waiting)
            self._waiting += left[:room]
            self._put(self._waiting, last=False)
            self._waiting.clear()
            left = left[room:]
        self._waiting += left

    def finish(self) -> Sealed:
        """The whole file. Raises ``OSError``."""
        self._put(self._waiting, last=True)
        self._waiting.clear()
        self._file.close()
        return Sealed(self._path, self._result_id, self._key, self._digest.hexdigest(), self._size)

    def discard(self) -> None:
        """Nothing of it is left; safe to call at any time."""
        self._file.close()
        self._waiting.clear()
        self._path.unlink(missing_ok=True)

    def _put(self, chunk: bytearray, *, last: bool) -> None:
        sealed = self._cipher.encrypt(_nonce(self._chunks), chunk, _context(self._result_id, self._chunks, last))
        view = memoryview(sealed)
        while view:
            view = view[self._file.write(view) :]
        self._chunks += 1


class ChunkReader:
    """Reads chunks of one file, each by itself. Chunks may be read in any order, by one thread at a time."""

    def __init__(self, sealed: Sealed) -> None:
        """Raises ``OSError``."""
        self._sealed = sealed
        self._cipher = AESGCM(sealed.key)
        # What has become a pipe is not waited for: reading it fails.
        self._descriptor = os.open(sealed.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)

    def read(self, number: int) -> bytes:
        """The bytes of a chunk. Raises ``Damaged`` and ``OSError``."""
        sealed, last = self._sealed, _last(self._sealed.size)
        length = sealed.size - number * CHUNK if number == last else CHUNK
        found = os.pread(self._descriptor, length + TAG, number * (CHUNK + TAG))
        try:
            return self._cipher.decrypt(_nonce(number), found, _context(sealed.result_id, number, number == last))
        except (InvalidTag, ValueError) as error:
            raise Damaged(f"chunk {number} of a stored result is not what was written") from error

    def close(self) -> None:
        """Safe to call again."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _last(size: int) -> int:
    return max(0, size - 1) // CHUNK


def _nonce(number: int) -> bytes:
    return number.to_bytes(_NONCE, "big")


def _context(result_id: str, number: int, last: bool) -> bytes:
    return _CONTEXT + result_id.encode() + b"\x00" + number.to_bytes(8, "big") + (b"\x01" if last else b"\x00")
