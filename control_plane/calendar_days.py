"""Days of a calendar, and the instants at which they begin in a time zone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from contract.schema import SqlType

_SECOND: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Days:
    """Whole days from ``start`` until before ``end``; ``None`` leaves that side open."""

    start: date | None
    end: date | None


def year(number: int) -> Days:
    return Days(date(number, 1, 1), date(number + 1, 1, 1))


def month(number: int, of: int) -> Days:
    """``number`` is 1 to 12. Raises ``ValueError`` for another, as all of these do for what no calendar has."""
    return Days(date(of, number, 1), date(of + number // 12, number % 12 + 1, 1))


def quarter(number: int, of: int) -> Days:
    return Days(month(3 * number - 2, of).start, month(3 * number, of).end)


def week(number: int, of: int) -> Days:
    """A week of ISO 8601: it begins on a Monday, and week 1 has the year's first Thursday."""
    start = date.fromisocalendar(of, number, 1)
    return Days(start, start + timedelta(days=7))


def day(start: date) -> Days:
    return Days(start, start + timedelta(days=1))


def around(today: date, unit: str) -> Days:
    """The week, month, quarter or year that ``today`` lies in."""
    match unit:
        case "week":
            iso = today.isocalendar()
            return week(iso.week, iso.year)
        case "month":
            return month(today.month, today.year)
        case "quarter":
            return quarter((today.month + 2) // 3, today.year)
        case _:
            return year(today.year)


def before(today: date, unit: str) -> Days:
    """The whole week, month, quarter or year before the one that ``today`` lies in."""
    start = around(today, unit).start
    if start is None:
        raise ValueError(unit)
    return around(start - timedelta(days=1), unit)


def today_in(zone: ZoneInfo, now: float) -> date:
    """The day that clocks in ``zone`` show at ``now``, POSIX seconds."""
    return datetime.fromtimestamp(now, zone).date()


def beginning(zone: ZoneInfo) -> dict[SqlType, Callable[[date], str]]:
    """How the beginning of a day is written for each type that a period may have.

    A DATE is the day itself, a DATETIME its midnight on the wall, a TIMESTAMP its first instant in ``zone``, in UTC.
    """
    return {
        SqlType.DATE: date.isoformat,
        SqlType.DATETIME: lambda start: datetime.combine(start, time()).isoformat(),
        SqlType.TIMESTAMP: lambda start: first_instant(start, zone).isoformat().replace("+00:00", "Z"),
    }


def first_instant(start: date, zone: ZoneInfo) -> datetime:
    """The first instant, in UTC, at which clocks in ``zone`` show ``start`` or, where they skip it, a later day.

    Clocks may skip midnight, or show it twice. Raises ``OverflowError`` beyond the years 1 to 9999.
    """
    midnight = datetime.combine(start, time())
    found = midnight.replace(tzinfo=zone).astimezone(UTC)
    if _wall(found, zone) == midnight:
        return found
    # Midnight is skipped: read with the offset from after the change, it lies before the change.
    low, high = midnight.replace(tzinfo=zone, fold=1).astimezone(UTC), found
    while high - low > _SECOND:
        middle = low + (high - low) // 2
        middle -= timedelta(microseconds=middle.microsecond)
        low, high = (low, middle) if _wall(middle, zone) >= midnight else (middle, high)
    return high


def _wall(instant: datetime, zone: ZoneInfo) -> datetime:
    return instant.astimezone(zone).replace(tzinfo=None)
