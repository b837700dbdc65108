"""The generated GoogleSQL: what its author wrote, over the governed tables and no other."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import sqlglot
from sqlglot import TokenType, exp

from contract.verdict import NotGranted
from queries.bigquery_text import BigQueryTexts, check_text
from queries.govern import Shape, govern
from queries.template import Template
from tests.authority_builder import make_authority
from tests.bigquery.bigquery_world import STORED, stored_template
from tests.bigquery.emulated import in_bigquery, loaded, manifests
from tests.queries.oracle import AUTHORITIES
from tests.queries.supplied_world import PEAKS
from tests.queries.world import DATASET, parameter

UNLIMITED = Shape((), ())
SOURCES = {table.name: str(table.bigquery) for table in STORED}
SHIPPED = [
    loaded(folder, manifest, capability, tuple(in_bigquery(table, "a_dataset_of_theirs") for table in manifest.tables))
    for folder, manifest in manifests()
    for capability in manifest.capabilities
    if capability.template
]


def text_of(template: Template, **authority: Any) -> str:
    shape = govern(template, make_authority(dataset=DATASET, capability="c", **authority)).shape
    return BigQueryTexts().text(template, shape)


def one(expression: str, kind: str, *parameters: Any) -> str:
    return text_of(stored_template(f"SELECT {expression} AS x FROM orders AS o ORDER BY x", f"x:{kind}", *parameters))


def calls(sql: str) -> Counter[str]:
    """How often each function is called; a typed literal is the same as a CAST of its text."""
    tokens = sqlglot.Dialect.get_or_raise("bigquery").tokenize(sql)
    pairs = list(zip(tokens, tokens[1:], strict=False))
    named = [a.text.upper() for a, b in pairs if b.token_type is TokenType.L_PAREN and a.text.isidentifier()]
    words = {
        "AS",
        "IN",
        "AND",
        "OR",
        "NOT",
        "FROM",
        "SELECT",
        "WHEN",
        "THEN",
        "ELSE",
        "ON",
        "WHERE",
        "BY",
        "OVER",
        "EXISTS",
        "CAST",
        "JOIN",
    }
    return Counter(name for name in named if name not in words)


@pytest.mark.parametrize("template", SHIPPED, ids=lambda template: template.name)
def test_a_shipped_template_keeps_every_function_it_was_written_with(template: Template) -> None:
    text = BigQueryTexts().text(template, UNLIMITED)
    assert calls(text) == calls(template.written().sql(dialect="bigquery").replace("INSTR(", "STRPOS("))


def test_tables_are_named_whole_and_governed() -> None:
    text = text_of(
        stored_template("SELECT COUNT(*) AS n FROM orders", "n:INT64"), rows={"orders.region": {"one_of": ["EU"]}}
    )
    assert "FROM `data-project.shop_data.orders` AS `_b` WHERE" in text
    assert "`_b`.`region` IN UNNEST(@__s0)" in text
    assert "EU" not in text


def test_masks_are_written_out() -> None:
    template = stored_template(
        "SELECT c.id AS id, c.name AS name FROM customers AS c ORDER BY id", "id:INT64 name:STRING"
    )
    text = text_of(template, masks={"customers.id": "hash", "customers.name": "hash"})
    assert "SUBSTR(TO_HEX(SHA256(CONCAT(@__k, `_b`.`name`))), 1, 32) AS `name`" in text
    assert (
        "CAST(CONCAT('0x', SUBSTR(TO_HEX(SHA256(CONCAT(@__k, CAST(`_b`.`id` AS STRING)))), 1, 15)) AS INT64) AS `id`"
        in text
    )
    assert "SUBSTR(`_b`.`name`, 1, LEAST(4, DIV(LENGTH(`_b`.`name`), 2)))" in text_of(
        template, masks={"customers.name": "truncate"}
    )
    assert "CAST(NULL AS STRING) AS `name`" in text_of(template, masks={"customers.name": "null"})


@pytest.mark.parametrize(
    ("expression", "kind", "written"),
    [
        ("STRPOS(o.note, 'a')", "INT64", "STRPOS(`o`.`note`, 'a')"),
        ("DATE_ADD(o.day, INTERVAL 3 DAY)", "DATE", "DATE_ADD(`o`.`day`, INTERVAL 3 DAY)"),
        ("EXTRACT(HOUR FROM o.at AT TIME ZONE 'Europe/Berlin')", "INT64", "EXTRACT(HOUR FROM `o`.`at` AT TIME ZONE 'Europe/Berlin')"),
        ("DATE_TRUNC(o.day, WEEK(MONDAY))", "DATE", "DATE_TRUNC(`o`.`day`, WEEK(MONDAY))"),
        ("CAST(o.score AS INT64)", "INT64", "CAST(`o`.`score` AS INT64)"),
        ("o.amount / 3", "NUMERIC", "`o`.`amount` / 3"),
        ("o.id * 2 - (1 - o.id)", "INT64", "`o`.`id` * 2 - (1 - `o`.`id`)"),
    ],
)  # fmt: skip
def test_an_expression_stays_as_it_was_written(expression: str, kind: str, written: str) -> None:
    assert f"SELECT {written} AS `x`" in one(expression, kind)


def test_an_order_has_no_ties_left() -> None:
    template = stored_template(
        "SELECT o.region AS region, o.id AS id FROM orders AS o ORDER BY region", "region:STRING id:INT64"
    )
    assert text_of(template).endswith("ORDER BY 1, 2")


@pytest.mark.parametrize("order", ["", " DESC", " NULLS LAST", " DESC NULLS FIRST"])
def test_nulls_stay_where_they_were_ordered(order: str) -> None:
    """Also in a window of a RANGE, where an engine that does not take it says so."""
    frame = "RANGE BETWEEN 1 PRECEDING AND CURRENT ROW"
    sql = f"SELECT o.id AS id, COUNT(*) OVER (ORDER BY o.id{order} {frame}) AS n FROM orders AS o ORDER BY o.region{order}, id"
    text = text_of(stored_template(sql, "id:INT64 n:INT64"))
    assert f"OVER (ORDER BY `o`.`id`{order} {frame})" in text
    assert f"ORDER BY `o`.`region`{order}, " in text


def test_a_list_that_may_be_null_says_so_beside_it() -> None:
    template = stored_template(
        "SELECT COUNT(*) AS n FROM orders WHERE region IN UNNEST(@r)", "n:INT64", parameter("r:STRING[]", nullable=True)
    )
    assert "IN UNNEST(IF(@__n_r, NULL, @r))" in text_of(template)


def test_supplied_rows_are_one_parameter_and_no_table() -> None:
    template = stored_template(
        "SELECT p.order_id AS x FROM peaks AS p JOIN orders AS o ON o.id = p.order_id ORDER BY x",
        "x:INT64",
        supplied=PEAKS,
    )
    text = text_of(template)
    assert text.startswith(
        "WITH `__supplied` AS (SELECT `_b`.`order_id` AS `order_id` FROM UNNEST(@__supplied) AS `_b`)"
    )
    assert text.count("data-project") == 1


def test_a_row_that_is_filtered_out_is_null_wherever_an_expression_might_be_computed_before_the_filter() -> None:
    text = text_of(
        stored_template(
            "SELECT o.region AS region, 1 / o.id AS x FROM orders AS o ORDER BY x", "region:STRING x:FLOAT64"
        ),
        rows={"orders.region": {"one_of": ["EU"]}, "orders.id": {"min": 3}},
        masks={"orders.region": "truncate"},
    )
    (governed,) = sqlglot.parse_one(text, read="bigquery").find_all(exp.Subquery)
    select = governed.this
    condition = select.args["where"].this
    columns = {column.alias: column.this for column in select.expressions}
    assert set(columns) == {"region", "id"}
    for value in columns.values():
        assert isinstance(value, exp.If)
        assert (value.this, value.args["false"]) == (condition, exp.null())
    assert {column.name for column in condition.find_all(exp.Column)} == {"region", "id"}


@pytest.mark.parametrize("name", AUTHORITIES)
def test_every_base_table_is_read_as_often_as_in_the_template_under_any_authority(name: str) -> None:
    template = stored_template(
        "WITH w AS (SELECT o.id AS id, o.customer AS customer, o.note AS note, o.amount AS amount, o.region AS region, "
        "o.day AS day, o.at AS at, o.paid AS paid, o.score AS score FROM orders AS o) "
        "SELECT w.id AS id, w.region AS region, c.name AS name "
        "FROM w JOIN customers AS c ON c.id = w.customer JOIN lines AS l ON l.order_id = w.id "
        "WHERE EXISTS (SELECT 1 FROM orders AS orders WHERE orders.id = w.id AND l.qty > 1 AND c.name <> l.sku "
        "AND c.region = w.region) ORDER BY id",
        "id:INT64 region:STRING name:STRING",
    )
    text = text_of(template, **AUTHORITIES[name])
    assert [text.count(f".{table}` AS `_b`") for table in ("orders", "customers", "lines")] == [2, 1, 1]


@pytest.mark.parametrize(
    "tampered",
    [
        "SELECT COUNT(*) AS n FROM `data-project`.`shop_data`.`customers` AS `_b`",
        "SELECT COUNT(*) AS n FROM `other`.`shop_data`.`orders` AS `_b`",
        "SELECT COUNT(*) AS n FROM `data-project`.`shop_data`.`orders` AS o",
        "SELECT COUNT(*) AS n FROM orders AS `_b`",
        "SELECT COUNT(*) AS n FROM (SELECT 1 AS x)",
        "SELECT COUNT(*) AS n FROM `data-project`.`shop_data`.`orders` AS `_b`; SELECT 1",
        "SELECT COUNT(*) AS n FROM `data-project`.`shop_data`.`orders` AS `_b`, `data-project`.`shop_data`.`orders` AS `_b`",
        "SELECT COUNT(*) AS n FROM `data-project`.`shop_data`.`orders` AS `_b`, EXTERNAL_QUERY('c', 'SELECT 1')",
        "DELETE FROM `data-project`.`shop_data`.`orders` WHERE true",
        "SELECT COUNT(*",
    ],
)
def test_a_text_that_reads_anything_else_is_not_sent(tampered: str) -> None:
    template = stored_template("SELECT COUNT(*) AS n FROM orders", "n:INT64")
    with pytest.raises(NotGranted):
        check_text(template, tampered, SOURCES)


def test_a_project_with_a_domain_is_one_part_of_the_name() -> None:
    from contract.schema import Table

    table = Table(name="orders", bigquery="example.com:my-project.d.orders-2024", columns=STORED[0].columns)
    text = text_of(stored_template("SELECT COUNT(*) AS n FROM orders", "n:INT64", tables=(table,)))
    assert "FROM `example.com:my-project.d.orders-2024` AS `_b`" in text


def test_texts_are_remembered_by_template_and_shape() -> None:
    texts, template = BigQueryTexts(), stored_template("SELECT COUNT(*) AS n FROM orders", "n:INT64")
    assert texts.text(template, UNLIMITED) is texts.text(template, UNLIMITED)
    assert len(texts) == 1
