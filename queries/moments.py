"""Types of functions of dates and times, with the parts and zones they accept."""

from __future__ import annotations

import zoneinfo
from functools import cache
from typing import Final

from sqlglot import exp

from contract.schema import SqlType
from queries.elaborate import Elaborator, rule
from queries.errors import Refused
from queries.typed import Type, set_source, set_type

S = SqlType
_DAYS: Final = ("SUNDAY", "MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY")
_WEEKS: Final = tuple(f"WEEK_{day}" for day in _DAYS)
_DATE_UNITS: Final = ("DAY", "WEEK", "MONTH", "QUARTER", "YEAR")
_CLOCK_UNITS: Final = ("MICROSECOND", "MILLISECOND", "SECOND", "MINUTE", "HOUR")
_TIME_UNITS: Final = (*_CLOCK_UNITS, "DAY")
_DATE_PARTS: Final = ("DAY", *_WEEKS, "ISOWEEK", "MONTH", "QUARTER", "YEAR", "ISOYEAR")
_OF_DATE: Final = (
    "YEAR", "ISOYEAR", "QUARTER", "MONTH", *_WEEKS, "ISOWEEK", "DAY", "DAYOFWEEK", "DAYOFYEAR",
)  # fmt: skip
_OF_TIME: Final = ("HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND")
_EXTRACTED: Final = {
    S.DATE: _OF_DATE,
    S.DATETIME: (*_OF_DATE, *_OF_TIME, "DATE", "TIME"),
    S.TIME: _OF_TIME,
    S.TIMESTAMP: (*_OF_DATE, *_OF_TIME, "DATE", "DATETIME", "TIME"),
}
_WHOLES: Final = {"DATE": S.DATE, "TIME": S.TIME, "DATETIME": S.DATETIME}
_PART: Final = "gsql_part"
_ZONE: Final = "gsql_zone"


def part_of(node: exp.Expr) -> str:
    """The date part of an elaborated node; a week names its first day."""
    return str(node.meta[_PART])


def zone_of(node: exp.Expr) -> str:
    """The IANA zone of an elaborated node."""
    return str(node.meta[_ZONE])


def first_day(part: str) -> int | None:
    """The day that weeks of this part start with, Sunday being 0; ``None`` for another part."""
    if part == "ISOWEEK":
        return 1
    return _WEEKS.index(part) if part in _WEEKS else None


def set_part(node: exp.Expr, part: str, kind: SqlType) -> exp.Expr:
    """Make a node of ``kind`` with a date part in UTC by hand, as elaboration would."""
    node.meta[_PART] = part
    node.meta[_ZONE] = "UTC"
    set_source(node, kind)
    set_type(node, Type(kind))
    return node


@rule(exp.DateAdd, exp.DateSub)
def _date_add(e: Elaborator, node: exp.Expr) -> Type:
    return _moved(e, node, {S.DATE: _DATE_UNITS, S.DATETIME: (*_TIME_UNITS, *_DATE_UNITS)})


@rule(exp.DatetimeAdd, exp.DatetimeSub)
def _datetime_add(e: Elaborator, node: exp.Expr) -> Type:
    return _moved(e, node, {S.DATETIME: (*_TIME_UNITS, *_DATE_UNITS)})


@rule(exp.TimestampAdd, exp.TimestampSub)
def _timestamp_add(e: Elaborator, node: exp.Expr) -> Type:
    return _moved(e, node, {S.TIMESTAMP: _TIME_UNITS})


@rule(exp.TimeAdd, exp.TimeSub)
def _time_add(e: Elaborator, node: exp.Expr) -> Type:
    return _moved(e, node, {S.TIME: _CLOCK_UNITS})


def _moved(e: Elaborator, node: exp.Expr, units: dict[SqlType, tuple[str, ...]]) -> Type:
    kind = e.expect(node, "this", *units)
    _set_part(node, node.args.get("unit"), units[kind])
    amount = node.expression
    if isinstance(amount, exp.Literal):
        if not amount.name.lstrip("-").isdigit():
            raise Refused("INTERVAL takes a whole number", node)
        amount.set("is_string", False)
    e.expect(node, "expression", S.INT64)
    set_source(node, kind)
    return Type(kind)


@rule(exp.DateDiff)
def _date_diff(e: Elaborator, node: exp.Expr) -> Type:
    return _difference(e, node, {S.DATE: _DATE_PARTS, S.DATETIME: (*_CLOCK_UNITS, *_DATE_PARTS)})


@rule(exp.DatetimeDiff)
def _datetime_diff(e: Elaborator, node: exp.Expr) -> Type:
    return _difference(e, node, {S.DATETIME: (*_CLOCK_UNITS, *_DATE_PARTS)})


@rule(exp.TimestampDiff)
def _timestamp_diff(e: Elaborator, node: exp.Expr) -> Type:
    return _difference(e, node, {S.TIMESTAMP: _TIME_UNITS})


@rule(exp.TimeDiff)
def _time_diff(e: Elaborator, node: exp.Expr) -> Type:
    return _difference(e, node, {S.TIME: _CLOCK_UNITS})


def _difference(e: Elaborator, node: exp.Expr, parts: dict[SqlType, tuple[str, ...]]) -> Type:
    kind = e.expect(node, "this", *parts)
    e.expect(node, "expression", kind)
    _set_part(node, node.args.get("unit"), parts[kind])
    set_source(node, kind)
    return Type(S.INT64)


@rule(exp.DateTrunc)
def _date_trunc(e: Elaborator, node: exp.Expr) -> Type:
    clock = (*_CLOCK_UNITS, *_DATE_PARTS)
    return _truncated(e, node, {S.DATE: _DATE_PARTS, S.DATETIME: clock, S.TIMESTAMP: clock})


@rule(exp.DatetimeTrunc)
def _datetime_trunc(e: Elaborator, node: exp.Expr) -> Type:
    return _truncated(e, node, {S.DATETIME: (*_CLOCK_UNITS, *_DATE_PARTS)})


@rule(exp.TimestampTrunc)
def _timestamp_trunc(e: Elaborator, node: exp.Expr) -> Type:
    return _truncated(e, node, {S.TIMESTAMP: (*_CLOCK_UNITS, *_DATE_PARTS)})


@rule(exp.TimeTrunc)
def _time_trunc(e: Elaborator, node: exp.Expr) -> Type:
    return _truncated(e, node, {S.TIME: _CLOCK_UNITS})


def _truncated(e: Elaborator, node: exp.Expr, parts: dict[SqlType, tuple[str, ...]]) -> Type:
    kind = e.expect(node, "this", *parts)
    _set_part(node, node.args.get("unit"), parts[kind])
    zone = node.args.get("zone")
    if zone is not None and kind is not S.TIMESTAMP:
        raise Refused("a zone goes with a TIMESTAMP", node)
    set_zone(node, zone)
    set_source(node, kind)
    return Type(kind)


@rule(exp.Extract)
def _extract(e: Elaborator, node: exp.Expr) -> Type:
    value = node.expression
    zone = None
    if isinstance(value, exp.AtTimeZone):
        zone = value.args["zone"]
        node.set("expression", value.this)
    source = e.expect(node, "expression", S.DATE, S.TIMESTAMP, S.DATETIME, S.TIME)
    if zone is not None and source is not S.TIMESTAMP:
        raise Refused("AT TIME ZONE takes a TIMESTAMP", node)
    set_zone(node, zone)
    _set_part(node, node.this, _EXTRACTED[source])
    set_source(node, source)
    return Type(_WHOLES.get(part_of(node), S.INT64))


@rule(exp.UnixDate)
def _unix_date(e: Elaborator, node: exp.Expr) -> Type:
    e.expect(node, "this", S.DATE)
    return Type(S.INT64)


@rule(exp.UnixSeconds, exp.UnixMillis, exp.UnixMicros)
def _unix(e: Elaborator, node: exp.Expr) -> Type:
    e.expect(node, "this", S.TIMESTAMP)
    return Type(S.INT64)


@rule(exp.UnixToTime)
def _from_unix(e: Elaborator, node: exp.Expr) -> Type:
    e.expect(node, "this", S.INT64)
    scale = node.args.get("scale")
    if scale is not None and scale.name not in ("0", "3", "6"):
        raise Refused("a timestamp comes from seconds, milliseconds or microseconds", node)
    return Type(S.TIMESTAMP)


@rule(exp.DateFromUnixDate)
def _from_unix_date(e: Elaborator, node: exp.Expr) -> Type:
    e.expect(node, "this", S.INT64)
    return Type(S.DATE)


@rule(exp.LastDay)
def _last_day(e: Elaborator, node: exp.Expr) -> Type:
    kind = e.expect(node, "this", S.DATE, S.DATETIME)
    unit = node.args.get("unit")
    _set_part(node, exp.Var(this="MONTH") if unit is None else unit, _DATE_PARTS[1:])
    set_source(node, kind)
    return Type(S.DATE)


@rule(exp.CurrentDate, exp.CurrentDatetime, exp.CurrentTime)
def _current(e: Elaborator, node: exp.Expr) -> Type:
    e.deterministic = False
    set_zone(node, node.this)
    if isinstance(node, exp.CurrentDate):
        return Type(S.DATE)
    return Type(S.DATETIME if isinstance(node, exp.CurrentDatetime) else S.TIME)


@rule(exp.CurrentTimestamp)
def _current_timestamp(e: Elaborator, node: exp.Expr) -> Type:
    e.deterministic = False
    return Type(S.TIMESTAMP)


def _set_part(node: exp.Expr, unit: exp.Expr | None, accepted: tuple[str, ...]) -> None:
    if isinstance(unit, exp.WeekStart):
        name = f"WEEK_{unit.this.name.upper()}"
        if name == "WEEK_SUNDAY" and name not in accepted and "WEEK" in accepted:
            name = "WEEK"
    else:
        name = unit.name.upper() if unit is not None else ""
        if name == "WEEK" and "WEEK_SUNDAY" in accepted:
            name = "WEEK_SUNDAY"
    if name not in accepted:
        raise Refused(f"the part {name or 'missing'} is not accepted here", node)
    node.meta[_PART] = name


def set_zone(node: exp.Expr, zone: exp.Expr | None) -> str:
    """Write the zone of ``node`` onto it: UTC where none is named. Raises ``Refused``."""
    if zone is None:
        name = "UTC"
    elif isinstance(zone, exp.Literal) and zone.is_string and zone.name in _zones():
        name = zone.name
    else:
        raise Refused("a zone is written as an IANA name, such as 'Europe/Berlin'", node)
    node.meta[_ZONE] = name
    return name


@cache
def _zones() -> frozenset[str]:
    return frozenset(zoneinfo.available_timezones())
