"""Arguments of a call, checked strictly against the declared parameters and brought to one form.

A message names the parameter and the rule, never the value.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from contract.ids import is_slug
from contract.schema import Case, Parameter, SqlType
from contract.verdict import NotGranted, Reason

if TYPE_CHECKING:
    from queries.template import Template

MAX_SAFE_INTEGER: Final = 2**53 - 1
_INT64: Final = range(-(2**63), 2**63)
_INTEGER: Final = re.compile(r"-?(0|[1-9][0-9]{0,18})")
_DECIMAL: Final = re.compile(r"(-?)0*([0-9]{1,29})(?:\.([0-9]{1,9}))?")
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d")
_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,6})?([Zz]|[+-]\d\d:\d\d)?")
_TIME: Final = re.compile(r"\d\d:\d\d:\d\d(\.\d{1,6})?")


@dataclass(frozen=True, slots=True)
class Bound:
    """Arguments of one call.

    ``values`` are what an engine binds (``Decimal``, ``date``, ``datetime`` in UTC, lists),
    ``canonical`` the same as JSON that canonical JSON can carry: equal for equal meaning.
    """

    values: Mapping[str, Any]
    canonical: Mapping[str, Any]


class Unfit(Exception):
    """A value that breaks a rule; the message completes "parameter x …"."""


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
    unknown = sorted(name for name in arguments if template.parameter(name) is None)
    if unknown:
        # Only what looks like a name is repeated: anything else may be content in the wrong place.
        named = next((name for name in unknown if is_slug(name)), None)
        which = "an argument of the call" if named is None else f"argument {named}"
        raise NotGranted(Reason.ARGUMENTS_INVALID, f"the capability does not take {which}")
    values: dict[str, Any] = {}
    canonical: dict[str, Any] = {}
    missing = tuple(p for p in template.parameters if p.required and p.name not in arguments)
    for parameter in sorted(template.parameters, key=lambda parameter: parameter.name):
        if parameter in missing:
            continue
        try:
            value = _argument(parameter, arguments)
        except Unfit as error:
            raise NotGranted(Reason.ARGUMENTS_INVALID, f"parameter {parameter.name} {error}") from None
        values[parameter.name] = value
        canonical[parameter.name] = (
            [_json(item) for item in value] if parameter.repeated and value is not None else _json(value)
        )
    if missing:
        raise ArgumentsMissing(missing)
    return Bound(MappingProxyType(values), MappingProxyType(canonical))


def check_parameter(parameter: Parameter) -> str | None:
    """Why a declaration does not hold together, or ``None``."""
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
    return sorted(set(items))


def _item(parameter: Parameter, value: Any) -> Any:
    if parameter.type is SqlType.STRING:
        text = _text(parameter, value)
        if parameter.values and text not in parameter.values:
            raise Unfit("is not one of the declared values")
        return text
    checked = scalar(parameter.type, value)
    if parameter.minimum is not None and checked < scalar(parameter.type, parameter.minimum):
        raise Unfit("is below the declared minimum")
    if parameter.maximum is not None and checked > scalar(parameter.type, parameter.maximum):
        raise Unfit("is above the declared maximum")
    return checked


def _text(parameter: Parameter, value: Any) -> str:
    if not isinstance(value, str):
        raise Unfit("must be text")
    if "\x00" in value or any("\ud800" <= char <= "\udfff" for char in value):
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


def scalar(kind: SqlType, value: Any) -> Any:
    """A value of a type other than STRING, as Python holds it. Raises ``Unfit``."""
    match kind:
        case SqlType.INT64:
            return _integer(value)
        case SqlType.FLOAT64:
            return _float(value)
        case SqlType.NUMERIC:
            return _numeric(value)
        case SqlType.BOOL:
            if not isinstance(value, bool):
                raise Unfit("must be true or false")
            return value
        case SqlType.DATE:
            return _date(value)
        case SqlType.TIMESTAMP:
            return _moment(value, zoned=True).astimezone(UTC)
        case SqlType.DATETIME:
            return _moment(value, zoned=False)
        case SqlType.TIME:
            return _time(value)
        case _:
            raise Unfit(f"has a type that takes no arguments, {kind.value}")


def _integer(value: Any) -> int:
    # Beyond 2**53-1 an integer travels as text, as it does in results.
    if isinstance(value, str) and _INTEGER.fullmatch(value) and abs(int(value)) > MAX_SAFE_INTEGER:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise Unfit("must be a whole number")
    if value not in _INT64:
        raise Unfit("is beyond 64 bits")
    return value


def _float(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Unfit("must be a number")
    if isinstance(value, int) and abs(value) > MAX_SAFE_INTEGER:
        raise Unfit("is a whole number that no FLOAT64 holds exactly")
    number = float(value)
    if number != number or number in (float("inf"), float("-inf")):
        raise Unfit("must be finite")
    return number + 0.0  # -0.0 becomes 0.0


def _numeric(value: Any) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, (int, float, str, Decimal)):
        raise Unfit("must be a decimal number, as text or number")
    text = repr(value) if isinstance(value, float) else format(value, "f") if isinstance(value, Decimal) else str(value)
    found = _DECIMAL.fullmatch(text)
    if found is None:
        raise Unfit("must have at most 29 digits before and 9 after the point")
    sign, whole, fraction = found[1], found[2], (found[3] or "").rstrip("0")
    number = Decimal(f"{sign}{whole}.{fraction}" if fraction else f"{sign}{whole}")
    return number if number else Decimal(0)


def _date(value: Any) -> date:
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    if isinstance(value, str) and _DATE.fullmatch(value):
        try:
            return date.fromisoformat(value)
        except ValueError:
            pass
    raise Unfit("must be a date such as 2024-02-29")


def _moment(value: Any, *, zoned: bool) -> datetime:
    moment = value if isinstance(value, datetime) else None
    if isinstance(value, str) and _MOMENT.fullmatch(value):
        try:
            moment = datetime.fromisoformat(value.upper())
        except ValueError:
            pass
    if moment is None or (moment.tzinfo is None) == zoned:
        example = "2024-02-29T12:00:00Z" if zoned else "2024-02-29T12:00:00"
        raise Unfit(f"must be a moment such as {example}")
    try:
        return moment.astimezone(UTC) if zoned else moment
    except OverflowError:
        raise Unfit("is beyond the years 1 to 9999") from None


def _time(value: Any) -> time:
    if isinstance(value, str) and _TIME.fullmatch(value):
        try:
            return time.fromisoformat(value)
        except ValueError:
            pass
    raise Unfit("must be a time such as 12:00:00")


def _json(value: Any) -> Any:
    """The one JSON form of a bound value."""
    if isinstance(value, bool) or value is None or isinstance(value, (str, float)):
        return value
    if isinstance(value, int):
        return value if abs(value) <= MAX_SAFE_INTEGER else str(value)
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, datetime):
        if value.tzinfo is not None:
            return value.strftime("%Y-%m-%dT%H:%M:%S.%fZ").rjust(27, "0")
        return value.isoformat(timespec="microseconds")
    return value.isoformat()
