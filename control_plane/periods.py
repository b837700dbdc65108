"""Periods of time, said in words or in short forms: read exactly, or not at all.

A period is half-open: the beginning of its first day, until before the beginning of the day after
its last. Pure functions; the zone and the time of who asks are passed in.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from zoneinfo import ZoneInfo

from contract.schema import Period, SqlType
from control_plane.calendar_days import beginning, today_in
from control_plane.confirm import confirm
from control_plane.descriptor import DatasetCapability
from control_plane.period_words import read_days

MAX_PERIOD_CHARS: Final = 100
WRITTEN: Final = (
    "2024, 2024-03, 2024-Q1, 2024-W05, 2024-03-15, 2024-01-15..2024-02-03 (both days are in), today, yesterday, "
    "this or last week, month, quarter or year, last 30 days, since, after, before or through 2024-03-15"
)


@dataclass(frozen=True, slots=True)
class Bounds:
    """``start`` is in the period, ``end`` is not; each in the JSON form of the period's type, ``None`` where open."""

    start: str | None
    end: str | None

    def arguments(self, period: Period) -> dict[str, str]:
        """The parameters of the call that the period stands for."""
        given = {period.from_: self.start, period.to: self.end}
        return {name: value for name, value in given.items() if value is not None}


def read_period(text: str, kind: SqlType, *, zone: ZoneInfo, now: float) -> Bounds | None:
    """What a text means on the day it is in ``zone`` at ``now`` (POSIX seconds), or ``None`` where that is not plain.

    ``kind`` is DATE, DATETIME or TIMESTAMP; a TIMESTAMP's day begins at its first instant in
    ``zone``, so it has 23 or 25 hours where clocks change.
    """
    if len(text) > MAX_PERIOD_CHARS:
        return None
    plain = " ".join(unicodedata.normalize("NFKC", text).split()).lower()
    days = read_days(plain, today_in(zone, now)) if plain.isascii() else None
    if days is None:
        return None
    write = beginning(zone)[kind]
    try:
        return Bounds(*(None if edge is None else write(edge) for edge in (days.start, days.end)))
    except OverflowError:
        return None


@dataclass(frozen=True, slots=True)
class Resolved:
    """A call's arguments with every period as its bounds.

    ``unread`` are periods that do not become bounds, each with why: nothing stands for them.
    """

    arguments: Mapping[str, Any]
    unread: Mapping[str, str]


def resolve_periods(
    capability: DatasetCapability, arguments: Mapping[str, Any], *, zone: ZoneInfo, now: float
) -> Resolved:
    """A typed call's arguments, of which some may be periods by name; those that are not declared stay as they are."""
    plain = dict(arguments)
    unread: dict[str, str] = {}
    for period in capability.periods:
        if period.name not in plain:
            continue
        said = plain.pop(period.name)
        if period.from_ in plain or period.to in plain:
            unread[period.name] = f"it is said beside {period.from_} or {period.to}: say one of them"
            continue
        bounds = _read(capability, period, said, zone, now)
        if bounds is None:
            unread[period.name] = told(capability, period)
        else:
            plain.update(bounds)
    return Resolved(plain, unread)


def confirmed(capability: DatasetCapability, period: Period, bounds: Bounds) -> dict[str, Any] | None:
    """The bounds as arguments, or ``None`` where a parameter does not take one."""
    made: dict[str, Any] = {}
    for name, value in bounds.arguments(period).items():
        parameter = capability.parameter(name)
        fit = None if parameter is None else confirm(parameter, value)
        if fit is None:
            return None
        made[name] = fit
    return made


def period_type(capability: DatasetCapability, period: Period) -> SqlType:
    """The type of its bounds. Raises ``KeyError`` where the capability has not got them."""
    parameter = capability.parameter(period.from_)
    if parameter is None:
        raise KeyError(period.from_)
    return parameter.type


def told(capability: DatasetCapability, period: Period, problem: str = "") -> str:
    """What may be written for a period, after what was wrong."""
    kind = period_type(capability, period)
    why = f"{problem}; " if problem else ""
    return f"{why}write {period.name} as one of: {WRITTEN}; or give {period.from_} and {period.to} ({kind})"


def _read(
    capability: DatasetCapability, period: Period, said: Any, zone: ZoneInfo, now: float
) -> dict[str, Any] | None:
    if not isinstance(said, str):
        return None
    bounds = read_period(said, period_type(capability, period), zone=zone, now=now)
    return None if bounds is None else confirmed(capability, period, bounds)
