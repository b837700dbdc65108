"""Which columns a result shows as they are: whoever may see it learns nothing by asking for rows by their values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from sqlglot import exp
from sqlglot.optimizer.scope import Scope

from queries.names import output_names

_SAME: Final = (exp.Alias, exp.Paren)


def shown_columns(tree: exp.Query, scopes: Sequence[Scope]) -> frozenset[str]:
    """``table.column`` of every base table's column that is an output of the resolved ``tree``, itself or in a STRUCT."""
    lineage = _Lineage({id(scope.expression): scope for scope in scopes})
    return frozenset().union(*lineage.outputs(tree))


class _Lineage:
    def __init__(self, scopes: dict[int, Scope]) -> None:
        self._scopes = scopes
        self._known: dict[int, list[frozenset[str]]] = {}

    def outputs(self, query: exp.Expr) -> list[frozenset[str]]:
        """For each output of a query the columns that it shows."""
        query = query.unnest()
        if id(query) not in self._known:
            self._known[id(query)] = self._outputs(query)
        return self._known[id(query)]

    def _outputs(self, query: exp.Expr) -> list[frozenset[str]]:
        if isinstance(query, exp.SetOperation):
            sides = zip(self.outputs(query.this), self.outputs(query.expression), strict=False)
            return [left | right for left, right in sides]
        scope = self._scopes.get(id(query))
        if not isinstance(query, exp.Select) or scope is None:
            return []
        return [self._shown(item, scope) for item in query.expressions]

    def _shown(self, value: exp.Expr, scope: Scope) -> frozenset[str]:
        if isinstance(value, exp.PropertyEQ):
            value = value.expression
        if isinstance(value, _SAME):
            return self._shown(value.this, scope)
        if isinstance(value, exp.Column):
            return self._column(value, scope)
        if isinstance(value, exp.Coalesce):  # what USING makes of two columns
            return self._each([value.this, *value.expressions], scope)
        if isinstance(value, exp.Struct):
            return self._each(value.expressions, scope)
        return frozenset()

    def _each(self, values: Iterable[exp.Expr], scope: Scope) -> frozenset[str]:
        return frozenset().union(*(self._shown(value, scope) for value in values))

    def _column(self, column: exp.Column, scope: Scope) -> frozenset[str]:
        source = scope.sources.get(column.table)
        if isinstance(source, exp.Table):
            return frozenset({f"{source.name}.{column.name}"})
        if not isinstance(source, Scope):
            return frozenset()
        inner = source.expression
        known = dict(zip(output_names(inner), self.outputs(inner), strict=False))
        return known.get(column.name, frozenset())
