"""The type of each node of a template, and the implicit conversions of GoogleSQL made explicit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from contract.schema import MAX_STRUCT_DEPTH, Mode, Parameter, SqlType, Typed
from queries.errors import Refused
from queries.literals import canonical_text

_META: Final = "gsql_type"
_SOURCE: Final = "gsql_source"
_WRITTEN: Final = "gsql_written"
_NUMBERS: Final = (SqlType.INT64, SqlType.NUMERIC, SqlType.FLOAT64)
_FROM_TEXT: Final = (SqlType.DATE, SqlType.TIMESTAMP, SqlType.DATETIME, SqlType.TIME)

# sqlglot's names for the types of its BigQuery dialect
DTYPES: Final[dict[SqlType, exp.DType]] = {
    SqlType.STRING: exp.DType.TEXT,
    SqlType.INT64: exp.DType.BIGINT,
    SqlType.FLOAT64: exp.DType.DOUBLE,
    SqlType.NUMERIC: exp.DType.DECIMAL,
    SqlType.BOOL: exp.DType.BOOLEAN,
    SqlType.DATE: exp.DType.DATE,
    SqlType.DATETIME: exp.DType.TIMESTAMP,
    SqlType.TIME: exp.DType.TIME,
    SqlType.TIMESTAMP: exp.DType.TIMESTAMPTZ,
    SqlType.BYTES: exp.DType.BINARY,
}
SQL_TYPES: Final = {dtype: sql_type for sql_type, dtype in DTYPES.items()}


@dataclass(frozen=True, slots=True)
class Type:
    """``name`` is ``None`` for an untyped NULL; a ``literal`` converts where a value would not.

    ``fields`` are those of a STRUCT, in order; an ``array`` has no array as its element.
    """

    name: SqlType | None
    array: bool = False
    literal: bool = False
    fields: tuple[tuple[str, Type], ...] = ()

    def __str__(self) -> str:
        name = "NULL" if self.name is None else self.name.value
        if self.fields:
            name += f"<{', '.join(f'{field} {kind}' for field, kind in self.fields)}>"
        return f"ARRAY<{name}>" if self.array else name

    def __deepcopy__(self, memo: dict[int, object]) -> Type:
        # Types hang on every node; a copied tree shares them, for they never change.
        return self

    @property
    def nested(self) -> bool:
        """Whether it is an ARRAY or a STRUCT: what has no order and no equality here."""
        return self.array or self.name is SqlType.STRUCT

    @property
    def element(self) -> Type:
        """The type of an element of this ARRAY."""
        return Type(self.name, fields=self.fields)

    @property
    def value(self) -> Type:
        """The same, of what is no literal."""
        return Type(self.name, self.array, fields=self.fields)

    @property
    def repeated(self) -> Type:
        """The ARRAY of it."""
        return Type(self.name, array=True, fields=self.fields)

    @property
    def depth(self) -> int:
        """How many STRUCTs lie in one another."""
        return 1 + max(kind.depth for _, kind in self.fields) if self.fields else 0

    def field(self, name: str) -> Type | None:
        """The type of a field of this STRUCT; names ignore case."""
        return next((kind for field, kind in self.fields if field.lower() == name.lower()), None)


def declared_type(item: Typed) -> Type:
    """The type of a column, field, result column or parameter as a descriptor declares it."""
    array = item.repeated if isinstance(item, Parameter) else getattr(item, "mode", None) is Mode.REPEATED
    return Type(item.type, array, fields=tuple((field.name, declared_type(field)) for field in item.fields))


def set_type(node: exp.Expr, kind: Type) -> None:
    node.meta[_META] = kind


def type_of(node: exp.Expr) -> Type:
    """The type given by elaboration; it survives ``copy``."""
    kind = node.meta[_META]
    if not isinstance(kind, Type):
        raise TypeError("the node was not elaborated")
    return kind


def is_elaborated(node: exp.Expr) -> bool:
    return _META in node.meta


def sql_type(node: exp.Expr) -> SqlType:
    """The scalar type of an elaborated node."""
    name = type_of(node).name
    if name is None:
        raise TypeError("the node is an untyped NULL")
    return name


def cast(node: exp.Expr, source: SqlType | None, target: SqlType | Type) -> exp.Cast:
    """``CAST(node AS target)`` with both types on it."""
    kind = target.value if isinstance(target, Type) else Type(target)
    out = exp.Cast(this=node, to=written_type(kind))
    set_type(out, kind)
    out.meta[_SOURCE] = source
    return out


def written_type(kind: Type) -> exp.DataType:
    """A type as GoogleSQL writes it."""
    if kind.array:
        return exp.DataType(this=exp.DType.ARRAY, expressions=[written_type(kind.element)], nested=True)
    if kind.name is SqlType.STRUCT:
        fields = [exp.ColumnDef(this=exp.to_identifier(name), kind=written_type(field)) for name, field in kind.fields]
        return exp.DataType(this=exp.DType.STRUCT, expressions=fields, nested=True)
    if kind.name is None:
        raise TypeError("an untyped NULL has no written type")
    return exp.DataType(this=DTYPES[kind.name], nested=False)


def read_type(node: exp.Expr) -> Type:
    """The type that GoogleSQL writes so. Raises ``Refused`` for one without a meaning here."""
    if not isinstance(node, exp.DataType):
        raise Refused("each field of a STRUCT type has a name: STRUCT<x INT64>", node)
    if node.this is exp.DType.ARRAY and len(node.expressions) == 1:
        element = read_type(node.expressions[0])
        if element.array:
            raise Refused("an ARRAY of ARRAY does not exist; put a STRUCT between them", node)
        return element.repeated
    if node.this is exp.DType.STRUCT and node.expressions:
        return struct_of([_read_field(field) for field in node.expressions], node)
    name = SQL_TYPES.get(node.this)
    if name is None or node.expressions:
        raise Refused(f"the type {node.sql('bigquery')} is not accepted", node)
    return Type(name)


def _read_field(node: exp.Expr) -> tuple[str, Type]:
    if not isinstance(node, exp.ColumnDef) or node.args.get("kind") is None:
        raise Refused("each field of a STRUCT type has a name: STRUCT<x INT64>", node)
    return node.name.lower(), read_type(node.args["kind"])


def struct_of(fields: Sequence[tuple[str, Type]], node: exp.Expr) -> Type:
    """The STRUCT of ``fields``. Raises ``Refused`` where two have one name, or it is nested too deeply."""
    names = [name.lower() for name, _ in fields]
    if len(set(names)) != len(names):
        raise Refused("a STRUCT names a field twice", node)
    kind = Type(SqlType.STRUCT, fields=tuple((name, field.value) for name, field in fields))
    if kind.depth > MAX_STRUCT_DEPTH:
        raise Refused(f"a STRUCT is nested more than {MAX_STRUCT_DEPTH} deep", node)
    return kind


def set_source(node: exp.Expr, source: SqlType | None) -> None:
    node.meta[_SOURCE] = source


def source_type(node: exp.Expr) -> SqlType | None:
    """The type of a conversion's operand, ``None`` for NULL."""
    source = node.meta[_SOURCE]
    return SqlType(source) if source is not None else None


def text_literal(text: str, target: SqlType, node: exp.Expr) -> exp.Cast:
    """A literal of ``target`` from text, in one spelling. Raises ``Refused``."""
    value = canonical_text(text, target)
    if value is None:
        raise Refused(f"the text is not a {target.value}", node)
    literal = exp.Literal.string(value)
    set_type(literal, Type(SqlType.STRING, literal=True))
    out = cast(literal, SqlType.STRING, target)
    set_written(out)
    return out


def set_written(node: exp.Expr) -> None:
    """Mark a conversion of a literal that both engines read alike, as it stands."""
    node.meta[_WRITTEN] = True


def is_written(node: exp.Expr) -> bool:
    """Whether a conversion is of such a literal."""
    return bool(node.meta.get(_WRITTEN, False))


def convert(node: exp.Expr, kind: Type, target: SqlType) -> exp.Expr | None:
    """``node`` as ``target`` where GoogleSQL converts it by itself, else ``None``."""
    if kind.nested:
        return None
    if kind.name is target:
        return node
    if kind.name is None:
        return cast(node, None, target)
    literal = node.unnest() if isinstance(node, exp.Paren) else node
    if kind.literal and kind.name is SqlType.STRING and target in _FROM_TEXT:
        return text_literal(literal.name, target, node)
    if kind.literal and kind.name is SqlType.FLOAT64 and target is SqlType.NUMERIC:
        return text_literal(literal.name, target, node)
    if (kind.name, target) in (
        (SqlType.INT64, SqlType.NUMERIC),
        (SqlType.INT64, SqlType.FLOAT64),
        (SqlType.NUMERIC, SqlType.FLOAT64),
    ):
        return cast(node, kind.name, target)
    return None


def common(kinds: list[Type], node: exp.Expr) -> SqlType | None:
    """The type all of ``kinds`` convert to; ``None`` when all are NULL. Raises ``Refused``."""
    nested = next((kind for kind in kinds if kind.nested), None)
    if nested is not None:
        raise Refused(f"{'an ARRAY' if nested.array else 'a STRUCT'} cannot be used here", node)
    names = {kind.name for kind in kinds if kind.name is not None}
    if len(names) <= 1:
        return next(iter(names), None)
    firm = {kind.name for kind in kinds if kind.name is not None and not kind.literal}
    if names <= set(_NUMBERS):
        floats_are_literals = SqlType.FLOAT64 not in firm
        if SqlType.NUMERIC in names and floats_are_literals:
            return SqlType.NUMERIC
        return next(number for number in reversed(_NUMBERS) if number in names)
    rest = names - {SqlType.STRING}
    if SqlType.STRING not in firm and len(rest) == 1 and (target := next(iter(rest))) in _FROM_TEXT:
        return target
    raise Refused(f"{' and '.join(sorted(name.value for name in names))} have no common type; write a CAST", node)


def common_nested(kinds: Sequence[Type], node: exp.Expr) -> Type:
    """The one type of ``kinds``, some of which are nested, the others perhaps NULL or ``[]``. Raises ``Refused``."""
    firm = {kind.value for kind in kinds if kind.name is not None}
    if not firm:
        raise Refused("an empty array needs a type; write ARRAY<…>[]", node)
    target = firm.pop()
    if firm:
        raise Refused(f"{target} and {firm.pop()} have no common type; write a CAST", node)
    if not target.array and any(kind.array for kind in kinds):
        raise Refused(f"{target} and an array have no common type", node)
    return target


def is_number(name: SqlType | None) -> bool:
    return name in _NUMBERS
