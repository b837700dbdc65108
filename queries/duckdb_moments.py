"""Dates and timestamps for DuckDB; a TIMESTAMP is read in a named zone, never the session's."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from contract.schema import SqlType
from queries.duckdb_dialect import call, cast, local, rule, typed
from queries.moments import part_of, zone_of
from queries.typed import source_type

S = SqlType
_MICROS: Final = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
    "DAY": 86_400_000_000,
}
_DAYS: Final = {"DAY": 1, "WEEK": 7}
_MONTHS: Final = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
_SIMPLE_PARTS: Final = ("YEAR", "ISOYEAR", "QUARTER", "MONTH", "DAY", "DAYOFYEAR", "HOUR", "MINUTE", "SECOND")


def _times(value: exp.Expr, factor: int) -> exp.Expr:
    return value if factor == 1 else exp.Mul(this=exp.Paren(this=value), expression=exp.Literal.number(factor))


@rule(exp.DateAdd, exp.DateSub)
def _date_add(node: exp.Expr) -> exp.Expr:
    part = part_of(node)
    function, factor = ("to_days", _DAYS[part]) if part in _DAYS else ("to_months", _MONTHS[part])
    step = call(function, cast(_times(node.expression, factor), "INTEGER"))
    move = exp.Sub if isinstance(node, exp.DateSub) else exp.Add
    return call("gsql_date", move(this=node.this, expression=step))


@rule(exp.TimestampAdd, exp.TimestampSub)
def _timestamp_add(node: exp.Expr) -> exp.Expr:
    step = call("to_microseconds", _times(node.expression, _MICROS[part_of(node)]))
    move = exp.Sub if isinstance(node, exp.TimestampSub) else exp.Add
    return call("gsql_moment", move(this=node.this, expression=step))


@rule(exp.DateDiff)
def _date_diff(node: exp.Expr) -> exp.Expr:
    part, later, earlier = part_of(node), node.this, node.expression
    if part in ("WEEK_SUNDAY", "WEEK_MONDAY", "ISOWEEK"):
        shift = 1 if part == "WEEK_SUNDAY" else 0
        return exp.Paren(this=exp.Sub(this=_week_index(later, shift), expression=_week_index(earlier, shift)))
    if part == "ISOYEAR":
        return exp.Paren(this=exp.Sub(this=call("isoyear", later), expression=call("isoyear", earlier)))
    return call("date_diff", part.lower(), earlier, later)


def _week_index(value: exp.Expr, shift: int) -> exp.Expr:
    return call("gsql_div", exp.Add(this=call("gsql_days", value), expression=exp.Literal.number(shift)), 7)


@rule(exp.TimestampDiff)
def _timestamp_diff(node: exp.Expr) -> exp.Expr:
    micros = exp.Sub(this=call("epoch_us", node.this), expression=call("epoch_us", node.expression))
    factor = _MICROS[part_of(node)]
    return exp.Paren(this=micros) if factor == 1 else call("gsql_div", micros, factor)


@rule(exp.DateTrunc)
def _date_trunc(node: exp.Expr) -> exp.Expr:
    return call("gsql_date", _truncated(node.this, part_of(node)))


@rule(exp.TimestampTrunc)
def _timestamp_trunc(node: exp.Expr) -> exp.Expr:
    truncated = typed(_truncated(local(node.this, "UTC"), part_of(node)), S.DATETIME)
    return call("gsql_moment", local(truncated, "UTC"))


def _truncated(value: exp.Expr, part: str) -> exp.Expr:
    if part == "WEEK_SUNDAY":
        day = call("to_days", 1)
        monday = call("date_trunc", "week", exp.Add(this=value, expression=day))
        return exp.Paren(this=exp.Sub(this=monday, expression=day.copy()))
    return call("date_trunc", "week" if part in ("ISOWEEK", "WEEK_MONDAY") else part.lower(), value)


@rule(exp.Extract)
def _extract(node: exp.Expr) -> exp.Expr:
    part, value = part_of(node), node.expression
    if source_type(node) is S.TIMESTAMP:
        value = local(value, zone_of(node))
    if part in _SIMPLE_PARTS:
        return call(part.lower(), value)
    match part:
        case "DATE":
            return typed(value, S.DATE)
        case "DAYOFWEEK":
            return exp.Paren(this=exp.Add(this=call("dayofweek", value), expression=exp.Literal.number(1)))
        case "ISOWEEK":
            return call("week", value)
        case "MILLISECOND" | "MICROSECOND":
            # DuckDB counts the whole seconds too.
            size = 1_000 if part == "MILLISECOND" else 1_000_000
            return exp.Paren(this=exp.Mod(this=call(part.lower(), value), expression=exp.Literal.number(size)))
    return call("gsql_week", value, 0 if part == "WEEK_SUNDAY" else 1)


@rule(exp.Date)
def _date(node: exp.Expr) -> exp.Expr:
    value = local(node.this, zone_of(node)) if source_type(node) is S.TIMESTAMP else node.this
    return typed(value, S.DATE)


@rule(exp.DateFromParts)
def _date_from_parts(node: exp.Expr) -> exp.Expr:
    return call("gsql_date_parts", node.args["year"], node.args["month"], node.args["day"])


@rule(exp.Timestamp)
def _timestamp(node: exp.Expr) -> exp.Expr:
    value: exp.Expr = node.this
    return value if source_type(node) is S.TIMESTAMP else local(typed(value, S.DATETIME), "UTC")


@rule(exp.UnixDate)
def _unix_date(node: exp.Expr) -> exp.Expr:
    return call("date_diff", "day", cast(exp.Literal.string("1970-01-01"), "DATE"), node.this)


@rule(exp.UnixSeconds, exp.UnixMillis, exp.UnixMicros)
def _unix(node: exp.Expr) -> exp.Expr:
    micros = call("epoch_us", node.this)
    if isinstance(node, exp.UnixMicros):
        return micros
    return call("gsql_floor_div", micros, 1_000 if isinstance(node, exp.UnixMillis) else 1_000_000)


@rule(exp.UnixToTime)
def _from_unix(node: exp.Expr) -> exp.Expr:
    scale = node.args.get("scale")
    factor = 10 ** (6 - (int(scale.name) if scale is not None else 0))
    return call("gsql_moment", local(call("make_timestamp", _times(node.this, factor)), "UTC"))


@rule(exp.LastDay)
def _last_day(node: exp.Expr) -> exp.Expr:
    return call("last_day", node.this)


@rule(exp.TsOrDsToDate)
def _as_date(node: exp.Expr) -> exp.Expr:
    held: exp.Expr = node.this
    return held


@rule(exp.TimeToStr)
def _format_date(node: exp.Expr) -> exp.Expr:
    return call("strftime", node.this, node.args["format"])


@rule(exp.CurrentDate)
def _current_date(node: exp.Expr) -> exp.Expr:
    return typed(local(call("get_current_timestamp"), zone_of(node)), S.DATE)


@rule(exp.CurrentTimestamp)
def _current_timestamp(node: exp.Expr) -> exp.Expr:
    return call("get_current_timestamp")
