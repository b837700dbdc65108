"""Whether result bytes have the form of a result and are what the verified card declares.

A signature says who made a result, not that it is one: everything that is shown, exported or
relayed afterwards may rely on this form and need not check it again.
"""

from __future__ import annotations

import base64
import re
import sys
from collections.abc import Callable, Sequence
from datetime import date, datetime, time
from typing import Any, Final

from contract.canonical import InvalidJson, parse_json
from contract.result import ResultDocument, instant
from contract.schema import Mode, ResultColumn, SqlType, StructField, schema_member

_MEMBERS: Final = {"schema", "rows", "row_count", "truncated", "as_of"}
_SAFE: Final = 2**53 - 1
_TEXT: Final = frozenset({str})
_CELLS: Final[dict[SqlType, frozenset[type]]] = {
    SqlType.BOOL: frozenset({bool}),
    SqlType.INT64: frozenset({int, str}),
    SqlType.FLOAT64: frozenset({float, int, str}),
}


_WHOLE: Final = re.compile(r"-?[1-9][0-9]{15,18}")
_DECIMAL: Final = re.compile(r"-?[0-9]{1,38}(\.[0-9]{1,9})?")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME: Final = re.compile(r"[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?")
_DATETIME: Final = re.compile(rf"{_DATE.pattern}T{_TIME.pattern}")


class InvalidResult(ValueError):
    """Bytes that are not such a result; the message quotes nothing of them."""


def _integer(text: str) -> bool:
    return _WHOLE.fullmatch(text) is not None and _SAFE < abs(int(text)) <= 2**63 and int(text) != 2**63


def _calendar(form: re.Pattern[str], read: Callable[[str], object]) -> Callable[[str], bool]:
    """Whether a text has the form, and names something that is."""

    def fits(text: str) -> bool:
        return form.fullmatch(text) is not None and _reads(read, text)

    return fits


def _reads(read: Callable[[str], object], text: str) -> bool:
    try:
        read(text)
    except ValueError:
        return False
    return True


def _base64(text: str) -> bool:
    """In its one form: with other unused bits the same bytes would have several."""
    try:
        return base64.b64encode(base64.b64decode(text, validate=True)).decode() == text
    except ValueError:
        return False


_TEXTS: Final[dict[SqlType, Callable[[str], bool]]] = {
    SqlType.INT64: _integer,
    SqlType.FLOAT64: frozenset({"NaN", "Infinity", "-Infinity"}).__contains__,
    SqlType.NUMERIC: lambda text: _DECIMAL.fullmatch(text) is not None,
    SqlType.DATE: _calendar(_DATE, date.fromisoformat),
    SqlType.TIME: _calendar(_TIME, time.fromisoformat),
    SqlType.DATETIME: _calendar(_DATETIME, datetime.fromisoformat),
    SqlType.TIMESTAMP: lambda text: _reads(instant, text),
    SqlType.BYTES: _base64,
}


def read_result(body: bytes, results: Sequence[ResultColumn], *, max_rows: int) -> ResultDocument:
    """The document of ``body``, whose columns are ``results`` by name, type, mode and order.

    ``max_rows`` is what the card promises not to exceed. Members, widths, the JSON type of every
    cell and the text of those that stand for a number, a moment or bytes are checked, so that
    who parses one later meets none that cannot be. Raises ``InvalidResult``.
    """
    try:
        # Size was bounded in the transport; depth is bounded by the form, once it is read.
        result = parse_json(body, limit=len(body), max_depth=len(body))
    except InvalidJson as error:
        raise InvalidResult("it is not strict JSON") from error
    if not isinstance(result, dict) or set(result) != _MEMBERS:
        raise InvalidResult("it does not have the members of one")
    rows, count, truncated, as_of = result["rows"], result["row_count"], result["truncated"], result["as_of"]
    # ``True`` equals 1 and 1.0 equals 1, so types are compared and not only values.
    if type(count) is not int or type(truncated) is not bool or not isinstance(as_of, str):
        raise InvalidResult("a member of it has another type")
    if not _reads(instant, as_of):
        raise InvalidResult("its as_of is no instant")
    if result["schema"] != [schema_member(column) for column in results]:
        raise InvalidResult("its columns are not those that the card declares")
    if not isinstance(rows, list) or len(rows) != count:
        raise InvalidResult("its rows are not as many as it says")
    if count > max_rows:
        raise InvalidResult("it has more rows than the card allows")
    _check_rows(rows, results)
    return ResultDocument(body, count, truncated, as_of)


def _check_rows(rows: list[Any], results: Sequence[ResultColumn]) -> None:
    width = len(results)
    if not all(type(row) is list and len(row) == width for row in rows):
        raise InvalidResult("a row is not a list of one cell a column")
    for place, column in enumerate(results):
        _check_cells([row[place] for row in rows], column)


def _check_cells(cells: list[Any], column: ResultColumn | StructField) -> None:
    """All cells of a column, or of a field of a STRUCT, whose depth the card bounds."""
    if column.mode is Mode.REPEATED:
        if set(map(type, cells)) - {list}:
            raise InvalidResult("a repeated cell is not a list")
        cells = [item for cell in cells for item in cell]
    elif column.mode is Mode.NULLABLE:
        cells = [cell for cell in cells if cell is not None]
    if column.type is SqlType.STRUCT:
        _check_structs(cells, column)
    else:
        _check_values(cells, column.type)


def _check_structs(cells: list[Any], column: ResultColumn | StructField) -> None:
    names = [field.name for field in column.fields]
    if not all(type(cell) is dict and list(cell) == names for cell in cells):
        raise InvalidResult("a cell is not an object of its column's fields in order")
    for field in column.fields:
        _check_cells([cell[field.name] for cell in cells], field)


def _check_values(cells: list[Any], kind: SqlType) -> None:
    found = set(map(type, cells))
    if found - _CELLS.get(kind, _TEXT):
        raise InvalidResult("a cell does not have its column's type")
    if found & {int, float}:
        # Beyond these, readers of JSON differ: some lose digits, some fail.
        limit = _SAFE if kind is SqlType.INT64 else sys.float_info.max
        if not all(-limit <= cell <= limit for cell in cells if type(cell) in (int, float)):
            raise InvalidResult("a number is beyond what its type allows")
    fits = _TEXTS.get(kind)
    if fits is not None and not all(fits(cell) for cell in cells if type(cell) is str):
        raise InvalidResult("the text of a cell is no value of its column's type")
