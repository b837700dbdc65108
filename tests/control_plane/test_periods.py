"""Periods: one meaning however it is said, none where it could be two, and days as long as clocks make them."""

from __future__ import annotations

import calendar
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contract.schema import SqlType
from contract.zone import UTC as UTC_ZONE
from contract.zone import read_zone
from control_plane.calendar_days import first_instant
from control_plane.periods import MAX_PERIOD_CHARS, Bounds, read_period

ZURICH = read_zone("Europe/Zurich")
# Their clocks skip midnight, a day, or show midnight twice.
ODD = ("America/Sao_Paulo", "Pacific/Apia", "America/St_Johns", "America/Toronto", "Asia/Beirut", "Africa/Cairo", "UTC")
SATURDAY = datetime(2024, 11, 30, 23, 30, tzinfo=UTC).timestamp()  # already Sunday in Zurich
MONTHS = list(calendar.month_name)


def days(text: str, *, zone: ZoneInfo = UTC_ZONE, now: float = SATURDAY) -> tuple[str | None, str | None] | None:
    found = read_period(text, SqlType.DATE, zone=zone, now=now)
    return None if found is None else (found.start, found.end)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024", ("2024-01-01", "2025-01-01")),
        ("2024-12", ("2024-12-01", "2025-01-01")),
        ("2024-Q1", ("2024-01-01", "2024-04-01")),
        ("2024-Q4", ("2024-10-01", "2025-01-01")),
        ("2024-W05", ("2024-01-29", "2024-02-05")),
        ("2020-W53", ("2020-12-28", "2021-01-04")),
        ("2024-02-29", ("2024-02-29", "2024-03-01")),
        ("2024-01-15..2024-02-03", ("2024-01-15", "2024-02-04")),
        ("2024-01..2024-03", ("2024-01-01", "2024-04-01")),
        ("2024-03..", ("2024-03-01", None)),
        ("..2024-03", (None, "2024-04-01")),
        ("today", ("2024-11-30", "2024-12-01")),
        ("yesterday", ("2024-11-29", "2024-11-30")),
        ("this week", ("2024-11-25", "2024-12-02")),
        ("last week", ("2024-11-18", "2024-11-25")),
        ("this month", ("2024-11-01", "2024-12-01")),
        ("last month", ("2024-10-01", "2024-11-01")),
        ("this quarter", ("2024-10-01", "2025-01-01")),
        ("previous quarter", ("2024-07-01", "2024-10-01")),
        ("current year", ("2024-01-01", "2025-01-01")),
        ("last year", ("2023-01-01", "2024-01-01")),
        ("last 1 days", ("2024-11-30", "2024-12-01")),
        ("the last 30 days", ("2024-11-01", "2024-12-01")),
        ("since 2024-03-15", ("2024-03-15", None)),
        ("on or after March 2024", ("2024-03-01", None)),
        ("after 2024-03-15", ("2024-03-16", None)),
        ("before 2024-03-15", (None, "2024-03-15")),
        ("through 2024-03-15", (None, "2024-03-16")),
        ("between 2024-01-15 and 2024-02-03", ("2024-01-15", "2024-02-04")),
        ("from January 2024 to March 2024", ("2024-01-01", "2024-04-01")),
        ("in March 2024", ("2024-03-01", "2024-04-01")),
        ("the first quarter of 2024", ("2024-01-01", "2024-04-01")),
        ("week 5 of 2024", ("2024-01-29", "2024-02-05")),
        ("  IN   the year\t2024 ", ("2024-01-01", "2025-01-01")),
    ],
)
def test_a_period_has_its_days(text: str, expected: tuple[str | None, str | None]) -> None:
    assert days(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "", "03/04/2024", "3.4.2024", "2024/03/04", "13/04/2024", "20240304", "March", "in May", "the 5th", "2024-13", "2024-00",
        "2023-02-29", "31 April 2024", "2021-W53", "2024-W00", "2024-Q5", "2024-3", "24-03", "2024-03-15T10:00:00Z",
        "until 2024-03-15", "by 2024-03", "from 2024", "around 2024", "not 2024", "2024 or later", "end of 2024", "next month",
        "tomorrow", "last 0 days", "last days", "last 3 months", "last seven days", "2 days ago", "recently", "monday",
        "2024-02-03..2024-01-15", "between 2024 and 2023", "2023 and 2024", "2024-03, 2024-04", "no later than 2024-03",
        "9999", "0000-01-01", "..", "last 99999 days", "２０２４-März", "2024-03\x00", "x" * (MAX_PERIOD_CHARS + 1),
    ],
)  # fmt: skip
def test_what_has_no_one_meaning_is_not_read(text: str) -> None:
    assert days(text) is None


def test_the_day_is_that_of_who_asks() -> None:
    assert days("today", zone=ZURICH) == ("2024-12-01", "2024-12-02")
    assert days("last month", zone=ZURICH) == ("2024-11-01", "2024-12-01")


def test_a_day_has_the_hours_that_clocks_give_it() -> None:
    def hours(day: str) -> float:
        found = read_period(day, SqlType.TIMESTAMP, zone=ZURICH, now=SATURDAY)
        assert found is not None and found.start is not None and found.end is not None
        return (datetime.fromisoformat(found.end) - datetime.fromisoformat(found.start)).total_seconds() / 3600

    assert (hours("2024-03-30"), hours("2024-03-31"), hours("2024-10-27")) == (24, 23, 25)


def test_each_type_has_its_own_bounds() -> None:
    def bounds(kind: SqlType) -> Bounds | None:
        return read_period("2024-03-31", kind, zone=ZURICH, now=SATURDAY)

    assert bounds(SqlType.DATE) == Bounds("2024-03-31", "2024-04-01")
    assert bounds(SqlType.DATETIME) == Bounds("2024-03-31T00:00:00", "2024-04-01T00:00:00")
    assert bounds(SqlType.TIMESTAMP) == Bounds("2024-03-30T23:00:00Z", "2024-03-31T22:00:00Z")


@pytest.mark.parametrize(
    ("day", "zone", "begins"),
    [
        (date(2018, 11, 4), "America/Sao_Paulo", "2018-11-04T03:00:00+00:00"),
        (date(1919, 3, 31), "America/Toronto", "1919-03-31T04:30:00+00:00"),
        (date(2011, 12, 30), "Pacific/Apia", "2011-12-30T10:00:00+00:00"),
        (date(2011, 12, 31), "Pacific/Apia", "2011-12-30T10:00:00+00:00"),
        (date(2010, 11, 7), "America/St_Johns", "2010-11-07T02:30:00+00:00"),
    ],
)
def test_a_day_begins_at_its_first_instant_also_where_midnight_is_skipped_or_comes_twice(
    day: date, zone: str, begins: str
) -> None:
    assert first_instant(day, read_zone(zone)).isoformat() == begins


@settings(max_examples=150, deadline=None)
@given(st.dates(date(1900, 1, 1), date(2100, 1, 1)), st.sampled_from(ODD))
def test_no_instant_before_the_beginning_of_a_day_shows_it(day: date, name: str) -> None:
    zone = read_zone(name)
    begins = first_instant(day, zone)
    assert begins.astimezone(zone).date() >= day
    assert (begins - timedelta(microseconds=1)).astimezone(zone).date() < day
    assert begins <= first_instant(day + timedelta(days=1), zone)


def ways(start: date) -> list[str]:
    """Spellings of one day."""
    iso, month = start.isoformat(), MONTHS[start.month]
    return [
        iso, f"on {iso}", f"{iso}..{iso}", f"between {iso} and {iso}", f"from {iso} to {iso}", f"{start.day} {month} {start.year}",
        f"{month} {start.day}, {start.year}", f"the {start.day:02} of {month[:3].upper()} {start.year}", f"ON  {iso}",
    ]  # fmt: skip


def month_ways(year: int, month: int) -> list[str]:
    last = calendar.monthrange(year, month)[1]
    iso = f"{year}-{month:02}"
    return [
        iso, f"in {MONTHS[month]} {year}", f"{MONTHS[month][:3]} {year}", f"the month of {MONTHS[month]} {year}",
        f"{iso}-01..{iso}-{last:02}", f"between {iso}-01 and {iso}-{last:02}", f"{iso}..{iso}", f"during {MONTHS[month]}, {year}",
    ]  # fmt: skip


DAYS = st.dates(date(1970, 1, 1), date(2200, 12, 31))
KINDS = st.sampled_from([SqlType.DATE, SqlType.DATETIME, SqlType.TIMESTAMP])


@settings(max_examples=60, deadline=None)
@given(DAYS, DAYS, KINDS, st.sampled_from((*ODD, "Europe/Zurich")))
def test_every_spelling_of_a_day_is_one_period_and_another_day_is_another(
    one: date, other: date, kind: SqlType, name: str
) -> None:
    def read(text: str) -> Bounds | None:
        return read_period(text, kind, zone=read_zone(name), now=SATURDAY)

    spelled = {read(text) for text in ways(one)}
    assert len(spelled) == 1 and None not in spelled
    if one != other:
        assert spelled.isdisjoint(read(text) for text in ways(other))


@settings(max_examples=60, deadline=None)
@given(st.integers(1970, 2200), st.integers(1, 12))
def test_every_spelling_of_a_month_is_one_period_that_ends_where_the_next_begins(year: int, month: int) -> None:
    spelled = {days(text) for text in month_ways(year, month)}
    assert len(spelled) == 1
    found = spelled.pop()
    following = days(month_ways(year + month // 12, month % 12 + 1)[0])
    assert found is not None and following is not None and found[1] == following[0]


@settings(max_examples=100, deadline=None)
@given(DAYS, st.sampled_from(["week", "month", "quarter", "year"]), st.integers(0, 86_399))
def test_words_for_a_day_mean_the_calendar_around_it(today: date, unit: str, second: int) -> None:
    now = datetime(today.year, today.month, today.day, tzinfo=UTC).timestamp() + second
    this, last = days(f"this {unit}", now=now), days(f"last {unit}", now=now)
    iso = today.isocalendar()
    absolute = {
        "week": f"{iso.year}-W{iso.week:02}",
        "month": f"{today.year}-{today.month:02}",
        "quarter": f"{today.year}-Q{(today.month + 2) // 3}",
        "year": str(today.year),
    }
    assert this == days(absolute[unit]) is not None
    assert last is not None and this is not None and last[1] == this[0]
    assert days("today", now=now) == days(today.isoformat())
    assert days("last 7 days", now=now) == days(f"{today - timedelta(days=6)}..{today}")


@settings(max_examples=200, deadline=None)
@given(st.text("0123456789-/. qwQWmarchsinceotdy", max_size=24))
def test_any_text_is_a_range_with_days_or_nothing(text: str) -> None:
    found = days(text)
    assert found is None or found[0] is None or found[1] is None or found[0] < found[1]


@pytest.mark.parametrize(
    "name", ["europe/zurich", "Mars/Base", "../UTC", "right/UTC", "localtime", "", "CET\n", None, 3]
)
def test_a_zone_is_a_place_that_the_database_knows(name: object) -> None:
    with pytest.raises(ValueError, match="IANA name"):
        read_zone(name)
