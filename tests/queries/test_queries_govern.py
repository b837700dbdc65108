"""Governing against an oracle: filter and mask the tables first, then run the template as written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from contract.authority import Authority
from contract.schema import Table
from contract.scope import Sensitivity
from contract.verdict import NotGranted, Reason
from queries.bind import bind
from queries.duckdb_dialect import to_duckdb
from queries.duckdb_engine import DuckDbEngine
from queries.govern import govern, rewrite
from queries.template import Template
from tests.authority_builder import make_authority
from tests.queries.oracle import AUTHORITIES, narrowed_by, oracle, reaching
from tests.queries.world import DATASET, MASK_KEY, TABLES, parameter, rows, template, write

AS_OF = "2026-08-31T22:00:00Z"
REGION = parameter("region:STRING", values=("EU", "US", "APAC"))
REGIONS = parameter("regions:STRING[]")
TEMPLATES: list[tuple[str, str, tuple[Any, ...], dict[str, Any]]] = [
    ("SELECT id, region, note FROM orders ORDER BY id", "id:INT64 region:STRING note:STRING", (), {}),
    ("SELECT COUNT(*) AS n FROM orders", "n:INT64", (), {}),
    ("SELECT COUNT(*) AS n FROM orders AS a CROSS JOIN customers AS b", "n:INT64", (), {}),
    ("SELECT id FROM orders WHERE region = @region ORDER BY id", "id:INT64", (REGION,), {"region": "EU"}),
    ("SELECT id FROM orders WHERE region IN UNNEST(@regions) ORDER BY id DESC LIMIT 7", "id:INT64", (REGIONS,), {"regions": ["EU", "US"]}),
    ("SELECT o.id, c.name FROM orders AS o LEFT JOIN customers AS c ON c.id = o.customer ORDER BY o.id", "id:INT64 name:STRING", (), {}),
    ("SELECT o.id, c.name FROM orders AS o RIGHT JOIN customers AS c ON c.id = o.customer ORDER BY 1, 2", "id:INT64 name:STRING", (), {}),
    ("SELECT o.id, c.id AS cid FROM orders AS o FULL JOIN customers AS c ON c.id = o.customer ORDER BY 1, 2", "id:INT64 cid:INT64", (), {}),
    ("SELECT id, o.note, c.name FROM orders AS o JOIN customers AS c USING (id) ORDER BY id", "id:INT64 note:STRING name:STRING", (), {}),
    ("SELECT id FROM orders AS o FULL JOIN customers AS c USING (id) ORDER BY id", "id:INT64", (), {}),
    ("SELECT region, COUNT(*) AS n FROM orders FULL JOIN customers USING (region) GROUP BY region ORDER BY region", "region:STRING n:INT64", (), {}),
    ("SELECT SUBSTR(region, 1, 1) AS region, COUNT(*) AS n FROM orders GROUP BY region ORDER BY region", "region:STRING n:INT64", (), {}),
    ("SELECT region, COUNT(*) AS n, SUM(amount) AS total FROM orders GROUP BY region HAVING n > 2 ORDER BY n DESC, region", "region:STRING n:INT64 total:NUMERIC", (), {}),
    ("SELECT region, AVG(amount) AS mean, MIN(day) AS first, MAX(note) AS note FROM orders GROUP BY 1 ORDER BY 1", "region:STRING mean:NUMERIC first:DATE note:STRING", (), {}),
    ("SELECT id, region, ROW_NUMBER() OVER (PARTITION BY region ORDER BY id) AS rn FROM orders QUALIFY rn <= 2 ORDER BY id", "id:INT64 region:STRING rn:INT64", (), {}),
    ("SELECT id, SUM(amount) OVER (PARTITION BY region ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s, LAG(note) OVER (ORDER BY id) AS before FROM orders ORDER BY id", "id:INT64 s:NUMERIC before:STRING", (), {}),
    ("SELECT id, AVG(amount) OVER (PARTITION BY region) AS m, COUNT(*) OVER () AS n FROM orders ORDER BY id", "id:INT64 m:NUMERIC n:INT64", (), {}),
    ("WITH big AS (SELECT id, region FROM orders WHERE amount > 4000) SELECT region, COUNT(*) AS n FROM big GROUP BY region ORDER BY region", "region:STRING n:INT64", (), {}),
    ("WITH a AS (SELECT id FROM orders), b AS (SELECT id FROM a WHERE id < 20) SELECT b.id, c.name FROM b JOIN customers AS c ON c.id = b.id ORDER BY 1", "id:INT64 name:STRING", (), {}),
    ("WITH A AS (SELECT id FROM customers) SELECT o.id FROM orders AS o JOIN a ON a.id = o.customer ORDER BY 1", "id:INT64", (), {}),
    ("SELECT id FROM orders UNION ALL SELECT id FROM customers ORDER BY id", "id:INT64", (), {}),
    ("SELECT region FROM orders UNION DISTINCT SELECT region FROM customers ORDER BY region", "region:STRING", (), {}),
    ("SELECT id FROM customers EXCEPT DISTINCT SELECT customer AS id FROM orders ORDER BY id", "id:INT64", (), {}),
    ("SELECT id FROM customers INTERSECT DISTINCT SELECT customer AS id FROM orders ORDER BY id", "id:INT64", (), {}),
    ("SELECT id FROM customers WHERE id IN (SELECT customer FROM orders WHERE paid) ORDER BY id", "id:INT64", (), {}),
    ("SELECT id FROM customers WHERE id NOT IN (SELECT customer FROM orders WHERE customer IS NOT NULL) ORDER BY id", "id:INT64", (), {}),
    ("SELECT c.id FROM customers AS c WHERE EXISTS (SELECT 1 FROM orders AS o WHERE o.customer = c.id AND o.paid) ORDER BY 1", "id:INT64", (), {}),
    ("SELECT c.id FROM customers AS c WHERE NOT EXISTS (SELECT 1 FROM orders AS o WHERE o.customer = c.id) ORDER BY 1", "id:INT64", (), {}),
    ("SELECT c.id, (SELECT COUNT(*) FROM orders AS o WHERE o.customer = c.id) AS n FROM customers AS c ORDER BY 1", "id:INT64 n:INT64", (), {}),
    ("SELECT c.id, (SELECT MAX(l.price) FROM orders AS o JOIN lines AS l ON l.order_id = o.id WHERE o.customer = c.id) AS top FROM customers AS c ORDER BY 1", "id:INT64 top:NUMERIC", (), {}),
    ("SELECT x.region, x.n FROM (SELECT region, COUNT(*) AS n FROM orders GROUP BY region) AS x WHERE x.n > 1 ORDER BY 1", "region:STRING n:INT64", (), {}),
    ("SELECT a.id, b.id AS other FROM orders AS a JOIN orders AS b ON a.customer = b.customer AND a.id < b.id ORDER BY 1, 2", "id:INT64 other:INT64", (), {}),
    ("SELECT DISTINCT region, paid FROM orders ORDER BY region, paid", "region:STRING paid:BOOL", (), {}),
    ("SELECT COUNT(DISTINCT customer) AS n, COUNTIF(paid) AS p, COUNT(note) AS c, LOGICAL_OR(paid) AS q FROM orders", "n:INT64 p:INT64 c:INT64 q:BOOL", (), {}),
    ("SELECT STRING_AGG(note, '|' ORDER BY note) AS notes FROM orders", "notes:STRING", (), {}),
    ("SELECT region, ROUND(AVG(score), 6) AS m, ROUND(STDDEV_SAMP(score), 6) AS sd FROM orders GROUP BY region ORDER BY region", "region:STRING m:FLOAT64 sd:FLOAT64", (), {}),
    ("SELECT id, PERCENTILE_CONT(score, 0.5) OVER (PARTITION BY region) AS median FROM orders ORDER BY id", "id:INT64 median:FLOAT64", (), {}),
    ("SELECT id, CASE WHEN note LIKE '%\\\\_%' THEN 'u' WHEN note LIKE '50\\\\%' THEN 'p' ELSE note END AS k FROM orders ORDER BY id", "id:INT64 k:STRING", (), {}),
    ("SELECT o.id, l.sku, l.qty * l.price AS cost FROM orders AS o, lines AS l WHERE l.order_id = o.id AND l.qty > 5 ORDER BY 1, 2, 3", "id:INT64 sku:STRING cost:NUMERIC", (), {}),
    ("SELECT region AS id FROM orders WHERE id = 3 ORDER BY id", "id:STRING", (), {}),
    ("SELECT DATE(`at`) AS d, COUNT(*) AS n FROM orders GROUP BY d ORDER BY d", "d:DATE n:INT64", (), {}),
    ("SELECT DATE_TRUNC(day, MONTH) AS m, SUM(amount) AS s FROM orders GROUP BY m ORDER BY m", "m:DATE s:NUMERIC", (), {}),
    ("SELECT id FROM orders ORDER BY region DESC LIMIT 9", "id:INT64", (), {}),
]  # fmt: skip


def _engine(folder: Path) -> DuckDbEngine:
    return DuckDbEngine.open(DATASET, "1.0.0", folder, TABLES, scratch=folder / "scratch", mask_key=MASK_KEY)


def _authority(**case: Any) -> Authority:
    return make_authority(dataset=DATASET, capability="c", **case)


@pytest.mark.parametrize("name", AUTHORITIES)
@pytest.mark.parametrize("seed", [1, 2])
async def test_governed_results_equal_those_of_tables_filtered_and_masked_beforehand(
    tmp_path: Path, name: str, seed: int
) -> None:
    case = AUTHORITIES[name]
    data = rows(seed)
    governed = _engine(write(tmp_path / "real", data))
    beforehand = _engine(write(tmp_path / "oracle", oracle(data, case)))
    try:
        for sql, declared, parameters, arguments in TEMPLATES:
            loaded = template(sql, declared, *parameters, tables=narrowed_by(case.get("grant_rows", ())))
            bound = bind(loaded, arguments)
            limits = {"max_rows": 100_000, "max_bytes": 10**8, "as_of": AS_OF}
            got, _ = await governed.run(_authority(**reaching(case, loaded)), loaded, bound, **limits)
            wanted, _ = await beforehand.run(_authority(), loaded, bound, **limits)
            assert got.body == wanted.body, sql
    finally:
        await governed.close()
        await beforehand.close()


def test_no_value_of_a_constraint_enters_the_text() -> None:
    loaded = template("SELECT id FROM orders ORDER BY id", "id:INT64")
    hostile = "x') OR 1=1 --"
    authority = _authority(
        rows={"orders.region": {"one_of": [hostile], "prefix": "'; DROP"}, "orders.id": {"max": 77123}}
    )
    governed = govern(loaded, authority)
    text = to_duckdb(rewrite(loaded, governed.shape))[0]
    assert "DROP" not in text
    assert "OR 1" not in text
    assert "77123" not in text
    assert hostile in governed.values["__s1"]


def test_constraints_of_one_shape_share_one_text() -> None:
    loaded = template("SELECT id FROM orders ORDER BY id", "id:INT64")
    shapes = {
        govern(loaded, _authority(rows={"orders.region": {"one_of": values}})).shape
        for values in (["EU"], ["US", "EU"], [], ["' OR ''='"])
    }
    assert len(shapes) == 1


def test_a_column_outside_the_permitted_ones_is_refused_wherever_it_is_read() -> None:
    for sql in (
        "SELECT id FROM orders WHERE note = 'x' ORDER BY id",
        "SELECT id FROM orders ORDER BY note",
        "SELECT o.id FROM orders AS o WHERE EXISTS (SELECT 1 FROM orders AS p WHERE p.note = 'x') ORDER BY o.id",
    ):
        with pytest.raises(NotGranted) as refused:
            govern(
                template(sql, "id:INT64"), _authority(columns=["orders.id"], grant_columns=["orders.id", "orders.note"])
            )
        assert refused.value.reason is Reason.COLUMN_NOT_PERMITTED
        assert "note" not in refused.value.message


def test_permitted_columns_are_enough() -> None:
    loaded = template("SELECT id FROM orders ORDER BY id", "id:INT64")
    govern(loaded, _authority(columns=["orders.id", "secrets.gone"], rows={"orders.region": {"one_of": ["EU"]}}))


@pytest.mark.parametrize(
    "case",
    [
        {"rows": {"orders.gone": {"one_of": ["EU"]}}},
        {"rows": {"gone.region": {"one_of": ["EU"]}}},
        {"rows": {"lines.gone": {"one_of": ["EU"]}}},
        {"masks": {"orders.gone": "null"}},
        {"rows": {"orders.id": {"one_of": ["EU"]}}},
        {"rows": {"orders.id": {"prefix": "1"}}},
        {"rows": {"orders.region": {"max": 5}}},
        {"rows": {"orders.region": {"one_of": [5]}}},
        {"rows": {"orders.day": {"min": 20240101}}},
        {"rows": {"orders.day": {"min": "2024-01-01T00:00:00.000000Z"}}},
        {"rows": {"orders.paid": {"one_of": ["yes"]}}},
    ],
)
def test_a_constraint_or_mask_that_cannot_be_applied_fails_closed(case: dict[str, Any]) -> None:
    loaded = template("SELECT id FROM orders ORDER BY id", "id:INT64")
    with pytest.raises(NotGranted) as refused:
        govern(loaded, _authority(**case))
    assert refused.value.reason is Reason.GRANT_CONSTRAINT_UNKNOWN


def test_an_authority_for_another_dataset_governs_nothing_here() -> None:
    loaded = template("SELECT id FROM orders ORDER BY id", "id:INT64")
    with pytest.raises(NotGranted) as refused:
        govern(loaded, make_authority(dataset="other", capability="c"))
    assert refused.value.reason is Reason.GRANT_WIDENED


def test_only_columns_the_template_names_leave_the_base_table() -> None:
    loaded = template("SELECT COUNT(*) AS n FROM orders", "n:INT64")
    text = to_duckdb(rewrite(loaded, govern(loaded, _authority()).shape))[0]
    assert 'SELECT 1 AS "_one"' in text.replace("CAST(1 AS BIGINT)", "1")
    assert '"note"' not in text


def _refused(loaded: Template, **case: Any) -> Reason:
    with pytest.raises(NotGranted) as refused:
        govern(loaded, _authority(**case))
    return refused.value.reason


REGION_EU = {"orders.region": {"one_of": ["EU"]}}


def test_a_constraint_on_a_table_that_is_not_read_is_refused_and_not_ignored() -> None:
    loaded = template("SELECT id FROM orders ORDER BY id", "id:INT64")
    unread = {"customers.region": {"one_of": ["EU"]}}
    assert _refused(loaded, rows=unread) is Reason.GRANT_CONSTRAINT_UNKNOWN
    assert _refused(loaded, grant_rows=unread) is Reason.COLUMN_NOT_PERMITTED


def _with_attribute(name: str) -> tuple[Table, ...]:
    """The tables with every column of this name declared an attribute."""
    return tuple(
        table.model_copy(
            update={
                "columns": tuple(
                    column.model_copy(update={"attribute": name}) if column.name == name else column
                    for column in table.columns
                )
            }
        )
        for table in TABLES
    )


def test_columns_of_one_attribute_are_constrained_together() -> None:
    tables = _with_attribute("region")
    sql = "SELECT o.id AS id FROM orders AS o JOIN customers AS c ON c.id = o.customer ORDER BY id"
    loaded = template(sql, "id:INT64", tables=tables)
    assert _refused(loaded, rows=REGION_EU) is Reason.GRANT_CONSTRAINT_UNKNOWN
    govern(loaded, _authority(rows=REGION_EU | {"customers.region": {"one_of": ["EU"]}}))
    alone = template("SELECT id FROM orders ORDER BY id", "id:INT64", tables=tables)
    govern(alone, _authority(rows=REGION_EU))


def test_a_holder_may_not_constrain_what_it_may_not_see() -> None:
    loaded = template("SELECT id, region FROM orders ORDER BY id", "id:INT64 region:STRING")
    holder = {"grant_rows": REGION_EU}
    govern(loaded, _authority(**holder))
    masked = _refused(loaded, **holder, masks={"orders.region": "hash"})
    restricted = _refused(loaded, **holder, sensitivity=Sensitivity.RESTRICTED)
    without = template("SELECT id FROM orders ORDER BY id", "id:INT64")
    unread = _refused(without, **holder)
    assert {masked, restricted, unread} == {Reason.COLUMN_NOT_PERMITTED}


def test_a_holder_may_narrow_by_an_attribute_that_is_not_shown() -> None:
    tables = _with_attribute("region")
    loaded = template("SELECT id FROM orders ORDER BY id", "id:INT64", tables=tables)
    govern(loaded, _authority(grant_rows=REGION_EU))
    assert _refused(loaded, grant_rows=REGION_EU, grant_columns=["orders.id"]) is Reason.COLUMN_NOT_PERMITTED


def test_a_holder_may_not_constrain_a_column_above_the_capability() -> None:
    tables = tuple(
        table.model_copy(
            update={
                "columns": tuple(
                    column.model_copy(update={"sensitivity": Sensitivity.CONFIDENTIAL})
                    if column.name == "note"
                    else column
                    for column in table.columns
                )
            }
        )
        for table in TABLES
    )
    loaded = template("SELECT id, note FROM orders ORDER BY id", "id:INT64 note:STRING", tables=tables)
    narrow = template("SELECT id FROM orders ORDER BY id", "id:INT64", tables=tables)
    assert _refused(narrow, grant_rows={"orders.note": {"prefix": "a"}}) is Reason.COLUMN_NOT_PERMITTED
    assert _refused(loaded, grant_rows={"orders.note": {"prefix": "a"}}) is Reason.COLUMN_NOT_PERMITTED


def test_a_constraint_that_the_policy_itself_demands_may_stand_in_the_grant_too() -> None:
    loaded = template("SELECT id FROM orders ORDER BY id", "id:INT64")
    policy = {"rows": REGION_EU, "masks": {"orders.region": "hash"}, "columns": ["orders.id"]}
    wider = {"orders.region": {"one_of": ["EU", "US"]}}
    for asked in (REGION_EU, wider):
        governed = govern(loaded, _authority(**policy, grant_rows=asked, sensitivity=Sensitivity.RESTRICTED))
        assert governed.values["__s0"] == ["EU"]
    narrower = {"orders.region": {"one_of": []}}
    assert _refused(loaded, **policy, grant_rows=narrower) is Reason.COLUMN_NOT_PERMITTED
