"""What columns a file holds, in the types of a descriptor: for whoever is about to declare them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from contract.ids import is_slug
from contract.schema import MAX_STRUCT_DEPTH, Mode, SqlType, StructField
from queries.csv_file import read_header, text_batches
from queries.csv_values import read_values

S = SqlType
NULL_WORDS: Final = ("NA", "N/A", "NULL", "null", "NaN", "nan", "None", "\\N", "-", "?")
"""What programs write for a value that is not there, where they do not leave the field empty."""

_TRIED: Final = (S.BOOL, S.INT64, S.FLOAT64, S.DATE, S.DATETIME, S.TIMESTAMP, S.TIME)
_WHOLE: Final = r"^-?(0|[1-9][0-9]*)(\.0)?$"
_GAPS: Final = r"\.0$"
_PADDED: Final = r"^-?0[0-9]"
_DIGITS: Final = r"^-?[0-9.]+$"
_WIDE: Final = r"^-?[0-9]{19,}$"
_AMOUNT: Final = r"([0-9][0-9,']*(\.[0-9]*)?|[0-9]{1,3}(\.[0-9]{3})*,[0-9]+)"
_ALIKE: Final = (
    (r"^-?[0-9]+(\.0)?$", "whole numbers, some too large for INT64: as text they keep every digit"),
    (r"^[0-9]{1,2}[./-][0-9]{1,2}[./-][0-9]{2,4}( .*)?$", "days in another form: write 2024-02-29 for a DATE"),
    (r"^[0-9]{4}([-/.][0-9]{2}){2}[ T].*$", "times in another form: write 2024-02-29T13:45:00Z for a TIMESTAMP"),
    (rf"^[-+(]?[$€£]? ?{_AMOUNT} ?[%$€£)]?$", "numbers in another form: write 1500.25 for a number"),
)
"""Forms of text that are none of a type and may be meant as one, and what to say of a column of them."""


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """A column as it is in a file. ``type`` is ``None`` where no declared type holds it; ``why`` is for people."""

    name: str
    type: SqlType | None
    mode: Mode = Mode.NULLABLE
    fields: tuple[StructField, ...] = ()
    why: str = ""


def arrow_columns(schema: pa.Schema) -> list[SourceColumn]:
    """The columns of a Parquet file or of a table in a DuckDB file."""
    return [_arrow_column(item) for item in schema]


def _arrow_column(item: Any) -> SourceColumn:
    mode, kind = Mode.NULLABLE, item.type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        mode, kind = Mode.REPEATED, kind.value_type
    if pa.types.is_struct(kind):
        fields = _fields(kind, 1)
        if fields is not None:
            return SourceColumn(item.name, S.STRUCT, mode, fields)
        return SourceColumn(item.name, None, why="a STRUCT with a field that has no name or type here")
    found = sql_type_of(kind)
    why = "" if found is not None else f"the file holds {item.type}, which has no type here"
    return SourceColumn(item.name, found, mode, why=why)


def _fields(kind: Any, depth: int) -> tuple[StructField, ...] | None:
    made = []
    for item in kind:
        mode, held = Mode.NULLABLE, item.type
        if pa.types.is_list(held) or pa.types.is_large_list(held):
            mode, held = Mode.REPEATED, held.value_type
        inner: tuple[StructField, ...] | None = ()
        found = S.STRUCT if pa.types.is_struct(held) else sql_type_of(held)
        if found is S.STRUCT:
            inner = _fields(held, depth + 1) if depth < MAX_STRUCT_DEPTH else None
        if found is None or inner is None or not is_slug(item.name):
            return None
        made.append(StructField(name=item.name, type=found, mode=mode, fields=inner))
    return tuple(made) or None


def sql_type_of(kind: pa.DataType) -> SqlType | None:
    """The type that a column of an Arrow type is declared with; ``None`` where there is none."""
    types = pa.types
    if types.is_dictionary(kind):
        kind = kind.value_type
        return S.STRING if types.is_string(kind) or types.is_large_string(kind) else None
    if types.is_decimal(kind):
        return S.NUMERIC if 0 <= kind.scale <= 9 else None
    if types.is_timestamp(kind):
        return S.DATETIME if kind.tz is None else S.TIMESTAMP
    return next((found for check, found in _KINDS if check(kind)), None)


_KINDS: Final = (
    (pa.types.is_string, S.STRING),
    (pa.types.is_large_string, S.STRING),
    (pa.types.is_integer, S.INT64),
    (pa.types.is_float64, S.FLOAT64),
    (pa.types.is_float32, S.FLOAT64),
    (pa.types.is_boolean, S.BOOL),
    (pa.types.is_date32, S.DATE),
    (pa.types.is_time, S.TIME),
    (pa.types.is_binary, S.BYTES),
    (pa.types.is_large_binary, S.BYTES),
)


@dataclass(slots=True)
class _Guess:
    """Which types every text of a column so far is of. ``emptied`` is the same, words for NULL left out."""

    kinds: list[SqlType] = field(default_factory=lambda: list(_TRIED))
    emptied: list[SqlType] = field(default_factory=lambda: list(_TRIED))
    words: set[str] = field(default_factory=set)
    filled: bool = False
    digits: bool = True
    padded: bool = False
    gaps: bool = False
    alike: list[tuple[str, str]] = field(default_factory=lambda: list(_ALIKE))

    def add(self, text: Any) -> None:
        held = text.drop_null()
        self.filled = self.filled or bool(pc.any(pc.not_equal(held, pa.scalar("")), min_count=0).as_py())
        if S.INT64 in self.kinds or S.INT64 in self.emptied:
            self.padded = self.padded or _some(held, _PADDED)
            self.gaps = self.gaps or _some(held, _GAPS)
        self.digits = self.digits and _every(_written(held), _DIGITS)
        if self.alike:
            written = _written(held)
            self.alike = [(form, why) for form, why in self.alike if _every(written, form)]
        word = pc.is_in(held, pa.array(NULL_WORDS))
        some = pc.any(word, min_count=0).as_py()
        if some:
            self.words.update(pc.unique(held.filter(word)).to_pylist())
        before = list(self.kinds)
        self.kinds = [kind for kind in self.kinds if _is(kind, held)]
        if some:
            rest = held.filter(pc.invert(word))
            self.emptied = [kind for kind in self.emptied if _is(kind, rest)]
        elif self.emptied == before:
            self.emptied = list(self.kinds)
        else:
            self.emptied = [kind for kind in self.emptied if _is(kind, held)]

    def column(self, name: str) -> SourceColumn:
        if not self.filled:
            return SourceColumn(name, S.STRING, why="empty everywhere")
        if self.kinds:
            gaps = self.kinds[0] is S.INT64 and self.gaps
            return SourceColumn(name, self.kinds[0], why="whole numbers, some written with .0" if gaps else "")
        if self.emptied and self.words and not self.padded:
            word = sorted(self.words)[0]
            return SourceColumn(
                name, S.STRING, why=f"{self.emptied[0].value} but for the text {word}: try --null {word}"
            )
        if self.digits and self.padded:
            return SourceColumn(name, S.STRING, why="text, to keep leading zeros")
        return SourceColumn(name, S.STRING, why=self.alike[0][1] if self.alike else "")


def _some(text: Any, form: str) -> bool:
    return bool(pc.any(pc.match_substring_regex(text, form), min_count=0).as_py())


def _every(text: Any, form: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(text, form), min_count=0).as_py())


def _is(kind: SqlType, text: Any) -> bool:
    """Whether all are of the type. A number with leading zeros is a code, one with decimals no whole number."""
    if kind is S.INT64 and not _every(_written(text), _WHOLE):
        return False
    if kind is S.FLOAT64 and (_some(text, rf"{_PADDED}*$") or _some(text, _WIDE)):
        return False
    read = read_values(kind, text)
    if read.wrong is not None:
        return False
    return kind is not S.FLOAT64 or bool(pc.all(pc.is_finite(read.values), min_count=0).as_py())


def _written(text: Any) -> Any:
    return text.filter(pc.not_equal(text, pa.scalar("")))


def csv_columns(path: Path, source: str, null: Sequence[str] = ()) -> list[SourceColumn]:
    """The columns of a CSV file: of each, the first type that every one of its rows has.

    ``null`` are texts that stand for NULL. Raises ``DataError``.
    """
    header = read_header(path, source)
    guesses = [_Guess() for _ in header]
    for batch in text_batches(path, header, source):
        for guess, text in zip(guesses, batch.columns, strict=True):
            guess.add(without(text, null))
    return [guess.column(name) for name, guess in zip(header, guesses, strict=True)]


def without(text: Any, null: Sequence[str]) -> Any:
    """The texts, with NULL for those that stand for it."""
    if not null:
        return text
    return pc.if_else(pc.is_in(text, pa.array(list(null), pa.string())), pa.scalar(None, pa.string()), text)
