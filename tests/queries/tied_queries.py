"""Queries over the oracle's shop in which tied rows can be told apart, and queries in which they cannot."""

from __future__ import annotations

from typing import Final

# Each with its result columns. Which of two tied rows comes first would show in every one of these.
COMPLETED: Final[dict[str, tuple[str, dict[str, str]]]] = {
    "a row's number": (
        "SELECT id, ROW_NUMBER() OVER (PARTITION BY region ORDER BY paid) AS n FROM orders ORDER BY id",
        {"id": "INT64", "n": "INT64"},
    ),
    "a row's tile": (
        "SELECT id, NTILE(5) OVER (ORDER BY region DESC) AS n FROM orders ORDER BY id",
        {"id": "INT64", "n": "INT64"},
    ),
    "the rows before and after": (
        "SELECT id, LAG(note) OVER (ORDER BY region) AS a, LEAD(amount, 2) OVER (ORDER BY paid) AS b FROM orders ORDER BY id",
        {"id": "INT64", "a": "STRING", "b": "NUMERIC"},
    ),
    "the first row up to here": (
        "SELECT id, FIRST_VALUE(id) OVER (PARTITION BY paid ORDER BY region) AS a, FIRST_VALUE(note) OVER (ORDER BY paid RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS b FROM orders ORDER BY id",
        {"id": "INT64", "a": "INT64", "b": "STRING"},
    ),
    "the last row of a partition": (
        "SELECT id, LAST_VALUE(id) OVER (PARTITION BY paid ORDER BY region ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS a FROM orders ORDER BY id",
        {"id": "INT64", "a": "INT64"},
    ),
    "a row of a partition by its number": (
        "SELECT id, NTH_VALUE(id, 2) OVER (ORDER BY region RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS a, FIRST_VALUE(note IGNORE NULLS) OVER (ORDER BY paid ROWS BETWEEN 1 PRECEDING AND 4 FOLLOWING) AS b FROM orders ORDER BY id",
        {"id": "INT64", "a": "INT64", "b": "STRING"},
    ),
    "a sum over rows": (
        "SELECT id, SUM(id) OVER (ORDER BY region ROWS 2 PRECEDING) AS a, COUNT(*) OVER (ORDER BY paid ROWS UNBOUNDED PRECEDING) AS b FROM orders ORDER BY id",
        {"id": "INT64", "a": "INT64", "b": "INT64"},
    ),
    "one row of each group by QUALIFY": (
        "SELECT region, id FROM orders WHERE TRUE QUALIFY ROW_NUMBER() OVER (PARTITION BY region ORDER BY paid DESC) = 1 ORDER BY region",
        {"region": "STRING", "id": "INT64"},
    ),
    "one row of each group by a filter outside": (
        "SELECT x.region, x.note, x.day FROM (SELECT region, note, day, ROW_NUMBER() OVER (PARTITION BY region ORDER BY paid) AS n FROM orders) AS x WHERE x.n = 1 ORDER BY x.region",
        {"region": "STRING", "note": "STRING", "day": "DATE"},
    ),
    "what only the ORDER BY tells": (
        "SELECT ROW_NUMBER() OVER (ORDER BY paid) AS n FROM orders ORDER BY region, id",
        {"n": "INT64"},
    ),
    "a named window": (
        "SELECT id, ROW_NUMBER() OVER w AS a, LAG(id) OVER (w) AS b FROM orders WINDOW w AS (PARTITION BY paid ORDER BY region) ORDER BY id",
        {"id": "INT64", "a": "INT64", "b": "INT64"},
    ),
    "fields of an UNNEST": (
        "SELECT o.id, l.sku, ROW_NUMBER() OVER (ORDER BY l.qty) AS n FROM orders AS o, UNNEST(o.lines) AS l ORDER BY 1, 2",
        {"id": "INT64", "sku": "STRING", "n": "INT64"},
    ),
    "elements of an UNNEST and their offset": (
        "SELECT o.id, t, at, LAG(o.id) OVER (PARTITION BY t ORDER BY o.region) AS n FROM orders AS o CROSS JOIN UNNEST(o.tags) AS t WITH OFFSET AS at ORDER BY 1, 2",
        {"id": "INT64", "t": "STRING", "at": "INT64", "n": "INT64"},
    ),
    "a field of a column": (
        "SELECT o.id, ROW_NUMBER() OVER (ORDER BY o.ship.zip) AS n, o.ship.city AS city FROM orders AS o ORDER BY 1",
        {"id": "INT64", "n": "INT64", "city": "STRING"},
    ),
    "a joined table": (
        "SELECT region, o.id, c.name, ROW_NUMBER() OVER (ORDER BY region) AS n FROM orders AS o JOIN customers AS c USING (region) ORDER BY 2, 3",
        {"region": "STRING", "id": "INT64", "name": "STRING", "n": "INT64"},
    ),
    "a correlated query": (
        "SELECT c.id, (SELECT MAX(x.id) FROM (SELECT o.id AS id, ROW_NUMBER() OVER (PARTITION BY o.region ORDER BY o.paid) AS n FROM orders AS o) AS x WHERE x.n = c.id) AS top FROM customers AS c ORDER BY c.id",
        {"id": "INT64", "top": "INT64"},
    ),
    "groups": (
        "SELECT region, paid, ROW_NUMBER() OVER (ORDER BY COUNT(*) > 0) AS n FROM orders GROUP BY region, paid ORDER BY 1, 2",
        {"region": "STRING", "paid": "BOOL", "n": "INT64"},
    ),
    "groups by an expression": (
        "SELECT SUBSTR(note, 1, 1) AS s, ROW_NUMBER() OVER (ORDER BY COUNT(*) > 0) AS n FROM orders GROUP BY s ORDER BY 1",
        {"s": "STRING", "n": "INT64"},
    ),
    "groups by what is not shown": (
        "SELECT ROW_NUMBER() OVER (ORDER BY COUNT(*) > 0) AS n, MIN(id) AS low FROM orders GROUP BY EXTRACT(MONTH FROM day), paid ORDER BY low",
        {"n": "INT64", "low": "INT64"},
    ),
    "a list of text": (
        "SELECT paid, STRING_AGG(note ORDER BY region) AS a, STRING_AGG(CONCAT(note, '/', CAST(id AS STRING)) ORDER BY region LIMIT 3) AS b FROM orders GROUP BY paid ORDER BY paid",
        {"paid": "BOOL", "a": "STRING", "b": "STRING"},
    ),
    "an array of values": (
        "SELECT ARRAY_AGG(note IGNORE NULLS ORDER BY region LIMIT 9) AS a, ARRAY_AGG(id ORDER BY paid DESC) AS b FROM orders",
        {"a": "ARRAY<STRING>", "b": "ARRAY<INT64>"},
    ),
    "an array of written structs": (
        "SELECT ARRAY_AGG(STRUCT(id AS id, note AS note, 'x' AS kind) ORDER BY region) AS a FROM orders",
        {"a": "ARRAY<STRUCT<id INT64, note STRING, kind STRING>>"},
    ),
    "an array of a query": (
        "SELECT ARRAY(SELECT o.note FROM orders AS o WHERE o.note IS NOT NULL ORDER BY o.region) AS a",
        {"a": "ARRAY<STRING>"},
    ),
    "an array of a query's rows": (
        "SELECT ARRAY(SELECT AS STRUCT o.id AS id, o.note AS note FROM orders AS o ORDER BY o.region LIMIT 9) AS a",
        {"a": "ARRAY<STRUCT<id INT64, note STRING>>"},
    ),
    "the first row of a query as a value": (
        "SELECT c.id, (SELECT o.note FROM orders AS o WHERE o.customer > c.id ORDER BY o.region DESC LIMIT 1) AS top FROM customers AS c ORDER BY c.id",
        {"id": "INT64", "top": "STRING"},
    ),
    "the first rows of a query in WITH": (
        "WITH x AS (SELECT id, region FROM orders ORDER BY region LIMIT 14 OFFSET 3) SELECT SUM(id) AS n FROM x",
        {"n": "INT64"},
    ),
    "the first rows of a UNION": (
        "SELECT SUM(x.n) AS n FROM (SELECT paid AS p, id AS n FROM orders UNION ALL SELECT TRUE AS p, id AS n FROM customers ORDER BY p LIMIT 20) AS x",
        {"n": "INT64"},
    ),
}  # fmt: skip

# What tied rows are called here shows, and GoogleSQL has no words that order them.
OPEN: Final[dict[str, tuple[str, dict[str, str]]]] = {
    "the last of those that tie": (
        "SELECT id, LAST_VALUE(note) OVER (ORDER BY region) AS a FROM orders ORDER BY id",
        {"id": "INT64", "a": "STRING"},
    ),
    "the second of those that tie": (
        "SELECT id, NTH_VALUE(note, 2) OVER (ORDER BY region) AS a FROM orders ORDER BY id",
        {"id": "INT64", "a": "STRING"},
    ),
    "the first text of those that tie": (
        "SELECT id, FIRST_VALUE(note IGNORE NULLS) OVER (ORDER BY region) AS a FROM orders ORDER BY id",
        {"id": "INT64", "a": "STRING"},
    ),
    "the first of a range": (
        "SELECT id, FIRST_VALUE(note) OVER (ORDER BY customer RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) AS a FROM orders ORDER BY id",
        {"id": "INT64", "a": "STRING"},
    ),
    "an array beside the number": (
        "SELECT tags, ROW_NUMBER() OVER (ORDER BY region) AS n FROM orders ORDER BY n",
        {"tags": "ARRAY<STRING>", "n": "INT64"},
    ),
    "an array of a column's structs": (
        "SELECT ARRAY_AGG(ship IGNORE NULLS ORDER BY region) AS a FROM orders",
        {"a": "ARRAY<STRUCT<city STRING, zip STRING>>"},
    ),
    "an array of elements": (
        "SELECT o.id, ARRAY(SELECT l FROM UNNEST(o.lines) AS l ORDER BY l.qty) AS a FROM orders AS o ORDER BY o.id",
        {"id": "INT64", "a": "ARRAY<STRUCT<sku STRING, qty INT64, price NUMERIC>>"},
    ),
    "groups by a query": (
        "SELECT (SELECT c.name FROM customers AS c WHERE c.id = o.customer) AS name, ROW_NUMBER() OVER (ORDER BY COUNT(*) > 0) AS n FROM orders AS o GROUP BY name ORDER BY 1",
        {"name": "STRING", "n": "INT64"},
    ),
    "a query in a list of text": (
        "SELECT STRING_AGG((SELECT c.name FROM customers AS c WHERE c.id = o.customer) ORDER BY o.region) AS a FROM orders AS o",
        {"a": "STRING"},
    ),
}  # fmt: skip

# Tied rows are called the same here.
ALIKE: Final[dict[str, tuple[str, dict[str, str]]]] = {
    "ranks": (
        "SELECT id, RANK() OVER (ORDER BY region) AS a, DENSE_RANK() OVER (ORDER BY region) AS b, CUME_DIST() OVER (ORDER BY region) AS c, PERCENT_RANK() OVER (ORDER BY region) AS d FROM orders ORDER BY id",
        {"id": "INT64", "a": "INT64", "b": "INT64", "c": "FLOAT64", "d": "FLOAT64"},
    ),
    "aggregates up to the last that ties": (
        "SELECT id, SUM(id) OVER (ORDER BY region) AS a, COUNT(*) OVER (ORDER BY paid RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS b, SUM(score) OVER (ORDER BY region) AS c FROM orders ORDER BY id",
        {"id": "INT64", "a": "INT64", "b": "INT64", "c": "FLOAT64"},
    ),
    "what the rows are ordered by": (
        "SELECT id, LAST_VALUE(region) OVER (ORDER BY region) AS a, NTH_VALUE(paid, 3) OVER (PARTITION BY region ORDER BY paid) AS b FROM orders ORDER BY id",
        {"id": "INT64", "a": "STRING", "b": "BOOL"},
    ),
    "a list of what it is ordered by": (
        "SELECT ARRAY_AGG(region IGNORE NULLS ORDER BY region DESC) AS a, STRING_AGG(DISTINCT region ORDER BY region) AS b FROM orders",
        {"a": "ARRAY<STRING>", "b": "STRING"},
    ),
    "a group's window over one row": (
        "SELECT SUM(id) AS a, ROW_NUMBER() OVER (ORDER BY SUM(id)) AS n FROM orders",
        {"a": "INT64", "n": "INT64"},
    ),
}  # fmt: skip
