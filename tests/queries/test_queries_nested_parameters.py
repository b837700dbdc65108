"""STRUCT and ARRAY arguments, optional filters, patterns and paging: what is declared is what is accepted."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from contract.verdict import NotGranted, Reason
from queries.bind import Bound, bind
from queries.duckdb_engine import DuckDbEngine
from queries.errors import TemplateError
from queries.template import Template
from tests.queries.nested_world import answer, open_engine, parameter, template

KIND = "STRUCT<a INT64, b STRUCT<c STRING, d ARRAY<DATE>>, e ARRAY<STRUCT<f NUMERIC>>>"
GOOD: dict[str, Any] = {"a": 1, "b": {"c": "x", "d": ["2024-02-29"]}, "e": [{"f": "1.50"}, {"f": None}]}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DuckDbEngine]:
    made = open_engine(tmp_path_factory.mktemp("parameters"))
    yield made
    asyncio.run(made.close())


def struct(**more: Any) -> Template:
    return template("SELECT @p AS p", {"p": KIND}, parameter("p", KIND, **more))


def bound(value: Any, **more: Any) -> Bound:
    return bind(struct(**more), {"p": value})


def test_every_field_is_checked_and_kept_in_declared_order_as_its_type() -> None:
    shuffled = {"e": GOOD["e"], "b": {"d": GOOD["b"]["d"], "c": "x"}, "a": 1}
    for value in (GOOD, shuffled):
        held = bound(value).values["p"]
        assert held == {"a": 1, "b": {"c": "x", "d": [dt.date(2024, 2, 29)]}, "e": [{"f": Decimal("1.5")}, {"f": None}]}
        assert (list(held), list(held["b"])) == (["a", "b", "e"], ["c", "d"])


def test_equal_meaning_has_one_canonical_form() -> None:
    other = {**GOOD, "e": [{"f": 1.5}, {"f": None}], "b": {"c": "x", "d": ["2024-02-29"]}}
    assert json.dumps(bound(GOOD).canonical["p"]) == json.dumps(bound(other).canonical["p"])
    assert bound(GOOD).canonical["p"] == {
        "a": 1,
        "b": {"c": "x", "d": ["2024-02-29"]},
        "e": [{"f": "1.5"}, {"f": None}],
    }
    assert bound({**GOOD, "a": 2**60}).canonical["p"]["a"] == str(2**60)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("SECRET", "must be an object of its fields"),
        (["SECRET"], "must be an object of its fields"),
        ({**GOOD, "secret": 1}, "has no field secret"),
        ({**GOOD, "SECRET SECRET": 1}, "has other fields"),
        ({name: GOOD[name] for name in ("a", "b")}, "lacks the field e"),
        ({**GOOD, "b": {"c": "x"}}, "lacks the field b.d"),
        ({**GOOD, "b": {**GOOD["b"], "more": 1}}, "has no field b.more"),
        ({**GOOD, "a": "SECRET"}, "has a field a that must be a whole number"),
        ({**GOOD, "a": True}, "has a field a that must be a whole number"),
        ({**GOOD, "a": 2**63}, "has a field a that is beyond 64 bits"),
        ({**GOOD, "b": "SECRET"}, "has a field b that must be an object"),
        ({**GOOD, "b": {"c": 77, "d": []}}, "has a field b.c that must be text"),
        ({**GOOD, "b": {"c": "\x00", "d": []}}, "has a field b.c that must be text without NUL"),
        ({**GOOD, "b": {"c": "x" * 300, "d": []}}, "has a field b.c that must have at most 256 characters"),
        ({**GOOD, "b": {"c": "x", "d": None}}, "has a field b.d that must be a list"),
        ({**GOOD, "b": {"c": "x", "d": ["SECRET"]}}, "has a field b.d that must be a date"),
        ({**GOOD, "b": {"c": "x", "d": [None]}}, "has a field b.d that must be a date"),
        ({**GOOD, "e": [None]}, "has a field e that must be an object"),
        ({**GOOD, "e": [{"f": "SECRET"}]}, "has a field e.f that must have at most 29 digits"),
        ({**GOOD, "e": [{"f": 1}] * 101}, "has a field e that must hold at most 100 items"),
        (None, "must not be null"),
    ],
)
def test_an_argument_unlike_its_declaration_is_refused_by_field_and_without_its_value(value: Any, said: str) -> None:
    with pytest.raises(NotGranted) as refused:
        bound(value)
    assert refused.value.reason is Reason.ARGUMENTS_INVALID
    assert str(refused.value).startswith(f"parameter p {said}")
    assert "SECRET" not in str(refused.value)


def test_a_null_field_is_said_and_a_missing_one_is_not_null() -> None:
    assert bound({**GOOD, "a": None, "b": None}).values["p"]["b"] is None
    assert bound(None, nullable=True).values["p"] is None


values = st.fixed_dictionaries(
    {
        "a": st.none() | st.integers(-(2**63), 2**63 - 1),
        "b": st.none()
        | st.fixed_dictionaries(
            {
                "c": st.none()
                | st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=9),
                "d": st.lists(st.dates(), max_size=3),
            }
        ),
        "e": st.lists(st.fixed_dictionaries({"f": st.none() | st.decimals(-(10**20), 10**20, places=9)}), max_size=3),
    }
)


def as_json(value: Any) -> Any:
    """A value as a caller writes it."""
    if isinstance(value, dict):
        return {name: as_json(item) for name, item in value.items()}
    if isinstance(value, list):
        return [as_json(item) for item in value]
    if isinstance(value, int) and abs(value) > 2**53 - 1:
        return str(value)
    if isinstance(value, Decimal):
        return format(value, "f")
    return value.isoformat() if isinstance(value, dt.date) else value


@given(values)
def test_what_is_canonical_binds_to_the_same_again(value: dict[str, Any]) -> None:
    once = bound(as_json(value))
    again = bound(once.canonical["p"])
    assert (again.values, again.canonical) == (once.values, once.canonical)


def test_struct_arguments_reach_the_query_as_they_are(engine: DuckDbEngine) -> None:
    rows = asyncio.run(answer(engine, struct(), {"p": {**GOOD, "a": str(2**60)}}))
    assert rows == [[{"a": str(2**60), "b": {"c": "x", "d": ["2024-02-29"]}, "e": [{"f": "1.5"}, {"f": None}]}]]
    rows = asyncio.run(answer(engine, struct(nullable=True), {"p": None}))
    assert rows == [[None]]
    rows = asyncio.run(answer(engine, struct(), {"p": {"a": None, "b": None, "e": []}}))
    assert rows == [[{"a": None, "b": None, "e": []}]]


def test_a_list_is_a_sorted_set_unless_it_is_ordered_or_of_structs() -> None:
    given = {"p": ["b", "a", "b"]}
    plain = template(
        "SELECT id FROM deep WHERE k IN UNNEST(@p) ORDER BY id", {"id": "INT64"}, parameter("p", "ARRAY<STRING>")
    )
    assert bind(plain, given).values["p"] == ["a", "b"]
    kept = template("SELECT @p AS p", {"p": "ARRAY<STRING>"}, parameter("p", "ARRAY<STRING>", ordered=True))
    assert (bind(kept, given).values["p"], bind(kept, given).canonical["p"]) == (["b", "a", "b"], ["b", "a", "b"])
    kind = "ARRAY<STRUCT<x INT64>>"
    structs = template("SELECT @p AS p", {"p": kind}, parameter("p", kind))
    assert bind(structs, {"p": [{"x": 2}, {"x": 1}, {"x": 2}]}).canonical["p"] == [{"x": 2}, {"x": 1}, {"x": 2}]


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("SELECT @p AS x", "ARRAY<STRING>"),
        ("SELECT ARRAY_REVERSE(@p) AS x", "ARRAY<STRING>"),
        ("SELECT ARRAY_TO_STRING(@p, ',') AS x", "STRING"),
        ("SELECT @p[OFFSET(0)] AS x", "STRING"),
        ("SELECT ARRAY_CONCAT(@p, ['z']) AS x", "ARRAY<STRING>"),
        ("SELECT i AS x FROM UNNEST(@p) AS e WITH OFFSET AS i ORDER BY 1", "INT64"),
    ],
)
def test_a_set_is_not_read_where_its_order_would_matter(sql: str, kind: str) -> None:
    with pytest.raises(TemplateError, match="@p is a set without order"):
        template(sql, {"x": kind}, parameter("p", "ARRAY<STRING>"))
    template(sql, {"x": kind}, parameter("p", "ARRAY<STRING>", ordered=True))


FILTERS: list[tuple[str, str, list[tuple[Any, list[int]]]]] = [
    ("(@p IS NULL OR k = @p)", "STRING", [(None, [1, 2, 3, 4, 5]), ("b", [3, 5]), ("z", [])]),
    ("(@p IS NULL OR k IN UNNEST(@p))", "ARRAY<STRING>", [(None, [1, 2, 3, 4, 5]), (["a"], [1, 2]), ([], [])]),
    ("(@p IS NULL OR ARRAY_LENGTH(@p) = 0 OR k IN UNNEST(@p))", "ARRAY<STRING>", [([], [1, 2, 3, 4, 5]), (["b"], [3, 5])]),
    (
        "(@p IS NULL OR (id >= @p.low AND (@p.high IS NULL OR id <= @p.high)))",
        "STRUCT<low INT64, high INT64>",
        [(None, [1, 2, 3, 4, 5]), ({"low": 2, "high": 3}, [2, 3]), ({"low": 4, "high": None}, [4, 5]), ({"low": None, "high": 1}, [])],
    ),
    (
        "(@p IS NULL OR EXISTS (SELECT 1 FROM UNNEST(@p) AS w WHERE w.k = deep.k AND w.id = deep.id))",
        "ARRAY<STRUCT<id INT64, k STRING>>",
        [(None, [1, 2, 3, 4, 5]), ([{"id": 2, "k": "a"}, {"id": 3, "k": "a"}], [2]), ([], [])],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("condition", "kind", "asked"), FILTERS, ids=[item[0] for item in FILTERS])
def test_an_optional_filter_is_left_out_by_null(
    engine: DuckDbEngine, condition: str, kind: str, asked: list[tuple[Any, list[int]]]
) -> None:
    loaded = template(
        f"SELECT id FROM deep WHERE {condition} ORDER BY id", {"id": "INT64"}, parameter("p", kind, nullable=True)
    )
    for value, found in asked:
        assert [row[0] for row in asyncio.run(answer(engine, loaded, {"p": value}))] == found, value


PAGE = "SELECT id FROM deep ORDER BY id LIMIT @n OFFSET @m"


def test_pages_follow_one_another(engine: DuckDbEngine) -> None:
    n, m = (parameter(name, "INT64", minimum=0, maximum=50) for name in "nm")
    loaded = template(PAGE, {"id": "INT64"}, n, m)
    pages = [asyncio.run(answer(engine, loaded, {"n": 2, "m": place})) for place in (0, 2, 4, 6)]
    assert pages == [[[1], [2]], [[3], [4]], [[5]], []]
    assert asyncio.run(answer(engine, loaded, {"n": 0, "m": 0})) == []
    for value in (-1, 51, None, True, "2"):
        with pytest.raises(NotGranted):
            bind(loaded, {"n": value, "m": 0})


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"minimum": 0},
        {"maximum": 5},
        {"minimum": -1, "maximum": 5},
        {"minimum": 0, "maximum": 5, "nullable": True},
    ],
)
@pytest.mark.parametrize("name", ["n", "m"])
def test_a_paging_parameter_is_bounded_and_not_null(name: str, more: dict[str, Any]) -> None:
    good = {"minimum": 0, "maximum": 5}
    parameters = [parameter(each, "INT64", **(more if each == name else good)) for each in "nm"]
    with pytest.raises(TemplateError, match=r"takes an INT64 parameter .* with a minimum of 0 or more and a maximum"):
        template(PAGE, {"id": "INT64"}, *parameters)


def test_a_paging_parameter_is_a_whole_number() -> None:
    n = parameter("n", "FLOAT64", minimum=0, maximum=5)
    with pytest.raises(TemplateError, match="takes an INT64 parameter"):
        template("SELECT id FROM deep ORDER BY id LIMIT @n", {"id": "INT64"}, n)


LIKE = "SELECT id FROM deep WHERE k LIKE @p ORDER BY id"


def test_an_ordinary_parameter_is_no_pattern_and_a_pattern_nothing_else() -> None:
    with pytest.raises(TemplateError, match=r"@p is no LIKE pattern.*STARTS_WITH or STRPOS.*wildcards: true"):
        template(LIKE, {"id": "INT64"}, parameter("p", "STRING"))
    pattern = parameter("p", "STRING", wildcards=True)
    template(LIKE, {"id": "INT64"}, pattern)
    for sql in ("k = @p", "STARTS_WITH(k, @p)", "@p LIKE k", "@p LIKE 'a'", "k LIKE 'a' AND @p <> 'b'"):
        with pytest.raises(TemplateError, match="on the right of LIKE only|LIKE takes a written pattern"):
            template(f"SELECT id FROM deep WHERE {sql} ORDER BY id", {"id": "INT64"}, pattern)
    template(
        "SELECT id FROM deep WHERE (@p IS NULL OR k LIKE @p) ORDER BY id",
        {"id": "INT64"},
        parameter("p", "STRING", wildcards=True, nullable=True),
    )


def test_wildcards_are_the_callers_and_a_backslash_makes_them_letters(engine: DuckDbEngine) -> None:
    loaded = template(
        "SELECT t FROM deep, UNNEST(tags) AS t WHERE t LIKE @p ORDER BY t",
        {"t": "STRING"},
        parameter("p", "STRING", wildcards=True),
    )
    for pattern, found in (
        ("%", ["%", "a", "a", "a", "b", "c"]),
        ("_", ["%", "a", "a", "a", "b", "c"]),
        (r"\%", ["%"]),
        ("a%", ["a"] * 3),
        ("", []),
    ):
        assert [row[0] for row in asyncio.run(answer(engine, loaded, {"p": pattern}))] == found, pattern
    for wrong in ("a\\", r"\a", "\\\\\\"):
        with pytest.raises(NotGranted, match=r"parameter p must have a \\ before"):
            bind(loaded, {"p": wrong})


@pytest.mark.parametrize(
    "wrong",
    [
        {"type": "INT64", "wildcards": True},
        {"type": "STRING", "wildcards": True, "repeated": True},
        {"type": "STRING", "ordered": True},
        {"type": "STRUCT"},
        {"type": "INT64", "fields": [{"name": "x", "type": "INT64"}]},
        {"type": "STRUCT", "fields": [{"name": "x", "type": "INT64"}, {"name": "x", "type": "STRING"}]},
        {"type": "STRUCT", "fields": [{"name": "x", "type": "INT64", "mode": "REQUIRED"}]},
    ],
)
def test_a_declaration_that_does_not_hold_together_is_invalid(wrong: dict[str, Any]) -> None:
    from contract.schema import Parameter

    with pytest.raises(ValidationError):
        Parameter.model_validate({"name": "p", "description": "a test parameter", **wrong})


def test_bytes_are_no_argument_in_a_field_either() -> None:
    with pytest.raises(TemplateError, match="BYTES"):
        template("SELECT @p.x AS x", {"x": "BYTES"}, parameter("p", "STRUCT<x BYTES>"))


def test_a_default_of_a_struct_is_checked_when_the_template_is_loaded() -> None:
    kind = "STRUCT<low INT64>"
    loaded = template("SELECT @p.low AS x", {"x": "INT64"}, parameter("p", kind, default={"low": 3}))
    assert bind(loaded, {}).canonical["p"] == {"low": 3}
    with pytest.raises(TemplateError, match="parameter p"):
        template("SELECT @p.low AS x", {"x": "INT64"}, parameter("p", kind, default={"high": 3}))
