"""Two ways to write one meaning have one canonical form and one key; two meanings have two."""

from __future__ import annotations

import itertools
import re
import unicodedata
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cache.keys import CacheKeys
from cache.partition import entry_key, partition
from contract.result import Intent
from contract.schema import SqlType
from contract.verdict import NotGranted
from contract.zone import read_zone
from control_plane.periods import read_period
from queries.bind import bind
from queries.template import Template
from tests.authority_builder import make_authority
from tests.queries.world import parameter, template

KEYS = CacheKeys.from_secret(bytes(range(32)))
EQUAL = "SELECT id FROM orders WHERE `{}` = @x ORDER BY id"
AMONG = "SELECT id FROM orders WHERE `{}` IN UNNEST(@x) ORDER BY id"
LIKE = "SELECT id FROM orders WHERE note LIKE @x ORDER BY id"


@cache
def loaded(kind: str) -> Template:
    """A template with one parameter of a kind."""
    declared: dict[str, tuple[str, Any]] = {
        "number": (EQUAL.format("id"), parameter("x:INT64")),
        "real": (EQUAL.format("score"), parameter("x:FLOAT64")),
        "amount": (EQUAL.format("amount"), parameter("x:NUMERIC", default="0")),
        "day": (EQUAL.format("day"), parameter("x:DATE")),
        "moment": (EQUAL.format("at"), parameter("x:TIMESTAMP")),
        "text": (EQUAL.format("note"), parameter("x:STRING")),
        "code": (EQUAL.format("region"), parameter("x:STRING", case="upper")),
        "amounts": (AMONG.format("amount"), parameter("x:NUMERIC[]")),
        "like": (LIKE, parameter("x:STRING", wildcards=True)),
    }
    sql, one = declared[kind]
    return template(sql, "id:INT64", one)


def canonical(kind: str, *value: Any) -> Any:
    return bind(loaded(kind), {"x": value[0]} if value else {}).canonical["x"]


def key(kind: str, *value: Any) -> str:
    authority = make_authority()
    intent = Intent(authority.dataset, authority.capability, loaded(kind).digest, {"x": canonical(kind, *value)})
    inside = partition(authority, intent, freshness_class="3600", media_type="application/json", keys=KEYS)
    return entry_key(inside, intent, keys=KEYS)


def zeros(number: Decimal, draw: Any) -> Any:
    """A decimal with zeros before and after, or as a JSON number."""
    text = format(number, "f")
    sign, digits = ("-", text[1:]) if text.startswith("-") else ("", text)
    whole, _, fraction = digits.partition(".")
    fraction = fraction.rstrip("0")
    fraction += "0" * draw(st.integers(0, 9 - len(fraction)))
    spelled = f"{sign}{'0' * draw(st.integers(0, 3))}{whole}" + (f".{fraction}" if fraction else "")
    as_float = float(number)
    others = [as_float] if Decimal(repr(as_float)) == number else []
    return draw(st.sampled_from([spelled, *others, *([int(number)] if number == int(number) else [])]))


def offset(moment: datetime, draw: Any) -> str:
    zone = timezone(timedelta(minutes=draw(st.integers(-14 * 60, 14 * 60))))
    text = moment.astimezone(zone).isoformat(sep=draw(st.sampled_from("T ")), timespec="microseconds")
    body, sign, hours = re.split(r"([+-])(?=\d\d:\d\d$)", text)
    fraction = body.rstrip("0").removesuffix(".") if draw(st.booleans()) and "." in body else body
    where = "Z" if hours == "00:00" and draw(st.booleans()) else f"{sign}{hours}"
    return fraction + where


def marks(text: str, draw: Any) -> str:
    return unicodedata.normalize(draw(st.sampled_from(["NFC", "NFD"])), text)


def cased(text: str, draw: Any) -> str:
    return "".join(draw(st.sampled_from([char.upper(), char.lower()])) for char in text)


def listed(values: frozenset[Decimal], draw: Any) -> list[Any]:
    again = draw(st.lists(st.sampled_from(sorted(values)), max_size=3)) if values else []
    return [zeros(value, draw) for value in draw(st.permutations([*sorted(values), *again]))]


DECIMALS = st.decimals(Decimal("-99999999"), Decimal("99999999"), places=9)
MOMENTS = st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1)).map(lambda moment: moment.replace(tzinfo=UTC))
# Each kind: meanings that lie close together, and how one of them is written.
MEANINGS: dict[str, tuple[st.SearchStrategy[Any], Any]] = {
    "number": (st.integers(-3, 3) | st.sampled_from([2**53 - 1, 2**53, 2**53 + 1]), lambda value, draw: value if abs(value) < 2**53 else draw(st.sampled_from([value, str(value)]))),
    "real": (st.sampled_from([0.0, 1.0, 1.5, 2.0, 1e300, 5e-324]), lambda value, draw: draw(st.sampled_from([value, int(value)] if value.is_integer() and value < 2**53 else [value])) or draw(st.sampled_from([0.0, -0.0, 0]))),
    "amount": (st.sampled_from([Decimal(0), Decimal("0.1"), Decimal("0.000000001"), Decimal("1E-7")]) | DECIMALS, zeros),
    "day": (st.dates(date(2024, 2, 27), date(2024, 3, 2)), lambda value, draw: value.isoformat()),
    "moment": (MOMENTS, offset),
    "text": (st.text("aAéÅﬁ1", max_size=3).map(lambda text: unicodedata.normalize("NFC", text)), marks),
    "code": (st.text("ABÉ", max_size=3), cased),
    "amounts": (st.frozensets(DECIMALS | st.sampled_from([Decimal(0), Decimal(1)]), max_size=3), listed),
}  # fmt: skip


@pytest.mark.parametrize("kind", MEANINGS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_one_meaning_has_one_key_and_two_have_two(kind: str, data: st.DataObject) -> None:
    meanings, spell = MEANINGS[kind]
    one, other = data.draw(meanings), data.draw(meanings)
    first, second, third = spell(one, data.draw), spell(one, data.draw), spell(other, data.draw)
    assert canonical(kind, first) == canonical(kind, second)
    assert key(kind, first) == key(kind, second)
    assert (key(kind, first) == key(kind, third)) == (one == other)
    assert (canonical(kind, first) == canonical(kind, third)) == (one == other)


def test_a_default_that_is_given_is_the_one_that_is_not() -> None:
    assert key("amount") == key("amount", "0") == key("amount", -0.0) == key("amount", "00.000")
    assert key("amount") != key("amount", "0.000000001")


@pytest.mark.parametrize("value", [1e-7, 1e-9, 2.5e-8, 1e22, 12345678901234567890.0])
def test_a_json_number_with_an_exponent_is_the_decimal_it_writes(value: float) -> None:
    assert canonical("amount", value) == canonical("amount", format(Decimal(repr(value)), "f"))


@pytest.mark.parametrize(
    "value", [1e-10, 1e30, 1e300, float("inf"), float("nan"), 10**4400, Decimal("1e9999999")], ids=range(7)
)
def test_a_number_beyond_the_digits_is_refused(value: Any) -> None:
    with pytest.raises(NotGranted, match="at most 29 digits before and 9 after"):
        canonical("amount", value)


def test_digits_of_other_scripts_are_no_dates() -> None:
    for kind, text in (("day", "٢٠٢٤-٠٣-١٥"), ("moment", "٢٠٢٤-٠٣-١٥T10:00:00Z")):
        with pytest.raises(NotGranted, match="must be a"):
            canonical(kind, text)


def test_patterns_of_like_have_one_form_exactly_where_they_match_the_same_texts() -> None:
    texts = ["".join(text) for size in range(5) for text in itertools.product("abc", repeat=size)]
    matched: dict[str, frozenset[str]] = {}
    for size in range(5):
        for made in itertools.product("ab%_", repeat=size):
            pattern = "".join(made)
            shape = re.compile("".join({"%": ".*", "_": "."}.get(char, char) for char in pattern))
            matched[pattern] = frozenset(text for text in texts if shape.fullmatch(text))
    forms = {pattern: canonical("like", pattern) for pattern in matched}
    assert len(set(forms.values())) == len(set(matched.values())) < len(matched)
    assert len({(forms[pattern], matched[pattern]) for pattern in matched}) == len(set(forms.values()))


@pytest.mark.parametrize(
    ("written", "form"),
    [("%%", "%"), ("%_%", "_%"), ("_%_a%%", "__%a%"), (r"\%%%", r"\%%"), (r"\\%_", r"\\_%"), (r"%\%%", r"%\%%"), (r"\__", r"\__")],
)  # fmt: skip
def test_what_is_escaped_is_no_wildcard(written: str, form: str) -> None:
    assert canonical("like", written) == form == canonical("like", form)


@settings(max_examples=60, deadline=None)
@given(st.dates(date(2020, 1, 1), date(2030, 1, 1)), st.sampled_from(["UTC", "Europe/Zurich", "America/Sao_Paulo"]))
def test_a_period_in_words_has_the_key_of_its_bounds(today: date, name: str) -> None:
    zone, kind = read_zone(name), SqlType.TIMESTAMP
    now = datetime(today.year, today.month, today.day, 12, tzinfo=UTC).timestamp()
    spoken = read_period("today", kind, zone=zone, now=now)
    written = read_period(today.isoformat(), kind, zone=zone, now=0.0)
    other = read_period("yesterday", kind, zone=zone, now=now)
    local = datetime(today.year, today.month, today.day, tzinfo=zone).isoformat()
    assert spoken is not None and written is not None and other is not None
    assert key("moment", spoken.start) == key("moment", written.start) == key("moment", local)
    assert key("moment", spoken.start) == key("moment", other.end) != key("moment", other.start)
