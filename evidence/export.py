"""A ledger as JSON lines, to be taken away: the newest checkpoint first, then one line per entry.

An export holds everything that is hashed and signed, so it verifies like the file itself.
Copying a ledger's database file instead would leave its ``-wal``, the newest rows, behind.
One that begins after row 0 says on its first line what it stands on: a checkpoint and the
peaks of its tree. Rows that retention removed are there as their leaf hashes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Final

import orjson

from contract.canonical import InvalidJson, b64url, parse_json, unb64url
from evidence.checkpoint import Checkpoint, InvalidReceipt
from evidence.entry import Entry, Head, InvalidLedger, NotALedger
from evidence.merkle import Frontier
from evidence.row import COLUMNS, LATER

_HASHES: Final = ("leaf_hash", "root", "signature")
_LEAVES_A_LINE: Final = 256
_HEX: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Beginning:
    """The rows before ``head.frontier.size`` are not here; this is what the next one stands on."""

    head: Head


@dataclass(frozen=True, slots=True)
class Leaves:
    """Rows from ``start`` on of which only the leaf hashes are left."""

    start: int
    hashes: tuple[bytes, ...]


def first_line(newest: Checkpoint, begins: Head | None = None) -> str:
    """The line of the newest checkpoint that the rows lead up to, and of what the first of them stands on."""
    line: dict[str, Any] = {"checkpoint": newest.to_json()}
    if begins is not None and begins.frontier.size:
        line["begins"] = {
            "checkpoint": begins.checkpoint.to_json(),
            "peaks": [peak.hex() for peak in begins.frontier.peaks],
        }
    return _line(line)


def entry_line(entry: Entry) -> str:
    return _line(
        {
            "index": entry.index,
            **entry.cells,
            "leaf_hash": entry.leaf_hash.hex(),
            "root": entry.root.hex(),
            "signature": b64url(entry.signature),
        }
    )


def leaves_line(leaves: Leaves) -> str:
    return _line({"leaves": {"start": leaves.start, "hashes": [leaf.hex() for leaf in leaves.hashes]}})


def stripped(parts: Iterable[Checkpoint | Beginning | Entry | Leaves]) -> Iterator[str]:
    """The lines of an export without what its rows say: their hashes are left, so that it verifies."""
    held: list[bytes] = []
    rest = iter(parts)
    newest = newest_of(rest)
    second = next(rest, None)
    begins = second.head if isinstance(second, Beginning) else None
    yield first_line(newest, begins)
    at = begins.frontier.size if begins else 0
    for part in rest if begins or second is None else chain((second,), rest):
        held += part.hashes if isinstance(part, Leaves) else [part.leaf_hash] if isinstance(part, Entry) else []
        while len(held) >= _LEAVES_A_LINE:
            yield leaves_line(Leaves(at, tuple(held[:_LEAVES_A_LINE])))
            at += _LEAVES_A_LINE
            del held[:_LEAVES_A_LINE]
    if held:
        yield leaves_line(Leaves(at, tuple(held)))


def newest_of(parts: Iterator[object]) -> Checkpoint:
    """The checkpoint that the parts of a ledger begin with. Raises ``InvalidLedger`` for something else."""
    first = next(parts, None)
    if not isinstance(first, Checkpoint):
        raise InvalidLedger("it does not begin with a checkpoint")
    return first


def is_export(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(1) == b"{"


def read_export(path: Path) -> Iterator[Checkpoint | Beginning | Entry | Leaves]:
    """The checkpoint, what it stands on, then what it holds, unverified. Raises ``InvalidLedger``, ``NotALedger``."""
    with path.open("rb") as file:
        newest, line = _first(file)
        yield newest
        if "begins" in line:
            yield Beginning(_begins(line["begins"]))
        for number, row in enumerate(file):
            yield _part(number, row)


def checkpoint_of(path: Path) -> Checkpoint:
    """The checkpoint that an export leads up to, unverified. Raises ``NotALedger``."""
    with path.open("rb") as file:
        return _first(file)[0]


def _first(lines: Iterator[bytes]) -> tuple[Checkpoint, dict[str, Any]]:
    """The newest checkpoint, and the members of the line that says it. Raises ``NotALedger``."""
    try:
        value = _read(next(lines))
        if not isinstance(value, dict) or set(value) | {"begins"} != {"checkpoint", "begins"}:  # a receipt has one too
            raise InvalidReceipt("not the first line of an export")
        return Checkpoint.from_json(value["checkpoint"]), value
    except (StopIteration, InvalidJson, InvalidReceipt) as error:
        raise NotALedger("it begins with neither a database nor a checkpoint") from error


def _begins(value: Any) -> Head:
    try:
        checkpoint = Checkpoint.from_json(value["checkpoint"])
        peaks = b"".join(map(_hash, value["peaks"]))
        head = Head(checkpoint, Frontier.from_bytes(checkpoint.size, peaks))
    except (TypeError, KeyError, ValueError) as error:
        raise InvalidLedger("the first line does not say what the rows stand on") from error
    if head.frontier.root() != checkpoint.root:
        raise InvalidLedger("what the rows stand on does not hash to its root")
    return head


def _part(number: int, line: bytes) -> Entry | Leaves:
    try:
        value = _read(line)
        if type(value) is dict and set(value) == {"leaves"}:
            return _leaves(value["leaves"])
        if set(value) | set(LATER) != {"index", *COLUMNS, *_HASHES} or type(value["index"]) is not int:
            raise ValueError("other members than an entry's")
        return Entry(
            index=value["index"],
            cells={name: value.get(name) for name in COLUMNS},
            leaf_hash=_hash(value["leaf_hash"]),
            root=_hash(value["root"]),
            signature=unb64url(value["signature"]),
        )
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise InvalidLedger(f"line {number + 2} is not an entry") from error


def _read(line: bytes) -> Any:
    """A line as JSON that has one reading: no member twice. Raises ``InvalidJson``."""
    text = line.rstrip(b"\r\n")
    return parse_json(text, limit=len(text))


def _hash(text: Any) -> bytes:
    """A hash in its one spelling: ``bytes.fromhex`` takes capitals and blanks too.

    Raises ``ValueError``, and ``TypeError`` for no text.
    """
    if _HEX.fullmatch(text) is None:
        raise ValueError("no hash")
    return bytes.fromhex(text)


def _leaves(value: Any) -> Leaves:
    hashes = tuple(map(_hash, value["hashes"]))
    if set(value) != {"start", "hashes"} or type(value["start"]) is not int:
        raise ValueError("no leaf hashes")
    return Leaves(value["start"], hashes)


def _line(value: dict[str, Any]) -> str:
    return orjson.dumps(value).decode()
