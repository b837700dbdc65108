"""Of a query with a minimum group: a written condition stands beside the minimum, and each construct is refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from queries.template import TemplateError
from tests.queries.test_queries_groups import answer, engine, load, people
from tests.queries.world import parameter


async def test_a_written_condition_brings_no_small_group_back(tmp_path: Path) -> None:
    rows = [{**row, "dept": "few" if number < 3 else "many"} for number, row in enumerate(people(size=40))]
    loaded = load(
        "SELECT dept, COUNT(*) AS n FROM pay GROUP BY dept HAVING COUNT(*) > 0 OR TRUE ORDER BY dept",
        "dept:STRING n:INT64",
    )
    held = engine(tmp_path, rows)
    try:
        assert [row[0] for row in await answer(held, loaded)] == ["many"]
    finally:
        await held.close()


@pytest.mark.parametrize(
    ("figure", "source", "said"),
    [
        ("COUNT(*)", "pay CROSS JOIN UNNEST([1, 2]) AS x", "a join below the aggregation"),
        ("COUNT(dept, site)", "pay", "COUNT takes \\* or a column"),
        ("SUM(DISTINCT bonus)", "pay", "DISTINCT stands in COUNT only"),
    ],
)
def test_what_repeats_or_picks_rows_is_refused_by_name(figure: str, source: str, said: str) -> None:
    with pytest.raises(TemplateError, match=said):
        load(f"SELECT dept, {figure} AS n FROM {source} GROUP BY dept ORDER BY dept", "dept:STRING n:INT64")


def test_a_parameter_that_pages_and_chooses_rows_is_free() -> None:
    sql = "SELECT dept, COUNT(*) AS n FROM pay {} GROUP BY dept ORDER BY dept LIMIT @age"
    page = parameter("age:INT64", minimum=0, maximum=100)
    load(sql.format(""), "dept:STRING n:INT64", page)
    with pytest.raises(TemplateError, match="@age is not one of a few single values"):
        load(sql.format("WHERE age > @age"), "dept:STRING n:INT64", page)
