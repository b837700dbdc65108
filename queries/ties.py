"""Ties in an ORDER BY: what two engines, or two runs of one, may order differently, gets one order.

``ROW_NUMBER() OVER (ORDER BY day)`` numbers two rows of one day as it likes. Where the order of
tied rows can be seen, the ORDER BY is completed by everything that still tells them apart; rows
that are equal in all of that are interchangeable, so that equal data gives equal bytes. Where it
cannot be completed, the template is not deterministic, and no result of it is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from typing import Final

from sqlglot import exp
from sqlglot.optimizer.scope import Scope

from queries.typed import Type

_TIE: Final = "breaks_ties"
_OPEN: Final = "open_ties"
# By the place of a row among all of its partition; the others of a ranking give tied rows one value.
_BY_PLACE: Final = (exp.RowNumber, exp.Ntile, exp.Lag, exp.Lead)
_BY_PEERS: Final = (exp.Rank, exp.DenseRank, exp.PercentRank, exp.CumeDist)
_OF_FRAME: Final = (exp.FirstValue, exp.LastValue, exp.NthValue)
_SHOWN: Final = ("expressions", "qualify", "order")


def break_ties(scopes: Iterable[Scope]) -> None:
    """Complete, in place, each ORDER BY in the scopes' queries whose ties can be seen.

    The outermost query's is completed apart (``queries.outputs``). The queries are resolved and not typed
    yet: ``Ties`` takes out again what turns out to have no order.
    """
    numbers = count(1)
    for scope in scopes:
        query = scope.expression
        if isinstance(query, exp.Query) and query.parent is not None:
            _complete_query(query, numbers)
        if isinstance(query, exp.Select):
            for node in query.find_all(exp.Window, exp.GroupConcat, exp.ArrayAgg):
                if node.parent_select is query and not isinstance(node, exp.Window):
                    _complete_list(node, numbers)
                elif node.parent_select is query:
                    _complete_window(node, scope, numbers)


class Ties:
    """What comes out when a query is typed: which of the added terms have no order, and whether a tie shows.

    ``shown`` is whether tied rows may come in any order and a value, or the rows of a result, tell which.
    """

    def __init__(self) -> None:
        self.shown = False
        self._taken_out: set[int] = set()

    def takes_out(self, item: exp.Expr, kind: Callable[[], Type]) -> bool:
        """Take an added term out of its ORDER BY if it has no order; ``False`` of any other term."""
        number = item.meta.get(_TIE)
        if number is None or not kind().nested:
            return False
        self._taken_out.add(number)
        self.shown = True
        item.pop()
        return True

    def note(self, node: exp.Expr) -> None:
        """Take note of a window or an aggregate whose order could not be completed."""
        self.shown = self.shown or bool(node.meta.get(_OPEN, False))

    def take_out_of(self, tree: exp.Expr) -> None:
        """Take the terms that went out of a copy of the query as well."""
        for item in [item for item in tree.find_all(exp.Ordered) if item.meta.get(_TIE) in self._taken_out]:
            item.pop()


def _append(order: exp.Expr, terms: Iterable[exp.Expr], numbers: Iterator[int]) -> None:
    for term in terms:
        item = exp.Ordered(this=term, nulls_first=True)
        item.meta[_TIE] = next(numbers)
        order.append("expressions", item)


def _complete_query(query: exp.Query, numbers: Iterator[int]) -> None:
    """By the output columns: of rows that are equal in those, any may be kept, or come first."""
    order = query.args.get("order")
    cut = query.args.get("limit") is not None or query.args.get("offset") is not None
    if order is None or not (cut or _is_listed(query)):
        return
    held = {item.this.name for item in order.expressions if isinstance(item.this, exp.Literal)}
    first = query
    while isinstance(first, exp.SetOperation):
        first = first.this.unnest()
    places = (str(place) for place in range(1, len(first.expressions) + 1))
    _append(order, (exp.Literal.number(place) for place in places if place not in held), numbers)


def _is_listed(query: exp.Expr) -> bool:
    """Whether a query stands in ``ARRAY(…)``, which shows the order of its rows."""
    parent = query.parent
    while isinstance(parent, exp.Subquery):
        parent = parent.parent
    return isinstance(parent, exp.Array)


def _complete_list(node: exp.Expr, numbers: Iterator[int]) -> None:
    """By the listed value; of a written STRUCT by its fields."""
    order = node.this.this if isinstance(node.this, exp.Limit) else node.this
    if not isinstance(order, exp.Order) or isinstance(order.this, exp.Distinct):
        return
    value = order.this
    values = [item.expression for item in value.expressions] if isinstance(value, exp.Struct) else [value]
    terms = _missing(values, [item.this for item in order.expressions])
    if any(term.find(exp.Query) for term in terms):
        # A query has one place in a template.
        node.meta[_OPEN] = True
    else:
        _append(order, (term.copy() for term in terms), numbers)


def _complete_window(window: exp.Expr, scope: Scope, numbers: Iterator[int]) -> None:
    order, function = window.args.get("order"), window.this
    skips_null = isinstance(function, exp.IgnoreNulls)
    if isinstance(function, (exp.IgnoreNulls, exp.RespectNulls)):
        function = function.this
    if order is None or not order.expressions or isinstance(function, _BY_PEERS):
        return
    spec = window.args.get("spec")
    of_frame = isinstance(function, _OF_FRAME)
    by_rows = spec is not None and spec.args.get("kind") == "ROWS"
    if not (by_rows or of_frame or isinstance(function, _BY_PLACE)):
        # Tied rows are in one frame, and an aggregate does not see their order.
        return
    held = [*(item.this for item in order.expressions), *(window.args.get("partition_by") or [])]
    if of_frame and not by_rows and function.this in held:
        return
    # With another order, a RANGE ends before the tied rows, not after them.
    keeps_frame = by_rows or not of_frame or _starts_whole(spec, function, skips_null=skips_null)
    breakers = _breakers(scope) if keeps_frame else None
    if breakers is None:
        window.meta[_OPEN] = True
    else:
        _append(order, (term.copy() for term in _missing(breakers, held)), numbers)


def _starts_whole(spec: exp.Expr | None, function: exp.Expr, *, skips_null: bool) -> bool:
    """Whether what a RANGE shows does not change where its tied rows are told apart."""
    start, end = (None, None) if spec is None else (spec.args.get("start"), spec.args.get("end"))
    if start not in (None, "UNBOUNDED"):
        return False
    if end == "UNBOUNDED":
        return True
    return end in (None, "CURRENT ROW") and isinstance(function, exp.FirstValue) and not skips_null


def _breakers(scope: Scope) -> list[exp.Expr] | None:
    """What tells the rows apart that a query's windows see; ``None`` where that cannot be written again."""
    select = scope.expression
    group = select.args.get("group")
    if group is not None:
        keys = [_group_key(select, term) for term in group.expressions]
        return None if any(key.find(exp.Query) for key in keys) else [_of_group(key) for key in keys]
    if any(_is_aggregate(node, select) for node in select.find_all(exp.AggFunc)):
        return []  # one row
    paths = {}
    for column in scope.columns:
        if column.table in scope.selected_sources and _clause(column, select) in _SHOWN:
            path: exp.Expr = column
            while isinstance(path.parent, exp.Dot) and path.arg_key == "this":
                path = path.parent
            paths[path.sql("bigquery")] = path
    return [paths[text] for text in sorted(paths)]


def _group_key(select: exp.Expr, term: exp.Expr) -> exp.Expr:
    if not isinstance(term, exp.Literal):
        return term
    place = int(term.name) if term.name.isdigit() else 0
    if not 1 <= place <= len(select.expressions):
        return term
    key: exp.Expr = select.expressions[place - 1].unalias()
    return key


def _of_group(key: exp.Expr) -> exp.Expr:
    """The value that all rows of a group have; GoogleSQL knows no other key again than a column."""
    return key if isinstance(key, exp.Column) else exp.Min(this=key.copy())


def _is_aggregate(node: exp.Expr, select: exp.Expr) -> bool:
    parent = node.parent
    if isinstance(parent, (exp.IgnoreNulls, exp.RespectNulls)):
        parent = parent.parent
    return node.parent_select is select and not isinstance(parent, exp.Window)


def _clause(node: exp.Expr, select: exp.Expr) -> str | None:
    """The clause of ``select`` that ``node`` is in, however deep."""
    while node.parent is not None and node.parent is not select:
        node = node.parent
    return node.arg_key


def _missing(values: Sequence[exp.Expr], held: Sequence[exp.Expr]) -> list[exp.Expr]:
    """The values that are not constants and not among ``held``, each once."""
    out: list[exp.Expr] = []
    for value in values:
        if value.find(exp.Column, exp.Query) is not None and value not in held and value not in out:
            out.append(value)
    return out
