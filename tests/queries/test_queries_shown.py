"""A holder narrows by what the result shows, and asks nothing about what it is only computed from."""

from __future__ import annotations

import pytest

from contract.verdict import NotGranted, Reason
from queries.govern import govern
from tests.authority_builder import make_authority
from tests.queries.world import DATASET, template

IDS = "id:INT64"
SHOWN = {
    "a column": ("SELECT id, note FROM orders ORDER BY id", "id:INT64 note:STRING", "orders.note"),
    "another name": ("SELECT id, note AS text FROM orders ORDER BY id", "id:INT64 text:STRING", "orders.note"),
    "a query in FROM": ("SELECT q.n AS n FROM (SELECT id AS i, note AS n FROM orders) AS q ORDER BY q.i, n", "n:STRING", "orders.note"),
    "WITH": ("WITH a AS (SELECT id, note AS x FROM orders), b AS (SELECT a.x AS y FROM a) SELECT b.y AS z FROM b ORDER BY z", "z:STRING", "orders.note"),
    "USING": ("SELECT region, o.id AS id FROM orders AS o JOIN customers AS c USING (region) ORDER BY id, c.id", "region:STRING id:INT64", "customers.region"),
    "a group": ("SELECT note, COUNT(*) AS n FROM orders GROUP BY note ORDER BY note", "note:STRING n:INT64", "orders.note"),
    "one side of UNION": ("SELECT note AS t FROM orders UNION ALL SELECT name AS t FROM customers ORDER BY t", "t:STRING", "customers.name"),
    "another name than WITH has": ("WITH a AS (SELECT note AS id, id AS note FROM orders) SELECT a.id AS n FROM a ORDER BY n", "n:STRING", "orders.note"),
}  # fmt: skip
HIDDEN = {
    "WHERE": ("SELECT id FROM orders WHERE note <> '' ORDER BY id", IDS, "orders.note"),
    "ORDER BY": ("SELECT id FROM orders ORDER BY note, id", IDS, "orders.note"),
    "a sum": ("SELECT SUM(customer) AS n FROM orders", "n:INT64", "orders.customer"),
    "a maximum": ("SELECT MAX(note) AS n FROM orders", "n:STRING", "orders.note"),
    "an expression": ("SELECT id, LENGTH(note) AS n FROM orders ORDER BY id", "id:INT64 n:INT64", "orders.note"),
    "a comparison": ("SELECT id, note = 'x' AS n FROM orders ORDER BY id", "id:INT64 n:BOOL", "orders.note"),
    "NULLIF": ("SELECT id, NULLIF(note, 'x') AS n FROM orders ORDER BY id", "id:INT64 n:STRING", "orders.note"),
    "ON": ("SELECT o.id AS id FROM orders AS o JOIN customers AS c ON c.name = o.note ORDER BY id, c.id", IDS, "customers.name"),
    "EXISTS": ("SELECT id FROM orders AS o WHERE EXISTS (SELECT c.name FROM customers AS c WHERE c.id = o.customer) ORDER BY id", IDS, "customers.name"),
    "a query as a value": ("SELECT o.id AS id, (SELECT MAX(c.name) FROM customers AS c) AS n FROM orders AS o ORDER BY id", "id:INT64 n:STRING", "customers.name"),
    "WITH that computes": ("WITH a AS (SELECT id, LENGTH(note) AS note FROM orders) SELECT a.id AS id, a.note AS note FROM a ORDER BY id", "id:INT64 note:INT64", "orders.note"),
    "an inner query that shows": ("SELECT q.i AS i FROM (SELECT id AS i, note AS n FROM orders) AS q WHERE q.n <> '' ORDER BY i", "i:INT64", "orders.note"),
    "a window": ("SELECT id, RANK() OVER (ORDER BY customer) AS r FROM orders ORDER BY id", "id:INT64 r:INT64", "orders.customer"),
    "names that changed places": ("WITH a AS (SELECT note AS id, id AS note FROM orders) SELECT a.note AS n FROM a ORDER BY n", "n:INT64", "orders.note"),
}  # fmt: skip


def asked(column: str) -> dict[str, dict[str, str | int]]:
    return {column: {"min": 3} if column.endswith("customer") else {"prefix": "a"}}


@pytest.mark.parametrize("case", SHOWN)
def test_a_holder_may_narrow_by_a_column_that_is_shown(case: str) -> None:
    sql, declared, column = SHOWN[case]
    govern(template(sql, declared), make_authority(dataset=DATASET, capability="c", grant_rows=asked(column)))


@pytest.mark.parametrize("case", HIDDEN)
def test_a_holder_may_not_narrow_by_a_column_that_is_only_computed_with(case: str) -> None:
    sql, declared, column = HIDDEN[case]
    loaded = template(sql, declared)
    assert column in loaded.columns_read
    with pytest.raises(NotGranted) as refused:
        govern(loaded, make_authority(dataset=DATASET, capability="c", grant_rows=asked(column)))
    assert refused.value.reason is Reason.COLUMN_NOT_PERMITTED
    policy = make_authority(dataset=DATASET, capability="c", rows=asked(column), grant_rows=asked(column))
    govern(loaded, policy)


def test_what_is_shown_is_found_once_however_often_a_query_is_used() -> None:
    parts = ["q0 AS (SELECT id AS a, customer AS b FROM orders)"]
    parts += [
        f"q{n} AS (SELECT x.a AS a, y.b AS b FROM q{n - 1} AS x JOIN q{n - 1} AS y ON x.a = y.a)" for n in range(1, 9)
    ]
    loaded = template(f"WITH {', '.join(parts)} SELECT q8.a AS a FROM q8 ORDER BY a", "a:INT64")
    assert loaded.columns_shown == {"orders.id"}
