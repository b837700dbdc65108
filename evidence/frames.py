"""What a serving process and the writer of its ledger say to one another: frames over a Unix socket.

A frame is four bytes of length and a body. A request is JSON: the public key that checkpoints
are to be signed with (hex), and the members of some rows. Its reply, in the order of the
requests, is one byte, whether they are on disk, and their receipts.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

from evidence.checkpoint import Checkpoint, Receipt
from evidence.entry import is_plain
from evidence.merkle import HASH_BYTES

MAX_FRAME_BYTES: Final = 64 * 2**20
_LENGTH: Final = struct.Struct(">I")
_RECEIPT: Final = struct.Struct(">Q32s32s64s32sB")
_KEPT: Final = b"\x01"

Members = Mapping[str, Any]

LOST: Final = b"\x00"
"""The reply where nothing was written, or nobody knows."""


class InvalidFrame(ValueError):
    """Bytes that neither side sends."""


class Frames:
    """Cuts what arrives into the bodies of whole frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """The bodies that are complete now. Raises ``InvalidFrame`` for one that is too long."""
        buffer, at, bodies = self._buffer, 0, []
        buffer += data
        while len(buffer) - at >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(buffer, at)
            if length > MAX_FRAME_BYTES:
                raise InvalidFrame("a frame is too long")
            end = at + _LENGTH.size + length
            if len(buffer) < end:
                break
            bodies.append(bytes(buffer[at + _LENGTH.size : end]))
            at = end
        del buffer[:at]
        return bodies


def framed(body: bytes) -> bytes:
    """A body behind its length, as it goes over the socket."""
    return _LENGTH.pack(len(body)) + body


def request(key: str, rows: Sequence[Members]) -> bytes:
    """The body that asks for rows to be appended, as ``read_request`` reads it."""
    return orjson.dumps((key, rows))


def read_request(body: bytes) -> tuple[str, list[Members]]:
    """Raises ``InvalidFrame``: one client's nonsense must not end the writer of all."""
    try:
        key, rows = orjson.loads(body)
    except (ValueError, TypeError) as error:
        raise InvalidFrame("a request is no key and rows") from error
    if type(key) is not str or type(rows) is not list or not rows or not all(map(is_plain, rows)):
        raise InvalidFrame("a request is no key and rows")
    return key, rows


def reply(receipts: Sequence[Receipt]) -> bytes:
    """Rows of one commit: their receipts speak of one ledger."""
    origin = receipts[0].checkpoint.origin.encode()
    parts = [_KEPT, bytes((len(origin),)), origin]
    for receipt in receipts:
        checkpoint, path = receipt.checkpoint, receipt.inclusion
        parts.append(
            _RECEIPT.pack(
                receipt.index, receipt.leaf_hash, checkpoint.root, checkpoint.signature, receipt.opening, len(path)
            )
        )
        parts.extend(path)
    return b"".join(parts)


def read_reply(body: bytes, times: Sequence[str]) -> list[Receipt]:
    """The receipts of rows recorded at ``times``. Raises ``InvalidFrame``, also for ``LOST``."""
    if not body.startswith(_KEPT):
        raise InvalidFrame("the rows were not written")
    try:
        at = 2 + body[1]
        origin = body[2:at].decode()
        receipts = []
        for time in times:
            index, leaf, root, signature, opening, steps = _RECEIPT.unpack_from(body, at)
            at += _RECEIPT.size
            path = tuple(body[at + HASH_BYTES * step : at + HASH_BYTES * (step + 1)] for step in range(steps))
            at += HASH_BYTES * steps
            receipts.append(Receipt(index, leaf, Checkpoint(origin, index + 1, root, time, signature), path, opening))
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise InvalidFrame("a reply is cut short") from error
    if at != len(body):
        raise InvalidFrame("a reply is of other rows")
    return receipts
