"""Minimum group sizes: who is counted, what is refused when a template is loaded, and what rounding hides."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from cache.keys import CacheKeys
from cache.partition import entry_key, partition
from contract.minimum_group import GroupRule
from contract.result import Intent
from contract.schema import Parameter
from contract.scope import Sensitivity
from contract.verdict import NotGranted, Reason
from queries.bind import bind
from queries.duckdb_engine import DuckDbEngine
from queries.govern import govern
from queries.supplied import SuppliedRelation
from queries.template import Template, TemplateError, load_template
from tests.authority_builder import make_authority
from tests.queries.documents import run as run_whole
from tests.queries.world import DATASET, MASK_KEY, parameter, results, table, write

PAY = table(
    "pay", "person:STRING", "dept:STRING", "site:STRING", "age:INT64", "salary:NUMERIC", "bonus:INT64",
    "rate:FLOAT64", "born:DATE", "head:BOOL",
)  # fmt: skip
OTHER = table("other", "id:INT64", "dept:STRING")
TABLES = (PAY, OTHER)
SITE = parameter("site:STRING", values=("A", "B"))
AGE = parameter("age:INT64")
ROUNDED = {"round_counts_to": 5, "round_sums_to": 50_000}


def load(sql: str, declared: str, *parameters: Parameter, **rule: Any) -> Template:
    rule = {"subject": "pay.person", "size": 5} | rule
    return load_template(
        sql,
        name="templates/test.sql",
        dataset=DATASET,
        tables=TABLES,
        parameters=parameters,
        results=results(declared),
        ceiling=Sensitivity.RESTRICTED,
        minimum_group=GroupRule.model_validate(rule),
    )


def people(seed: int = 1, size: int = 200) -> list[dict[str, Any]]:
    """Some have several rows, some groups hold few people with many rows, some rows have no subject."""
    rng = random.Random(seed)
    out: list[dict[str, Any]] = []
    for number in range(size):
        dept = rng.choice(["ops", "lab", "law", "it", "spy" if number % 40 == 0 else "ops", None])
        for _ in range(12 if dept == "spy" else rng.choice([1, 1, 2])):
            out.append(
                {
                    "person": None if rng.random() < 0.05 else f"p{number}",
                    "dept": dept,
                    "site": rng.choice(["A", "B"]),
                    "age": rng.randrange(18, 80),
                    "salary": None if rng.random() < 0.1 else Decimal(rng.randrange(-100, 20_000_000)) / 100,
                    "bonus": rng.randrange(-30_000, 90_000),
                    "rate": rng.uniform(-200_000, 900_000),
                    "born": None,
                    "head": rng.random() < 0.3,
                }
            )
    return out


def engine(folder: Path, rows: list[dict[str, Any]]) -> DuckDbEngine:
    data = {"pay": rows, "other": [{"id": 1, "dept": "ops"}]}
    folder = write(folder, data, TABLES)
    return DuckDbEngine.open(DATASET, "1.0.0", folder, TABLES, scratch=folder / "scratch", mask_key=MASK_KEY)


async def answer(held: DuckDbEngine, loaded: Template, arguments: dict[str, Any] | None = None, **case: Any) -> Any:
    document, _ = await run_whole(
        held,
        make_authority(dataset=DATASET, capability="c", **case),
        loaded,
        bind(loaded, arguments or {}),
        max_rows=1_000,
        max_bytes=10**7,
        as_of="2026-08-31T22:00:00Z",
    )
    return json.loads(document.body)["rows"]


COUNTS = "SELECT dept, COUNT(*) AS n, COUNT(DISTINCT person) AS who FROM pay GROUP BY dept ORDER BY dept"


@pytest.mark.parametrize("mask", [None, "null", "hash", "truncate"])
async def test_stored_subjects_are_counted_whatever_a_mask_makes_of_them(tmp_path: Path, mask: str | None) -> None:
    rows = people()
    groups: dict[Any, set[str]] = defaultdict(set)
    for row in rows:
        groups[row["dept"]] |= {row["person"]} - {None}
    wanted = {dept for dept, held in groups.items() if len(held) >= 12}
    assert len(wanted) < len(groups)
    held = engine(tmp_path, rows)
    loaded = load(COUNTS, "dept:STRING n:INT64 who:INT64", size=12)
    try:
        got = await answer(held, loaded, masks={} if mask is None else {"pay.person": mask})
    finally:
        await held.close()
    assert {row[0] for row in got} == wanted
    if mask in (None, "hash"):
        assert {row[0]: row[2] for row in got} == {dept: len(groups[dept]) for dept in wanted}


async def test_a_total_of_too_few_subjects_is_left_out_and_a_written_having_holds_too(tmp_path: Path) -> None:
    held = engine(tmp_path, people(size=30))
    total = load("SELECT COUNT(*) AS n FROM pay", "n:INT64", size=10_000)
    both = load(
        "SELECT dept, COUNT(*) AS n FROM pay GROUP BY dept HAVING COUNT(*) > 100000 OR dept = 'ops' ORDER BY dept",
        "dept:STRING n:INT64",
        size=2,
    )
    try:
        assert await answer(held, total) == []
        assert [row[0] for row in await answer(held, both)] == ["ops"]
        assert await answer(held, both, rows={"pay.dept": {"not_one_of": ["ops"]}}) == []
    finally:
        await held.close()


async def test_row_constraints_apply_before_subjects_are_counted(tmp_path: Path) -> None:
    rows = people()
    held = engine(tmp_path, rows)
    loaded = load(COUNTS, "dept:STRING n:INT64 who:INT64", size=12)
    case = {"rows": {"pay.site": {"one_of": ["A"]}, "pay.age": {"max": 40}}}
    groups: dict[Any, set[str]] = defaultdict(set)
    for row in rows:
        if row["site"] == "A" and row["age"] <= 40:
            groups[row["dept"]] |= {row["person"]} - {None}
    try:
        got = await answer(held, loaded, **case)
    finally:
        await held.close()
    assert {row[0] for row in got} == {dept for dept, who in groups.items() if len(who) >= 12}


def _near(value: Decimal, step: int) -> Decimal:
    return (value / step).quantize(Decimal(1), ROUND_HALF_UP) * step


@pytest.mark.parametrize("counts", [2, 5, 10])
async def test_counts_sums_and_means_are_rounded_as_declared(tmp_path: Path, counts: int) -> None:
    rows = people(3)
    loaded = load(
        "SELECT dept, COUNT(*) AS n, COUNT(DISTINCT person) AS who, SUM(salary) AS s, AVG(salary) AS m, SUM(bonus) AS b,"
        " AVG(bonus) AS ab, ROUND(SUM(rate), 2) AS r, ROUND(AVG(rate), 4) AS ar FROM pay GROUP BY dept ORDER BY dept",
        "dept:STRING n:INT64 who:INT64 s:NUMERIC m:NUMERIC b:INT64 ab:FLOAT64 r:FLOAT64 ar:FLOAT64",
        round_counts_to=counts,
        round_sums_to=50_000,
    )
    held = engine(tmp_path, rows)
    try:
        got = {row[0]: row[1:] for row in await answer(held, loaded)}
    finally:
        await held.close()
    assert len(got) >= 3
    for dept, (n, who, s, m, b, ab, r, ar) in got.items():
        group = [row for row in rows if row["dept"] == dept]
        paid = [row["salary"] for row in group if row["salary"] is not None]
        count, total = _near(Decimal(len(group)), counts), _near(sum(paid, Decimal(0)), 50_000)
        bonus, rate = _near(Decimal(sum(row["bonus"] for row in group)), 50_000), sum(row["rate"] for row in group)
        assert (n, who) == (count, _near(Decimal(len({row["person"] for row in group} - {None})), counts))
        assert (Decimal(s), b, r) == (total, bonus, float(_near(Decimal(rate), 50_000)))
        assert abs(Decimal(m) - total / _near(Decimal(len(paid)), counts)) < Decimal("1e-8")
        assert ab == pytest.approx(float(bonus / count))
        assert ar == pytest.approx(r / float(count), abs=1e-4)


async def test_a_mean_over_a_count_that_rounds_to_nothing_is_null(tmp_path: Path) -> None:
    rows = [row | {"dept": "ops", "salary": None, "person": f"q{n}"} for n, row in enumerate(people(size=20))]
    loaded = load("SELECT AVG(salary) AS m FROM pay", "m:NUMERIC", **ROUNDED)
    held = engine(tmp_path, rows)
    try:
        assert await answer(held, loaded) == [[None]]
    finally:
        await held.close()


async def test_the_group_comes_above_a_limit_and_below_what_only_orders_and_cuts(tmp_path: Path) -> None:
    size = parameter("size:INT64", minimum=0, maximum=100)
    start = parameter("start:INT64", default=0, minimum=0, maximum=100)
    loaded = load(
        "WITH g AS (SELECT dept, COUNT(*) AS n FROM pay WHERE site = @site GROUP BY dept)"
        " SELECT x.dept AS dept, x.n AS n FROM g AS x WHERE x.n > 3 ORDER BY x.n DESC, x.dept LIMIT @size OFFSET @start",
        "dept:STRING n:INT64",
        SITE,
        size,
        start,
        size=12,
    )
    held = engine(tmp_path, people())
    try:
        every = await answer(held, loaded, {"site": "A", "size": 100})
        assert len(every) >= 3
        assert await answer(held, loaded, {"site": "A", "size": 2, "start": 1}) == every[1:3]
    finally:
        await held.close()


SUMS = "SELECT dept, SUM(salary) AS s FROM pay {} GROUP BY dept ORDER BY dept"
REFUSED: list[tuple[str, str, str]] = [
    ("SELECT dept, MIN(salary) AS x FROM pay GROUP BY dept ORDER BY dept", "dept:STRING x:NUMERIC", "MIN shows one"),
    ("SELECT dept, MAX(salary) AS x FROM pay GROUP BY dept ORDER BY dept", "dept:STRING x:NUMERIC", "MAX shows one"),
    ("SELECT dept, COUNTIF(head) AS x FROM pay GROUP BY dept ORDER BY dept", "dept:STRING x:INT64", "COUNTIF counts a few"),
    ("SELECT dept, STRING_AGG(person ORDER BY person) AS x FROM pay GROUP BY dept ORDER BY dept", "dept:STRING x:STRING", "STRING_AGG shows every"),
    ("SELECT dept, LOGICAL_OR(head) AS x FROM pay GROUP BY dept ORDER BY dept", "dept:STRING x:BOOL", "is not accepted; use COUNT"),
    ("SELECT dept, SUM(IF(age > 60, salary, 0)) AS x FROM pay GROUP BY dept ORDER BY dept", "dept:STRING x:NUMERIC", "IF or CASE inside SUM"),
    ("SELECT dept, AVG(CASE WHEN head THEN salary END) AS x FROM pay GROUP BY dept ORDER BY dept", "dept:STRING x:NUMERIC", "IF or CASE inside AVG"),
    ("SELECT dept, SUM(NULLIF(bonus, 0)) AS x FROM pay GROUP BY dept ORDER BY dept", "dept:STRING x:INT64", r"columns, numbers and \+ - \* / only"),
    ("SELECT dept, SUM(SIGN(bonus - 5)) AS x FROM pay GROUP BY dept ORDER BY dept", "dept:STRING x:INT64", r"columns, numbers and \+ - \* / only"),
    ("SELECT dept, SUM(1 / (age - 40)) AS x FROM pay GROUP BY dept ORDER BY dept", "dept:STRING x:FLOAT64", "a divisor is a written number"),
    ("SELECT dept, SUM(CAST(head AS INT64)) AS x FROM pay GROUP BY dept ORDER BY dept", "dept:STRING x:INT64", "SUM takes numbers; head"),
    ("SELECT dept, COUNT(NULLIF(person, 'p1')) AS x FROM pay GROUP BY dept ORDER BY dept", "dept:STRING x:INT64", r"COUNT takes \* or a column"),
    ("SELECT dept, COUNT(DISTINCT IF(head, person, NULL)) AS x FROM pay GROUP BY dept ORDER BY dept", "dept:STRING x:INT64", r"COUNT takes \* or a column"),
    ("SELECT DISTINCT dept FROM pay ORDER BY dept", "dept:STRING", "SELECT DISTINCT is an aggregation"),
    ("SELECT dept, COUNT(*) AS n FROM (SELECT DISTINCT dept, salary FROM pay) AS q GROUP BY dept ORDER BY dept", "dept:STRING n:INT64", "SELECT DISTINCT is an aggregation"),
    ("SELECT person FROM pay ORDER BY person", "person:STRING", "aggregates nothing"),
    ("SELECT dept, SUM(bonus) OVER (PARTITION BY dept) AS x FROM pay ORDER BY dept", "dept:STRING x:INT64", "a window shows rows"),
    ("SELECT dept, COUNT(*) AS n, ROW_NUMBER() OVER (ORDER BY dept) AS r FROM pay GROUP BY dept ORDER BY dept", "dept:STRING n:INT64 r:INT64", "a window shows rows"),
    ("SELECT dept, COUNT(*) AS n FROM pay GROUP BY dept UNION ALL SELECT dept, id AS n FROM other ORDER BY dept", "dept:STRING n:INT64", "UNION joins groups"),
    ("SELECT dept, COUNT(*) AS n FROM (SELECT dept FROM pay ORDER BY age LIMIT 3) AS q GROUP BY dept ORDER BY dept", "dept:STRING n:INT64", "a query below the aggregation"),
    ("SELECT dept, COUNT(*) AS n FROM pay WHERE age > (SELECT 40) GROUP BY dept ORDER BY dept", "dept:STRING n:INT64", "a query below the aggregation"),
    ("WITH q AS (SELECT dept FROM pay) SELECT dept, COUNT(*) AS n FROM q GROUP BY dept ORDER BY dept", "dept:STRING n:INT64", "a query below the aggregation"),
    ("WITH g AS (SELECT dept, COUNT(*) AS n FROM pay GROUP BY dept) SELECT SUM(n) AS n FROM g", "n:INT64", "aggregates more than once"),
    ("WITH g AS (SELECT dept, COUNT(*) AS n FROM pay GROUP BY dept) SELECT g.dept, p.person FROM g JOIN pay AS p ON p.dept = g.dept ORDER BY 1, 2", "dept:STRING person:STRING", "a table beside the aggregated one"),
    ("SELECT p.dept, COUNT(*) AS n FROM pay AS p JOIN other AS o ON o.dept = p.dept GROUP BY p.dept ORDER BY p.dept", "dept:STRING n:INT64", "a table beside the aggregated one"),
    ("SELECT p.dept, COUNT(*) AS n FROM pay AS p JOIN pay AS q ON q.age = p.age GROUP BY p.dept ORDER BY p.dept", "dept:STRING n:INT64", "a table beside the aggregated one"),
    ("SELECT dept, COUNT(*) AS n FROM other GROUP BY dept ORDER BY dept", "dept:STRING n:INT64", "reads pay, the subject's table"),
    ("SELECT COUNT(*) AS n", "n:INT64", "reads pay, the subject's table"),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "declared", "message"), REFUSED)
def test_what_could_undo_a_minimum_size_is_refused_when_it_is_loaded(sql: str, declared: str, message: str) -> None:
    with pytest.raises(TemplateError, match=f"minimum_group: .*({message})"):
        load(sql, declared)


def test_every_refusal_names_its_line() -> None:
    with pytest.raises(TemplateError, match=r"templates/test\.sql:3: minimum_group: MIN"):
        load("SELECT\n  dept,\n  MIN(salary) AS x\nFROM pay\nGROUP BY dept ORDER BY dept", "dept:STRING x:NUMERIC")


FREE = [
    (AGE, "WHERE age > @age", "is not one of a few single values, .*; declare its values"),
    (parameter("name:STRING"), "WHERE STRPOS(person, @name) > 0", "declare its values"),
    (parameter("born:DATE", nullable=True), "WHERE @born IS NULL OR born = @born", "declare its values"),
    (parameter("sites:STRING[]", values=("A", "B")), "WHERE site IN UNNEST(@sites)", "is a list, .*; declare its values without repeated"),
    (parameter("site:STRING", values=("A", "B"), nullable=True), "WHERE @site IS NULL OR site = @site", "may be NULL, .*; declare it without nullable"),
    (parameter("name:STRING", pattern="p[0-9]+"), "WHERE person <> @name", "declare its values"),
]  # fmt: skip


@pytest.mark.parametrize(("free", "where", "told"), FREE)
def test_an_argument_that_is_free_needs_rounding(free: Parameter, where: str, told: str) -> None:
    with pytest.raises(TemplateError, match=f"{told}, or round_sums_to"):
        load(SUMS.format(where), "dept:STRING s:NUMERIC", free)
    with pytest.raises(TemplateError, match=f"{told}, or round_sums_to"):
        load(SUMS.format(where), "dept:STRING s:NUMERIC", free, round_counts_to=5)
    load(SUMS.format(where), "dept:STRING s:NUMERIC", free, round_sums_to=50_000)
    means = SUMS.format(where).replace("SUM", "AVG")
    with pytest.raises(TemplateError, match=f"{told}, or round_counts_to"):
        load(means, "dept:STRING s:NUMERIC", free, round_sums_to=50_000)
    load(means, "dept:STRING s:NUMERIC", free, **ROUNDED)


def test_one_of_a_few_values_needs_no_rounding() -> None:
    load(SUMS.format("WHERE site = @site"), "dept:STRING s:NUMERIC", SITE)
    load(SUMS.format("WHERE head = @head"), "dept:STRING s:NUMERIC", parameter("head:BOOL"))


def test_a_parameter_inside_an_aggregate_is_refused_however_it_is_rounded() -> None:
    sql = "SELECT dept, SUM(bonus * @age) AS s FROM pay GROUP BY dept ORDER BY dept"
    with pytest.raises(TemplateError, match="weighs rows as the caller likes"):
        load(sql, "dept:STRING s:INT64", AGE, **ROUNDED)


@pytest.mark.parametrize("spread", ["STDDEV(rate)", "VAR_POP(rate)"])
def test_what_has_no_rounding_needs_exact_groups(spread: str) -> None:
    sql = f"SELECT dept, ROUND({spread}, 3) AS s FROM pay {{}} GROUP BY dept ORDER BY dept"
    load(sql.format(""), "dept:STRING s:FLOAT64")
    with pytest.raises(TemplateError, match="cannot be rounded; use COUNT, SUM or AVG"):
        load(sql.format(""), "dept:STRING s:FLOAT64", **ROUNDED)
    with pytest.raises(TemplateError, match="cannot be rounded, and @age is free"):
        load(sql.format("WHERE age > @age"), "dept:STRING s:FLOAT64", AGE)


@pytest.mark.parametrize("subject", ["pay.gone", "gone.person", "pay.salary", "pay.head"])
def test_a_subject_is_a_column_that_names_somebody(subject: str) -> None:
    with pytest.raises(TemplateError, match="there is no column|names no subject"):
        load(SUMS.format(""), "dept:STRING s:NUMERIC", subject=subject)


@pytest.mark.parametrize("rule", [{"size": 1}, {"size": "5"}, {"round_counts_to": 1}, {"subject": "person"}, {"k": 3}])
def test_a_rule_is_read_strictly(rule: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        GroupRule.model_validate({"subject": "pay.person", "size": 5} | rule)


def test_rows_of_another_agent_stand_in_no_such_query() -> None:
    with pytest.raises(TemplateError, match="reads pay, the subject's table, and nothing else"):
        load_template(
            "SELECT s.dept AS dept, COUNT(*) AS n FROM given AS s GROUP BY s.dept ORDER BY s.dept",
            name="templates/test.sql",
            dataset=DATASET,
            tables=TABLES,
            parameters=(),
            results=results("dept:STRING n:INT64"),
            ceiling=Sensitivity.RESTRICTED,
            supplied=SuppliedRelation("given", results("dept:STRING")),
            minimum_group=GroupRule(subject="pay.person", size=5),
        )


def test_the_subject_is_no_column_that_the_capability_reads() -> None:
    loaded = load(SUMS.format(""), "dept:STRING s:NUMERIC")
    assert loaded.columns_read == {"pay.dept", "pay.salary"}
    govern(loaded, make_authority(dataset=DATASET, capability="c", columns=["pay.dept", "pay.salary"]))


def test_a_holder_chooses_no_rows_of_exact_groups() -> None:
    by_site = {"pay.dept": {"one_of": ["ops"]}}
    exact = load(SUMS.format(""), "dept:STRING s:NUMERIC")
    with pytest.raises(NotGranted) as refused:
        govern(exact, make_authority(dataset=DATASET, capability="c", grant_rows=by_site))
    assert refused.value.reason is Reason.COLUMN_NOT_PERMITTED
    govern(exact, make_authority(dataset=DATASET, capability="c", grant_rows=by_site, rows=by_site))
    rounded = load(SUMS.format(""), "dept:STRING s:NUMERIC", **ROUNDED)
    govern(rounded, make_authority(dataset=DATASET, capability="c", grant_rows=by_site))


def test_another_rule_is_another_template_partition_and_key() -> None:
    sql, declared = SUMS.format(""), "dept:STRING s:NUMERIC"
    plain = load_template(
        sql,
        name="templates/test.sql",
        dataset=DATASET,
        tables=TABLES,
        parameters=(),
        results=results(declared),
        ceiling=Sensitivity.RESTRICTED,
    )
    rules: list[dict[str, Any]] = [{}, {"size": 6}, {"subject": "pay.dept"}, {"round_sums_to": 10}, ROUNDED]
    digests = [plain.digest, *(load(sql, declared, **rule).digest for rule in rules)]
    keys = CacheKeys.from_secret(bytes(32))
    authority = make_authority(dataset=DATASET, capability="c")
    places = []
    for digest in digests:
        intent = Intent(dataset=DATASET, capability="c", template_digest=digest, arguments={})
        held = partition(authority, intent, freshness_class="1", media_type="application/json", keys=keys)
        places.append((held.id, entry_key(held, intent, keys=keys)))
    assert len(set(digests)) == len({held for held, _ in places}) == len({key for _, key in places}) == 6


async def test_rounded_ranges_show_nobody_s_salary_that_exact_ones_show(tmp_path: Path) -> None:
    """Sums of everybody from an age on, one age after the other: the difference is one age's people."""
    rng = random.Random(5)
    rows = [
        people(size=1)[0] | {"person": f"p{n}", "dept": "ops", "age": rng.randrange(18, 1_000), "salary": Decimal(rng.randrange(20_000, 90_000))}
        for n in range(120)
    ]  # fmt: skip
    alone = {age: [row for row in rows if row["age"] == age] for age in {row["age"] for row in rows}}
    secrets = {age: held[0]["salary"] for age, held in alone.items() if len(held) == 1}
    assert len(secrets) > 80
    held = engine(tmp_path, rows)
    loaded = load(
        "SELECT COUNT(*) AS n, SUM(salary) AS s FROM pay WHERE age >= @age", "n:INT64 s:NUMERIC", AGE, **ROUNDED
    )
    exact = load_template(
        "SELECT COUNT(*) AS n, SUM(salary) AS s FROM pay WHERE age >= @age",
        name="templates/test.sql",
        dataset=DATASET,
        tables=TABLES,
        parameters=(AGE,),
        results=results("n:INT64 s:NUMERIC"),
        ceiling=Sensitivity.RESTRICTED,
    )

    async def found(attacked: Template) -> int:
        hits = 0
        for age, salary in list(secrets.items())[:30]:
            above, below = await answer(held, attacked, {"age": age + 1}), await answer(held, attacked, {"age": age})
            hits += bool(above and below) and Decimal(below[0][1]) - Decimal(above[0][1]) == salary
        return hits

    try:
        assert await found(exact) >= 28
        assert await found(loaded) == 0
    finally:
        await held.close()
