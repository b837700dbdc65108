"""What was proven of a template whose results follow from one another, and which result holds which call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, Literal

from contract.schema import ResultColumn, SqlType

# Cells of other types are written so that their order as text is theirs.
NUMBERS: Final[Mapping[SqlType, Callable[[Any], Any]]] = {SqlType.INT64: int, SqlType.NUMERIC: Decimal}
Kind = Literal["count", "sum", "min", "max", "average"]
Values = Mapping[str, Any]
Open = Literal["empty", "null"] | None


@dataclass(frozen=True, slots=True)
class PlannedDimension:
    """A grouped result column, by its place. ``opens`` says which list chooses every value: an empty one, or NULL."""

    place: int
    type: SqlType
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
        """Whether ``asked`` chooses a cell, as the template's conditions do: NULL meets none."""
        bounds = [_cell(self.type, asked[name]) for name in self.range] if self.range is not None else [None, None]
        (first, end), read, chosen_ones = bounds, NUMBERS.get(self.type), self._chosen(asked)
        items = None if chosen_ones is None else {_cell(self.type, item) for item in chosen_ones}

        def chosen(cell: Any) -> bool:
            value = cell if cell is None or read is None else read(cell)
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


def _cell(kind: SqlType, value: Any) -> Any:
    """A bound value as it is written in a document; a number as it is."""
    match kind:
        case SqlType.DATE:
            return value.isoformat()
        case SqlType.DATETIME | SqlType.TIME:
            return value.isoformat(timespec="microseconds")
        case SqlType.TIMESTAMP:
            return value.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
    return value
