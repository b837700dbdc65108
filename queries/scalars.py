"""Values of scalar types as they travel in JSON, checked strictly and as Python holds them.

A message completes "parameter x …": it names a rule and never a value.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, Final

from contract.schema import SqlType

MAX_SAFE_INTEGER: Final = 2**53 - 1
_INT64: Final = range(-(2**63), 2**63)
_INTEGER: Final = re.compile(r"-?(0|[1-9][0-9]{0,18})")
_DECIMAL: Final = re.compile(r"(-?)0*([0-9]{1,29})(?:\.([0-9]{1,9}))?")
_MOST_DIGITS: Final = 60
_TOO_LARGE: Final = 10**_MOST_DIGITS
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,6})?([Zz]|[+-]\d\d:\d\d)?", re.ASCII)
_TIME: Final = re.compile(r"\d\d:\d\d:\d\d(\.\d{1,6})?", re.ASCII)


class Unfit(Exception):
    """A value that breaks a rule; the message completes "parameter x …"."""


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
    found = _DECIMAL.fullmatch(_decimal_text(value))
    if found is None:
        raise Unfit("must have at most 29 digits before and 9 after the point")
    sign, whole, fraction = found[1], found[2], (found[3] or "").rstrip("0")
    number = Decimal(f"{sign}{whole}.{fraction}" if fraction else f"{sign}{whole}")
    return number if number else Decimal(0)


def _decimal_text(value: int | float | str | Decimal) -> str:
    """In digits: of a float its shortest decimal, which JSON writes with an exponent where it is small or large.

    Empty where a number has more digits than any that is taken.
    """
    if isinstance(value, str):
        return value
    number = Decimal(repr(value)) if isinstance(value, float) else value
    if isinstance(number, int):
        return str(number) if abs(number) < _TOO_LARGE else ""
    fits = number.is_finite() and number.adjusted() < _MOST_DIGITS and int(number.as_tuple().exponent) > -_MOST_DIGITS
    return format(number, "f") if fits else ""


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
