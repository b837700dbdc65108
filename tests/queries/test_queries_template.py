"""What loads as a template, and what is refused with its file and line."""

from __future__ import annotations

import pytest

from contract.schema import Column, Table
from contract.scope import Sensitivity
from queries.template import TemplateError
from tests.queries.world import DATASET, ORDERS, TABLES, parameter, template

HOSTILE = {
    "two statements": "SELECT id FROM orders ORDER BY id; SELECT id FROM orders ORDER BY id",
    "a statement in a comment's shadow": "SELECT id FROM orders ORDER BY id -- ;\n; DROP TABLE orders",
    "DDL": "DROP TABLE orders",
    "DML": "INSERT INTO orders (id) SELECT id FROM orders",
    "DML in a CTE": "WITH x AS (DELETE FROM orders) SELECT id FROM x ORDER BY id",
    "CREATE AS": "CREATE TABLE t AS SELECT id FROM orders",
    "a script": "BEGIN SELECT id FROM orders; END",
    "EXECUTE IMMEDIATE": "EXECUTE IMMEDIATE 'SELECT 1'",
    "EXPORT DATA": "EXPORT DATA OPTIONS(uri='gs://b/*') AS SELECT id FROM orders",
    "an undeclared table": "SELECT 1 AS id FROM secrets ORDER BY id",
    "an undeclared table in EXISTS": "SELECT id FROM orders WHERE EXISTS (SELECT 1 FROM secrets) ORDER BY id",
    "an undeclared table in a scalar": "SELECT (SELECT MAX(x) FROM secrets) AS id",
    "an undeclared table in LIMIT": "SELECT id FROM orders ORDER BY id LIMIT (SELECT COUNT(*) FROM secrets)",
    "a table of another dataset": "SELECT id FROM other.orders ORDER BY id",
    "a table of another project": "SELECT id FROM p.other.orders ORDER BY id",
    "a back-ticked path": "SELECT id FROM `p.d.orders` ORDER BY id",
    "an escaped name": r"SELECT id FROM `\x6frders` ORDER BY id",
    "a name of another case": "SELECT id FROM Orders ORDER BY id",
    "a file": "SELECT id FROM 'x.parquet' ORDER BY id",
    "a quoted file": "SELECT id FROM `data/x.parquet` ORDER BY id",
    "INFORMATION_SCHEMA": "SELECT id FROM INFORMATION_SCHEMA.TABLES ORDER BY id",
    "a wildcard table": "SELECT id FROM `orders*` ORDER BY id",
    "a partition": "SELECT id FROM orders$20240101 ORDER BY id",
    "a pseudo column": "SELECT id FROM orders WHERE _PARTITIONTIME IS NOT NULL ORDER BY id",
    "EXTERNAL_QUERY": "SELECT id FROM EXTERNAL_QUERY('c', 'SELECT 1') ORDER BY id",
    "ML.PREDICT": "SELECT id FROM ML.PREDICT(MODEL m, TABLE orders) ORDER BY id",
    "VECTOR_SEARCH": "SELECT id FROM VECTOR_SEARCH(TABLE orders, 'x', TABLE orders) ORDER BY id",
    "read_text": "SELECT id FROM read_text('/etc/passwd') ORDER BY id",
    "a scalar file function": "SELECT read_text('/etc/passwd') AS id",
    "query()": "SELECT id FROM query('SELECT 1 AS id') ORDER BY id",
    "a user function": "SELECT p.d.f(id) AS id FROM orders ORDER BY id",
    "a quoted function": "SELECT `abs`(id) AS id FROM orders ORDER BY id",
    "NET.HOST": "SELECT id FROM orders WHERE NET.HOST(note) = 'x' ORDER BY id",
    "SAFE.": "SELECT SAFE.SUBSTR(note, 1) AS id FROM orders ORDER BY id",
    "getenv": "SELECT getenv('HOME') AS id",
    "SESSION_USER": "SELECT SESSION_USER() AS id",
    "a function only sqlglot knows": "SELECT LEN(note) AS id FROM orders ORDER BY id",
    "time travel": "SELECT id FROM orders FOR SYSTEM_TIME AS OF TIMESTAMP '2024-01-01' ORDER BY id",
    "TABLESAMPLE": "SELECT id FROM orders TABLESAMPLE SYSTEM (10 PERCENT) ORDER BY id",
    "PIVOT": "SELECT id FROM orders PIVOT (COUNT(*) FOR region IN ('EU')) ORDER BY id",
    "NATURAL": "SELECT id FROM orders NATURAL JOIN customers ORDER BY id",
    "BY NAME": "SELECT id FROM orders UNION ALL BY NAME SELECT id FROM customers ORDER BY id",
    "RECURSIVE": "WITH RECURSIVE a AS (SELECT 1 AS id UNION ALL SELECT id + 1 AS id FROM a) SELECT id FROM a ORDER BY id",
    "a pipe": "FROM orders |> SELECT id",
    "*": "SELECT * FROM orders ORDER BY 1",
    "t.*": "SELECT o.* FROM orders AS o ORDER BY 1",
    "a row value": "SELECT o AS id FROM orders AS o ORDER BY 1",
    "a row value of a CTE": "WITH a AS (SELECT id FROM orders) SELECT a AS id FROM a ORDER BY 1",
    "a row value as text": "SELECT TO_JSON_STRING(o) AS id FROM orders AS o ORDER BY 1",
    "AS STRUCT": "SELECT AS STRUCT id FROM orders ORDER BY 1",
    "a struct field": "SELECT o.id.x AS id FROM orders AS o ORDER BY 1",
    "column names after an alias": "SELECT o.id FROM orders AS o (region, id) ORDER BY 1",
    "a positional parameter": "SELECT id FROM orders WHERE id = ? ORDER BY id",
    "a system variable": "SELECT @@project_id AS id",
    "an undeclared parameter": "SELECT id FROM orders WHERE id = @x ORDER BY id",
    "a reserved parameter": "SELECT id FROM orders WHERE region IN UNNEST(@__s0) ORDER BY id",
    "a hint": "SELECT @{x=1} id FROM orders ORDER BY id",
    "a CTE named like a table": "WITH orders AS (SELECT 1 AS id) SELECT id FROM orders ORDER BY id",
    "a CTE named like a table in other case": "WITH Orders AS (SELECT id FROM orders) SELECT id FROM Orders ORDER BY id",
    "an alias named like a table": "SELECT orders.id FROM customers AS orders ORDER BY 1",
    "a derived table named like a table": "SELECT orders.id FROM (SELECT 1 AS id) AS orders ORDER BY 1",
    "an implicit UNNEST": "SELECT o.id FROM orders AS o, o.note ORDER BY 1",
    "REPEAT": "SELECT REPEAT('x', 1000000000) AS id",
    "LPAD": "SELECT LPAD('x', 1000000000) AS id",
    "ANY_VALUE": "SELECT ANY_VALUE(id) AS id FROM orders",
    "an unordered list of text": "SELECT STRING_AGG(note) AS id FROM orders",
    "LATERAL": "SELECT o.id FROM orders AS o CROSS JOIN LATERAL (SELECT 1 AS y) AS l ORDER BY 1",
    "SEMI JOIN": "SELECT o.id FROM orders AS o LEFT SEMI JOIN customers AS c ON c.id = o.id ORDER BY 1",
    "no order": "SELECT id FROM orders",
    "no order below LIMIT": "SELECT COUNT(*) AS id FROM (SELECT id FROM orders LIMIT 3) AS x",
    "no alias": "SELECT id + 1 FROM orders ORDER BY 1",
    "an alias in WHERE": "SELECT note AS id FROM orders WHERE id_ = 'x' ORDER BY 1",
    "an alias in the select list": "SELECT id AS x, x AS id FROM orders ORDER BY 1",
    "a column that is not there": "SELECT o.gone AS id FROM orders AS o ORDER BY 1",
    "a window without order": "SELECT ROW_NUMBER() OVER () AS id FROM orders ORDER BY 1",
    "a window without a name": "SELECT SUM(id) OVER w AS id FROM orders WINDOW v AS (ORDER BY id) ORDER BY 1",
    "GROUP BY ROLLUP": "SELECT region AS id FROM orders GROUP BY ROLLUP(region) ORDER BY 1",
    "COLLATE": "SELECT COLLATE(note, 'und:ci') AS id FROM orders ORDER BY 1",
    "BIGNUMERIC": "SELECT CAST(id AS BIGNUMERIC) AS id FROM orders ORDER BY 1",
    "POW of NUMERIC": "SELECT POW(amount, 2) AS id FROM orders ORDER BY 1",
    "FORMAT": "SELECT FORMAT('%d', id) AS id FROM orders ORDER BY 1",
    "DATE - DATE": "SELECT day - day AS id FROM orders ORDER BY 1",
    "mixed types": "SELECT id FROM orders WHERE id = note ORDER BY 1",
    "a bad escape": r"SELECT id FROM orders WHERE note = 'a\_b' ORDER BY 1",
    "text with NUL": "SELECT id FROM orders WHERE note = 'a\x00b' ORDER BY 1",
    "nonsense": "SELEC id FRM orders",
    "nothing": "-- only a comment",
    "deep nesting": "SELECT " + "(" * 200 + "1" + ")" * 200 + " AS id",
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_construct_that_cannot_be_governed_is_refused_with_file_and_line(name: str) -> None:
    with pytest.raises(TemplateError) as refused:
        template(HOSTILE[name], "id:INT64")
    assert refused.value.file == f"{DATASET}/templates/test.sql"
    place = refused.value.file if refused.value.line is None else f"{refused.value.file}:{refused.value.line}"
    assert refused.value.message.startswith(f"{place}: ")
    assert "\n" not in refused.value.message


def test_the_line_is_that_of_the_construct() -> None:
    sql = "-- orders\nSELECT\n  id,\n  ANY_VALUE(note) AS note\nFROM orders\nORDER BY id"
    with pytest.raises(TemplateError) as refused:
        template(sql, "id:INT64 note:STRING")
    assert refused.value.line == 4


def test_what_a_template_reads_counts_columns_that_only_filter_join_or_sort() -> None:
    sql = (
        "WITH a AS (SELECT customer FROM orders WHERE paid) "
        "SELECT c.name FROM customers AS c JOIN a ON a.customer = c.id ORDER BY c.born"
    )
    loaded = template(sql, "name:STRING")
    assert loaded.columns_read == {"orders.customer", "orders.paid", "customers.name", "customers.id", "customers.born"}
    assert loaded.tables_read == {"orders", "customers"}


def test_a_column_more_sensitive_than_the_capability_is_refused() -> None:
    secret = ORDERS.column("note")
    assert secret is not None
    columns = [
        c if c is not secret else c.model_copy(update={"sensitivity": Sensitivity.RESTRICTED}) for c in ORDERS.columns
    ]
    tables = (ORDERS.model_copy(update={"columns": tuple(columns)}),)
    sql = "SELECT id FROM orders WHERE note = 'x' ORDER BY id"
    with pytest.raises(TemplateError, match=r"orders\.note is restricted"):
        template(sql, "id:INT64", tables=tables, ceiling=Sensitivity.CONFIDENTIAL)
    template(sql, "id:INT64", tables=tables, ceiling=Sensitivity.RESTRICTED)


def test_a_parameter_that_is_not_used_is_refused() -> None:
    with pytest.raises(TemplateError, match="declared and not used"):
        template("SELECT id FROM orders ORDER BY id", "id:INT64", parameter("x:INT64"))


@pytest.mark.parametrize(
    "declared", ["id:STRING note:STRING", "note:STRING id:INT64", "id:INT64", "id:INT64 note:STRING more:INT64"]
)
def test_results_unlike_the_declared_ones_are_refused(declared: str) -> None:
    with pytest.raises(TemplateError):
        template("SELECT id, note FROM orders ORDER BY id", declared)


def test_like_takes_a_parameter_only_where_its_values_are_listed() -> None:
    sql = "SELECT id FROM orders WHERE note LIKE @p ORDER BY id"
    with pytest.raises(TemplateError, match="LIKE"):
        template(sql, "id:INT64", parameter("p:STRING"))
    template(sql, "id:INT64", parameter("p:STRING", values=("a%", "b%")))


def test_limit_takes_no_parameter_that_may_be_null() -> None:
    sql = "SELECT id FROM orders ORDER BY id LIMIT @n"
    with pytest.raises(TemplateError, match="LIMIT"):
        template(sql, "id:INT64", parameter("n:INT64", nullable=True))
    template(sql, "id:INT64", parameter("n:INT64", minimum=1, maximum=50))


def test_the_clock_and_unrounded_spread_make_a_template_not_deterministic() -> None:
    assert template("SELECT id FROM orders ORDER BY id", "id:INT64").deterministic
    assert not template("SELECT id FROM orders WHERE day < CURRENT_DATE() ORDER BY id", "id:INT64").deterministic
    assert not template("SELECT STDDEV(score) AS s FROM orders", "s:FLOAT64").deterministic
    assert template("SELECT ROUND(STDDEV(score), 4) AS s FROM orders", "s:FLOAT64").deterministic


def test_the_digest_changes_with_text_parameters_results_and_tables_read_and_not_with_other_tables() -> None:
    sql = "SELECT id FROM orders WHERE id = @x ORDER BY id"
    first = template(sql, "id:INT64", parameter("x:INT64"))
    assert template(sql, "id:INT64", parameter("x:INT64")).digest == first.digest
    wider = ORDERS.model_copy(
        update={"columns": (*ORDERS.columns, Column.model_validate({"name": "new", "type": "BOOL"}))}
    )
    extra = Table.model_validate({"name": "extra", "file": "e", "columns": [{"name": "x", "type": "INT64"}]})
    others = [
        template(sql + " ", "id:INT64", parameter("x:INT64")),
        template(sql, "id:INT64", parameter("x:INT64", minimum=1)),
        template(sql, "id:INT64", parameter("x:INT64"), tables=(wider,)),
    ]
    assert first.digest not in {other.digest for other in others}
    assert template(sql, "id:INT64", parameter("x:INT64"), tables=(*TABLES, extra)).digest == first.digest


@pytest.mark.parametrize(
    "more",
    [
        {"default": "x"},
        {"minimum": "a"},
        {"minimum": 1, "default": 0},
        {"maximum": 2**63},
    ],
)
def test_a_parameter_whose_declaration_does_not_hold_together_is_refused(more: dict[str, object]) -> None:
    with pytest.raises(TemplateError, match="parameter x"):
        template("SELECT id FROM orders WHERE id = @x ORDER BY id", "id:INT64", parameter("x:INT64", **more))


@pytest.mark.parametrize(
    "condition",
    ["EXTRACT(YEAR FROM @x) = 2024", "EXTRACT(WEEK(MONDAY) FROM @x) = 1", "day IS NOT DISTINCT FROM @x", "@x IS DISTINCT FROM day"],
)  # fmt: skip
def test_what_follows_from_is_no_table_everywhere(condition: str) -> None:
    template(f"SELECT id FROM orders WHERE {condition} ORDER BY id", "id:INT64", parameter("x:DATE"))
