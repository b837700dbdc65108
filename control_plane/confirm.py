"""Whether a value fits a parameter: by type, pattern, values and bounds.

Used where a value was found in words or proposed by a model. Binding checks again, strictly.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

from contract.ids import is_nfc
from contract.schema import Case, Parameter, SqlType
from control_plane.words import stems

MAX_TOKEN_LENGTH: Final = 64
NUMERIC: Final = frozenset({SqlType.INT64, SqlType.FLOAT64, SqlType.NUMERIC})
_MAX_NUMBER_LENGTH: Final = 80
_MOMENTS: Final[Mapping[SqlType, Callable[[str], Any]]] = MappingProxyType(
    {
        SqlType.DATE: date.fromisoformat,
        SqlType.DATETIME: datetime.fromisoformat,
        SqlType.TIMESTAMP: datetime.fromisoformat,
        SqlType.TIME: time.fromisoformat,
    }
)


def confirm(parameter: Parameter, value: Any) -> Any | None:
    """The argument in its JSON form where ``value`` fits the parameter, else ``None``."""
    if not parameter.repeated:
        return confirm_one(parameter, value)
    if not isinstance(value, list) or not 0 < len(value) <= parameter.max_items:
        return None
    items = [confirm_one(parameter, item) for item in value]
    return None if any(item is None for item in items) else items


def confirm_one(parameter: Parameter, value: Any) -> Any | None:
    """As ``confirm``, for one item of a repeated parameter."""
    kind = parameter.type
    if kind is SqlType.BOOL:
        return value if isinstance(value, bool) else None
    if kind in NUMERIC:
        return _number(parameter, value)
    if not isinstance(value, str):
        return None
    if kind is SqlType.STRING:
        return _text(parameter, value)
    return _moment(parameter, value) if kind in _MOMENTS else None


def names_of(parameter: Parameter, value: str) -> tuple[tuple[str, ...], ...]:
    """A value and its synonyms as phrases of stems."""
    return tuple(_phrase(text) for text in (value, *parameter.synonyms.get(value, ())))


def _text(parameter: Parameter, value: str) -> str | None:
    text = {Case.UPPER: value.upper(), Case.LOWER: value.lower(), Case.KEEP: value}[parameter.case]
    if not text or len(text) > parameter.max_length or not is_nfc(text) or "\x00" in text:
        return None
    if parameter.values:
        return text if text in parameter.values else _by_name(parameter, value)
    if parameter.pattern is None:
        return text
    return text if len(text) <= MAX_TOKEN_LENGTH and re.fullmatch(parameter.pattern, text) else None


def _by_name(parameter: Parameter, value: str) -> str | None:
    wanted = stems(value)
    named = [item for item in parameter.values if wanted in names_of(parameter, item)]
    return named[0] if len(named) == 1 else None


def _number(parameter: Parameter, value: Any) -> int | float | str | None:
    """INT64 as int, FLOAT64 as float, NUMERIC as text (a JSON number would lose digits)."""
    number = _decimal(value)
    if number is None or not _within(parameter, number):
        return None
    if parameter.type is SqlType.INT64:
        whole = number == number.to_integral_value() and -(2**63) <= number < 2**63
        return int(number) if whole else None
    return float(number) if parameter.type is SqlType.FLOAT64 else format(number, "f")


def _decimal(value: Any) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    text = str(value)
    if len(text) > _MAX_NUMBER_LENGTH or not re.fullmatch(r"[-+]?\d+(\.\d+)?([eE][-+]?\d{1,2})?", text, re.ASCII):
        return None
    return Decimal(text)


def _within(parameter: Parameter, number: Decimal) -> bool:
    try:
        low = None if parameter.minimum is None else Decimal(str(parameter.minimum))
        high = None if parameter.maximum is None else Decimal(str(parameter.maximum))
    except InvalidOperation:
        return False
    return (low is None or low <= number) and (high is None or number <= high)


def _moment(parameter: Parameter, value: str) -> str | None:
    parse = _MOMENTS[parameter.type]
    try:
        moment = parse(value)
        if parameter.type is SqlType.TIMESTAMP and moment.tzinfo is None:
            return None
        low = parameter.minimum is None or parse(str(parameter.minimum)) <= moment
        high = parameter.maximum is None or moment <= parse(str(parameter.maximum))
    except (ValueError, TypeError):
        return None
    return str(moment.isoformat()) if low and high else None


@lru_cache(maxsize=8_192)
def _phrase(text: str) -> tuple[str, ...]:
    return stems(text)
