"""What a rollup declares and its template does not do is refused when it is loaded, with file and line."""

from __future__ import annotations

from typing import Any

import pytest

from contract.minimum_group import GroupRule
from contract.rollup import Rollup
from contract.schema import Parameter
from contract.scope import Sensitivity
from queries.errors import TemplateError
from queries.rollup_proof import prove_rollup
from queries.supplied import SuppliedRelation
from queries.template import Template, load_template
from tests.queries.rollup_world import DECLARED, FILLS, PARAMETERS, ROLLUP, SQL, load, rollup
from tests.queries.world import DATASET, parameter, results

# A short template, of which each case below changes one thing.
SHORT = """
SELECT
  f.day AS day,
  f.site AS site,
  COUNT(*) AS n,
  SUM(f.grams) AS total
FROM fills AS f
WHERE f.day >= @first AND f.day < @last AND f.site IN UNNEST(@sites)
GROUP BY f.day, f.site
ORDER BY f.day, f.site
"""
COLUMNS = "day:DATE site:STRING n:INT64 total:NUMERIC"
GIVEN = {"first": parameter("first:DATE"), "last": parameter("last:DATE"), "sites": parameter("sites:STRING[]")}
SAYS: dict[str, Any] = {
    "dimensions": {"day": {"range": ["first", "last"]}, "site": {"one_of": "sites"}},
    "measures": {"n": "count", "total": "sum"},
}


def short(old: str = "", new: str = "", *, declared: str = COLUMNS, **given: Any) -> Template:
    assert old in SHORT
    sql = SHORT.replace(old, new, 1) if old else SHORT
    parameters = {name: held for name, held in {**GIVEN, **given}.items() if f"@{name}" in sql}
    return load(sql, declared, tuple(parameters.values()))


def told(template: Template, **changes: Any) -> str:
    with pytest.raises(TemplateError) as refused:
        prove_rollup(template, Rollup.model_validate({**SAYS, **changes}))
    assert refused.value.message.startswith(f"{DATASET}/templates/fills.sql:")
    return refused.value.message.removeprefix(f"{DATASET}/templates/fills.sql:")


def test_what_is_declared_and_done_is_proven() -> None:
    plan = prove_rollup(short(), Rollup.model_validate(SAYS))
    assert [(term.place, term.descending, term.nulls_first) for term in plan.order[:2]] == [
        (0, False, True),
        (1, False, True),
    ]
    assert {term.place for term in plan.order} == {0, 1, 2, 3}
    assert plan.columns == {"fills.day", "fills.site"}
    assert plan.roles == {"first", "last", "sites"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("f.day >= @first", "@first <= f.day"),
        ("f.day < @last", "(@last > f.day)"),
        ("GROUP BY f.day, f.site", "GROUP BY 2, 1"),
        ("GROUP BY f.day, f.site", "GROUP BY day, site"),
        ("ORDER BY f.day, f.site", "ORDER BY COUNT(*) DESC, total"),
        ("f.site IN UNNEST(@sites)", "(ARRAY_LENGTH(@sites) = 0 OR f.site IN UNNEST(@sites))"),
        ("f.site IN UNNEST(@sites)", "(@sites IS NULL OR f.site IN UNNEST(@sites))"),
        ("f.site IN UNNEST(@sites)", "f.site IN UNNEST(@sites) AND f.units > @least"),
        ("SUM(f.grams)", "SUM(f.grams * @least)"),
    ],
)
def test_other_writings_of_the_same_are_proven_too(old: str, new: str) -> None:
    loaded = short(old, new, least=parameter("least:INT64"))
    assert prove_rollup(loaded, Rollup.model_validate(SAYS)).roles == {"first", "last", "sites"}


REFUSED = {
    "an end that is in": ("f.day < @last", "f.day <= @last", "WHERE does not choose day by @last once", 8),
    "a start that is out": ("f.day >= @first", "f.day > @first", "WHERE does not choose day by @first once", 8),
    "a bound on something else": ("f.day >= @first", "DATE_ADD(f.day, INTERVAL 1 DAY) >= @first", "by @first once", 8),
    "bounds that are changed": ("f.day >= @first AND f.day < @last", "f.day >= @last AND f.day < @first", "by @first once", 8),
    "a bound that need not hold": ("f.day >= @first AND", "(f.day >= @first OR f.site = 'x') AND", "by @first once", 8),
    "a bound twice": ("f.day < @last", "f.day < @last AND f.day < @last", "by @last once", 8),
    "a set that is left out": ("f.site IN UNNEST(@sites)", "f.site NOT IN UNNEST(@sites)", "site by @sites once", 8),
    "a set of another column": ("f.site IN UNNEST(@sites)", "f.lot IN UNNEST(@sites)", "site by @sites once", 8),
    "a set that is open otherwise": ("f.site IN UNNEST(@sites)", "(ARRAY_LENGTH(@sites) = 1 OR f.site IN UNNEST(@sites))", "site by @sites once", 8),
    "a set that another one opens": ("f.site IN UNNEST(@sites)", "(ARRAY_LENGTH(@other) = 0 OR f.site IN UNNEST(@sites))", "site by @sites once", 8),
    "a set that is open where another one is not given": ("f.site IN UNNEST(@sites)", "(@other IS NULL OR f.site IN UNNEST(@sites))", "site by @sites once", 8),
    "a set that is open where it is given": ("f.site IN UNNEST(@sites)", "(@sites IS NOT NULL OR f.site IN UNNEST(@sites))", "site by @sites once", 8),
    "a set with something beside it": ("f.site IN UNNEST(@sites)", "(f.units = 0 OR f.site IN UNNEST(@sites))", "site by @sites once", 8),
    "a bound used in a measure": ("SUM(f.grams)", "SUM(IF(f.day = @first, f.grams, NULL))", "@first has a role and is used for something else", 6),
    "a bound used in a condition": ("f.day < @last", "f.day < @last AND (f.units = 1 OR f.day <> @last)", "@last has a role and is used", 8),
    "a group more": ("GROUP BY f.day, f.site", "GROUP BY f.day, f.site, f.lot", "GROUP BY is not exactly the dimensions", 9),
    "a limit": ("ORDER BY f.day, f.site", "ORDER BY f.day, f.site LIMIT 10", "LIMIT leaves groups out", 10),
    "a condition on groups": ("ORDER BY", "HAVING COUNT(*) > 1 ORDER BY", "HAVING leaves groups out", 10),
    "a condition on windows": ("ORDER BY", "QUALIFY ROW_NUMBER() OVER (ORDER BY f.day, f.site) < 3 ORDER BY", "one SELECT, without a query or window", 10),
    "distinct rows": ("SELECT\n", "SELECT DISTINCT\n", "DISTINCT leaves groups out", None),
    "a query inside": ("f.day < @last", "f.day < @last AND f.units IN (SELECT g.units FROM fills AS g)", "one SELECT, without a query", 8),
    "a query in FROM": ("FROM fills AS f", "FROM (SELECT h.day AS day, h.site AS site, h.grams AS grams FROM fills AS h WHERE h.units > 0) AS f", "one SELECT, without a query", 7),
    "rows of a list": ("FROM fills AS f", "FROM fills AS f CROSS JOIN UNNEST([1, 2]) AS twice", "rows of an array", 7),
    "distinct values": ("SUM(f.grams)", "SUM(DISTINCT f.grams)", "of distinct values", 6),
    "distinct ones": ("COUNT(*)", "COUNT(DISTINCT f.lot)", "of distinct values", 5),
    "another aggregate": ("COUNT(*)", "SUM(f.units)", "n is declared count, the query has SUM", 5),
    "a sum of sums": ("SUM(f.grams)", "SUM(f.grams) + SUM(f.grams)", "total is declared sum, the query has ADD", 6),
    "an order by what is not shown": ("ORDER BY f.day, f.site", "ORDER BY MIN(f.lot), f.day", "ORDER BY takes result columns", 10),
}  # fmt: skip


@pytest.mark.parametrize(("old", "new", "why", "line"), REFUSED.values(), ids=REFUSED)
def test_what_is_not_proven_is_refused_with_its_line(old: str, new: str, why: str, line: int | None) -> None:
    parameters = {"least": parameter("least:INT64"), "other": parameter("other:STRING[]")}
    loaded = short(old, new, **parameters)
    message = told(loaded)
    assert why in message
    if line is not None:
        assert message.startswith(f"{line}: rollup: ")


def test_what_is_declared_otherwise_than_the_query_is_refused() -> None:
    assert "n is neither a dimension nor a measure" in told(short(), measures={"total": "sum"})
    assert "lots is no result column" in told(short(), measures={**SAYS["measures"], "lots": "count"})
    assert "@begin is not a declared parameter" in told(
        short(), dimensions={"day": {"range": ["begin", "last"]}, "site": {}}
    )
    assert "@sites has a role and is used" not in told(
        short(), dimensions={"day": {"range": ["first", "sites"]}, "site": {}}
    )
    assert "n is declared sum" in told(short(), measures={"n": "sum", "total": "sum"})
    assert "total is declared min" in told(short(), measures={"n": "count", "total": "min"})
    loose = {"day": {}, "site": {"one_of": "sites"}}
    assert prove_rollup(short(), Rollup.model_validate({**SAYS, "dimensions": loose})).roles == {"sites"}


def test_a_dimension_is_made_of_columns_alone() -> None:
    sql = SHORT.replace("f.site AS site", "CONCAT(f.site, @more) AS site").replace("f.day, f.site", "1, 2")
    loaded = load(sql, COLUMNS, (*GIVEN.values(), parameter("more:STRING")))
    assert told(loaded).startswith("4: rollup: the dimension site is made of PARAMETER")


def test_floats_are_neither_summed_nor_averaged_nor_compared() -> None:
    declared = COLUMNS.replace("total:NUMERIC", "total:FLOAT64")
    loaded = short("SUM(f.grams)", "SUM(CAST(f.grams AS FLOAT64))", declared=declared)
    assert "a sum of FLOAT64" in told(loaded)
    loaded = short("SUM(f.grams)", "MIN(CAST(f.grams AS FLOAT64))", declared=declared)
    assert "not compared exactly" in told(loaded, measures={"n": "count", "total": "min"})
    sql = SHORT.replace("f.site AS site", "CAST(f.units AS FLOAT64) AS site").replace(
        " AND f.site IN UNNEST(@sites)", ""
    )
    sql = sql.replace("f.day, f.site", "1, 2")
    loaded = load(sql, COLUMNS.replace("site:STRING", "site:FLOAT64"), (GIVEN["first"], GIVEN["last"]))
    assert "whose values are not compared exactly" in told(
        loaded, dimensions={"day": {"range": ["first", "last"]}, "site": {}}
    )


def test_a_mean_needs_its_sum_and_the_count_of_the_same_values_beside_it() -> None:
    declared = COLUMNS + " weighed:INT64 mean:NUMERIC"
    measures = {"n": "count", "total": "sum", "weighed": "count", "mean": {"average": ["total", "weighed"]}}

    def with_mean(count: str, mean: str, kind: str = "NUMERIC") -> Template:
        new = f"SUM(f.grams) AS total, COUNT({count}) AS weighed, AVG({mean}) AS mean"
        return short("SUM(f.grams) AS total", new, declared=declared.replace("mean:NUMERIC", f"mean:{kind}"))

    assert prove_rollup(with_mean("f.grams", "f.grams"), Rollup.model_validate({**SAYS, "measures": measures}))
    assert "mean and weighed are not of the same values" in told(with_mean("*", "f.grams"), measures=measures)
    assert "mean and weighed are not of the same values" in told(with_mean("f.units", "f.grams"), measures=measures)
    assert "mean and total are not of the same values" in told(
        with_mean("f.units", "f.units", "FLOAT64"), measures=measures
    )
    swapped = {**measures, "mean": {"average": ["weighed", "total"]}}
    assert "needs weighed to be a sum" in told(with_mean("f.grams", "f.grams"), measures=swapped)
    real = with_mean("f.grams", "CAST(f.grams AS FLOAT64)", "FLOAT64")
    assert "a mean of FLOAT64" in told(real, measures=measures)


@pytest.mark.parametrize(
    ("held", "why"),
    [
        ({"first": parameter("first:DATE", nullable=True)}, "@first may be NULL"),
        ({"sites": parameter("sites:STRING[]", nullable=True)}, "@sites may be NULL"),
    ],
)
def test_a_parameter_that_chooses_nothing_where_it_is_null_has_no_role(held: dict[str, Any], why: str) -> None:
    assert why in told(short(**held))


def test_a_list_may_be_null_where_that_chooses_everything() -> None:
    nullable = parameter("sites:STRING[]", nullable=True)
    loaded = short("f.site IN UNNEST(@sites)", "(@sites IS NULL OR f.site IN UNNEST(@sites))", sites=nullable)
    (site,) = [held for held in prove_rollup(loaded, Rollup.model_validate(SAYS)).dimensions if held.one_of]
    asked = [{"sites": value} for value in (None, [], ["a"], ["a", "b"])]
    assert [[site.covers(one, other) for other in asked] for one in asked] == [
        [True, True, True, True],
        [False, True, False, False],
        [False, True, True, False],
        [False, True, True, True],
    ]
    assert [[site.test(one)(value) for value in (None, "a", "c")] for one in asked] == [
        [True, True, True],
        [False, False, False],
        [False, True, False],
        [False, True, False],
    ]
    empty = "(ARRAY_LENGTH(@sites) = 0 OR f.site IN UNNEST(@sites))"
    assert "@sites may be NULL" in told(short("f.site IN UNNEST(@sites)", empty, sites=nullable))


def test_a_range_is_of_what_has_one_order_everywhere_and_converts_nothing() -> None:
    sql = SHORT.replace("f.day", "f.lot")
    loaded = load(
        sql,
        COLUMNS.replace("day:DATE", "day:STRING"),
        (parameter("first:STRING"), parameter("last:STRING"), GIVEN["sites"]),
    )
    assert "of which there are no ranges here" in told(loaded)
    sql = SHORT.replace("f.day", "f.units")
    given = (parameter("first:NUMERIC"), parameter("last:NUMERIC"), GIVEN["sites"])
    assert "@first is not of the type of day" in told(load(sql, COLUMNS.replace("day:DATE", "day:INT64"), given))


def test_small_groups_rows_of_others_and_what_may_answer_differently_have_no_rollup() -> None:
    rule = GroupRule(subject="fills.lot", size=5, round_counts_to=5, round_sums_to=5)
    hidden = load_template(
        SHORT.replace("f.day >= @first AND f.day < @last AND f.site IN UNNEST(@sites)", "TRUE"),
        name="templates/fills.sql", dataset=DATASET, tables=(FILLS,), parameters=(), results=results(COLUMNS),
        ceiling=Sensitivity.RESTRICTED, minimum_group=rule,
    )  # fmt: skip
    assert "groups have a minimum size" in told(hidden, dimensions={"day": {}, "site": {}})
    bare = SHORT.replace("GROUP BY f.day, f.site\n", "")
    assert "the query has no GROUP BY" in told(load(bare, COLUMNS, tuple(GIVEN.values())))
    brought = SHORT.replace("FROM fills AS f", "FROM fills AS f JOIN prices AS p ON p.lot = f.lot")
    supplied = load_template(
        brought, name="templates/fills.sql", dataset=DATASET, tables=(FILLS,), parameters=tuple(GIVEN.values()),
        results=results(COLUMNS), ceiling=Sensitivity.RESTRICTED, supplied=SuppliedRelation("prices", results("lot:STRING")),
    )  # fmt: skip
    assert "the rows come from another agent" in told(supplied)
    spread = short("COUNT(*) AS n", "STDDEV(f.units) AS n", declared=COLUMNS.replace("n:INT64", "n:FLOAT64"))
    assert "equal data may give unequal results" in told(spread)


def replace_nullable(held: Parameter) -> Parameter:
    return held.model_copy(update={"nullable": True})


def grained(old: str = "", new: str = "", **changes: Any) -> str:
    assert old in SQL
    with pytest.raises(TemplateError) as refused:
        prove_rollup(load(SQL.replace(old, new, 1)), rollup(**changes))
    return refused.value.message


def test_a_grain_leaves_out_exactly_what_its_levels_say() -> None:
    keep = ROLLUP["keep"]
    more = {**keep, "levels": {**keep["levels"], "day": ["day", "site"]}}
    assert "site is shown at other levels than declared" in grained(keep=more)
    fewer = {**keep, "levels": {**keep["levels"], "all": ["day", "site"]}}
    assert "line is shown at other levels than declared" in grained(keep=fewer)
    open_ = tuple(replace_nullable(held) if held.name == "per" else held for held in PARAMETERS)
    with pytest.raises(TemplateError, match="@per is not one text of exactly the levels"):
        prove_rollup(load(SQL, DECLARED, open_), rollup())
    absent = {**keep, "levels": {name: kept for name, kept in keep["levels"].items() if name != "none"}}
    assert "@per is not one text of exactly the levels" in grained(keep=absent)
    assert "the dimension day is made of" in grained(keep=None)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("IN ('day_site', 'day')", "IN ('day_site', 'day', 'none')", "day is shown at other levels"),
        ("THEN f.day END", "THEN f.day ELSE DATE '2024-01-01' END", "where @per leaves a dimension out, it is NULL"),
        ("f.line, NULL)", "f.line, 0)", "where @per leaves a dimension out, it is NULL"),
        ("THEN f.site END", "THEN CONCAT(f.site, @per) END", "the dimension site is made of"),
        ("COUNT(*)", "COUNT(IF(@per = 'none', 1, f.line))", "@per has a role and is used for something else"),
        ("WHERE f.day", "WHERE @per <> 'x' AND f.day", "@per has a role and is used for something else"),
        ("CASE WHEN @per = 'all' OR @per IN ('day_site', 'day') THEN f.day END", "f.day", "day is shown at other levels"),
        ("@per = 'all' OR @per = 'site_line'", "@per = 'all' AND f.line > 0", "line is shown at other levels"),
    ],
)  # fmt: skip
def test_a_grain_that_is_written_otherwise_is_refused(old: str, new: str, why: str) -> None:
    assert why in grained(old, new)


def test_the_long_template_is_proven() -> None:
    assert prove_rollup(load(SQL, DECLARED, PARAMETERS), rollup()).keep == "per"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"measures": {"day": "count", "total": "sum"}}, "day is a dimension and a measure"),
        ({"dimensions": {"day": {"range": ["first", "first"]}, "site": {}}}, "the parameter first has two roles"),
        ({"dimensions": {"day": {"range": ["first", "last"]}, "site": {"one_of": "last"}}}, "the parameter last has two roles"),
        ({"keep": {"parameter": "sites", "levels": {"a": ["day"]}}}, "the parameter sites has two roles"),
        ({"keep": {"parameter": "per", "levels": {"a": ["lot"]}}}, "a level keeps lot, which is no dimension"),
    ],
)  # fmt: skip
def test_a_declaration_that_contradicts_itself_is_none(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Rollup.model_validate({**SAYS, **changes})
