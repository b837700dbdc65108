"""Text of a CSV field as a value of its declared type: one spelling for each type, nothing guessed.

An empty field is NULL; one that is empty in quotes is the empty STRING, and NULL for any other type.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from contract.schema import SqlType

S = SqlType
_DAY: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK: Final = r"[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?"
_NUMBER: Final = r"([0-9]+(\.[0-9]*)?|\.[0-9]+)"


@dataclass(frozen=True, slots=True)
class Spelling:
    """How a type is written in a CSV file. ``said`` tells people, ``form`` is matched by the whole text."""

    form: str
    said: str


SPELLINGS: Final[dict[SqlType, Spelling]] = {
    # pandas writes the whole numbers of a column that has gaps as 517.0
    S.INT64: Spelling(r"^-?[0-9]{1,19}(\.0*)?$", "a whole number such as 517 or 517.0"),
    S.FLOAT64: Spelling(rf"^[+-]?{_NUMBER}([eE][+-]?[0-9]{{1,3}})?$", "a number such as 41.13 or 4.1e1"),
    S.NUMERIC: Spelling(rf"^[+-]?{_NUMBER}([eE][+-]?[0-9]{{1,3}})?$", "a number with at most 9 decimal places"),
    S.BOOL: Spelling(r"^(?i:true|false)$", "true or false"),
    S.DATE: Spelling(rf"^{_DAY}$", "a day such as 2024-02-29"),
    S.DATETIME: Spelling(rf"^{_DAY}[T ]{_CLOCK}$", "a time such as 2024-02-29T13:45:00, without a zone"),
    S.TIMESTAMP: Spelling(
        rf"^{_DAY}[T ]{_CLOCK}(Z|[+-][0-9]{{2}}:?[0-9]{{2}}| UTC)$",
        "an instant with its zone, such as 2024-02-29T13:45:00Z",
    ),
    S.TIME: Spelling(rf"^{_CLOCK}$", "a time of day such as 13:45:00"),
    S.BYTES: Spelling(r"^[A-Za-z0-9+/]*={0,2}$", "base64"),
}


@dataclass(frozen=True, slots=True)
class Read:
    """A column of values, or the place of the first text that is none of its type."""

    values: Any
    wrong: int | None = None


def read_values(kind: SqlType, text: Any) -> Read:
    """``text`` (an Arrow array of strings) as values of ``kind``, which is no STRUCT."""
    if kind is S.STRING:
        return Read(text)
    text = pc.if_else(pc.equal(text, pa.scalar("")), pa.scalar(None, pa.string()), text)
    fits = pc.fill_null(pc.match_substring_regex(text, SPELLINGS[kind].form), True)
    misfit = pc.index(fits, False).as_py()
    if misfit >= 0:
        return Read(None, misfit)
    convert = _CONVERT[kind]
    try:
        return Read(convert(text))
    except (pa.ArrowException, binascii.Error):
        return Read(None, _first_wrong(text, convert))


def _first_wrong(text: Any, convert: Callable[[Any], Any]) -> int:
    """By halves: the longest beginning that converts ends before it."""
    good, bad = 0, len(text)
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            convert(text.slice(0, middle))
            good = middle
        except (pa.ArrowException, binascii.Error):
            bad = middle
    return good


def _whole(text: Any) -> Any:
    return pc.replace_substring_regex(text, r"\.0*$", "").cast(pa.int64())


def _time(text: Any) -> Any:
    return pc.binary_join_element_wise("1970-01-01T", text, "").cast(pa.timestamp("us")).cast(pa.time64("us"))


def _instant(text: Any) -> Any:
    return pc.replace_substring_regex(text, " UTC$", "Z").cast(pa.timestamp("us", "UTC"))


def _decoded(text: Any) -> Any:
    return pa.array(
        [None if value is None else base64.b64decode(value, validate=True) for value in text.to_pylist()], pa.binary()
    )


_CONVERT: Final[dict[SqlType, Callable[[Any], Any]]] = {
    S.INT64: _whole,
    S.FLOAT64: lambda text: text.cast(pa.float64()),
    S.NUMERIC: lambda text: text.cast(pa.decimal128(38, 9)),
    S.BOOL: lambda text: pc.equal(pc.ascii_lower(text), pa.scalar("true")),
    S.DATE: lambda text: text.cast(pa.date32()),
    S.DATETIME: lambda text: text.cast(pa.timestamp("us")),
    S.TIMESTAMP: _instant,
    S.TIME: _time,
    S.BYTES: _decoded,
}
