"""Types of functions of dates and timestamps, with the parts and zones they accept."""

from __future__ import annotations

import zoneinfo
from functools import cache
from typing import Final

from sqlglot import exp

from contract.schema import SqlType
from queries.elaborate import Elaborator, rule
from queries.errors import Refused
from queries.typed import Type, set_type, text_literal

S = SqlType
_DATE_UNITS: Final = ("DAY", "WEEK", "MONTH", "QUARTER", "YEAR")
_TIME_UNITS: Final = ("MICROSECOND", "MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY")
_DATE_PARTS: Final = ("DAY", "WEEK_SUNDAY", "WEEK_MONDAY", "ISOWEEK", "MONTH", "QUARTER", "YEAR", "ISOYEAR")
_EXTRACTED: Final = (
    "YEAR",
    "ISOYEAR",
    "QUARTER",
    "MONTH",
    "WEEK_SUNDAY",
    "WEEK_MONDAY",
    "ISOWEEK",
    "DAY",
    "DAYOFWEEK",
    "DAYOFYEAR",
)
_OF_TIME: Final = ("DATE", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND")
_FORMATS: Final = frozenset("YmdjabyAB%")
_PART: Final = "gsql_part"
_ZONE: Final = "gsql_zone"


def part_of(node: exp.Expr) -> str:
    """The date part of an elaborated node; a week names its first day."""
    return str(node.meta[_PART])


def zone_of(node: exp.Expr) -> str:
    """The IANA zone of an elaborated node."""
    return str(node.meta[_ZONE])


def set_part(node: exp.Expr, part: str, kind: SqlType) -> exp.Expr:
    """Make a node of ``kind`` with a date part in UTC by hand, as elaboration would."""
    node.meta[_PART] = part
    node.meta[_ZONE] = "UTC"
    set_type(node, Type(kind))
    return node


@rule(exp.DateAdd, exp.DateSub)
def _date_add(e: Elaborator, node: exp.Expr) -> Type:
    _set_part(node, node.args.get("unit"), _DATE_UNITS)
    _amount(e, node)
    return Type(e.expect(node, "this", S.DATE))


@rule(exp.TimestampAdd, exp.TimestampSub)
def _timestamp_add(e: Elaborator, node: exp.Expr) -> Type:
    _set_part(node, node.args.get("unit"), _TIME_UNITS)
    _amount(e, node)
    return Type(e.expect(node, "this", S.TIMESTAMP))


@rule(exp.DateDiff)
def _date_diff(e: Elaborator, node: exp.Expr) -> Type:
    _set_part(node, node.args.get("unit"), _DATE_PARTS)
    e.expect(node, "this", S.DATE)
    e.expect(node, "expression", S.DATE)
    return Type(S.INT64)


@rule(exp.TimestampDiff)
def _timestamp_diff(e: Elaborator, node: exp.Expr) -> Type:
    _set_part(node, node.args.get("unit"), _TIME_UNITS)
    e.expect(node, "this", S.TIMESTAMP)
    e.expect(node, "expression", S.TIMESTAMP)
    return Type(S.INT64)


@rule(exp.DateTrunc)
def _date_trunc(e: Elaborator, node: exp.Expr) -> Type:
    _set_part(node, node.args.get("unit"), _DATE_PARTS)
    return Type(e.expect(node, "this", S.DATE))


@rule(exp.TimestampTrunc)
def _timestamp_trunc(e: Elaborator, node: exp.Expr) -> Type:
    _set_part(node, node.args.get("unit"), ("SECOND", "MINUTE", "HOUR", *_DATE_PARTS))
    if _set_zone(node, node.args.get("zone")) != "UTC":
        raise Refused("TIMESTAMP_TRUNC is accepted in UTC; for days of a zone use DATE(timestamp, zone)", node)
    return Type(e.expect(node, "this", S.TIMESTAMP))


@rule(exp.Extract)
def _extract(e: Elaborator, node: exp.Expr) -> Type:
    value = node.expression
    zone = None
    if isinstance(value, exp.AtTimeZone):
        zone = value.args["zone"]
        node.set("expression", value.this)
    source = e.expect(node, "expression", S.DATE, S.TIMESTAMP, S.DATETIME)
    if zone is not None and source is not S.TIMESTAMP:
        raise Refused("AT TIME ZONE takes a TIMESTAMP", node)
    _set_zone(node, zone)
    _set_part(node, node.this, _EXTRACTED if source is S.DATE else (*_EXTRACTED, *_OF_TIME))
    node.meta["gsql_source"] = source
    return Type(S.DATE if part_of(node) == "DATE" else S.INT64)


@rule(exp.Date)
def _date(e: Elaborator, node: exp.Expr) -> Type:
    value = node.this
    if isinstance(value, exp.Literal) and value.is_string:
        node.set("this", text_literal(value.name, S.DATE, node))
        source = S.DATE
    else:
        source = e.expect(node, "this", S.TIMESTAMP, S.DATETIME, S.DATE)
    zone = node.args.get("zone")
    if zone is not None and source is not S.TIMESTAMP:
        raise Refused("DATE with a zone takes a TIMESTAMP", node)
    _set_zone(node, zone)
    node.meta["gsql_source"] = source
    return Type(S.DATE)


@rule(exp.DateFromParts)
def _date_from_parts(e: Elaborator, node: exp.Expr) -> Type:
    for arg in ("year", "month", "day"):
        e.expect(node, arg, S.INT64)
    return Type(S.DATE)


@rule(exp.Timestamp)
def _timestamp(e: Elaborator, node: exp.Expr) -> Type:
    value = node.this
    if isinstance(value, exp.Literal) and value.is_string:
        node.set("this", text_literal(value.name, S.TIMESTAMP, node))
        source = S.TIMESTAMP
    else:
        source = e.expect(node, "this", S.DATE, S.DATETIME, S.TIMESTAMP)
    if _set_zone(node, node.args.get("zone")) != "UTC":
        raise Refused("TIMESTAMP from a date is accepted in UTC only", node)
    node.meta["gsql_source"] = source
    return Type(S.TIMESTAMP)


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


@rule(exp.LastDay)
def _last_day(e: Elaborator, node: exp.Expr) -> Type:
    unit = node.args.get("unit")
    if unit is not None and unit.name != "MONTH":
        raise Refused("LAST_DAY is accepted for MONTH", node)
    return Type(e.expect(node, "this", S.DATE))


@rule(exp.TimeToStr)
def _format_date(e: Elaborator, node: exp.Expr) -> Type:
    pattern = node.args["format"]
    if not isinstance(node.this, exp.TsOrDsToDate) or not (isinstance(pattern, exp.Literal) and pattern.is_string):
        raise Refused("of formats FORMAT_DATE with a written pattern is accepted", node)
    text = pattern.name
    letters = [text[index + 1 : index + 2] for index, char in enumerate(text) if char == "%"]
    if any(letter not in _FORMATS or not letter for letter in letters) or "%%" in text:
        raise Refused("FORMAT_DATE accepts %Y %m %d %F %j %y %b %B %a %A", node)
    inner = node.this
    e.expect(inner, "this", S.DATE)
    set_type(inner, Type(S.DATE))
    e.type(pattern)
    return Type(S.STRING)


@rule(exp.CurrentDate)
def _current_date(e: Elaborator, node: exp.Expr) -> Type:
    e.deterministic = False
    _set_zone(node, node.this)
    return Type(S.DATE)


@rule(exp.CurrentTimestamp)
def _current_timestamp(e: Elaborator, node: exp.Expr) -> Type:
    e.deterministic = False
    return Type(S.TIMESTAMP)


def _amount(e: Elaborator, node: exp.Expr) -> None:
    amount = node.expression
    if isinstance(amount, exp.Literal):
        if not amount.name.lstrip("-").isdigit():
            raise Refused("INTERVAL takes a whole number", node)
        amount.set("is_string", False)
    e.expect(node, "expression", S.INT64)


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


def _set_zone(node: exp.Expr, zone: exp.Expr | None) -> str:
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
