"""Templates written to get past a rewriter that is careless about one construct.

Each reads ``orders``, ``lines`` and ``customers`` of ``tests.queries.world`` in a way in which some
simple rewriting (a filter in the wrong place, on the first table only, by name) shows rows or
values that the rules withhold. Expressions are plain on purpose: the text means the same after
an ordinary transpile, so that it can be run without any part of the product.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from contract.schema import Parameter
from tests.queries.world import parameter


@dataclass(frozen=True, slots=True)
class Escape:
    """A query, its result columns and parameters; ``kind`` says what it tries."""

    kind: str
    sql: str
    results: str
    parameters: tuple[Parameter, ...] = ()


REGION: Final = parameter("region:STRING", values=("EU", "US", "APAC"))
MAYBE: Final = parameter("maybe:STRING", values=("EU", "US", "APAC"), nullable=True)
REGIONS: Final = parameter("regions:STRING[]", values=("EU", "US", "APAC"))
NUMBER: Final = parameter("number:INT64", minimum=0, maximum=20)
CUT: Final = parameter("cut:INT64", minimum=0, maximum=9)

# fmt: off
_WRITTEN: Final[dict[str, list[tuple[str, str, tuple[Parameter, ...]]]]] = {
    "outer joins": [
        ("SELECT o.id, c.name FROM orders AS o LEFT JOIN customers AS c ON c.id = o.customer ORDER BY 1, 2", "id:INT64 name:STRING", ()),
        ("SELECT o.id, c.name FROM orders AS o RIGHT JOIN customers AS c ON c.id = o.customer ORDER BY 1, 2", "id:INT64 name:STRING", ()),
        ("SELECT o.id, c.id AS cid FROM orders AS o FULL JOIN customers AS c ON c.id = o.customer ORDER BY 1, 2", "id:INT64 cid:INT64", ()),
        ("SELECT o.id FROM orders AS o LEFT JOIN customers AS c ON c.id = o.customer WHERE c.id IS NULL ORDER BY 1", "id:INT64", ()),
        ("SELECT c.id, COUNT(o.id) AS n FROM customers AS c LEFT JOIN orders AS o ON o.customer = c.id GROUP BY c.id ORDER BY 1", "id:INT64 n:INT64", ()),
        ("SELECT c.id, l.sku FROM customers AS c LEFT JOIN orders AS o ON o.customer = c.id LEFT JOIN lines AS l ON l.order_id = o.id ORDER BY 1, 2", "id:INT64 sku:STRING", ()),
        ("SELECT o.id, l.sku FROM lines AS l FULL JOIN orders AS o ON o.id = l.order_id AND l.qty > 3 ORDER BY 1, 2", "id:INT64 sku:STRING", ()),
        ("SELECT a.id, b.id AS other FROM orders AS a FULL JOIN orders AS b ON a.id = b.id + 7 ORDER BY 1, 2", "id:INT64 other:INT64", ()),
        ("SELECT o.id, c.name FROM orders AS o LEFT JOIN customers AS c ON c.id = o.customer AND c.region = @region ORDER BY 1, 2", "id:INT64 name:STRING", (REGION,)),
        ("SELECT COUNT(*) AS n FROM orders AS o FULL JOIN customers AS c ON FALSE", "n:INT64", ()),
        ("SELECT c.name, o.note FROM customers AS c RIGHT JOIN orders AS o ON o.customer = c.id AND o.paid RIGHT JOIN lines AS l ON l.order_id = o.id ORDER BY 1, 2", "name:STRING note:STRING", ()),
        ("SELECT x.id, x.name FROM (SELECT o.id AS id, c.name AS name FROM orders AS o LEFT JOIN customers AS c ON c.id = o.customer) AS x WHERE x.name IS NULL ORDER BY 1", "id:INT64 name:STRING", ()),
    ],
    "USING": [
        ("SELECT id, o.note, c.name FROM orders AS o JOIN customers AS c USING (id) ORDER BY id, 2, 3", "id:INT64 note:STRING name:STRING", ()),
        ("SELECT id FROM orders AS o FULL JOIN customers AS c USING (id) ORDER BY id", "id:INT64", ()),
        ("SELECT region, COUNT(*) AS n FROM orders FULL JOIN customers USING (region) GROUP BY region ORDER BY region", "region:STRING n:INT64", ()),
        ("SELECT region, id FROM orders LEFT JOIN customers USING (region, id) ORDER BY 1, 2", "region:STRING id:INT64", ()),
        ("SELECT id, region FROM customers RIGHT JOIN orders USING (id, region) ORDER BY 1, 2", "id:INT64 region:STRING", ()),
        ("SELECT COUNT(*) AS n FROM orders AS a JOIN orders AS b USING (region)", "n:INT64", ()),
        ("SELECT region FROM (SELECT region FROM orders) AS a FULL JOIN (SELECT region FROM customers) AS b USING (region) ORDER BY region", "region:STRING", ()),
        ("SELECT region, a.id FROM orders AS a JOIN customers AS b USING (region) WHERE region = @region ORDER BY 1, 2", "region:STRING id:INT64", (REGION,)),
    ],
    "common table expressions": [
        ("WITH big AS (SELECT id, region FROM orders WHERE amount > 4000) SELECT region, COUNT(*) AS n FROM big GROUP BY region ORDER BY region", "region:STRING n:INT64", ()),
        ("WITH a AS (SELECT id FROM orders), b AS (SELECT id FROM a WHERE id < 20) SELECT b.id, c.name FROM b JOIN customers AS c ON c.id = b.id ORDER BY 1, 2", "id:INT64 name:STRING", ()),
        ("WITH A AS (SELECT id FROM customers) SELECT o.id FROM orders AS o JOIN a ON a.id = o.customer ORDER BY 1", "id:INT64", ()),
        ("WITH a AS (SELECT id FROM orders) SELECT x.id, y.id AS other FROM a AS x JOIN a AS y ON y.id = x.id + 1 ORDER BY 1", "id:INT64 other:INT64", ()),
        ("WITH a AS (SELECT id FROM orders), b AS (SELECT id FROM customers) SELECT id FROM a UNION ALL SELECT id FROM b ORDER BY id", "id:INT64", ()),
        ("WITH unused AS (SELECT id FROM customers) SELECT id FROM orders ORDER BY id", "id:INT64", ()),
        ("SELECT x.n FROM (WITH a AS (SELECT id FROM orders) SELECT COUNT(*) AS n FROM a) AS x ORDER BY 1", "n:INT64", ()),
        ("SELECT c.id, (WITH a AS (SELECT customer FROM orders) SELECT COUNT(*) FROM a WHERE a.customer = c.id) AS n FROM customers AS c ORDER BY 1", "id:INT64 n:INT64", ()),
        ("WITH a AS (WITH b AS (SELECT id, region FROM orders) SELECT id FROM b WHERE region = @region) SELECT id FROM a ORDER BY id", "id:INT64", (REGION,)),
        ("WITH a AS (SELECT id FROM orders) SELECT id FROM (WITH a AS (SELECT id FROM customers) SELECT id FROM a) AS q UNION ALL SELECT id FROM a ORDER BY id", "id:INT64", ()),
        ("WITH a AS (SELECT id FROM orders), b AS (WITH a AS (SELECT id FROM customers) SELECT id FROM a) SELECT a.id, b.id AS other FROM a JOIN b ON b.id = a.id ORDER BY 1", "id:INT64 other:INT64", ()),
        ("WITH x AS (SELECT region, COUNT(*) AS n FROM orders GROUP BY region), y AS (SELECT region, COUNT(*) AS n FROM customers GROUP BY region) SELECT x.region, x.n, y.n AS m FROM x JOIN y ON y.region = x.region ORDER BY 1", "region:STRING n:INT64 m:INT64", ()),
        ("WITH o AS (SELECT id FROM customers) SELECT o.id FROM o ORDER BY 1", "id:INT64", ()),
        ("WITH `o-x` AS (SELECT id FROM orders) SELECT z.id FROM `o-x` AS z ORDER BY 1", "id:INT64", ()),
        ("WITH a AS (SELECT id FROM orders WHERE id IN (SELECT order_id FROM lines)) SELECT id FROM a WHERE id NOT IN (SELECT order_id FROM lines WHERE qty > 5) ORDER BY 1", "id:INT64", ()),
    ],
    "correlated subqueries": [
        ("SELECT c.id, (SELECT COUNT(*) FROM orders AS o WHERE o.customer = c.id) AS n FROM customers AS c ORDER BY 1", "id:INT64 n:INT64", ()),
        ("SELECT c.id, (SELECT MAX(l.price) FROM orders AS o JOIN lines AS l ON l.order_id = o.id WHERE o.customer = c.id) AS top FROM customers AS c ORDER BY 1", "id:INT64 top:NUMERIC", ()),
        ("SELECT o.id FROM orders AS o WHERE o.amount > (SELECT MIN(p.amount) FROM orders AS p WHERE p.region = o.region) ORDER BY 1", "id:INT64", ()),
        ("SELECT o.id FROM orders AS o WHERE o.id = (SELECT MAX(p.id) FROM orders AS p WHERE p.customer = o.customer) ORDER BY 1", "id:INT64", ()),
        ("SELECT c.id FROM customers AS c WHERE (SELECT COUNT(*) FROM orders AS o WHERE o.customer = c.id) > 2 ORDER BY 1", "id:INT64", ()),
        ("SELECT o.id, (SELECT c.name FROM customers AS c WHERE c.id = o.customer) AS name FROM orders AS o ORDER BY 1", "id:INT64 name:STRING", ()),
        ("SELECT c.id, CASE WHEN EXISTS (SELECT 1 FROM orders AS o WHERE o.customer = c.id) THEN 1 ELSE 0 END AS n FROM customers AS c ORDER BY 1", "id:INT64 n:INT64", ()),
        ("SELECT o.id FROM orders AS o WHERE EXISTS (SELECT 1 FROM lines AS l WHERE l.order_id = o.id AND EXISTS (SELECT 1 FROM customers AS c WHERE c.id = o.customer AND l.qty > 2)) ORDER BY 1", "id:INT64", ()),
        ("SELECT COUNT(*) AS n FROM orders WHERE customer IN (SELECT id FROM customers WHERE region = orders.region)", "n:INT64", ()),
        ("SELECT COALESCE((SELECT MAX(id) FROM orders), 0) AS a, COALESCE((SELECT MAX(id) FROM customers), 0) AS b", "a:INT64 b:INT64", ()),
    ],
    "anti-joins": [
        ("SELECT id FROM customers WHERE id IN (SELECT customer FROM orders WHERE paid) ORDER BY id", "id:INT64", ()),
        ("SELECT id FROM customers WHERE id NOT IN (SELECT customer FROM orders WHERE customer IS NOT NULL) ORDER BY id", "id:INT64", ()),
        ("SELECT id FROM customers WHERE id NOT IN (SELECT customer FROM orders) ORDER BY id", "id:INT64", ()),
        ("SELECT c.id FROM customers AS c WHERE EXISTS (SELECT 1 FROM orders AS o WHERE o.customer = c.id AND o.paid) ORDER BY 1", "id:INT64", ()),
        ("SELECT c.id FROM customers AS c WHERE NOT EXISTS (SELECT 1 FROM orders AS o WHERE o.customer = c.id) ORDER BY 1", "id:INT64", ()),
        ("SELECT id FROM orders WHERE NOT EXISTS (SELECT 1 FROM customers) ORDER BY id", "id:INT64", ()),
        ("SELECT l.sku FROM lines AS l WHERE l.order_id NOT IN (SELECT o.id FROM orders AS o WHERE o.region = @region) ORDER BY 1", "sku:STRING", (REGION,)),
        ("SELECT o.id FROM orders AS o WHERE o.region NOT IN (SELECT c.region FROM customers AS c WHERE c.region IS NOT NULL AND c.id < @number) ORDER BY 1", "id:INT64", (NUMBER,)),
        ("SELECT c.id FROM customers AS c LEFT JOIN (SELECT DISTINCT customer FROM orders) AS o ON o.customer = c.id WHERE o.customer IS NULL ORDER BY 1", "id:INT64", ()),
    ],
    "self-joins": [
        ("SELECT a.id, b.id AS other FROM orders AS a JOIN orders AS b ON a.customer = b.customer AND a.id < b.id ORDER BY 1, 2", "id:INT64 other:INT64", ()),
        ("SELECT a.id FROM orders AS a, orders AS b WHERE b.id = a.id + 1 ORDER BY 1", "id:INT64", ()),
        ("SELECT orders.id, b.note FROM orders JOIN orders AS b ON b.id = orders.id ORDER BY 1, 2", "id:INT64 note:STRING", ()),
        ("SELECT a.region, COUNT(*) AS n FROM orders AS a JOIN customers AS c ON c.region = a.region JOIN orders AS b ON b.customer = c.id GROUP BY a.region ORDER BY 1", "region:STRING n:INT64", ()),
        ("SELECT x.id FROM (SELECT id FROM orders) AS x JOIN orders AS y ON y.id = x.id JOIN (SELECT id FROM orders WHERE paid) AS z ON z.id = y.id ORDER BY 1", "id:INT64", ()),
        ("SELECT a.note, b.region FROM orders AS a LEFT JOIN orders AS b ON b.note = a.note ORDER BY 1, 2", "note:STRING region:STRING", ()),
    ],
    "set operations": [
        ("SELECT id FROM orders UNION ALL SELECT id FROM customers ORDER BY id", "id:INT64", ()),
        ("SELECT region FROM orders UNION DISTINCT SELECT region FROM customers ORDER BY region", "region:STRING", ()),
        ("SELECT id FROM customers EXCEPT DISTINCT SELECT customer AS id FROM orders ORDER BY id", "id:INT64", ()),
        ("SELECT id FROM customers INTERSECT DISTINCT SELECT customer AS id FROM orders ORDER BY id", "id:INT64", ()),
        ("SELECT x.id FROM (SELECT id FROM orders UNION ALL SELECT id FROM customers UNION ALL SELECT order_id AS id FROM lines) AS x ORDER BY 1", "id:INT64", ()),
        ("SELECT id, region FROM orders WHERE paid UNION ALL SELECT id, region FROM orders WHERE NOT paid ORDER BY 1, 2", "id:INT64 region:STRING", ()),
        ("SELECT COUNT(*) AS n FROM orders UNION ALL SELECT COUNT(*) AS n FROM customers ORDER BY n", "n:INT64", ()),
        ("SELECT id FROM customers WHERE id IN (SELECT customer FROM orders UNION ALL SELECT order_id AS customer FROM lines) ORDER BY 1", "id:INT64", ()),
        ("SELECT note AS t FROM orders EXCEPT DISTINCT SELECT name AS t FROM customers ORDER BY t", "t:STRING", ()),
        ("SELECT 1 AS id FROM orders UNION DISTINCT SELECT 2 AS id FROM customers ORDER BY id", "id:INT64", ()),
    ],
    "windows": [
        ("SELECT id, region, ROW_NUMBER() OVER (PARTITION BY region ORDER BY id) AS rn FROM orders QUALIFY rn <= 2 ORDER BY id", "id:INT64 region:STRING rn:INT64", ()),
        ("SELECT id, SUM(amount) OVER (PARTITION BY region ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s, LAG(note) OVER (ORDER BY id) AS before FROM orders ORDER BY id", "id:INT64 s:NUMERIC before:STRING", ()),
        ("SELECT id, COUNT(*) OVER () AS n FROM orders ORDER BY id", "id:INT64 n:INT64", ()),
        ("SELECT id, RANK() OVER (ORDER BY amount DESC) AS place FROM orders ORDER BY id", "id:INT64 place:INT64", ()),
        ("SELECT o.id, COUNT(*) OVER (PARTITION BY c.region) AS n FROM orders AS o LEFT JOIN customers AS c ON c.id = o.customer ORDER BY 1, 2", "id:INT64 n:INT64", ()),
        ("SELECT id FROM orders QUALIFY ROW_NUMBER() OVER (PARTITION BY orders.customer ORDER BY orders.id DESC) = 1 ORDER BY id", "id:INT64", ()),
        ("SELECT region, COUNT(*) AS n, RANK() OVER (ORDER BY COUNT(*) DESC) AS place FROM orders GROUP BY region ORDER BY 3, 1", "region:STRING n:INT64 place:INT64", ()),
        ("SELECT id, FIRST_VALUE(note) OVER (PARTITION BY region ORDER BY id) AS first FROM orders ORDER BY id", "id:INT64 first:STRING", ()),
        ("SELECT x.id FROM (SELECT id, LEAD(id) OVER (ORDER BY id) AS next FROM orders) AS x WHERE x.next > x.id + 1 ORDER BY 1", "id:INT64", ()),
        ("SELECT id, DENSE_RANK() OVER (ORDER BY region) AS place FROM orders WHERE id > @number ORDER BY id", "id:INT64 place:INT64", (NUMBER,)),
        ("SELECT id FROM customers QUALIFY COUNT(*) OVER (PARTITION BY customers.region) > 2 ORDER BY id", "id:INT64", ()),
    ],
    "grouping": [
        ("SELECT SUBSTR(region, 1, 1) AS region, COUNT(*) AS n FROM orders GROUP BY region ORDER BY region", "region:STRING n:INT64", ()),
        ("SELECT region, COUNT(*) AS n, SUM(amount) AS total FROM orders GROUP BY region HAVING n > 2 ORDER BY n DESC, region", "region:STRING n:INT64 total:NUMERIC", ()),
        ("SELECT region, MIN(day) AS first, MAX(note) AS note FROM orders GROUP BY 1 ORDER BY 1", "region:STRING first:DATE note:STRING", ()),
        ("SELECT x.region, x.n FROM (SELECT region, COUNT(*) AS n FROM orders GROUP BY region) AS x WHERE x.n > 1 ORDER BY 1", "region:STRING n:INT64", ()),
        ("SELECT region FROM orders GROUP BY region HAVING COUNT(*) > (SELECT COUNT(*) FROM customers) ORDER BY 1", "region:STRING", ()),
        ("SELECT region FROM orders GROUP BY region HAVING MAX(orders.id) IN (SELECT order_id FROM lines) ORDER BY 1", "region:STRING", ()),
        ("SELECT region FROM orders GROUP BY region HAVING EXISTS (SELECT 1 FROM customers AS c WHERE c.region = orders.region) ORDER BY 1", "region:STRING", ()),
        ("SELECT DISTINCT region, paid FROM orders ORDER BY region, paid", "region:STRING paid:BOOL", ()),
        ("SELECT COUNT(DISTINCT customer) AS n, COUNT(paid) AS p, COUNT(note) AS c FROM orders", "n:INT64 p:INT64 c:INT64", ()),
        ("SELECT paid AS region, COUNT(*) AS n FROM orders GROUP BY paid ORDER BY 1", "region:BOOL n:INT64", ()),
        ("SELECT o.region, COUNT(DISTINCT c.id) AS n FROM orders AS o JOIN customers AS c ON c.region = o.region GROUP BY o.region HAVING COUNT(*) > 1 ORDER BY 1", "region:STRING n:INT64", ()),
        ("SELECT CASE WHEN region = @region THEN 'here' ELSE note END AS k, COUNT(*) AS n FROM orders GROUP BY k ORDER BY k", "k:STRING n:INT64", (REGION,)),
    ],
    "no columns": [
        ("SELECT COUNT(*) AS n FROM orders", "n:INT64", ()),
        ("SELECT COUNT(*) AS n FROM orders AS a CROSS JOIN customers AS b", "n:INT64", ()),
        ("SELECT 1 AS one FROM orders ORDER BY 1", "one:INT64", ()),
        ("SELECT COUNT(*) AS n FROM customers WHERE EXISTS (SELECT 1 FROM orders)", "n:INT64", ()),
        ("SELECT c.id FROM customers AS c, orders AS o ORDER BY 1", "id:INT64", ()),
        ("SELECT COUNT(1) AS n FROM (SELECT 1 AS x FROM lines) AS q", "n:INT64", ()),
        ("SELECT c.id FROM customers AS c LEFT JOIN orders AS o ON TRUE ORDER BY 1", "id:INT64", ()),
    ],
    "names": [
        ("SELECT region.region FROM orders AS region ORDER BY 1", "region:STRING", ()),
        ("SELECT id.region AS id FROM orders AS id ORDER BY 1", "id:STRING", ()),
        ("SELECT region AS id, id AS region FROM orders ORDER BY 1, 2", "id:STRING region:INT64", ()),
        ("SELECT `region` AS `Region` FROM `orders` ORDER BY 1", "region:STRING", ()),
        ("SELECT b.note AS b FROM orders AS b ORDER BY 1", "b:STRING", ()),
        ("SELECT note AS region FROM orders WHERE region = @region ORDER BY 1", "region:STRING", (REGION,)),
        ("SELECT region AS id FROM orders WHERE id = 3 ORDER BY id", "id:STRING", ()),
        ("SELECT note AS customer FROM orders ORDER BY orders.customer, 1", "customer:STRING", ()),
        ("SELECT ORDERS_2.ID AS id FROM orders AS Orders_2 ORDER BY 1", "id:INT64", ()),
        ("SELECT c.name AS note, o.note AS name FROM orders AS o JOIN customers AS c ON c.id = o.customer ORDER BY 1, 2", "note:STRING name:STRING", ()),
        ("SELECT x.mask_hash FROM (SELECT note AS mask_hash FROM orders) AS x ORDER BY 1", "mask_hash:STRING", ()),
        ("SELECT s0.id, s0.region FROM orders AS s0 WHERE s0.region = @region OR s0.id = @number ORDER BY 1, 2", "id:INT64 region:STRING", (REGION, NUMBER)),
        ("SELECT data.id FROM orders AS data ORDER BY 1", "id:INT64", ()),
        ("SELECT q.orders AS id FROM (SELECT id AS orders FROM customers) AS q ORDER BY 1", "id:INT64", ()),
    ],
    "subqueries in every clause": [
        ("SELECT id FROM orders ORDER BY (SELECT MAX(c.id) FROM customers AS c WHERE c.region = orders.region), id", "id:INT64", ()),
        ("SELECT o.id FROM orders AS o JOIN customers AS c ON c.id = (SELECT MIN(d.id) FROM customers AS d WHERE d.region = o.region) ORDER BY 1", "id:INT64", ()),
        ("SELECT IF((SELECT COUNT(*) FROM lines) > 100, 'many', 'few') AS k, id FROM orders ORDER BY 2", "k:STRING id:INT64", ()),
        ("SELECT id FROM orders WHERE id BETWEEN (SELECT MIN(order_id) FROM lines) AND (SELECT MAX(id) FROM customers) ORDER BY 1", "id:INT64", ()),
        ("SELECT id FROM orders QUALIFY ROW_NUMBER() OVER (ORDER BY id) <= (SELECT COUNT(*) FROM customers) ORDER BY id", "id:INT64", ()),
        ("SELECT id, COALESCE(note, (SELECT MAX(name) FROM customers)) AS t FROM orders ORDER BY 1", "id:INT64 t:STRING", ()),
        ("SELECT region, SUM(CASE WHEN customer IN (SELECT id FROM customers) THEN 1 ELSE 0 END) AS n FROM (SELECT region, customer FROM orders) AS q GROUP BY region ORDER BY 1", "region:STRING n:INT64", ()),
        ("SELECT x.id FROM (SELECT y.id FROM (SELECT z.id FROM (SELECT id FROM orders) AS z) AS y) AS x ORDER BY 1", "id:INT64", ()),
    ],
    "filters that a caller opens": [
        ("SELECT id FROM orders WHERE region = @region OR TRUE ORDER BY id", "id:INT64", (REGION,)),
        ("SELECT id, region FROM orders WHERE @maybe IS NULL OR region = @maybe ORDER BY id", "id:INT64 region:STRING", (MAYBE,)),
        ("SELECT id FROM orders WHERE region IN UNNEST(@regions) ORDER BY id DESC LIMIT 7", "id:INT64", (REGIONS,)),
        ("SELECT id FROM orders WHERE NOT (region = @region) ORDER BY id", "id:INT64", (REGION,)),
        ("SELECT id, note FROM orders ORDER BY note DESC, id LIMIT 5", "id:INT64 note:STRING", ()),
        ("SELECT id FROM orders ORDER BY id LIMIT @cut OFFSET @number", "id:INT64", (CUT, NUMBER)),
        ("SELECT id FROM orders WHERE (id = 1 OR id = 2 AND region = @region) OR paid ORDER BY id", "id:INT64", (REGION,)),
        ("SELECT id FROM orders WHERE region IS NULL ORDER BY id", "id:INT64", ()),
        ("SELECT id FROM orders WHERE note IS NOT DISTINCT FROM @maybe ORDER BY id", "id:INT64", (MAYBE,)),
        ("SELECT region, note FROM orders WHERE note < 'f' ORDER BY 1, 2", "region:STRING note:STRING", ()),
    ],
}
# fmt: on
ESCAPES: Final = tuple(
    Escape(kind, sql, results, parameters) for kind, written in _WRITTEN.items() for sql, results, parameters in written
)

# fmt: off
_ORDINARY: Final[list[tuple[str, str]]] = [
    ("SELECT region, AVG(amount) AS mean FROM orders GROUP BY 1 ORDER BY 1", "region:STRING mean:NUMERIC"),
    ("SELECT id, AVG(amount) OVER (PARTITION BY region) AS m FROM orders ORDER BY id", "id:INT64 m:NUMERIC"),
    ("SELECT STRING_AGG(note, '|' ORDER BY note) AS notes FROM orders", "notes:STRING"),
    ("SELECT region, ROUND(AVG(score), 6) AS m, ROUND(STDDEV_SAMP(score), 6) AS sd FROM orders GROUP BY region ORDER BY region", "region:STRING m:FLOAT64 sd:FLOAT64"),
    ("SELECT id, PERCENTILE_CONT(score, 0.5) OVER (PARTITION BY region) AS median FROM orders ORDER BY id", "id:INT64 median:FLOAT64"),
    ("SELECT id, CASE WHEN note LIKE '%\\\\_%' THEN 'u' WHEN note LIKE '50\\\\%' THEN 'p' ELSE note END AS k FROM orders ORDER BY id", "id:INT64 k:STRING"),
    ("SELECT o.id, l.sku, l.qty * l.price AS cost FROM orders AS o, lines AS l WHERE l.order_id = o.id AND l.qty > 5 ORDER BY 1, 2, 3", "id:INT64 sku:STRING cost:NUMERIC"),
    ("SELECT DATE(`at`) AS d, COUNT(*) AS n FROM orders GROUP BY d ORDER BY d", "d:DATE n:INT64"),
    ("SELECT DATE_TRUNC(day, MONTH) AS m, SUM(amount) AS s FROM orders GROUP BY m ORDER BY m", "m:DATE s:NUMERIC"),
    ("SELECT COUNTIF(paid) AS p, LOGICAL_OR(paid) AS q FROM orders", "p:INT64 q:BOOL"),
    ("SELECT id, region, customer, amount, score, day, `at`, paid, note FROM orders ORDER BY id", "id:INT64 region:STRING customer:INT64 amount:NUMERIC score:FLOAT64 day:DATE at:TIMESTAMP paid:BOOL note:STRING"),
    ("SELECT id FROM orders ORDER BY region DESC LIMIT 9", "id:INT64"),
]
# fmt: on
ORDINARY: Final = tuple(Escape("ordinary", sql, results) for sql, results in _ORDINARY)
"""What an ordinary transpile would not mean alike."""

REFUSED: Final = (
    "WITH orders AS (SELECT 1 AS id) SELECT id FROM orders ORDER BY id",
    "WITH Orders AS (SELECT id FROM customers) SELECT id FROM orders ORDER BY id",
    "SELECT id FROM (WITH orders AS (SELECT id FROM customers) SELECT id FROM orders) AS q ORDER BY id",
    "SELECT id FROM customers AS orders ORDER BY id",
    "SELECT q.id FROM (SELECT id FROM customers) AS orders ORDER BY 1",
    "SELECT id FROM __data.orders ORDER BY id",
    "SELECT id FROM `__data.orders` ORDER BY id",
    "SELECT id FROM shop.orders ORDER BY id",
    "SELECT id FROM `p.shop.orders` ORDER BY id",
    "SELECT id FROM secrets ORDER BY id",
    "SELECT 1 AS id FROM secrets",
    "SELECT COUNT(*) AS id FROM orders WHERE EXISTS (SELECT 1 FROM secrets)",
    "SELECT o AS id FROM orders AS o ORDER BY 1",
    "SELECT TO_JSON_STRING(o) AS id FROM orders AS o ORDER BY 1",
    "SELECT * FROM orders ORDER BY id",
    "SELECT o.* FROM orders AS o ORDER BY id",
    "SELECT id FROM orders NATURAL JOIN customers ORDER BY id",
    "SELECT a AS id FROM orders AS o(a, b) ORDER BY 1",
    "SELECT id FROM orders FOR SYSTEM_TIME AS OF CURRENT_TIMESTAMP() ORDER BY id",
    "SELECT id FROM orders TABLESAMPLE SYSTEM (10 PERCENT) ORDER BY id",
    "SELECT id FROM orders WHERE id = (SELECT MAX(_b.id) FROM orders) ORDER BY id",
    "SELECT _b.id AS id FROM orders AS _b ORDER BY 1",
    "SELECT id FROM INFORMATION_SCHEMA.TABLES ORDER BY id",
    "SELECT id FROM `orders*` ORDER BY id",
    "SELECT id FROM orders, LATERAL (SELECT 1 AS x) ORDER BY id",
    "SELECT id FROM query('SELECT 1') ORDER BY id",
    "SELECT id FROM (orders JOIN customers USING (id)) ORDER BY id",
    "SELECT id FROM orders PIVOT (COUNT(note) FOR region IN ('EU')) ORDER BY id",
    "SELECT @__s0 AS id FROM orders ORDER BY 1",
    "SELECT @__k AS id FROM orders ORDER BY 1",
    "SELECT id FROM orders ORDER BY id; SELECT id FROM customers",
    "SELECT id FROM 'orders.parquet' ORDER BY id",
)
"""What no rewriting could be trusted with, so that it never loads; each returns ``id``."""
