"""A ledger as JSON lines, to be taken away: the newest checkpoint first, then one line per entry.

An export holds everything that is hashed and signed, so it verifies like the file itself.
Copying a ledger's database file instead would leave its ``-wal``, the newest rows, behind.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import orjson

from contract.canonical import b64url, unb64url
from evidence.checkpoint import Checkpoint, InvalidReceipt
from evidence.entry import Entry, InvalidLedger, NotALedger
from evidence.reader import LedgerFile
from evidence.row import COLUMNS, LATER

_HASHES = ("leaf_hash", "root", "signature")


def export_lines(path: Path) -> Iterator[str]:
    """The lines, without line ends, as of one commit. Raises ``DatasetAgentError`` as ``LedgerFile``."""
    with LedgerFile(path).reading() as opened:
        yield _line({"checkpoint": opened.head().checkpoint.to_json()})
        for entry in opened.entries():
            yield _line(
                {
                    "index": entry.index,
                    **entry.cells,
                    "leaf_hash": entry.leaf_hash.hex(),
                    "root": entry.root.hex(),
                    "signature": b64url(entry.signature),
                }
            )


def is_export(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(1) == b"{"


def read_export(path: Path) -> Iterator[Checkpoint | Entry]:
    """The checkpoint, then the entries, unverified. Raises ``InvalidLedger`` for a line that is neither."""
    with path.open("rb") as file:
        try:
            yield _newest(orjson.loads(next(file)))
        except (StopIteration, orjson.JSONDecodeError, InvalidReceipt) as error:
            raise NotALedger("it begins with neither a database nor a checkpoint") from error
        for number, line in enumerate(file):
            yield _entry(number, line)


def _newest(value: object) -> Checkpoint:
    if not isinstance(value, dict) or set(value) != {"checkpoint"}:  # a receipt has one too
        raise InvalidReceipt("not the first line of an export")
    return Checkpoint.from_json(value["checkpoint"])


def _entry(number: int, line: bytes) -> Entry:
    try:
        value = orjson.loads(line)
        if set(value) | set(LATER) != {"index", *COLUMNS, *_HASHES} or type(value["index"]) is not int:
            raise ValueError("other members than an entry's")
        return Entry(
            index=value["index"],
            cells={name: value.get(name) for name in COLUMNS},
            leaf_hash=bytes.fromhex(value["leaf_hash"]),
            root=bytes.fromhex(value["root"]),
            signature=unb64url(value["signature"]),
        )
    except (ValueError, TypeError, AttributeError) as error:
        raise InvalidLedger(f"line {number + 2} is not an entry") from error


def _line(value: dict[str, object]) -> str:
    return orjson.dumps(value).decode()
