"""A narrower or coarser result out of a stored one, in the bytes the engine would give.

``RollupPlan`` is what ``rollup_proof`` proved of a template: its rows are groups by
``dimensions``, chosen by ranges and sets of those very values, with measures that add up. So the
groups of a wider result that a call chooses, put together by what it keeps, are the groups that
a query of the call alone would have found. Nothing here guesses: where the engine might answer
otherwise (a sum beyond its type, a mean that is not exact) there is no result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from operator import itemgetter
from typing import Any, Final, Literal

import pyarrow as pa

from contract.call import RESULT_MEDIA_TYPE
from contract.result import ResultDocument
from contract.schema import ResultColumn, SqlType
from queries.arrow_form import arrow_schema
from queries.decode import decode
from queries.encode import ResultInvalid
from queries.result_writer import result_writer

_INT64: Final = range(-(2**63), 2**63)
_NUMERIC_UNITS: Final = 10**38
_UNITS: Final = 10**9
_EXACT_FLOAT: Final = 2**53
_DIGITS: Final = 80
"""Enough for any sum of NUMERIC values without rounding."""
Row = Sequence[Any]
Kind = Literal["count", "sum", "min", "max", "average"]
Values = Mapping[str, Any]
Open = Literal["empty", "null"] | None


@dataclass(frozen=True, slots=True)
class PlannedDimension:
    """A grouped result column, by its place. ``opens`` says which list chooses every value: an empty one, or NULL."""

    place: int
    range: tuple[str, str] | None = None
    one_of: str | None = None
    opens: Open = None

    @property
    def roles(self) -> tuple[str, ...]:
        return (*(self.range or ()), *((self.one_of,) if self.one_of else ()))

    def covers(self, source: Values, asked: Values) -> bool:
        """Whether every value that ``asked`` chooses was chosen by ``source`` too."""
        if self.range is not None:
            first, end = self.range
            if asked[first] < source[first] or source[end] < asked[end]:
                return False
        if self.one_of is None:
            return True
        held, wanted = self._chosen(source), self._chosen(asked)
        return held is None or (wanted is not None and wanted <= held)

    def test(self, asked: Values) -> Callable[[Any], bool]:
        """Whether ``asked`` chooses a value, as the template's conditions do: NULL meets none."""
        first, end = (asked[name] for name in self.range) if self.range is not None else (None, None)
        items = self._chosen(asked)

        def chosen(value: Any) -> bool:
            if self.range is not None and (value is None or not first <= value < end):
                return False
            return items is None or value in items

        return chosen

    def _chosen(self, values: Values) -> set[Any] | None:
        """The values that the list chooses, ``None`` for every one."""
        items = None if self.one_of is None else values[self.one_of]
        if items is None or (self.opens == "empty" and not items):
            return None
        return set(items)


@dataclass(frozen=True, slots=True)
class PlannedMeasure:
    """A measure by its place; ``of`` are the places of the sum and the count that a mean is made of."""

    place: int
    kind: Kind
    type: SqlType
    of: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class OrderTerm:
    """One term of the template's ORDER BY, by the place of a result column."""

    place: int
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, slots=True)
class RollupPlan:
    """A proven template. ``levels`` gives for each value of the parameter ``keep`` the places it keeps.

    ``columns`` are the ``table.column`` that dimensions are made of: what masks one makes the plan useless.
    """

    results: tuple[ResultColumn, ...]
    dimensions: tuple[PlannedDimension, ...]
    measures: tuple[PlannedMeasure, ...]
    order: tuple[OrderTerm, ...]
    keep: str | None
    levels: Mapping[str, frozenset[int]]
    roles: frozenset[str]
    columns: frozenset[str]

    def kept(self, values: Values) -> frozenset[int]:
        """The places of the dimensions that a call's result is by."""
        if self.keep is None:
            return frozenset(dimension.place for dimension in self.dimensions)
        return self.levels[values[self.keep]]

    def covers(self, source: Values, asked: Values) -> bool:
        """Whether the result of ``source`` holds all that the result of ``asked`` is made of.

        Both are bound values of all parameters, and equal in those without a role. A dimension
        that the source does not show cannot be chosen in any more.
        """
        shown = self.kept(source)
        if not self.kept(asked) <= shown:
            return False
        for dimension in self.dimensions:
            if dimension.place in shown:
                if not dimension.covers(source, asked):
                    return False
            elif any(source[name] != asked[name] for name in dimension.roles):
                return False
        return True


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
    except (ResultInvalid, _NotExact):
        return None


class _NotExact(Exception):
    """The engine may answer otherwise, or not at all."""


def _groups(plan: RollupPlan, document: ResultDocument, source: Values, asked: Values) -> list[list[Any]]:
    """The chosen rows, put together where they agree in what is kept."""
    columns = decode(document, plan.results, max_rows=document.row_count, max_bytes=document.size)
    shown, kept = plan.kept(source), plan.kept(asked)
    tests = [(d.place, d.test(asked)) for d in plan.dimensions if d.place in shown and d.roles]
    dropped = [d.place for d in plan.dimensions if d.place not in kept]
    key_of = [d.place for d in plan.dimensions]
    groups: dict[tuple[Any, ...], list[Any]] = {}
    for row in map(list, zip(*columns, strict=True)):
        if not all(chosen(row[place]) for place, chosen in tests):
            continue
        for place in dropped:
            row[place] = None
        key = tuple(row[place] for place in key_of)
        held = groups.setdefault(key, row)
        if held is not row:
            _merge(plan.measures, held, row)
    return list(groups.values())


def _merge(measures: Sequence[PlannedMeasure], held: list[Any], row: Row) -> None:
    for measure in measures:
        one, other = held[measure.place], row[measure.place]
        if other is None or measure.kind == "average":
            continue
        if one is None:
            held[measure.place] = other
        elif measure.kind in ("count", "sum"):
            held[measure.place] = one + other
        else:
            held[measure.place] = min(one, other) if measure.kind == "min" else max(one, other)


def _finished(plan: RollupPlan, rows: list[list[Any]]) -> list[list[Any]]:
    """Means made anew, and every sum within its type. Raises ``_NotExact``."""
    for measure in plan.measures:
        if measure.of is not None:
            total, count = measure.of
            for row in rows:
                row[measure.place] = _mean(measure.type, row[total], row[count])
        elif measure.kind in ("count", "sum"):
            for row in rows:
                _check_sum(measure.type, row[measure.place])
    return rows


def _check_sum(kind: SqlType, value: Any) -> None:
    """The engine fails where a sum is beyond its type."""
    if value is None:
        return
    if kind is SqlType.INT64 and value not in _INT64:
        raise _NotExact
    if kind is SqlType.NUMERIC and abs(value) * _UNITS >= _NUMERIC_UNITS:
        raise _NotExact


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
    """Written by what writes an engine's batches. Raises ``ResultInvalid``."""
    writer = result_writer(RESULT_MEDIA_TYPE, results, as_of)
    pieces = [writer.start()]
    if rows:
        schema = arrow_schema(results)
        arrays = [pa.array([row[place] for row in rows], field.type) for place, field in enumerate(schema)]
        pieces += writer.add(pa.RecordBatch.from_arrays(arrays, schema=schema))
    pieces.append(writer.finish(row_count=len(rows), truncated=False))
    body = b"".join(pieces)
    return ResultDocument(body, len(rows), truncated=False, as_of=as_of) if len(body) <= max_bytes else None
