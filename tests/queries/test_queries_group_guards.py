"""What a group of enough subjects could still tell of one: values that few have, rows that fail, powers, rounding to 1."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from contract.schema import Mode, Parameter
from contract.verdict import NotGranted
from queries.duckdb_engine import DuckDbEngine
from queries.govern import govern
from queries.template import TemplateError, load_template
from tests.authority_builder import make_authority
from tests.queries.test_queries_groups import AGE, PAY, ROUNDED, SITE, answer, engine, load
from tests.queries.world import DATASET, parameter, results


def people() -> list[dict[str, Any]]:
    """Departments of twelve, named after how many of them have a bonus; of one, whose four have ten rows; and one alone."""
    row = {"site": "A", "salary": Decimal(100), "rate": 1.5, "born": None, "head": False}
    rows = [
        row | {"person": f"{few}-{n}", "dept": f"of {few}", "age": 30 + n, "bonus": 1_000 + n if n < few else None}
        for few in (0, 1, 4, 5, 12)
        for n in range(12)
    ]
    rows += [
        row | {"person": f"m-{n}", "dept": "many rows", "age": 30, "bonus": 1 if n < 4 else None} for n in range(9)
    ] * 10
    return [*rows, row | {"person": "solo", "dept": "spy", "site": "B", "age": 60, "bonus": 42}]


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DuckDbEngine]:
    opened = engine(tmp_path_factory.mktemp("pay"), people())
    yield opened
    asyncio.run(opened.close())


ENOUGH = {"of 5", "of 12"}
ALL = {"of 0", "of 1", "of 4", "many rows", *ENOUGH}


CONTRIBUTED = (
    "SUM(bonus)",
    "AVG(bonus)",
    "COUNT(bonus)",
    "COUNT(DISTINCT bonus)",
    "ROUND(STDDEV_POP(bonus), 3)",
    "SUM(bonus + age)",
    "SUM(2 * bonus)",
    "SUM(bonus) / COUNT(*)",
)


@pytest.mark.parametrize("figure", CONTRIBUTED)
async def test_a_figure_to_which_too_few_subjects_contribute_is_null(held: DuckDbEngine, figure: str) -> None:
    kind = "FLOAT64" if "STDDEV" in figure or "AVG" in figure or "/" in figure else "INT64"
    sql = f"SELECT dept, COUNT(*) AS n, {figure} AS x FROM pay GROUP BY dept ORDER BY dept"
    found = await answer(held, load(sql, f"dept:STRING n:INT64 x:{kind}"))
    assert {row[0] for row in found} == ALL
    assert {row[0] for row in found if row[2] is not None} == ENOUGH


@pytest.mark.parametrize("mask", ["null", "hash", "truncate"])
async def test_contributors_are_counted_as_they_are_stored_whatever_masks_the_subject(
    held: DuckDbEngine, mask: str
) -> None:
    sql = "SELECT dept, SUM(bonus) AS x FROM pay GROUP BY dept ORDER BY dept"
    found = await answer(held, load(sql, "dept:STRING x:INT64"), masks={"pay.person": mask})
    assert {row[0]: row[1] for row in found} == dict.fromkeys(ALL) | {"of 5": 5_010, "of 12": 12_066}


async def test_a_condition_and_an_order_know_no_more_than_what_is_shown(held: DuckDbEngine) -> None:
    sql = "SELECT dept, COUNT(*) AS n FROM pay GROUP BY dept HAVING SUM(bonus) > 0 ORDER BY AVG(bonus) DESC, dept"
    assert await answer(held, load(sql, "dept:STRING n:INT64")) == [["of 12", 12], ["of 5", 12]]


async def test_rounded_figures_of_few_are_null_too(held: DuckDbEngine) -> None:
    sql = "SELECT dept, SUM(bonus) AS x, COUNT(bonus) AS n FROM pay WHERE age >= @age GROUP BY dept ORDER BY dept"
    loaded = load(sql, "dept:STRING x:INT64 n:INT64", AGE, round_counts_to=5, round_sums_to=1_000)
    found = {row[0]: row[1:] for row in await answer(held, loaded, {"age": 1})}
    assert found == dict.fromkeys(ALL, [None, None]) | {"of 5": [5_000, 5], "of 12": [12_000, 10]}


def test_a_column_that_is_never_null_needs_no_second_count() -> None:
    columns = tuple(column.model_copy(update={"mode": Mode.REQUIRED}) for column in PAY.columns)
    required = PAY.model_copy(update={"columns": columns})
    sql = "SELECT dept, SUM(bonus) AS x FROM pay GROUP BY dept ORDER BY dept"
    loaded = load_template(
        sql,
        name="t.sql",
        dataset=DATASET,
        tables=(required,),
        parameters=(),
        results=results("dept:STRING x:INT64"),
        ceiling=load(sql, "dept:STRING x:INT64").tables[0].columns[0].sensitivity,
        minimum_group=load(sql, "dept:STRING x:INT64").minimum_group,
    )
    assert "CASE" not in loaded.written().sql()
    assert "CASE" in load(sql, "dept:STRING x:INT64").written().sql()


POWERS = (
    "SUM(bonus * bonus)",
    "SUM(bonus * age * bonus)",
    "SUM((bonus + age) * (bonus - age))",
    "AVG(bonus * (bonus))",
    "SUM(-bonus * (2 * bonus))",
    "SUM(CAST(bonus AS NUMERIC) * bonus)",
    "ROUND(STDDEV(bonus * bonus), 2)",
)


@pytest.mark.parametrize("figure", POWERS)
def test_a_column_is_never_multiplied_by_itself(figure: str) -> None:
    sql = f"SELECT dept, {figure} AS x FROM pay GROUP BY dept ORDER BY dept"
    with pytest.raises(TemplateError, match="of a column times itself"):
        load(sql, "dept:STRING x:INT64")


@pytest.mark.parametrize(
    "cast", ["CAST(rate AS INT64)", "CAST(rate AS NUMERIC)", "CAST(salary AS INT64)", "CAST(rate + bonus AS NUMERIC)"]
)
def test_a_conversion_inside_an_aggregate_never_fails(cast: str) -> None:
    with pytest.raises(TemplateError, match="inside SUM a CAST is to FLOAT64"):
        load(f"SELECT dept, SUM({cast}) AS x FROM pay GROUP BY dept ORDER BY dept", "dept:STRING x:INT64")


@pytest.mark.parametrize("cast", ["CAST(salary AS FLOAT64)", "CAST(rate AS FLOAT64)", "CAST(bonus + age AS FLOAT64)"])
def test_a_conversion_to_float64_may_stand_inside_an_aggregate(cast: str) -> None:
    load(f"SELECT dept, SUM({cast}) AS x FROM pay GROUP BY dept ORDER BY dept", "dept:STRING x:FLOAT64")


@pytest.mark.parametrize(
    "figures",
    [
        "SUM(age + bonus) AS x, SUM(age) AS y",
        "SUM(age + bonus) AS x, AVG(bonus) AS y",
        "AVG(age - bonus) AS x, SUM(age + salary) AS y",
        "SUM(age) AS x, ROUND(STDDEV(age * bonus), 3) AS y",
    ],
)
def test_sums_that_differ_by_who_has_no_value_do_not_stand_together(figures: str) -> None:
    sql = f"SELECT dept, {figures} FROM pay GROUP BY dept ORDER BY dept"
    with pytest.raises(TemplateError, match="shows those who have no value"):
        load(sql, "dept:STRING x:INT64 y:INT64")


def test_sums_over_the_same_subjects_or_of_other_columns_stand_together() -> None:
    figures = "SUM(age + bonus) AS x, SUM(age - bonus) AS y, COUNT(age) AS n, SUM(salary) AS s"
    sql = f"SELECT dept, {figures} FROM pay GROUP BY dept ORDER BY dept"
    load(sql, "dept:STRING x:INT64 y:INT64 n:INT64 s:NUMERIC")
    both = "SELECT dept, SUM(age + bonus) AS x, SUM(age) AS y FROM pay GROUP BY dept ORDER BY dept"
    load(both, "dept:STRING x:INT64 y:INT64", **ROUNDED)


def test_columns_are_multiplied_by_each_other_and_by_numbers() -> None:
    load("SELECT dept, SUM(2 * bonus * (age + 1)) AS x FROM pay GROUP BY dept ORDER BY dept", "dept:STRING x:INT64")


@pytest.mark.parametrize("spread", ["STDDEV(rate)", "VAR_POP(rate)"])
def test_a_spread_needs_groups_of_three(spread: str) -> None:
    sql = f"SELECT dept, ROUND({spread}, 3) AS s FROM pay GROUP BY dept ORDER BY dept"
    with pytest.raises(TemplateError, match="both values of a group of two"):
        load(sql, "dept:STRING s:FLOAT64", size=2)
    load(sql, "dept:STRING s:FLOAT64", size=3)


SALARY = parameter("salary:NUMERIC")
NAME = parameter("name:STRING")
ORACLES: tuple[tuple[str, Parameter], ...] = (
    ("WHERE 1 / (salary - @salary) IS NOT NULL GROUP BY dept", SALARY),
    ("WHERE age >= @age AND 1 / (bonus - 42) IS NOT NULL GROUP BY dept", AGE),
    ("WHERE age >= @age AND bonus / salary > 0.1 GROUP BY dept", AGE),
    ("WHERE age + @age > 0 GROUP BY dept", AGE),
    ("WHERE age * @age > 0 GROUP BY dept", AGE),
    ("WHERE -age < @age GROUP BY dept", AGE),
    ("WHERE MOD(age, age - @age) = 0 GROUP BY dept", AGE),
    ("WHERE DIV(1, age - @age) = 0 GROUP BY dept", AGE),
    ("WHERE age > @age AND CAST(person AS INT64) > 0 GROUP BY dept", AGE),
    ("WHERE IF(age = @age, CAST(person AS INT64), 1) > 0 GROUP BY dept", AGE),
    ("WHERE SQRT(rate - @age) > 0 GROUP BY dept", AGE),
    ("WHERE LN(rate) > @age GROUP BY dept", AGE),
    ("WHERE DATE_ADD(born, INTERVAL @age DAY) > DATE '2000-01-01' GROUP BY dept", AGE),
    ("WHERE REPEAT(person, @age) <> '' GROUP BY dept", AGE),
    ("WHERE LPAD(person, age - @age, 'x') <> '' GROUP BY dept", AGE),
    ("WHERE SPLIT(person, 'p')[OFFSET(1)] = @name GROUP BY dept", NAME),
    ("WHERE SUBSTR(person, 1, age - @age) <> '' GROUP BY dept", AGE),
    ("WHERE PARSE_DATE('%Y', person) > DATE '2000-01-01' AND person <> @name GROUP BY dept", NAME),
    ("WHERE age > @age GROUP BY dept, 1 / (bonus - 42)", AGE),
    ("WHERE age > @age GROUP BY dept, CAST(person AS INT64)", AGE),
)


@pytest.mark.parametrize(("rest", "free"), ORACLES)
def test_where_rows_are_chosen_freely_no_row_makes_the_query_fail(rest: str, free: Parameter) -> None:
    with pytest.raises(TemplateError, match=f"minimum_group: .* fails where a row has some value, and @{free.name} is"):
        load(f"SELECT dept, COUNT(*) AS n FROM pay {rest} ORDER BY dept", "dept:STRING n:INT64", free, **ROUNDED)


def test_a_group_that_is_named_by_number_is_one_of_its_rows() -> None:
    sql = "SELECT 1 / (bonus - 42) AS x, COUNT(*) AS n FROM pay WHERE age > @age GROUP BY {} ORDER BY 1"
    for named in ("1", "x"):
        with pytest.raises(TemplateError, match="fails where a row has some value"):
            load(sql.format(named), "x:FLOAT64 n:INT64", AGE, **ROUNDED)


HARMLESS = (
    "age BETWEEN @age AND 70 AND NOT head",
    "DATE_TRUNC(born, MONTH) = DATE '2000-01-01' OR age > @age - 1",
    "EXTRACT(YEAR FROM born) > @age",
    "SAFE_DIVIDE(bonus, salary) > 0.1 AND age > @age",
    "SAFE_CAST(person AS INT64) > @age",
    "LOWER(TRIM(person)) LIKE 'p%' AND COALESCE(age, 0) >= @age",
    "IF(head, age, bonus) IN (@age, 3)",
    "SAFE_ADD(age, @age) > 3",
)


@pytest.mark.parametrize("where", HARMLESS)
async def test_what_cannot_fail_may_choose_rows(held: DuckDbEngine, where: str) -> None:
    sql = f"SELECT dept, COUNT(*) AS n FROM pay WHERE {where} GROUP BY dept ORDER BY dept"
    loaded = load(sql, "dept:STRING n:INT64", AGE, **ROUNDED)
    await held.check(loaded)
    await answer(held, loaded, {"age": 30})


def test_one_of_a_few_values_tells_little_by_a_failure() -> None:
    sql = "SELECT dept, COUNT(*) AS n FROM pay WHERE site = @site AND bonus / salary > 1 GROUP BY dept ORDER BY dept"
    load(sql, "dept:STRING n:INT64", SITE)


async def test_a_written_condition_is_not_computed_for_a_group_that_is_too_small(held: DuckDbEngine) -> None:
    sql = "SELECT dept, COUNT(*) AS n FROM pay GROUP BY dept HAVING DIV(1, COUNT(*) - 1) = 0 ORDER BY dept"
    assert {row[0] for row in await answer(held, load(sql, "dept:STRING n:INT64"))} == ALL


def test_sums_that_are_rounded_to_one_are_exact() -> None:
    sql = "SELECT dept, SUM(bonus) AS s FROM pay WHERE age > @age GROUP BY dept ORDER BY dept"
    rounded = {"round_counts_to": 5, "round_sums_to": 1}
    with pytest.raises(TemplateError, match="declare its values, or round_sums_to"):
        load(sql, "dept:STRING s:INT64", AGE, **rounded)
    plain = load("SELECT dept, SUM(bonus) AS s FROM pay GROUP BY dept ORDER BY dept", "dept:STRING s:INT64", **rounded)
    chosen = make_authority(dataset=DATASET, capability="c", grant_rows={"pay.dept": {"one_of": ["ops"]}})
    with pytest.raises(NotGranted):
        govern(plain, chosen)
