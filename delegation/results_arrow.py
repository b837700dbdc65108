"""The frames of an Arrow stream, read before any Arrow reader sees them.

An IPC stream is a chain of messages: a marker, the length of the metadata, the metadata (a
flatbuffer ``Message``), and a body. A reader believes what the metadata says: it allocates the
lengths, inflates a compressed body, keeps dictionaries. So only the form that this product's own
writer makes is let through: one schema, record batches without compression, an end, and nothing
behind it. Offsets are those of the Arrow columnar format 1.x, ``Message.fbs`` and ``Schema.fbs``.
"""

from __future__ import annotations

import io
import struct
from typing import Final

MAX_METADATA: Final = 1024 * 1024
"""Bytes of a message's metadata; a batch of 500 columns has some 30 KB."""

_MARKER: Final = 0xFFFFFFFF
_SCHEMA, _RECORD_BATCH = 1, 3
_HEADER_TYPE, _HEADER, _BODY_LENGTH = 1, 2, 3  # places in Message
_COMPRESSION: Final = 3  # its place in RecordBatch
_PREFIX: Final = struct.Struct("<II")


class UnexpectedFrame(ValueError):
    """A stream that is not of the one form."""


def check_frames(file: io.BufferedRandom, size: int) -> None:
    """Walk the messages of ``file``, which has ``size`` bytes, from its start. Raises ``UnexpectedFrame``, ``OSError``.

    Reads the metadata only, a message at a time.
    """
    place, wanted = 0, _SCHEMA
    while True:
        file.seek(place)
        marker, length = _PREFIX.unpack(_exactly(file, _PREFIX.size))
        place += _PREFIX.size
        if marker != _MARKER:
            raise UnexpectedFrame("a message without a marker")
        if length == 0:
            break
        if length > MAX_METADATA:
            raise UnexpectedFrame("a message with too much metadata")
        body = _body_of(_Flat(_exactly(file, length)), wanted)
        place += length + body
        if place > size:
            raise UnexpectedFrame("a message that is longer than the stream")
        wanted = _RECORD_BATCH
    if wanted == _SCHEMA or place != size:
        raise UnexpectedFrame("no schema, or bytes behind the end")


def _body_of(metadata: _Flat, wanted: int) -> int:
    """The bytes of the body of a message of the wanted kind."""
    message = metadata.table(0)
    kind = metadata.field(message, _HEADER_TYPE, "<B")
    body = metadata.field(message, _BODY_LENGTH, "<q")
    if kind != wanted or body < 0 or (wanted == _SCHEMA and body):
        raise UnexpectedFrame("a message of another kind")
    if kind == _RECORD_BATCH and metadata.has(metadata.below(message, _HEADER), _COMPRESSION):
        raise UnexpectedFrame("a compressed batch")
    return body


def _exactly(file: io.BufferedRandom, size: int) -> bytes:
    found = file.read(size)
    if len(found) != size:
        raise UnexpectedFrame("a stream that is cut off")
    return found


class _Flat:
    """A flatbuffer, read at checked places."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def table(self, at: int) -> int:
        """Where the table is that the offset ``at`` leads to."""
        return at + self._number("<I", at)

    def has(self, table: int, number: int) -> bool:
        return self._slot(table, number) != 0

    def field(self, table: int, number: int, form: str) -> int:
        """A scalar of the table; 0 where it is left out, which is its default."""
        slot = self._slot(table, number)
        return self._number(form, table + slot) if slot else 0

    def below(self, table: int, number: int) -> int:
        """Where the table is that a field leads to."""
        slot = self._slot(table, number)
        if not slot:
            raise UnexpectedFrame("a message without content")
        return self.table(table + slot)

    def _slot(self, table: int, number: int) -> int:
        layout = table - self._number("<i", table)
        place = 4 + 2 * number
        return self._number("<H", layout + place) if place < self._number("<H", layout) else 0

    def _number(self, form: str, at: int) -> int:
        if at < 0 or at + struct.calcsize(form) > len(self._data):
            raise UnexpectedFrame("a field beyond the metadata")
        return int(struct.unpack_from(form, self._data, at)[0])
