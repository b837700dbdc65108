"""One stored entry: a header anyone may read, a payload only this service can open.

    "dsce2" | header length (4 bytes, big-endian) | header JSON | nonce (12) | AES-256-GCM(payload)

The payload is the size of the result if it is an LZ4 block, else 0 (4 bytes), the length of its facts (4), the facts
(JSON), and the result.

The header and the key are the additional authenticated data, so an entry that was edited,
made under another secret or copied to another key does not open. A digest in the header proves the
same of key and header alone, for who lists entries and reads no payload.
"""

from __future__ import annotations

import hmac
import os
import re
import struct
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import orjson
from cryptography.exceptions import InvalidTag

from cache.keys import ID_HEX, KID_HEX, CacheKeys
from cache.partition import PLAIN, is_plain, parse_key
from contract.canonical import InvalidJson, parse_json
from contract.result import Execution, ResultDocument

MAGIC: Final = b"dsce2"
MAX_HEADER: Final = 4_096
PLAIN_BYTES: Final = 2_048
"""Results up to this size stay as they are: to decompress one costs more than to read the rest of it."""
_MEMBERS: Final = {"dimensions", "template", "as_of", "started", "exp", "size", "kid", "proof"}
_STALE: Final = "stale_s"
_KID: Final = re.compile(rf"[0-9a-f]{{{KID_HEX}}}")
_PROOF: Final = re.compile(rf"[0-9a-f]{{{ID_HEX}}}")
# The end of the year 9999: what follows has no date.
_MAX_TIME: Final = 253_402_300_800.0
_MAX_SIZE: Final = 2**53 - 1
HEAD_BYTES: Final = len(MAGIC) + 4 + MAX_HEADER
_NONCE: Final = 12
_LENGTH: Final = struct.Struct(">I")
_SIZES: Final = struct.Struct(">II")
_START: Final = len(MAGIC) + _LENGTH.size


class EntryError(ValueError):
    """Bytes that are not an entry of this key and secret."""


@cache
def _lz4() -> Any:
    """Twice as fast to read as zstd and to store, for entries that are at most twice as large.

    Who only lists entries needs none, and does not wait for pyarrow.
    """
    import pyarrow

    return pyarrow.Codec("lz4_raw")


class Header(NamedTuple):
    """The plain half of an entry.

    ``started`` and ``exp`` are POSIX seconds: when the execution that produced the entry
    began, and when it is fresh no more. For ``stale_s`` seconds from then it may be served
    as STALE, where there are any; then never. ``size`` is the result's size in bytes.
    ``kid`` names the secret that sealed it, and ``proof`` is made with that of key and header
    (``is_proven``); ``seal`` writes both.
    """

    dimensions: Mapping[str, str]
    template: str
    as_of: str
    started: float
    exp: float
    size: int
    kid: str = ""
    stale_s: int = 0
    proof: str = ""

    @property
    def end(self) -> float:
        """When it must no longer be served, POSIX seconds."""
        return self.exp + self.stale_s

    def to_bytes(self) -> bytes:
        told = {
            "dimensions": dict(self.dimensions),
            "template": self.template,
            "as_of": self.as_of,
            "started": self.started,
            "exp": self.exp,
            "size": self.size,
            "kid": self.kid,
            "proof": self.proof,
        }
        return orjson.dumps(told | {_STALE: self.stale_s} if self.stale_s else told)


def seal(
    header: Header,
    document: ResultDocument,
    execution: Execution,
    *,
    key: str,
    partition_id: str,
    keys: CacheKeys,
    parts: Mapping[str, str] = MappingProxyType({}),
) -> bytes:
    """The entry's bytes under ``key``. Raises ``EntryError`` for a header beyond ``MAX_HEADER``.

    ``parts`` are the digests of the scope's hidden parts (``Partition.part_ids``); they are sealed.
    """
    unproven = header._replace(kid=keys.kid, proof="")
    plain = unproven._replace(proof=_proof(unproven, key, keys)).to_bytes()
    if len(plain) > MAX_HEADER:
        raise EntryError("the header is too large")
    head = MAGIC + _LENGTH.pack(len(plain)) + plain
    facts = orjson.dumps(
        [dict(parts), document.row_count, document.as_of, document.derived, *_execution_facts(execution)]
    )
    nonce = os.urandom(_NONCE)
    sealed = keys.cipher(partition_id).encrypt(nonce, _packed(facts, document.body), head + key.encode())
    return head + nonce + sealed


def is_proven(header: Header, *, key: str, keys: CacheKeys) -> bool:
    """Whether the owner of ``keys`` wrote this header under this key; the payload may be damaged all the same."""
    return hmac.compare_digest(header.proof, _proof(header._replace(proof=""), key, keys))


def split(entry: bytes) -> tuple[Header, int]:
    """The header and where it ends, without any key. Raises ``EntryError``.

    Its numbers are numbers and in range. Nothing else in it is proven, not even that its
    texts are text, until ``open_sealed``.
    """
    if entry[: len(MAGIC)] != MAGIC or len(entry) < _START:
        raise EntryError("not an entry")
    end = _START + _LENGTH.unpack_from(entry, len(MAGIC))[0]
    if end > HEAD_BYTES or len(entry) < end:
        raise EntryError("the header is cut or too large")
    try:
        raw = orjson.loads(entry[_START:end])
    except ValueError as error:
        raise EntryError("the header is not readable") from error
    return _header(raw), end


def open_sealed(
    entry: bytes, end: int, *, key: str, partition_id: str, keys: CacheKeys
) -> tuple[ResultDocument, Execution]:
    """The result and its execution; ``end`` is where the header ends. Raises ``EntryError``."""
    _, document, execution = _opened(entry, end, key, partition_id, keys)
    return document, execution


def sealed_parts(entry: bytes, end: int, *, key: str, partition_id: str, keys: CacheKeys) -> Mapping[str, str]:
    """The digests of the scope's hidden parts, for who explains a miss; no row. Raises ``EntryError``."""
    parts, _, _ = _opened(entry, end, key, partition_id, keys)
    return parts


_Opened = tuple[Mapping[str, str], ResultDocument, Execution]


def _opened(entry: bytes, end: int, key: str, partition_id: str, keys: CacheKeys) -> _Opened:
    head, nonce, sealed = entry[:end], entry[end : end + _NONCE], memoryview(entry)[end + _NONCE :]
    try:
        payload = keys.cipher(partition_id).decrypt(nonce, sealed, head + key.encode())
    except (InvalidTag, ValueError, OverflowError) as error:
        raise EntryError("the entry does not open under its key") from error
    try:
        return _unpack(payload)
    except (OSError, struct.error, ValueError, TypeError) as error:
        # Sealed with this secret, by another release.
        raise EntryError("the entry is sealed in another form") from error


def read_header(entry: bytes, *, key: str) -> Header:
    """The header for listings: strict, its dimensions printable and equal to the key's.

    Raises ``EntryError``. ``entry`` may be cut after ``HEAD_BYTES``.
    """
    header, end = split(entry)
    try:
        parse_json(entry[_START:end], limit=MAX_HEADER)
    except InvalidJson as error:
        raise EntryError("the header is not readable") from error
    parts = parse_key(key)
    if not _is_listable(header):
        raise EntryError("the header holds what no entry holds")
    if parts is None or any(header.dimensions[name] != value for name, value in parts.dimensions.items()):
        raise EntryError("the header is not this key's")
    return header


def _header(raw: Any) -> Header:
    if not isinstance(raw, dict) or raw.keys() - {_STALE} != _MEMBERS:
        raise EntryError("the header does not have the members of one")
    started, exp, size, kid = raw["started"], raw["exp"], raw["size"], raw["kid"]
    stale_s = raw.get(_STALE, 0)
    if type(stale_s) is not int or not 0 <= stale_s <= _MAX_SIZE:
        raise EntryError("the header holds a time that is not one")
    for time in (started, exp):
        if type(time) not in (int, float) or not 0 <= time < _MAX_TIME - stale_s:
            raise EntryError("the header holds a time that is not one")
    if type(size) is not int or not 0 <= size <= _MAX_SIZE:
        raise EntryError("the header holds a size that is not one")
    return Header(
        raw["dimensions"], raw["template"], raw["as_of"], float(started), float(exp), size, kid, stale_s, raw["proof"]
    )


def _packed(facts: bytes, body: bytes) -> bytes:
    is_large = len(body) > PLAIN_BYTES
    sizes = _SIZES.pack(len(body) if is_large else 0, len(facts))
    return b"".join((sizes, facts, _lz4().compress(body, asbytes=True) if is_large else body))


def _unpack(payload: bytes) -> _Opened:
    size, length = _SIZES.unpack_from(payload)
    start = _SIZES.size + length
    parts, row_count, as_of, derived, *facts = orjson.loads(payload[_SIZES.size : start])
    if type(derived) is not bool:
        raise ValueError("not an entry of this release")
    body = _lz4().decompress(memoryview(payload)[start:], size, asbytes=True) if size else payload[start:]
    # Truncated results are never stored.
    document = ResultDocument(body, row_count, truncated=False, as_of=as_of, derived=derived)
    return parts, document, Execution(*facts)


def _is_listable(header: Header) -> bool:
    if not isinstance(header.dimensions, dict) or set(header.dimensions) != set(PLAIN):
        return False
    texts = (*header.dimensions.values(), header.template)
    if not all(isinstance(text, str) and is_plain(text) for text in texts):
        return False
    if not isinstance(header.kid, str) or _KID.fullmatch(header.kid) is None:
        return False
    if not isinstance(header.proof, str) or _PROOF.fullmatch(header.proof) is None:
        return False
    return isinstance(header.as_of, str) and is_plain(header.as_of.replace(":", "."))


def _proof(header: Header, key: str, keys: CacheKeys) -> str:
    read = header._replace(started=float(header.started), exp=float(header.exp))
    return keys.header_id(key.encode() + b"\x00" + read.to_bytes())


def _execution_facts(execution: Execution) -> tuple[Any, ...]:
    return (
        execution.execution_id,
        execution.engine,
        execution.job_id,
        execution.tool_origin,
        execution.started,
        execution.ended,
        execution.bytes_processed,
        execution.bytes_billed,
    )
