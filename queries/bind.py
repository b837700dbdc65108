"""Arguments of a call, checked strictly against the declared parameters and brought to one form.

A message names the parameter and the rule, never the value.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from contract.ids import is_slug
from contract.schema import Case, Mode, Parameter, SqlType, StructField
from contract.verdict import NotGranted, Reason
from queries.scalars import MAX_SAFE_INTEGER, Unfit, scalar

if TYPE_CHECKING:
    from queries.template import Template

_PATTERN: Final = re.compile(r"(?:[^\\]|\\[%_\\])*", re.DOTALL)
_NO_TEXT: Final = re.compile("[\x00\ud800-\udfff]")
_WILDCARDS: Final = re.compile(r"\\.|[%_]{2,}", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Bound:
    """Arguments of one call.

    ``values`` are what an engine binds (``Decimal``, ``date``, ``datetime`` in UTC, lists, and a
    ``dict`` of every field in declared order for a STRUCT),
    ``canonical`` the same as JSON that canonical JSON can carry: equal for equal meaning.
    """

    values: Mapping[str, Any]
    canonical: Mapping[str, Any]


class ArgumentsMissing(NotGranted):
    """Every argument that was given holds, and these ``parameters``, which are required, were not."""

    def __init__(self, parameters: tuple[Parameter, ...]) -> None:
        names = ", ".join(parameter.name for parameter in parameters)
        super().__init__(Reason.ARGUMENTS_MISSING, f"the call does not say: {names}")
        self.parameters = parameters


def bind(template: Template, arguments: Mapping[str, Any]) -> Bound:
    """Check ``arguments`` and fill defaults.

    Raises ``NotGranted(ARGUMENTS_INVALID)``, and ``ArgumentsMissing`` where nothing but that is wrong.
    """
    declared = {parameter.name: parameter for parameter in template.parameters}
    unknown = sorted([name for name in arguments if name not in declared])
    if unknown:
        # Only what looks like a name is repeated: anything else may be content in the wrong place.
        named = next((name for name in unknown if is_slug(name)), None)
        which = "an argument of the call" if named is None else f"argument {named}"
        raise NotGranted(Reason.ARGUMENTS_INVALID, f"the capability does not take {which}")
    values: dict[str, Any] = {}
    canonical: dict[str, Any] = {}
    missing = tuple([p for p in template.parameters if p.name not in arguments and p.required])
    for name in sorted(declared):
        parameter = declared[name]
        if name not in arguments and parameter.required:
            continue
        try:
            value = _argument(parameter, arguments)
        except Unfit as error:
            raise NotGranted(Reason.ARGUMENTS_INVALID, f"parameter {name} {error}") from None
        values[name] = value
        canonical[name] = _json(value)
    if missing:
        raise ArgumentsMissing(missing)
    return Bound(MappingProxyType(values), MappingProxyType(canonical))


def check_parameter(parameter: Parameter) -> str | None:
    """Why a declaration does not hold together, or ``None``."""
    if SqlType.BYTES in _types(parameter.fields):
        return "BYTES is not accepted in a parameter"
    try:
        for bound in ("minimum", "maximum"):
            if getattr(parameter, bound) is not None:
                if parameter.type in (SqlType.STRING, SqlType.BOOL):
                    return f"{bound} is not for {parameter.type.value}"
                scalar(parameter.type, getattr(parameter, bound))
        for value in parameter.values:
            if _text(parameter, value) != value:
                return "values are not in the form of the declared case and Unicode form C"
        if parameter.default is not None:
            _value(parameter, parameter.default)
    except Unfit as error:
        return f"a declared value {error}"
    return None


def _types(fields: Sequence[StructField]) -> set[SqlType]:
    return {kind for field in fields for kind in (field.type, *_types(field.fields))}


def _argument(parameter: Parameter, arguments: Mapping[str, Any]) -> Any:
    if parameter.name not in arguments:
        return None if parameter.default is None else _value(parameter, parameter.default)
    value = arguments[parameter.name]
    if value is None:
        if not parameter.nullable:
            raise Unfit("must not be null")
        return None
    return _value(parameter, value)


def _value(parameter: Parameter, value: Any) -> Any:
    if not parameter.repeated:
        return _item(parameter, value)
    if not isinstance(value, (list, tuple)):
        raise Unfit("must be a list")
    if len(value) > parameter.max_items:
        raise Unfit(f"must hold at most {parameter.max_items} items")
    items = [_item(parameter, item) for item in value]
    return items if parameter.ordered or parameter.type is SqlType.STRUCT else sorted(set(items))


def _item(parameter: Parameter, value: Any) -> Any:
    if parameter.type is SqlType.STRUCT:
        return _struct(parameter, parameter.fields, value, "")
    if parameter.type is SqlType.STRING:
        text = _text(parameter, value)
        if parameter.values and text not in parameter.values:
            raise Unfit("is not one of the declared values")
        if parameter.wildcards and _PATTERN.fullmatch(text) is None:
            raise Unfit("must have a \\ before %, _ or another \\ only")
        return _WILDCARDS.sub(_one_run, text) if parameter.wildcards else text
    checked = scalar(parameter.type, value)
    if parameter.minimum is not None and checked < scalar(parameter.type, parameter.minimum):
        raise Unfit("is below the declared minimum")
    if parameter.maximum is not None and checked > scalar(parameter.type, parameter.maximum):
        raise Unfit("is above the declared maximum")
    return checked


def _one_run(found: re.Match[str]) -> str:
    """Wildcards side by side in the one form of what they match: so many characters, or at least so many."""
    run = found.group()
    return run if run.startswith("\\") else "_" * run.count("_") + "%" * ("%" in run)


def _struct(parameter: Parameter, fields: Sequence[StructField], value: Any, path: str) -> dict[str, Any]:
    """Every field of a STRUCT, each checked, in declared order. A message names the field, never a value."""
    if not isinstance(value, Mapping):
        raise Unfit(f"has a field {path} that must be an object" if path else "must be an object of its fields")
    inside = f"{path}." if path else ""
    for name in value:
        if not any(field.name == name for field in fields):
            raise Unfit(
                f"has no field {inside}{name}" if isinstance(name, str) and is_slug(name) else "has other fields"
            )
    made: dict[str, Any] = {}
    for field in fields:
        where = f"{inside}{field.name}"
        if field.name not in value:
            raise Unfit(f"lacks the field {where}")
        made[field.name] = _field(parameter, field, value[field.name], where)
    return made


def _field(parameter: Parameter, field: StructField, value: Any, where: str) -> Any:
    if field.mode is not Mode.REPEATED:
        return None if value is None else _of_field(parameter, field, value, where)
    if not isinstance(value, (list, tuple)):
        raise Unfit(f"has a field {where} that must be a list")
    if len(value) > parameter.max_items:
        raise Unfit(f"has a field {where} that must hold at most {parameter.max_items} items")
    return [_of_field(parameter, field, item, where) for item in value]


def _of_field(parameter: Parameter, field: StructField, value: Any, where: str) -> Any:
    if field.type is SqlType.STRUCT:
        return _struct(parameter, field.fields, value, where)
    try:
        return _text(parameter, value) if field.type is SqlType.STRING else scalar(field.type, value)
    except Unfit as error:
        raise Unfit(f"has a field {where} that {error}") from None


def _text(parameter: Parameter, value: Any) -> str:
    if not isinstance(value, str):
        raise Unfit("must be text")
    if _NO_TEXT.search(value) is not None:
        raise Unfit("must be text without NUL characters or lone surrogates")
    # Checked before the work of normalising, which a caller could otherwise make long.
    if len(value) > 4 * parameter.max_length:
        raise Unfit(f"must have at most {parameter.max_length} characters")
    text = unicodedata.normalize("NFC", value)
    if parameter.case is Case.UPPER:
        text = unicodedata.normalize("NFC", text.upper())
    elif parameter.case is Case.LOWER:
        text = unicodedata.normalize("NFC", text.lower())
    if len(text) > parameter.max_length:
        raise Unfit(f"must have at most {parameter.max_length} characters")
    if parameter.pattern is not None and re.fullmatch(parameter.pattern, text) is None:
        raise Unfit("does not match the declared pattern")
    return text


def _json(value: Any) -> Any:
    """The one JSON form of a bound value."""
    if value is None or isinstance(value, (str, bool, float)):
        return value
    if isinstance(value, dict):
        return {name: _json(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_json(item) for item in value]
    if isinstance(value, int):
        return value if abs(value) <= MAX_SAFE_INTEGER else str(value)
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, datetime):
        if value.tzinfo is not None:
            return value.strftime("%Y-%m-%dT%H:%M:%S.%fZ").rjust(27, "0")
        return value.isoformat(timespec="microseconds")
    return value.isoformat()
