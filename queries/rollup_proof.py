"""That a template answers what its ``rollup`` declares, proven when it is loaded.

One SELECT whose rows are groups by exactly the declared dimensions; every measure adds up
exactly; the parameters with a role stand where they only choose among groups, and nowhere else.
What is not proven is refused with the line. Docs: docs/publish.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, cast

from sqlglot import exp

from contract.rollup import Average, Dimension, Rollup
from contract.schema import Parameter, SqlType
from queries.errors import Refused, TemplateError, written_name
from queries.names import output_names
from queries.resolve import base_table
from queries.rollup_forms import (
    Nodes,
    below,
    conjuncts,
    from_on,
    member,
    member_or_empty,
    member_or_null,
    same,
    shown_in,
)
from queries.rollup_plan import Kind, Open, OrderTerm, PlannedDimension, PlannedMeasure, RollupPlan
from queries.template import Template
from queries.typed import source_type, type_of

S = SqlType
_GROUPED: Final = (S.STRING, S.INT64, S.NUMERIC, S.BOOL, S.DATE, S.DATETIME, S.TIME, S.TIMESTAMP)
_RANGED: Final = (S.INT64, S.NUMERIC, S.DATE, S.DATETIME, S.TIMESTAMP)
_SUMMED: Final = (S.INT64, S.NUMERIC)
_CUTS: Final = {"having": "HAVING", "qualify": "QUALIFY", "distinct": "DISTINCT", "limit": "LIMIT", "offset": "OFFSET"}
_AGGREGATES: Final[Mapping[str, type[exp.Expr]]] = {
    "count": exp.Count,
    "sum": exp.Sum,
    "min": exp.Min,
    "max": exp.Max,
    "average": exp.Avg,
}


def prove_rollup(template: Template, rollup: Rollup) -> RollupPlan:
    """The plan by which results of ``template`` are computed from stored ones. Raises ``TemplateError``."""
    try:
        _check_template(template, rollup)
        declared = {parameter.name: parameter for parameter in template.parameters}
        return _Proof(template, rollup, declared).plan()
    except Refused as refused:
        raise TemplateError(template.name, refused.line, f"rollup: {refused.message}") from refused


def _check_template(template: Template, rollup: Rollup) -> None:
    if template.minimum_group is not None:
        raise Refused("groups have a minimum size: parts of a group may have been left out")
    if template.supplied is not None:
        raise Refused("the rows come from another agent")
    if not template.deterministic:
        raise Refused("equal data may give unequal results")
    declared = {column.name for column in template.results}
    named = rollup.dimensions.keys() | rollup.measures.keys()
    if other := sorted(declared ^ named):
        why = "neither a dimension nor a measure" if other[0] in declared else "no result column"
        raise Refused(f"{other[0]} is {why}")
    for role in sorted(rollup.roles):
        if template.parameter(role) is None:
            raise Refused(f"@{role} is not a declared parameter")


@dataclass(slots=True)
class _Proof:
    """One proof. ``_seen`` are the parameters' nodes that were accounted for, ``_inner`` what each dimension is of."""

    template: Template
    rollup: Rollup
    _parameters: Mapping[str, Parameter]
    _seen: set[int] = field(default_factory=set)
    _inner: dict[str, exp.Expr] = field(default_factory=dict)
    _open: dict[str, Open] = field(default_factory=dict)

    def plan(self) -> RollupPlan:
        select = _only_select(self.template.tree())
        values = [item.unalias() for item in select.expressions]
        names = output_names(select)
        for name, value in zip(names, values, strict=True):
            if name in self.rollup.dimensions:
                self._inner[name] = self._dimension(name, value)
        places = {name: place for place, name in enumerate(names)}
        _check_groups(select, values, {places[name] for name in self.rollup.dimensions})
        self._conditions(select)
        measures = {name: values[places[name]] for name in self.rollup.measures}
        kinds = {name: self._measure(name, measures) for name in measures}
        self._check_no_other_use(select)
        keep = self.rollup.keep
        return RollupPlan(
            results=self.template.results,
            dimensions=tuple(
                PlannedDimension(
                    places[name],
                    type_of(self._inner[name]).name or S.STRING,
                    declared.range,
                    declared.one_of,
                    self._open.get(declared.one_of or ""),
                )
                for name, declared in self.rollup.dimensions.items()
            ),
            measures=tuple(_planned(name, kind, self.rollup, places, measures) for name, kind in kinds.items()),
            order=tuple(_order(select, values)),
            keep=keep.parameter if keep else None,
            levels=MappingProxyType(
                {value: frozenset(places[name] for name in level) for value, level in keep.levels.items()}
                if keep
                else {}
            ),
            roles=self.rollup.roles,
            columns=_columns(select, self._inner.values()),
        )

    def _dimension(self, name: str, value: exp.Expr) -> exp.Expr:
        """What the dimension is of, without the CASE that leaves it out at some levels."""
        keep = self.rollup.keep
        levels = set(keep.levels) if keep else set()
        inner: exp.Expr = value
        if keep is not None:
            parameter = self._parameters[keep.parameter]
            if set(parameter.values) != levels or parameter.nullable:
                raise Refused(f"@{keep.parameter} is not one text of exactly the levels", value)
            inner, shown, nodes = shown_in(value, keep.parameter, levels)
            self._seen |= {id(node) for node in nodes}
            if shown != {level for level, kept in keep.levels.items() if name in kept}:
                raise Refused(f"{name} is shown at other levels than declared", value)
        kind = type_of(inner)
        if kind.name not in _GROUPED:
            raise Refused(f"{name} is {kind}, whose values are not compared exactly", inner)
        if found := inner.find(exp.Parameter, exp.AggFunc):
            raise Refused(f"the dimension {name} is made of {written_name(found)}", found)
        return inner

    def _conditions(self, select: exp.Select) -> None:
        """Each role stands in one conjunct of WHERE, in the form that its dimension declares."""
        where = select.args.get("where")
        chosen = [self._role(node) for node in conjuncts(where.this)] if where is not None else []
        for name, declared in self.rollup.dimensions.items():
            self._check_types(name, declared)
            for role in declared.roles:
                if chosen.count(role) != 1:
                    form = f"IN UNNEST(@{role})" if role == declared.one_of else "a half-open range"
                    raise Refused(f"WHERE does not choose {name} by @{role} once, as {form}", where or select)

    def _role(self, node: exp.Expr) -> str | None:
        """The parameter by which a conjunct chooses values of its dimension."""
        for name, declared in self.rollup.dimensions.items():
            first, end = declared.range or (None, None)
            forms: tuple[tuple[str | None, Form], ...] = (
                (first, from_on),
                (end, below),
                (declared.one_of, member),
                (declared.one_of, member_or_empty),
                (declared.one_of, member_or_null),
            )
            for role, form in forms:
                found = form(node, self._inner[name], role) if role is not None else []
                if found and role is not None:
                    self._seen |= {id(parameter) for parameter in found}
                    self._open[role] = (
                        "empty" if form is member_or_empty else "null" if form is member_or_null else None
                    )
                    return role
        return None

    def _check_types(self, name: str, declared: Dimension) -> None:
        """A comparison that converts nothing, of values that have one order everywhere."""
        kind = type_of(self._inner[name]).name
        for role in declared.roles:
            parameter = self._parameters[role]
            if parameter.nullable and self._open.get(role) != "null":
                raise Refused(f"@{role} may be NULL, and then chooses nothing", self._inner[name])
            if parameter.type is not kind:
                raise Refused(f"@{role} is not of the type of {name}, {kind}", self._inner[name])
        if declared.range is not None and kind not in _RANGED:
            raise Refused(f"{name} is {kind}, of which there are no ranges here", self._inner[name])

    def _check_no_other_use(self, select: exp.Select) -> None:
        for node in select.find_all(exp.Parameter):
            if node.name in self.rollup.roles and id(node) not in self._seen:
                raise Refused(f"@{node.name} has a role and is used for something else here", node)

    def _measure(self, name: str, values: Mapping[str, exp.Expr]) -> Kind:
        """The kind of a measure whose value is what it declares. Raises ``Refused``."""
        declared, value = self.rollup.measures[name], values[name]
        kind: Kind = "average" if isinstance(declared, Average) else declared
        if type(value) is not _AGGREGATES[kind]:
            raise Refused(f"{name} is declared {kind}, the query has {written_name(value)}", value)
        if isinstance(value.this, exp.Distinct):
            raise Refused(f"{name} is of distinct values, which do not add up", value)
        if kind == "sum" and type_of(value).name not in _SUMMED:
            raise Refused(f"{name} is a sum of FLOAT64, which depends on the order", value)
        if kind in ("min", "max") and type_of(value).name not in _GROUPED:
            raise Refused(f"{name} is {type_of(value)}, whose values are not compared exactly", value)
        if isinstance(declared, Average):
            self._check_average(name, declared, values)
        return kind

    def _check_average(self, name: str, declared: Average, values: Mapping[str, exp.Expr]) -> None:
        """AVG(x) stands beside SUM(x) and COUNT(x) of the very same x."""
        value = values[name]
        if source_type(value) not in _SUMMED:
            raise Refused(f"{name} is a mean of FLOAT64, which depends on the order", value)
        for part, kind in zip(declared.average, ("sum", "count"), strict=True):
            if self.rollup.measures.get(part) != kind:
                raise Refused(f"{name} needs {part} to be a {kind}", value)
            if not same(values[part].this, value.this):
                raise Refused(f"{name} and {part} are not of the same values", values[part])


Form = Callable[[exp.Expr, exp.Expr, str], Nodes]


def _only_select(tree: exp.Query) -> exp.Select:
    """The query, which is one SELECT over tables, whole. Raises ``Refused``."""
    other = next((node for node in tree.walk() if node is not tree and isinstance(node, (exp.Query, exp.Window))), None)
    if other is not None:
        raise Refused("the query is one SELECT, without a query or window inside", other)
    unnest = next((node for node in tree.find_all(exp.Unnest) if not isinstance(node.parent, exp.In)), None)
    if unnest is not None:
        raise Refused("rows of an array are not groups of a table", unnest)
    for clause, written in _CUTS.items():
        if tree.args.get(clause) is not None:
            raise Refused(f"{written} leaves groups out", tree.args[clause])
    return cast(exp.Select, tree)  # a set operation has queries inside


def _check_groups(select: exp.Select, values: Sequence[exp.Expr], dimensions: set[int]) -> None:
    """GROUP BY is the dimensions, no more and no less."""
    group = select.args.get("group")
    if group is None:
        raise Refused("the query has no GROUP BY", select)
    grouped = {_place(term, values) for term in group.expressions}
    if grouped != dimensions:
        raise Refused("GROUP BY is not exactly the dimensions", group)


def _order(select: exp.Select, values: Sequence[exp.Expr]) -> Iterator[OrderTerm]:
    """The terms of ORDER BY, which loading completed with every result column."""
    for item in select.args["order"].expressions:
        term = item.this if isinstance(item, exp.Ordered) else item
        place = _place(term, values)
        if place is None:
            raise Refused("ORDER BY takes result columns", term)
        yield OrderTerm(place, bool(item.args.get("desc")), bool(item.args.get("nulls_first")))


def _place(term: exp.Expr, values: Sequence[exp.Expr]) -> int | None:
    if isinstance(term, exp.Literal):
        return int(term.name) - 1
    return next((place for place, value in enumerate(values) if same(term, value)), None)


def _planned(
    name: str, kind: Kind, rollup: Rollup, places: Mapping[str, int], values: Mapping[str, exp.Expr]
) -> PlannedMeasure:
    declared = rollup.measures[name]
    of = (places[declared.average[0]], places[declared.average[1]]) if isinstance(declared, Average) else None
    return PlannedMeasure(places[name], kind, type_of(values[name]).name or S.INT64, of)


def _columns(select: exp.Select, dimensions: Iterable[exp.Expr]) -> frozenset[str]:
    """The ``table.column`` that the dimensions read."""
    tables = {node.alias_or_name: base_table(node) for node in select.find_all(exp.Table)}
    read = [column for inner in dimensions for column in inner.find_all(exp.Column)]
    return frozenset(f"{tables[column.table]}.{column.name}" for column in read)
