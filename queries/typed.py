"""The type of each node of a template, and the implicit conversions of GoogleSQL made explicit."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime
from typing import Final

from sqlglot import exp

from contract.schema import Mode, Parameter, SqlType, Typed
from queries.errors import Refused

_META: Final = "gsql_type"
_SOURCE: Final = "gsql_source"
_NUMERIC_TEXT: Final = re.compile(r"-?[0-9]{1,29}(\.[0-9]{1,9})?")
_INT64: Final = range(-(2**63), 2**63)
_NUMBERS: Final = (SqlType.INT64, SqlType.NUMERIC, SqlType.FLOAT64)
_FROM_TEXT: Final = (SqlType.DATE, SqlType.TIMESTAMP, SqlType.DATETIME)

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


def sql_type(node: exp.Expr) -> SqlType:
    """The scalar type of an elaborated node."""
    name = type_of(node).name
    if name is None:
        raise TypeError("the node is an untyped NULL")
    return name


def cast(node: exp.Expr, source: SqlType | None, target: SqlType) -> exp.Cast:
    """``CAST(node AS target)`` with both types on it."""
    out = exp.Cast(this=node, to=exp.DataType(this=DTYPES[target], nested=False))
    set_type(out, Type(target))
    out.meta[_SOURCE] = source
    return out


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
    return cast(literal, SqlType.STRING, target)


def canonical_text(text: str, target: SqlType) -> str | None:
    """Text of a literal in the spelling both engines read alike, or ``None`` where it is none."""
    try:
        if target is SqlType.DATE:
            return date.fromisoformat(text).isoformat() if re.fullmatch(r"\d{4}-\d\d-\d\d", text) else None
        if target is SqlType.DATETIME:
            naive = datetime.fromisoformat(text)
            return None if naive.tzinfo else naive.isoformat(sep=" ")
        if target is SqlType.TIMESTAMP:
            return _timestamp_text(text)
    except ValueError:
        return None
    if target is SqlType.NUMERIC:
        return text if _NUMERIC_TEXT.fullmatch(text) else None
    if target is SqlType.INT64:
        return text if re.fullmatch(r"-?\d{1,19}", text) and int(text) in _INT64 else None
    return None


def convert(node: exp.Expr, kind: Type, target: SqlType) -> exp.Expr | None:
    """``node`` as ``target`` where GoogleSQL converts it by itself, else ``None``."""
    if kind.array:
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


def is_number(name: SqlType | None) -> bool:
    return name in _NUMBERS


def _timestamp_text(text: str) -> str | None:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        return moment.isoformat(sep=" ") + "+00:00"
    return moment.isoformat(sep=" ")
