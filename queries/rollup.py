"""A narrower or coarser result out of a stored one, in the bytes the engine would give.

A ``RollupPlan`` is what ``rollup_proof`` proved of a template: its rows are groups by
``dimensions``, chosen by ranges and sets of those very values, with measures that add up. So the
groups of a wider result that a call chooses, put together by what it keeps, are the groups that
a query of the call alone would have found. Nothing here guesses: where the engine might answer
otherwise (a sum beyond its type, a mean that is not exact) there is no result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Context, Decimal, localcontext
from operator import itemgetter
from typing import Any, Final

import orjson
import pyarrow as pa

from contract.call import RESULT_MEDIA_TYPE
from contract.result import ResultDocument
from contract.schema import ResultColumn, SqlType, schema_member
from queries.arrow_form import arrow_schema
from queries.encode import ResultInvalid
from queries.result_writer import result_writer
from queries.rollup_plan import NUMBERS, OrderTerm, PlannedMeasure, RollupPlan, Values

_UNITS: Final = 10**9
_EXACT_FLOAT: Final = 2**53
_DIGITS: Final = 80
"""Enough for any sum of NUMERIC values without rounding."""
_READ: Final[Mapping[SqlType, Callable[[Any], Any]]] = {
    **NUMBERS,
    SqlType.DATE: date.fromisoformat,
    SqlType.DATETIME: datetime.fromisoformat,
    SqlType.TIME: time.fromisoformat,
    SqlType.TIMESTAMP: datetime.fromisoformat,
}


def roll_up(
    plan: RollupPlan, document: ResultDocument, source: Values, asked: Values, *, max_bytes: int
) -> ResultDocument | None:
    """The result of ``asked`` out of ``document``, the whole result of ``source``, which covers it.

    ``None`` where that would not be the engine's, or over ``max_bytes``. ``as_of`` is the source's.
    """
    try:
        with localcontext(Context(prec=_DIGITS)):
            rows = _ordered(plan.order, _finished(plan, _groups(plan, document, source, asked)))
        return _document(plan.results, rows, document.as_of, max_bytes)
    except (OverflowError, pa.ArrowInvalid):
        return None  # a sum beyond the type of its column, where the engine fails
    except (ResultInvalid, _NotExact, ValueError, TypeError, KeyError):
        return None  # of the last three: a document of another form


class _NotExact(Exception):
    """The engine may answer otherwise, or not at all."""


def _groups(plan: RollupPlan, document: ResultDocument, source: Values, asked: Values) -> list[list[Any]]:
    """The chosen rows, put together where they agree in what is kept.

    Cells stay as they are written until their row is chosen: a value has one form in a document.
    """
    rows = _rows(plan.results, document)
    shown, kept = plan.kept(source), plan.kept(asked)
    for dimension in plan.dimensions:
        if dimension.place in shown and dimension.roles:
            place, chosen = dimension.place, dimension.test(asked)
            rows = [row for row in rows if chosen(row[place])]
    if kept != shown:
        rows = _put_together(plan, rows, kept)
    readers = [_READ.get(column.type) for column in plan.results]
    return [
        [cell if cell is None or read is None else read(cell) for cell, read in zip(row, readers, strict=True)]
        for row in rows
    ]


def _rows(results: Sequence[ResultColumn], document: ResultDocument) -> list[list[Any]]:
    """The rows of a whole document of these columns. Raises ``_NotExact`` for another."""
    read = orjson.loads(document.body)
    whole = read["truncated"] is False and len(read["rows"]) == document.row_count
    if not whole or read["schema"] != [schema_member(column) for column in results]:
        raise _NotExact
    rows: list[list[Any]] = read["rows"]
    return rows


def _put_together(plan: RollupPlan, rows: list[list[Any]], kept: frozenset[int]) -> list[list[Any]]:
    groups: dict[tuple[Any, ...], list[list[Any]]] = {}
    key_of = sorted(kept)
    for row in rows:
        groups.setdefault(tuple([row[place] for place in key_of]), []).append(row)
    made = []
    for key, held in groups.items():
        one: list[Any] = [None] * len(plan.results)
        for place, cell in zip(key_of, key, strict=True):
            one[place] = cell
        for measure in plan.measures:
            cells = [row[measure.place] for row in held]
            one[measure.place] = _added(measure, [cell for cell in cells if cell is not None])
        made.append(one)
    return made


def _added(measure: PlannedMeasure, cells: list[Any]) -> Any:
    """What a measure is over several groups; NULL counts for nothing, and a mean is made later."""
    if not cells or measure.kind == "average":
        return None
    read = NUMBERS.get(measure.type)
    values = cells if read is None else [read(cell) for cell in cells]
    if measure.kind in ("count", "sum"):
        return sum(values)
    return min(values) if measure.kind == "min" else max(values)


def _finished(plan: RollupPlan, rows: list[list[Any]]) -> list[list[Any]]:
    """Means made anew. Raises ``_NotExact``."""
    for measure in plan.measures:
        if measure.of is not None:
            total, count = measure.of
            for row in rows:
                row[measure.place] = _mean(measure.type, row[total], row[count])
    return rows


def _mean(kind: SqlType, total: Any, count: int) -> Any:
    """AVG as the engines have it: of NUMERIC rounded half away from zero at the ninth digit."""
    if total is None:
        return None
    if count < 1:
        raise _NotExact  # no engine says so
    if kind is SqlType.NUMERIC:
        units = int(total * _UNITS)
        rounded = (2 * abs(units) // count + 1) // 2
        return Decimal(rounded if units >= 0 else -rounded) / _UNITS
    if abs(total) > _EXACT_FLOAT:
        raise _NotExact  # a FLOAT64 does not hold the sum, and engines divide in different ways
    return total / count


def _ordered(order: Sequence[OrderTerm], rows: list[list[Any]]) -> list[list[Any]]:
    """Sorted by the last term first: each sort keeps the order of what it finds equal.

    Texts are ordered by their code points, as Python compares them.
    """
    for term in reversed(order):
        nulls = [row for row in rows if row[term.place] is None]
        others = [row for row in rows if row[term.place] is not None]
        others.sort(key=itemgetter(term.place), reverse=term.descending)
        rows = nulls + others if term.nulls_first else others + nulls
    return rows


def _document(
    results: Sequence[ResultColumn], rows: list[list[Any]], as_of: str, max_bytes: int
) -> ResultDocument | None:
    """Written by what writes an engine's batches.

    Raises ``ResultInvalid``, and for a value beyond the type of its column ``OverflowError`` (INT64) or
    ``pa.ArrowInvalid`` (NUMERIC).
    """
    writer = result_writer(RESULT_MEDIA_TYPE, results, as_of)
    pieces = [writer.start()]
    if rows:
        schema = arrow_schema(results)
        arrays = [pa.array([row[place] for row in rows], field.type) for place, field in enumerate(schema)]
        pieces += writer.add(pa.RecordBatch.from_arrays(arrays, schema=schema))
    pieces.append(writer.finish(row_count=len(rows), truncated=False))
    body = b"".join(pieces)
    return ResultDocument(body, len(rows), truncated=False, as_of=as_of) if len(body) <= max_bytes else None
