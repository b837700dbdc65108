"""Bound values as BigQuery's named, typed parameters: as text where BigQuery takes text, so nothing is rounded."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC
from typing import Any, Final

from google.cloud.bigquery import (
    ArrayQueryParameter,
    ArrayQueryParameterType,
    ScalarQueryParameter,
    ScalarQueryParameterType,
    StructQueryParameter,
    StructQueryParameterType,
)

from contract.schema import SqlType
from contract.verdict import NotGranted, Reason
from queries.bigquery_dialect import ABSENT
from queries.bigquery_text import absent_of
from queries.govern import Shape
from queries.masks import MASK_KEY
from queries.supplied import SUPPLIED, bound_fields
from queries.template import Template
from queries.typed import Type, declared_type

Parameter = ScalarQueryParameter | ArrayQueryParameter | StructQueryParameter
_Kind = ScalarQueryParameterType | StructQueryParameterType | ArrayQueryParameterType
_STRING: Final = Type(SqlType.STRING)
_BOOL: Final = Type(SqlType.BOOL)


def parameters(
    template: Template,
    shape: Shape,
    values: Mapping[str, Any],
    supplied: Sequence[tuple[Any, ...]] | None,
) -> list[Parameter]:
    """A parameter for each that the text under ``shape`` may name.

    ``values`` are of ``Bound``, ``Governed`` and, for a mask that hashes, ``MASK_KEY``;
    ``supplied`` the rows of ``bound_rows``. Raises ``NotGranted(ARGUMENTS_INVALID)`` or
    ``RESULT_INVALID`` for a NULL inside a STRUCT or ARRAY that BigQuery's API has no form for.
    """
    out = [_named(name, kind, values.get(name)) for name, kind in _types(template, shape).items()]
    if MASK_KEY in values:
        out.append(_named(MASK_KEY, _STRING, values[MASK_KEY]))
    out.extend(_named(f"{ABSENT}{name}", _BOOL, values.get(name) is None) for name in sorted(absent_of(template)))
    if template.supplied is not None:
        fields = bound_fields(template)
        rows = [dict(zip((name for name, _ in fields), row, strict=True)) for row in supplied or ()]
        try:
            out.append(_named(SUPPLIED, Type(SqlType.STRUCT, array=True, fields=fields), rows))
        except NotGranted as refused:
            raise NotGranted(Reason.RESULT_INVALID, "a supplied row holds a NULL that no parameter holds") from refused
    return out


def _types(template: Template, shape: Shape) -> dict[str, Type]:
    """The parameters that the template and the conditions of ``shape`` name."""
    found = {parameter.name: declared_type(parameter) for parameter in template.parameters}
    found.update((condition.parameter, Type(condition.type, condition.repeated)) for condition in shape.conditions)
    return found


def _named(name: str | None, kind: Type, value: Any) -> Parameter:
    if kind.array:
        items = [] if value is None else [_item(kind.element, item) for item in value]
        return ArrayQueryParameter(name, _kind(kind.element), items)
    if kind.name is SqlType.STRUCT:
        held = {} if value is None else value
        return StructQueryParameter(
            name, *(_field(field, of, held.get(field), value is None) for field, of in kind.fields)
        )
    return ScalarQueryParameter(name, _name(kind), None if value is None else _TEXT[_scalar(kind)](value))


def _field(name: str, kind: Type, value: Any, absent: bool) -> Parameter:
    if value is None and kind.nested and not absent:
        raise _unsayable()
    return _named(name, kind, value)


def _item(kind: Type, value: Any) -> Any:
    if kind.name is not SqlType.STRUCT:
        return None if value is None else _TEXT[_scalar(kind)](value)
    if value is None:
        raise _unsayable()
    return _named(None, kind, value)


def _kind(kind: Type, name: str | None = None) -> _Kind:
    """The type of an element or field, which an empty array cannot tell by itself."""
    if kind.array:
        return ArrayQueryParameterType(_kind(kind.element), name=name)
    if kind.name is SqlType.STRUCT:
        return StructQueryParameterType(*(_kind(of, field) for field, of in kind.fields), name=name)
    return ScalarQueryParameterType(_name(kind), name=name)


def _scalar(kind: Type) -> SqlType:
    if kind.name is None or kind.name is SqlType.STRUCT:
        raise TypeError("a parameter has a type")
    return kind.name


def _name(kind: Type) -> str:
    return _scalar(kind).value


def _unsayable() -> NotGranted:
    return NotGranted(Reason.ARGUMENTS_INVALID, "an argument holds a NULL STRUCT or ARRAY inside another value")


_TEXT: Final[dict[SqlType, Callable[[Any], Any]]] = {
    SqlType.STRING: lambda value: value,
    SqlType.INT64: str,
    SqlType.FLOAT64: repr,
    SqlType.NUMERIC: lambda value: format(value, "f"),
    SqlType.BOOL: lambda value: "true" if value else "false",
    SqlType.DATE: lambda value: value.isoformat(),
    SqlType.DATETIME: lambda value: value.isoformat(sep="T", timespec="microseconds"),
    SqlType.TIME: lambda value: value.isoformat(timespec="microseconds"),
    SqlType.TIMESTAMP: lambda value: (
        value.astimezone(UTC).replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds") + "+00:00"
    ),
    SqlType.BYTES: lambda value: base64.b64encode(value).decode(),
}
