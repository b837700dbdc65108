"""Dates and times for DuckDB; a TIMESTAMP is read in a named zone, never the session's."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from contract.schema import SqlType
from queries.call_types import is_safe
from queries.duckdb_dialect import call, cast, local, rule, typed
from queries.moments import first_day, part_of, zone_of
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
_CHECKS: Final = {S.DATE: "date", S.DATETIME: "datetime", S.TIMESTAMP: "moment"}
_SIMPLE_PARTS: Final = ("YEAR", "ISOYEAR", "QUARTER", "MONTH", "DAY", "DAYOFYEAR", "HOUR", "MINUTE", "SECOND")


def checked(node: exp.Expr, kind: SqlType, value: exp.Expr) -> exp.Expr:
    """``value`` within the years 1 to 9999; beyond them an error, or NULL under ``SAFE.``."""
    return call(f"gsql_{'safe_' if is_safe(node) else ''}{_CHECKS[kind]}", value)


def _times(value: exp.Expr, factor: int) -> exp.Expr:
    return value if factor == 1 else exp.Mul(this=exp.Paren(this=value), expression=exp.Literal.number(factor))


@rule(exp.DateAdd, exp.DateSub, exp.DatetimeAdd, exp.DatetimeSub, exp.TimestampAdd, exp.TimestampSub)
def _moved(node: exp.Expr) -> exp.Expr:
    part, kind = part_of(node), source_type(node)
    move = exp.Sub if isinstance(node, (exp.DateSub, exp.DatetimeSub, exp.TimestampSub)) else exp.Add
    return checked(node, kind or S.DATE, move(this=node.this, expression=_step(node, part, kind)))


def _step(node: exp.Expr, part: str, kind: SqlType | None) -> exp.Expr:
    if part in _MONTHS:
        return call("to_months", cast(_times(_amount(node, 120_000), _MONTHS[part]), "INTEGER"))
    if part in _DAYS and kind is not S.TIMESTAMP:
        return call("to_days", cast(_times(_amount(node, 4_000_000), _DAYS[part]), "INTEGER"))
    return call("to_microseconds", _times(_amount(node, 320_000_000_000_000_000 // _MICROS[part]), _MICROS[part]))


def _amount(node: exp.Expr, most: int) -> exp.Expr:
    """How far a moment moves; NULL under ``SAFE.`` where that is more than all the years."""
    return call("gsql_within", node.expression, most) if is_safe(node) else node.expression


@rule(exp.TimeAdd, exp.TimeSub)
def _time_moved(node: exp.Expr) -> exp.Expr:
    day = exp.Literal.number(_MICROS["DAY"])
    # A day is a whole turn of the clock, so that no number of hours is too many.
    turns = exp.Mod(
        this=exp.Paren(this=node.expression), expression=exp.Literal.number(_MICROS["DAY"] // _MICROS[part_of(node)])
    )
    step = exp.Mod(this=exp.Paren(this=_times(turns, _MICROS[part_of(node)])), expression=day)
    move = exp.Sub if isinstance(node, exp.TimeSub) else exp.Add
    return call("gsql_time_of", exp.Paren(this=move(this=call("gsql_time_micros", node.this), expression=step)))


@rule(exp.DateDiff, exp.DatetimeDiff, exp.TimeDiff)
def _difference(node: exp.Expr) -> exp.Expr:
    part, later, earlier = part_of(node), node.this, node.expression
    day = first_day(part)
    if day is not None:
        return exp.Paren(this=exp.Sub(this=_week_index(later, day), expression=_week_index(earlier, day)))
    if part == "ISOYEAR":
        return exp.Paren(this=exp.Sub(this=call("isoyear", later), expression=call("isoyear", earlier)))
    if part in _MICROS and part != "DAY":
        # Boundaries that were passed, not whole units.
        counts = [_count(value, part, source_type(node)) for value in (later, earlier)]
        return exp.Paren(this=exp.Sub(this=counts[0], expression=counts[1]))
    return call("date_diff", part.lower(), earlier, later)


def _count(value: exp.Expr, part: str, kind: SqlType | None) -> exp.Expr:
    micros = call("gsql_time_micros" if kind is S.TIME else "epoch_us", value)
    return micros if part == "MICROSECOND" else call("gsql_floor_div", micros, _MICROS[part])


def _week_index(value: exp.Expr, day: int) -> exp.Expr:
    shift = exp.Literal.number(8 - (day or 7) if day else 8)
    return call("gsql_div", exp.Add(this=call("gsql_days", value), expression=shift), 7)


@rule(exp.TimestampDiff)
def _timestamp_diff(node: exp.Expr) -> exp.Expr:
    micros = exp.Sub(this=call("epoch_us", node.this), expression=call("epoch_us", node.expression))
    factor = _MICROS[part_of(node)]
    return exp.Paren(this=micros) if factor == 1 else call("gsql_div", micros, factor)


@rule(exp.DateTrunc, exp.DatetimeTrunc)
def _date_trunc(node: exp.Expr) -> exp.Expr:
    kind = source_type(node)
    if kind is S.TIMESTAMP:
        return _timestamp_trunc(node)
    part, truncated = part_of(node), _truncated(node.this, part_of(node))
    # Only the first day of a week can lie in another year than the day itself.
    if part in _MICROS or part in ("MONTH", "QUARTER", "YEAR"):
        return typed(truncated, kind or S.DATE)
    return checked(node, kind or S.DATE, truncated)


@rule(exp.TimestampTrunc)
def _timestamp_trunc(node: exp.Expr) -> exp.Expr:
    part, zone = part_of(node), zone_of(node)
    if part in _MICROS and part != "DAY":
        # What lies above the hour stays, so that a repeated hour keeps its offset.
        past = exp.Sub(this=local(node.this, zone), expression=_truncated(local(node.this.copy(), zone), part))
        return exp.Paren(this=exp.Sub(this=node.this.copy(), expression=exp.Paren(this=past)))
    truncated = typed(_truncated(local(node.this, zone), part), S.DATETIME)
    return checked(node, S.TIMESTAMP, at(truncated, zone))


@rule(exp.TimeTrunc)
def _time_trunc(node: exp.Expr) -> exp.Expr:
    size = _MICROS[part_of(node)]
    units = exp.IntDiv(this=call("gsql_time_micros", node.this), expression=exp.Literal.number(size))
    return call(
        "gsql_time_of", exp.Paren(this=exp.Mul(this=exp.Paren(this=units), expression=exp.Literal.number(size)))
    )


def at(value: exp.Expr, zone: str) -> exp.Expr:
    """A DATETIME of a zone as an instant."""
    return local(value, zone) if zone == "UTC" else call("gsql_at", value, zone)


def _truncated(value: exp.Expr, part: str) -> exp.Expr:
    day = first_day(part)
    if day is None or day == 1:
        return call("date_trunc", "week" if day else part.lower(), value)
    return call("gsql_week_start", value, day)


@rule(exp.Extract)
def _extract(node: exp.Expr) -> exp.Expr:
    part, value = part_of(node), node.expression
    if source_type(node) is S.TIMESTAMP:
        value = local(value, zone_of(node))
    if part in _SIMPLE_PARTS:
        return call(part.lower(), value)
    match part:
        case "DATE" | "TIME" | "DATETIME":
            return typed(value, S(part))
        case "DAYOFWEEK":
            return exp.Paren(this=exp.Add(this=call("dayofweek", value), expression=exp.Literal.number(1)))
        case "ISOWEEK":
            return call("week", value)
        case "MILLISECOND" | "MICROSECOND":
            # DuckDB counts the whole seconds too.
            size = 1_000 if part == "MILLISECOND" else 1_000_000
            return exp.Paren(this=exp.Mod(this=call(part.lower(), value), expression=exp.Literal.number(size)))
    return call("gsql_week", value, first_day(part) or 0)


@rule(exp.UnixDate)
def _unix_date(node: exp.Expr) -> exp.Expr:
    return call("date_diff", "day", cast(exp.Literal.string("1970-01-01"), "DATE"), node.this)


@rule(exp.DateFromUnixDate)
def _from_unix_date(node: exp.Expr) -> exp.Expr:
    days = call("gsql_within", node.this, 4_000_000) if is_safe(node) else node.this
    step = call("to_days", cast(days, "INTEGER"))
    return checked(node, S.DATE, exp.Add(this=cast(exp.Literal.string("1970-01-01"), "DATE"), expression=step))


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
    units = call("gsql_within", node.this, 320_000_000_000_000_000 // factor) if is_safe(node) else node.this
    return checked(node, S.TIMESTAMP, local(call("make_timestamp", _times(units, factor)), "UTC"))


@rule(exp.LastDay)
def _last_day(node: exp.Expr) -> exp.Expr:
    part, value = part_of(node), typed(node.this, S.DATE)
    if part == "MONTH":
        return call("last_day", value)
    if part == "ISOYEAR":
        # The fourth of January is always in the first week; a week later than the year's 52nd starts the next.
        start = call(
            "date_trunc", "isoyear", exp.Add(this=call("date_trunc", "isoyear", value), expression=call("to_days", 374))
        )
        return checked(node, S.DATE, exp.Sub(this=start, expression=call("to_days", 1)))
    step = {"QUARTER": call("to_months", 3), "YEAR": call("to_months", 12)}.get(part, call("to_days", 7))
    following = exp.Add(this=_truncated(value, part), expression=step)
    return checked(node, S.DATE, exp.Sub(this=following, expression=call("to_days", 1)))


@rule(exp.CurrentDate, exp.CurrentDatetime, exp.CurrentTime)
def _current(node: exp.Expr) -> exp.Expr:
    now = local(call("get_current_timestamp"), zone_of(node))
    if isinstance(node, exp.CurrentDatetime):
        return now
    return typed(now, S.DATE if isinstance(node, exp.CurrentDate) else S.TIME)


@rule(exp.CurrentTimestamp)
def _current_timestamp(node: exp.Expr) -> exp.Expr:
    return call("get_current_timestamp")
