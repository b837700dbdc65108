"""Result JSON back to values without loss: the inverse of ``encode``.

What this agent did not encode itself is checked cell by cell: the text of a date or a decimal
is read here for the first time.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from contract.canonical import InvalidJson, parse_json
from contract.result import ResultDocument
from contract.schema import Mode, ResultColumn, SqlType, schema_member
from queries.encode import ResultInvalid, ResultTooLarge
from queries.scalars import MAX_SAFE_INTEGER, Unfit, scalar
from queries.typed import Type, declared_type

_MEMBERS: Final = {"schema", "rows", "row_count", "truncated", "as_of"}
_NOT_FINITE: Final = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
_TIMESTAMP: Final = re.compile(r"[0-9-]{10}T[0-9:]{8}\.[0-9]{6}Z")
_NUMERIC_LENGTH: Final = 40  # a sign, 29 digits, a point, 9 digits


def decode(
    document: ResultDocument, columns: Sequence[ResultColumn], *, max_rows: int, max_bytes: int
) -> list[list[Any]]:
    """The values of each column of a document, which must be ``columns`` by name, type, mode and order.

    NUMERIC comes back as ``Decimal``, DATE, TIME and DATETIME as Python's own, TIMESTAMP as a
    ``datetime`` in UTC, BYTES as ``bytes``, a STRUCT as a ``dict`` of its fields in order, a
    REPEATED cell as a list. Raises ``ResultTooLarge``,
    and ``ResultInvalid`` for a document that is cut short, or a cell that its column cannot hold.
    """
    if len(document.body) > max_bytes or document.row_count > max_rows:
        raise ResultTooLarge
    try:
        read = parse_json(document.body, limit=max_bytes, max_depth=len(document.body))
    except InvalidJson as error:
        raise ResultInvalid("the supplied rows are not strict JSON") from error
    if not isinstance(read, dict) or set(read) != _MEMBERS:
        raise ResultInvalid("the supplied rows do not have the members of a result")
    if read["schema"] != [schema_member(column) for column in columns]:
        raise ResultInvalid("the supplied rows have other columns than declared")
    if read["truncated"] is not False or document.truncated:
        raise ResultInvalid("the supplied rows are cut short")
    rows = read["rows"]
    if not isinstance(rows, list) or type(read["row_count"]) is not int:
        raise ResultInvalid("a member of the supplied rows has another type")
    if not len(rows) == read["row_count"] == document.row_count:
        raise ResultInvalid("the supplied rows are not as many as they say")
    if not all(type(row) is list and len(row) == len(columns) for row in rows):
        raise ResultInvalid("a supplied row is not a list of one cell a column")
    return [_column(column, [row[place] for row in rows]) for place, column in enumerate(columns)]


def _column(column: ResultColumn, cells: list[Any]) -> list[Any]:
    read = _reader(declared_type(column))
    try:
        if column.mode is Mode.NULLABLE:
            return [None if cell is None else read(cell) for cell in cells]
        return [read(cell) for cell in cells]
    except Unfit:
        raise ResultInvalid(f"a supplied row holds a value that is no {column.type.value}") from None


def _reader(kind: Type) -> Callable[[Any], Any]:
    """What reads one cell that is there: not NULL."""
    if kind.array:
        element = _reader(kind.element)
        return lambda cell: [element(item) for item in _list(cell)]
    if kind.name is SqlType.STRUCT:
        fields = [(name, inner.array, _reader(inner)) for name, inner in kind.fields]
        return lambda cell: _struct(fields, cell)
    if kind.name is None:
        raise TypeError("a declared column has a type")
    return _CELLS[kind.name]


def _struct(fields: Sequence[tuple[str, bool, Callable[[Any], Any]]], cell: Any) -> dict[str, Any]:
    if type(cell) is not dict or list(cell) != [name for name, _, _ in fields]:
        raise Unfit("must be an object of the declared fields, in order")
    return {name: None if cell[name] is None and not repeated else read(cell[name]) for name, repeated, read in fields}


def _list(cell: Any) -> list[Any]:
    if type(cell) is not list:
        raise Unfit("must be a list")
    return cell


def _string(cell: Any) -> str:
    if type(cell) is not str:
        raise Unfit("must be text")
    return cell


def _integer(cell: Any) -> int:
    if type(cell) is int and abs(cell) > MAX_SAFE_INTEGER:
        raise Unfit("must be text beyond 2**53-1")
    number: int = scalar(SqlType.INT64, cell)
    return number


def _float(cell: Any) -> float:
    if isinstance(cell, str) and cell in _NOT_FINITE:
        return _NOT_FINITE[cell]
    if type(cell) not in (int, float):
        raise Unfit("must be a number")
    try:
        return float(cell)
    except OverflowError:
        raise Unfit("is beyond a FLOAT64") from None


def _bytes(cell: Any) -> bytes:
    text = _string(cell)
    try:
        value = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise Unfit("must be base64") from None
    if base64.b64encode(value).decode() != text:
        raise Unfit("must be base64 in its one form")
    return value


def _text(kind: SqlType) -> Callable[[Any], Any]:
    """A type whose values travel as text in a form that arguments share."""

    def read(cell: Any) -> Any:
        text = _string(cell)
        if kind is SqlType.NUMERIC and len(text) > _NUMERIC_LENGTH:
            raise Unfit("must have at most 29 digits before and 9 after the point")
        if kind is SqlType.TIMESTAMP and not _TIMESTAMP.fullmatch(text):
            raise Unfit("must be in UTC, with microseconds")
        return scalar(kind, text)

    return read


_CELLS: Final[dict[SqlType, Callable[[Any], Any]]] = {
    SqlType.STRING: _string,
    SqlType.INT64: _integer,
    SqlType.FLOAT64: _float,
    SqlType.BOOL: lambda cell: scalar(SqlType.BOOL, cell),
    SqlType.BYTES: _bytes,
    **{
        kind: _text(kind) for kind in (SqlType.NUMERIC, SqlType.DATE, SqlType.DATETIME, SqlType.TIME, SqlType.TIMESTAMP)
    },
}
