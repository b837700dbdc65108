"""Types of a whole template: every node gets one, every implicit conversion becomes a CAST.

What has no rule here has no meaning both engines share, and is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from sqlglot import exp
from sqlglot.optimizer.scope import Scope

from contract.schema import Parameter, SqlType
from queries.clauses import type_order, type_term
from queries.errors import Refused, written_name
from queries.names import is_bare, is_offset, output_names
from queries.resolve import Relation, Resolved
from queries.ties import Ties
from queries.typed import (
    Type,
    cast,
    common,
    common_nested,
    convert,
    declared_type,
    is_elaborated,
    set_source,
    set_type,
    struct_of,
    type_of,
)

BOOL: Final = Type(SqlType.BOOL)
Rule = Callable[["Elaborator", exp.Expr], Type]
RULES: Final[dict[type[exp.Expr], Rule]] = {}


def rule(*nodes: type[exp.Expr]) -> Callable[[Rule], Rule]:
    """Register how the type of ``nodes`` follows from their arguments."""

    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(nodes, function))
        return function

    return register


class Elaborator:
    """Walks one query, innermost scope first, and writes types and conversions onto its nodes."""

    def __init__(self, resolved: Resolved, relations: Sequence[Relation], parameters: Sequence[Parameter]) -> None:
        self._relations: Mapping[str, Relation] = {relation.name: relation for relation in relations}
        self._parameters = {parameter.name: parameter for parameter in parameters}
        self._resolved = resolved
        self._outputs: dict[int, list[Type]] = {}
        self._elements: dict[int, Type] = {}
        self._scopes = {id(scope.expression): scope for scope in resolved.scopes}
        self._scope: Scope | None = None
        self.used: set[str] = set()
        self.deterministic = True
        self.ties = Ties()

    def run(self) -> list[Type]:
        """The types of the query's output columns. Raises ``Refused``."""
        for scope in self._resolved.scopes:
            self._enter(scope)
        return self._outputs[id(self._resolved.tree)]

    def _enter(self, scope: Scope) -> None:
        """Type a scope, unless it is typed already: what it reads may have come first."""
        query = scope.expression
        if id(query) in self._outputs or id(query) in self._elements:
            return
        outer, self._scope = self._scope, scope
        if isinstance(query, exp.Select):
            self._outputs[id(query)] = self._select(query)
        elif isinstance(query, exp.SetOperation):
            self._outputs[id(query)] = self._set_operation(query)
        elif isinstance(query, exp.Unnest):
            element = self.array(query, query.expressions[0])
            self._elements[id(query)] = element
            set_type(query, element.repeated)
        else:
            raise Refused("only queries stand in FROM and WITH", query)
        self._scope = outer

    def _columns(self, query: exp.Expr) -> list[Type]:
        """The types of a query's output columns; of one that stands inside an UNNEST, typed now."""
        if id(query) not in self._outputs:
            self._enter(self._scopes[id(query)])
        return self._outputs[id(query)]

    def type(self, node: exp.Expr) -> Type:
        """Type ``node`` and all below it. A rule may change its node, so each is typed once."""
        if is_elaborated(node):
            return type_of(node)
        found = RULES.get(type(node))
        if found is None:
            raise Refused(f"{written_name(node)} is not accepted here", node)
        kind = found(self, node)
        if kind.name is SqlType.STRUCT and not kind.fields:
            raise Refused(f"{written_name(node)} does not take a STRUCT", node)
        set_type(node, kind)
        return kind

    def array(self, owner: exp.Expr, node: exp.Expr) -> Type:
        """Type ``node``, which must be an ARRAY; the type of its elements."""
        kind = self.type(node)
        if not kind.array or kind.name is None:
            raise Refused(f"{written_name(owner)} takes an ARRAY, not {kind}", node)
        return kind.element

    def scalar(self, node: exp.Expr, place: str) -> Type:
        """Type ``node``, which stands in ``place`` and must have an order and equality there."""
        kind = self.type(node)
        if kind.nested:
            raise Refused(f"{place} takes no ARRAY or STRUCT", node)
        return kind

    def expect(self, node: exp.Expr, arg: str, *targets: SqlType) -> SqlType:
        """Type the argument and convert it to the first of ``targets`` it converts to."""
        child = node.args[arg]
        kind = self.type(child)
        for target in targets:
            if kind.name is target and not kind.array:
                return target
        for target in targets:
            changed = convert(child, kind, target)
            if changed is not None:
                node.set(arg, changed)
                return target
        names = " or ".join(target.value for target in targets)
        raise Refused(f"{written_name(node)} takes {names}, not {kind}", child)

    def unify(self, node: exp.Expr, children: Sequence[exp.Expr], owner: exp.Expr) -> SqlType | None:
        """Type ``children`` and convert all of them to their common type."""
        kinds = [self.type(child) for child in children]
        return self._convert(children, kinds, common(kinds, node), owner)

    def same(self, node: exp.Expr, children: Sequence[exp.Expr], owner: exp.Expr) -> Type:
        """As ``unify``, for values that may be nested: those must have one type, or be NULL or ``[]``."""
        kinds = [self.type(child) for child in children]
        if not any(kind.nested for kind in kinds):
            return Type(self._convert(children, kinds, common(kinds, node), owner))
        target = common_nested(kinds, node)
        for child, kind in zip(children, kinds, strict=True):
            if kind.name is None:
                self._put(child, lambda value: cast(value, None, target))
        return target

    def _put(self, child: exp.Expr, made: Callable[[exp.Expr], exp.Expr | None]) -> bool:
        """Put what is made of ``child`` in its place; whether there is one."""
        # A conversion takes the child as its own, so its place is read first.
        parent, arg, index = child.parent, child.arg_key, child.index
        changed = made(child)
        if changed is None or parent is None or arg is None:
            return False
        if changed is not child:
            parent.set(arg, changed, index=index)
        return True

    def _convert(
        self, children: Sequence[exp.Expr], kinds: Sequence[Type], target: SqlType | None, owner: exp.Expr
    ) -> SqlType | None:
        if target is None:
            return None
        for child, kind in zip(children, kinds, strict=True):
            if not self._put(child, partial(convert, kind=kind, target=target)):
                raise Refused(f"{kind} does not convert to {target.value}; write a CAST", child)
        set_source(owner, target)
        return target

    def values(self, node: exp.Expr, args: str) -> list[exp.Expr]:
        """The arguments ``args`` (names separated by spaces) as one list."""
        out: list[exp.Expr] = []
        for arg in args.split():
            value = node.args.get(arg)
            out.extend(value if isinstance(value, list) else [value] if value is not None else [])
        return out

    def column(self, node: exp.Column) -> Type:
        scope = self._scope
        while scope is not None:
            if is_bare(node):
                self._check_fields(scope, node)
            source = scope.sources.get(node.table)
            if isinstance(source, exp.Table):
                column = self._relations[source.name].column(node.name)
                if column is None:
                    raise Refused(f"table {source.name} has no column {node.name}", node)
                return declared_type(column)
            if isinstance(source, Scope) and isinstance(source.expression, exp.Unnest):
                self._enter(source)
                return Type(SqlType.INT64) if is_offset(node) else self._elements[id(source.expression)]
            if isinstance(source, Scope):
                names = output_names(source.expression)
                if node.name not in names:
                    raise Refused(f"{node.table} has no column {node.name}", node)
                kind = self._columns(source.expression)[names.index(node.name)]
                return kind.value
            scope = scope.parent
        raise Refused(f"{node.table}.{node.name} is not a column", node)

    def _check_fields(self, scope: Scope, node: exp.Column) -> None:
        """GoogleSQL shows the fields of an UNNEST without its alias; here they are named with it."""
        for source in scope.sources.values():
            element = self._elements.get(id(source.expression)) if isinstance(source, Scope) else None
            if element is not None and element.field(node.name) is not None:
                raise Refused(f"{node.name} is also a field of an UNNEST here; write the table of the one meant", node)

    def parameter(self, node: exp.Expr) -> Parameter:
        name = node.this.name if isinstance(node.this, exp.Var) else ""
        parameter = self._parameters.get(name)
        if parameter is None:
            raise Refused(f"@{name} is not a declared parameter", node)
        self.used.add(name)
        return parameter

    def query_type(self, query: exp.Expr) -> Type:
        """The type of a query used as a value: of its single column, or the STRUCT of all of them."""
        outputs = self._columns(query)
        if query.args.get("kind") == "STRUCT":
            return struct_of(list(zip(output_names(query), outputs, strict=True)), query)
        return outputs[0].value

    def _select(self, select: exp.Select) -> list[Type]:
        outputs = []
        for item in select.expressions:
            value = item.unalias()
            kind = self.type(value)
            if kind.name is None:
                raise Refused("a NULL column needs a type; write CAST(NULL AS …)", item)
            if kind.nested and select.args.get("distinct") is not None:
                raise Refused("DISTINCT takes no ARRAY or STRUCT", item)
            outputs.append(kind)
        for join in select.args.get("joins") or []:
            if join.args.get("on") is not None:
                self.expect(join, "on", SqlType.BOOL)
        qualify = select.args.get("qualify")
        if qualify is not None and not any(part.find(exp.Window) for part in (qualify, *select.expressions)):
            raise Refused("QUALIFY needs a window function, in it or in the select list", qualify)
        for clause in ("where", "having", "qualify"):
            if select.args.get(clause) is not None:
                self.expect(select.args[clause], "this", SqlType.BOOL)
        group = select.args.get("group")
        for term in group.expressions if group is not None else ():
            type_term(self, term, outputs)
        type_order(self, select, outputs)
        return outputs

    def _set_operation(self, query: exp.SetOperation) -> list[Type]:
        left, right = (self._columns(side.unnest()) for side in (query.this, query.expression))
        if len(left) != len(right):
            raise Refused("both sides of a set operation have the same columns", query)
        for one, other in zip(left, right, strict=True):
            if one.value != other.value:
                raise Refused(f"a set operation joins {one} and {other}; write a CAST", query)
            if one.nested and (not isinstance(query, exp.Union) or query.args.get("distinct")):
                raise Refused("of set operations UNION ALL alone takes an ARRAY or STRUCT", query)
        type_order(self, query, left)
        return [kind.value for kind in left]
