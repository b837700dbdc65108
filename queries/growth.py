"""How far the values that a template makes may outgrow the values it reads: known when it is loaded.

An engine that runs inside this process cannot bound one call of a function, so what may make
large values there has to be known before it runs. ``CONCAT(x, x)`` over a query that did the
same is two calls that look harmless and a value four times as long; twenty of them are a
million. What is not listed here may make a value of any size.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Final

from sqlglot import exp
from sqlglot.optimizer.scope import Scope

from contract.schema import Parameter, SqlType, Typed
from queries.names import output_names
from queries.nested import array_query
from queries.typed import Type

_META: Final = "gsql_type"
_SCALAR_BYTES: Final = 64  # the longest text of a number or a moment
_SIZED: Final = (SqlType.STRING, SqlType.BYTES, SqlType.STRUCT)

# Value arguments of which one is the result, and of which all are in the result.
_ONE_OF: Final[dict[type[exp.Expr], str]] = {
    exp.Case: "ifs default",
    exp.If: "true false",
    exp.Coalesce: "this expressions",
    exp.Nullif: "this",
    exp.Greatest: "this expressions",
    exp.Least: "this expressions",
    exp.Lag: "this default",
    exp.Lead: "this default",
}
_ALL_OF: Final[dict[type[exp.Expr], str]] = {
    exp.Concat: "expressions",
    exp.DPipe: "this expression",
    exp.Array: "expressions",
    exp.ArrayConcat: "this expressions",
    exp.Struct: "expressions",
}
# The result of one argument, at most so many times as long.
_OF_THIS: Final[dict[type[exp.Expr], float]] = {
    exp.Paren: 1, exp.Alias: 1, exp.PropertyEQ: 1, exp.Dot: 1, exp.Bracket: 1, exp.Window: 1, exp.IgnoreNulls: 1,
    exp.Min: 1, exp.Max: 1, exp.FirstValue: 1, exp.LastValue: 1, exp.NthValue: 1,
    exp.Trim: 1, exp.Substring: 1, exp.Left: 1, exp.Right: 1, exp.Reverse: 1, exp.ArrayReverse: 1,
    exp.Lower: 3, exp.Upper: 3, exp.SafeFunc: 1,
}  # fmt: skip
# The same of functions that are read as calls by their name; the first argument is the text.
_OF_FIRST: Final[dict[str, float]] = {
    "LEFT": 1, "RIGHT": 1, "REVERSE": 1, "FROM_BASE64": 1, "FROM_HEX": 1, "TO_BASE64": 2, "TO_HEX": 2, "NORMALIZE": 18,
    "REGEXP_EXTRACT": 1, "REGEXP_SUBSTR": 1,
}  # fmt: skip
# Those whose result has at most the size of a scalar's text.
_SMALL: Final = ("CHR", "MD5", "SHA1", "SHA256", "STRING")
_FORMATS: Final = ("FORMAT_DATE", "FORMAT_DATETIME", "FORMAT_TIME", "FORMAT_TIMESTAMP")
_LONGEST_PART: Final = 16  # bytes that two characters of a format become, at most
# Work that is more than one pass over the text, whatever comes out of it.
_WORK: Final = 32
_WORKING: Final = (
    "REGEXP_CONTAINS",
    "REGEXP_EXTRACT",
    "REGEXP_SUBSTR",
    "REVERSE",
    "PARSE_DATE",
    "PARSE_DATETIME",
    "PARSE_TIME",
    "PARSE_TIMESTAMP",
)


@dataclass(frozen=True, slots=True)
class Growth:
    """No value is longer than ``factor`` times the longest read one, or one of ``written`` bytes.

    ``factor`` is infinite where nothing is known. ``written`` are the bytes of the longest
    literal or argument.
    """

    factor: float
    written: int

    def bytes(self, longest: int) -> float:
        """The longest value that may be made from stored values of ``longest`` bytes."""
        return self.factor * max(longest, self.written, _SCALAR_BYTES)


def growth(scopes: Sequence[Scope], parameters: Iterable[Parameter]) -> Growth:
    """The growth of an elaborated query, given its scopes, innermost first."""
    meter = _Meter({parameter.name: parameter for parameter in parameters})
    for scope in scopes:
        meter.enter(scope)
    return Growth(meter.worst, meter.written)


class _Meter:
    def __init__(self, parameters: dict[str, Parameter]) -> None:
        self._parameters = parameters
        self._outputs: dict[int, list[float]] = {}
        self._scope: Scope | None = None
        self.worst = 1.0
        self.written = 0

    def enter(self, scope: Scope) -> None:
        self._scope = scope
        query = scope.expression
        if isinstance(query, exp.Select):
            self._outputs[id(query)] = [self._measure(item) for item in query.expressions]
            for clause, held in query.args.items():
                if clause not in ("expressions", "from_", "with_"):
                    self._measure_all(held)
        elif isinstance(query, exp.SetOperation):
            sides = [self._outputs.get(id(side.unnest())) for side in (query.this, query.expression)]
            known = [side for side in sides if side is not None]
            unknown = [inf] * len(output_names(query))
            self._outputs[id(query)] = [max(pair) for pair in zip(*known, strict=False)] if len(known) == 2 else unknown
        elif isinstance(query, exp.Unnest):
            self._outputs[id(query)] = [max((self._measure(item) for item in query.expressions), default=inf)]

    def _measure_all(self, held: object) -> None:
        for node in held if isinstance(held, list) else [held]:
            if isinstance(node, exp.Expr):
                self._measure(node)

    def _measure(self, node: exp.Expr) -> float:
        """The factor of a node's value, 0 where its size is its type's; ``worst`` learns of all below it."""
        if isinstance(node, (exp.Query, exp.Table, exp.Unnest)):
            return self._query(node)
        if isinstance(node, exp.In) and node.args.get("unnest") is not None:
            # What is looked up in a bound list copies none of it; another list is made first.
            self._measure(node.this)
            self._measure_all([held for held in node.args["unnest"].expressions if not isinstance(held, exp.Parameter)])
            return 0
        inner = {id(child): self._measure(child) for child in node.iter_expressions()}
        self.worst = max(self.worst, max(inner.values(), default=0) * _work(node))
        factor = self._factor(node, inner) if _is_sized(node) else self._passed(node, inner)
        self.worst = max(self.worst, factor)
        return factor

    def _passed(self, node: exp.Expr, inner: dict[int, float]) -> float:
        """Of a node that is no value of its own, such as a list item, what it holds; else nothing."""
        return 0 if _META in node.meta else max(inner.values(), default=0)

    def _factor(self, node: exp.Expr, inner: dict[int, float]) -> float:
        kind = type(node)

        def sizes(args: str) -> list[float]:
            held = [node.args.get(arg) for arg in args.split()]
            flat = [item for value in held for item in (value if isinstance(value, list) else [value])]
            return [inner.get(id(item), 0) for item in flat if item is not None]

        if kind in _ONE_OF:
            return max(sizes(_ONE_OF[kind]), default=0)
        if kind in _ALL_OF:
            return inf if array_query(node) is not None else sum(sizes(_ALL_OF[kind]))
        if kind in _OF_THIS:
            return max(sizes("this expressions" if kind is exp.Bracket else "this"), default=0) * _OF_THIS[kind]
        return self._leaf(node, inner)

    def _leaf(self, node: exp.Expr, inner: dict[int, float]) -> float:
        match node:
            case exp.Column():
                return self._column(node)
            case exp.Literal() | exp.ByteString():
                self.written = max(self.written, len(node.name.encode()))
                return 1
            case exp.Parameter():
                return self._parameter(node)
            case exp.Cast():
                # The text of a number, a moment or a text; of anything nested there is none.
                return max(1, *inner.values())
            case exp.Null():
                return 0
            case exp.Anonymous():
                return self._call(node, inner)
            case exp.ArrayToString():
                return self._joined(node, inner)
            case exp.Replace():
                return inner.get(id(node.this), inf) * _replaced(node)
        return inf

    def _call(self, node: exp.Anonymous, inner: dict[int, float]) -> float:
        name = node.name.upper()
        if name in _SMALL:
            return 1
        if name in _FORMATS:
            return _LONGEST_PART * max(1, *inner.values())
        first = inner.get(id(node.expressions[0]), inf) if node.expressions else inf
        return first * _OF_FIRST.get(name, inf) if first else 1

    def _joined(self, node: exp.Expr, inner: dict[int, float]) -> float:
        """An array as text: its elements, and between them what is written."""
        between = [node.expression, node.args.get("null")]
        written = [text for text in between if text is not None]
        if not all(isinstance(text, exp.Literal) for text in written):
            return inf
        return inner.get(id(node.this), inf) * (1 + sum(len(text.name.encode()) for text in written))

    def _query(self, node: exp.Expr) -> float:
        """A query used as a value: its one column, or the STRUCT of all. Sources were entered already."""
        if not isinstance(node, exp.Subquery):
            return 0
        return sum(self._outputs.get(id(node.unnest()), [inf]))

    def _column(self, node: exp.Column) -> float:
        scope = self._scope
        while scope is not None:
            source = scope.sources.get(node.table)
            if isinstance(source, exp.Table):
                return 1
            if isinstance(source, Scope):
                return self._output(source.expression, node.name)
            scope = scope.parent
        return inf

    def _output(self, query: exp.Expr, name: str) -> float:
        known = self._outputs.get(id(query))
        if known is None:
            return inf
        if isinstance(query, exp.Unnest):
            return known[0]
        names = output_names(query)
        return known[names.index(name)] if name in names else inf

    def _parameter(self, node: exp.Expr) -> float:
        parameter = self._parameters.get(node.this.name)
        if parameter is None:
            return inf
        items = parameter.max_items if parameter.repeated else 1
        self.written = max(self.written, items * _longest(parameter, parameter))
        return 1


def _replaced(node: exp.Replace) -> float:
    """How many times as long a text may be where one written text replaces another."""
    old, new = node.expression, node.args["replacement"]
    if not (isinstance(old, exp.Literal) and isinstance(new, exp.Literal)):
        return inf
    return max(1, len(new.name.encode()) / max(1, len(old.name.encode())))


def _work(node: exp.Expr) -> float:
    """Case goes letter by letter where one of them is not ASCII; a pattern may be tried at every letter."""
    named = isinstance(node, exp.Anonymous) and node.name.upper() in _WORKING
    return _WORK if named or isinstance(node, (exp.Lower, exp.Upper)) else 1


def _longest(item: Typed, parameter: Parameter) -> int:
    """The bytes of the longest argument, or element of it."""
    if item.fields:
        return sum(_longest(field, parameter) for field in item.fields)
    if item.type is not SqlType.STRING:
        return _SCALAR_BYTES
    values = [len(value.encode()) for value in parameter.values]
    return max(values) if values else 4 * parameter.max_length


def _is_sized(node: exp.Expr) -> bool:
    """Whether values of a node's type have sizes of their own."""
    kind = node.meta.get(_META)
    return isinstance(kind, Type) and (kind.array or kind.name in _SIZED)
