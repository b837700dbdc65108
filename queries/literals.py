"""Text of literals, read as GoogleSQL reads it and brought to one spelling that every engine reads alike."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta, timezone
from typing import Final

from contract.schema import SqlType

_INT64: Final = range(-(2**63), 2**63)
_NUMERIC: Final = re.compile(r"-?[0-9]{1,29}(\.[0-9]{1,9})?")
_INTEGER: Final = re.compile(r"-?[0-9]{1,19}")
_DATE: Final = r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})"
_TIME: Final = r"([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})(?:\.([0-9]{1,6}))?"
_ZONE: Final = r"([Zz]|[+-][0-9]{1,2}(?::[0-9]{1,2})?|[+-][0-9]{4})?"
_DATE_TEXT: Final = re.compile(_DATE)
_TIME_TEXT: Final = re.compile(_TIME)
_MOMENT_TEXT: Final = re.compile(rf"{_DATE}(?:[ Tt]{_TIME}{_ZONE})?")


def canonical_text(text: str, target: SqlType) -> str | None:
    """A literal of ``target`` from text, or ``None`` where GoogleSQL reads none or no spelling is shared."""
    try:
        match target:
            case SqlType.DATE:
                found = _DATE_TEXT.fullmatch(text)
                return None if found is None else date(*map(int, found.groups())).isoformat()
            case SqlType.TIME:
                found = _TIME_TEXT.fullmatch(text)
                return None if found is None else _time(found.groups()).isoformat()
            case SqlType.DATETIME | SqlType.TIMESTAMP:
                return _moment(text, target)
            case SqlType.NUMERIC:
                return text if _NUMERIC.fullmatch(text) else None
            case SqlType.INT64:
                return text if _INTEGER.fullmatch(text) and int(text) in _INT64 else None
    except (ValueError, OverflowError):
        return None
    return None


def _moment(text: str, target: SqlType) -> str | None:
    found = _MOMENT_TEXT.fullmatch(text)
    if found is None:
        return None
    year, month, day, *clock, zone = found.groups()
    moment = datetime.combine(date(int(year), int(month), int(day)), _time(clock) if clock[0] else time())
    if target is SqlType.DATETIME:
        return None if zone else moment.isoformat(sep=" ")
    if zone:
        moment = moment.replace(tzinfo=timezone(_offset(zone))).astimezone(UTC).replace(tzinfo=None)
    return f"{moment.isoformat(sep=' ')}+00:00"


def _time(groups: Sequence[str | None]) -> time:
    hour, minute, second, fraction = (group or "" for group in groups)
    return time(int(hour), int(minute), int(second), int(fraction.ljust(6, "0")))


def _offset(zone: str) -> timedelta:
    if zone in "Zz":
        return timedelta()
    hours, _, minutes = zone[1:].partition(":") if ":" in zone or len(zone) < 5 else (zone[1:3], "", zone[3:])
    total = timedelta(hours=int(hours), minutes=int(minutes or 0))
    if int(minutes or 0) > 59 or total > timedelta(hours=14):
        raise ValueError("no zone is so far from UTC")
    return -total if zone[0] == "-" else total
