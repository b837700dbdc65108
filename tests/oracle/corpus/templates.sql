--- join of two tables
SELECT o.id, c.name, o.amount FROM orders AS o JOIN customers AS c ON c.id = o.customer ORDER BY o.id
--- left join keeps the unmatched
SELECT o.id, c.name FROM orders AS o LEFT JOIN customers AS c ON c.id = o.customer ORDER BY o.id
--- right join
SELECT c.id, COUNT(o.id) AS orders FROM orders AS o RIGHT JOIN customers AS c ON c.id = o.customer GROUP BY c.id ORDER BY c.id
--- full join
SELECT s.sku AS stocked, x.sku AS sold FROM stock AS s FULL JOIN (SELECT DISTINCT l.sku FROM orders AS o, UNNEST(o.lines) AS l) AS x ON x.sku = s.sku ORDER BY 1, 2
--- full join using
SELECT sku, s.on_hand, x.n FROM stock AS s FULL JOIN (SELECT l.sku, COUNT(*) AS n FROM orders AS o, UNNEST(o.lines) AS l GROUP BY l.sku) AS x USING (sku) ORDER BY sku
--- left join using
SELECT id, a.region, b.n FROM customers AS a LEFT JOIN (SELECT customer AS id, COUNT(*) AS n FROM orders GROUP BY customer) AS b USING (id) ORDER BY id
--- cross join
SELECT a.sku AS one, b.sku AS other FROM stock AS a CROSS JOIN stock AS b WHERE a.sku < b.sku ORDER BY 1, 2
--- join on an inequality
SELECT o.id, COUNT(p.id) AS later FROM orders AS o LEFT JOIN orders AS p ON p.customer = o.customer AND p.placed > o.placed GROUP BY o.id ORDER BY o.id
--- self join
SELECT a.id AS first, b.id AS second FROM orders AS a JOIN orders AS b ON a.customer = b.customer AND a.id < b.id ORDER BY 1, 2
--- three tables
SELECT c.region, l.sku, SUM(l.qty) AS qty FROM customers AS c JOIN orders AS o ON o.customer = c.id CROSS JOIN UNNEST(o.lines) AS l GROUP BY c.region, l.sku ORDER BY 1, 2
--- join on null keys finds nothing
SELECT a.id FROM orders AS a JOIN orders AS b ON a.region = b.region AND a.id = b.id ORDER BY a.id
--- join with a condition on constants
SELECT o.id FROM orders AS o JOIN customers AS c ON c.id = o.customer AND c.region = 'EU' ORDER BY o.id
--- group by one column
SELECT region, COUNT(*) AS n, SUM(amount) AS amount FROM orders GROUP BY region ORDER BY region
--- group by an expression
SELECT EXTRACT(MONTH FROM day) AS month, COUNT(*) AS n FROM orders GROUP BY EXTRACT(MONTH FROM day) ORDER BY 1
--- group by an alias
SELECT DATE_TRUNC(day, MONTH) AS month, AVG(amount) AS amount FROM orders GROUP BY month ORDER BY month
--- group by an alias that hides a column
SELECT SUBSTR(region, 1, 1) AS region, COUNT(*) AS n FROM orders GROUP BY region ORDER BY region
--- group by a number
SELECT paid, region, COUNT(*) AS n FROM orders GROUP BY 1, 2 ORDER BY 1, 2
--- group by two columns with having
SELECT region, paid, COUNT(*) AS n FROM orders GROUP BY region, paid HAVING COUNT(*) > 2 ORDER BY region, paid
--- having by an alias
SELECT region, SUM(amount) AS amount FROM orders GROUP BY region HAVING amount > 10 ORDER BY region
--- aggregates of everything
SELECT COUNT(*) AS a, COUNT(amount) AS b, COUNT(DISTINCT region) AS c, SUM(amount) AS d, AVG(amount) AS e, MIN(amount) AS f, MAX(amount) AS g, COUNTIF(paid) AS h, LOGICAL_AND(paid) AS i, LOGICAL_OR(paid) AS j FROM orders
--- aggregates of nothing
SELECT COUNT(*) AS a, SUM(amount) AS b, AVG(score) AS c, MAX(note) AS d, COUNTIF(paid) AS e, LOGICAL_AND(paid) AS f, STRING_AGG(note, ',' ORDER BY note) AS g FROM orders WHERE id < 0
--- aggregates of nulls
SELECT SUM(i) AS a, AVG(i) AS b, MIN(i) AS c, BIT_AND(i) AS d, COUNT(i) AS e FROM edges WHERE k = 9
--- sum of floats
SELECT region, SUM(score) AS total, AVG(score) AS mean FROM orders GROUP BY region ORDER BY region
--- minimum and maximum of each type
SELECT MIN(i) AS a, MAX(i) AS b, MIN(f) AS c, MAX(f) AS d, MIN(n) AS e, MAX(n) AS f, MIN(s) AS g, MAX(s) AS h, MIN(b) AS i, MAX(b) AS j, MIN(d) AS k, MAX(d) AS l, MIN(dt) AS m, MAX(dt) AS n, MIN(tm) AS o, MAX(tm) AS p, MIN(ts) AS q, MAX(ts) AS r, MIN(y) AS s, MAX(y) AS t FROM edges
--- sum of integers overflows
SELECT SUM(i) AS total FROM edges WHERE i > 0
--- sum of integers
SELECT SUM(i) AS total, AVG(i) AS mean FROM edges WHERE i BETWEEN -10 AND 10
--- sum of numerics overflows
SELECT SUM(n) AS total FROM edges WHERE n > 0
--- average of numerics rounds
SELECT AVG(n) AS mean FROM edges WHERE n BETWEEN -10 AND 10
--- distinct aggregates
SELECT COUNT(DISTINCT customer) AS a, SUM(DISTINCT customer) AS b, AVG(DISTINCT customer) AS c, SUM(DISTINCT amount) AS d FROM orders
--- bits
SELECT BIT_AND(id) AS a, BIT_OR(id) AS b, BIT_XOR(id) AS c FROM orders WHERE id > 5
--- spread, rounded
SELECT region, ROUND(STDDEV(score), 6) AS a, ROUND(STDDEV_POP(score), 6) AS b, ROUND(VARIANCE(score), 6) AS c, ROUND(VAR_POP(score), 6) AS d FROM orders GROUP BY region ORDER BY region
--- spread of one value
SELECT STDDEV(i) AS a, STDDEV_POP(i) AS b, VAR_SAMP(i) AS c FROM edges WHERE k = 3
--- correlation, rounded
SELECT ROUND(CORR(score, id), 6) AS a, ROUND(COVAR_POP(score, id), 6) AS b, ROUND(COVAR_SAMP(score, id), 6) AS c FROM orders WHERE score IS NOT NULL
--- string_agg
SELECT region, STRING_AGG(note, '|' ORDER BY id) AS notes FROM orders GROUP BY region ORDER BY region
--- string_agg descending with a limit
SELECT region, STRING_AGG(note, '|' ORDER BY id DESC LIMIT 3) AS notes FROM orders GROUP BY region ORDER BY region
--- string_agg of distinct values
SELECT STRING_AGG(DISTINCT region, ',' ORDER BY region) AS regions FROM orders
--- string_agg of distinct values with a limit
SELECT STRING_AGG(DISTINCT note, ',' ORDER BY note DESC LIMIT 2) AS notes FROM orders
--- string_agg with the usual separator
SELECT STRING_AGG(CAST(id AS STRING) ORDER BY id) AS ids FROM orders WHERE id < 6
--- countif
SELECT region, COUNTIF(amount > 1000) AS large, COUNTIF(paid) / COUNT(*) AS share FROM orders GROUP BY region ORDER BY region
--- conditional sums
SELECT SUM(IF(paid, amount, 0)) AS paid, SUM(CASE WHEN NOT paid THEN amount END) AS unpaid FROM orders
--- aggregate of an aggregate
SELECT MAX(n) AS most FROM (SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer) AS x
--- rollup
SELECT region, paid, COUNT(*) AS n FROM orders GROUP BY ROLLUP(region, paid) ORDER BY 1, 2, 3
--- cube
SELECT region, paid, COUNT(*) AS n FROM orders GROUP BY CUBE(region, paid) ORDER BY 1, 2, 3
--- grouping sets
SELECT region, paid, COUNT(*) AS n FROM orders GROUP BY GROUPING SETS ((region), (paid), ()) ORDER BY 1, 2, 3
--- group by all
SELECT region, COUNT(*) AS n FROM orders GROUP BY ALL ORDER BY region
--- distinct rows
SELECT DISTINCT region, paid FROM orders ORDER BY region, paid
--- distinct floats
SELECT DISTINCT f FROM edges ORDER BY f
--- group by float
SELECT score, COUNT(*) AS n FROM orders GROUP BY score ORDER BY score
--- group by date and timestamp
SELECT DATE(placed, 'America/New_York') AS day, COUNT(*) AS n FROM orders GROUP BY day ORDER BY day
--- group by bytes
SELECT y, COUNT(*) AS n FROM edges GROUP BY y ORDER BY y
--- row_number
SELECT id, ROW_NUMBER() OVER (PARTITION BY region ORDER BY placed, id) AS n FROM orders ORDER BY id
--- rank and dense_rank
SELECT id, RANK() OVER (ORDER BY customer) AS r, DENSE_RANK() OVER (ORDER BY customer DESC) AS d FROM orders ORDER BY id
--- percent_rank and cume_dist
SELECT id, PERCENT_RANK() OVER (ORDER BY customer) AS p, CUME_DIST() OVER (ORDER BY customer) AS c FROM orders ORDER BY id
--- ntile
SELECT id, NTILE(4) OVER (ORDER BY id) AS n, NTILE(3) OVER (PARTITION BY region ORDER BY id) AS m FROM orders ORDER BY id
--- lag and lead
SELECT id, LAG(amount) OVER (ORDER BY id) AS before, LEAD(amount, 2) OVER (ORDER BY id) AS after, LAG(id, 1, 0) OVER (PARTITION BY region ORDER BY id) AS prior FROM orders ORDER BY id
--- first and last values
SELECT id, FIRST_VALUE(amount) OVER (PARTITION BY region ORDER BY id) AS a, LAST_VALUE(amount) OVER (PARTITION BY region ORDER BY id) AS b, LAST_VALUE(id) OVER (PARTITION BY region ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS c FROM orders ORDER BY id
--- nth value
SELECT id, NTH_VALUE(id, 2) OVER (PARTITION BY region ORDER BY id) AS a, NTH_VALUE(amount, 3) OVER (ORDER BY id ROWS BETWEEN 2 PRECEDING AND 2 FOLLOWING) AS b FROM orders ORDER BY id
--- ignore nulls
SELECT id, FIRST_VALUE(region IGNORE NULLS) OVER (ORDER BY id) AS a, LAST_VALUE(region IGNORE NULLS) OVER (ORDER BY id) AS b, LAST_VALUE(region RESPECT NULLS) OVER (ORDER BY id) AS c, NTH_VALUE(region, 2 IGNORE NULLS) OVER (ORDER BY id) AS d FROM orders ORDER BY id
--- running totals
SELECT id, SUM(amount) OVER (ORDER BY id) AS total, COUNT(*) OVER (ORDER BY id) AS n, AVG(amount) OVER (ORDER BY id) AS mean FROM orders ORDER BY id
--- moving windows
SELECT id, SUM(score) OVER (ORDER BY id ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS a, AVG(amount) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS b, MIN(score) OVER (ORDER BY id ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS c FROM orders ORDER BY id
--- windows that may be empty
SELECT id, SUM(id) OVER (ORDER BY id ROWS BETWEEN 5 PRECEDING AND 3 PRECEDING) AS a, COUNT(*) OVER (ORDER BY id ROWS BETWEEN 2 FOLLOWING AND 3 FOLLOWING) AS b, COUNTIF(paid) OVER (ORDER BY id ROWS BETWEEN 5 PRECEDING AND 3 PRECEDING) AS c FROM orders ORDER BY id
--- range of peers
SELECT id, SUM(id) OVER (ORDER BY customer RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS a, COUNT(*) OVER (ORDER BY customer RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS b FROM orders ORDER BY id
--- range by numbers
SELECT id, SUM(id) OVER (ORDER BY customer RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS a FROM orders ORDER BY id
--- range by numbers descending
SELECT id, SUM(id) OVER (ORDER BY customer DESC RANGE BETWEEN 3 PRECEDING AND 2 PRECEDING) AS a, COUNT(*) OVER (ORDER BY customer NULLS LAST RANGE BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS b FROM orders ORDER BY id
--- range by the days of a date
SELECT id, SUM(amount) OVER (PARTITION BY region ORDER BY UNIX_DATE(day) RANGE BETWEEN 30 PRECEDING AND CURRENT ROW) AS month FROM orders ORDER BY id
--- range over a float
SELECT id, COUNT(*) OVER (ORDER BY score RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) AS n FROM orders ORDER BY id
--- whole partitions
SELECT id, SUM(amount) OVER (PARTITION BY region) AS total, COUNT(DISTINCT customer) OVER (PARTITION BY region) AS customers, MAX(placed) OVER () AS last FROM orders ORDER BY id
--- share of a total
SELECT id, ROUND(SAFE_DIVIDE(amount, SUM(amount) OVER (PARTITION BY region)), 6) AS share FROM orders ORDER BY id
--- percentile
SELECT DISTINCT region, PERCENTILE_CONT(score, 0.5) OVER (PARTITION BY region) AS median FROM orders ORDER BY region
--- other aggregates over windows
SELECT id, BIT_OR(id) OVER (ORDER BY id) AS a, LOGICAL_OR(paid) OVER (PARTITION BY region ORDER BY id) AS b, ROUND(STDDEV(score) OVER (PARTITION BY region), 6) AS c FROM orders ORDER BY id
--- named windows
SELECT id, SUM(amount) OVER w AS a, COUNT(*) OVER (w ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS b, MIN(id) OVER v AS c FROM orders WINDOW w AS (PARTITION BY region ORDER BY id), v AS (PARTITION BY paid) ORDER BY id
--- a window that builds on another
SELECT id, RANK() OVER v AS r FROM orders WINDOW w AS (PARTITION BY region), v AS (w ORDER BY customer) ORDER BY id
--- windows order nulls first
SELECT id, ROW_NUMBER() OVER (ORDER BY amount, id) AS up, ROW_NUMBER() OVER (ORDER BY amount DESC, id) AS down, ROW_NUMBER() OVER (ORDER BY amount ASC NULLS LAST, id) AS last FROM orders ORDER BY id
--- partition by float
SELECT id, COUNT(*) OVER (PARTITION BY score) AS n FROM orders ORDER BY id
--- qualify
SELECT id, region FROM orders WHERE TRUE QUALIFY ROW_NUMBER() OVER (PARTITION BY region ORDER BY amount DESC, id) = 1 ORDER BY id
--- qualify by an alias
SELECT id, region, RANK() OVER (PARTITION BY region ORDER BY amount DESC) AS r FROM orders WHERE TRUE QUALIFY r <= 2 ORDER BY region, r, id
--- qualify after group by
SELECT region, SUM(amount) AS total FROM orders GROUP BY region HAVING COUNT(*) > 1 QUALIFY RANK() OVER (ORDER BY SUM(amount) DESC) <= 2 ORDER BY region
--- window over aggregates
SELECT region, SUM(amount) AS total, SUM(SUM(amount)) OVER (ORDER BY region) AS running FROM orders GROUP BY region ORDER BY region
--- common table expression
WITH big AS (SELECT id, amount FROM orders WHERE amount > 3000) SELECT COUNT(*) AS n, SUM(amount) AS total FROM big
--- common table expressions that use one another
WITH a AS (SELECT customer, SUM(amount) AS total FROM orders GROUP BY customer), b AS (SELECT AVG(total) AS mean FROM a) SELECT a.customer, a.total FROM a CROSS JOIN b WHERE a.total > b.mean ORDER BY 1
--- a common table expression used twice
WITH r AS (SELECT region, COUNT(*) AS n FROM orders GROUP BY region) SELECT a.region, a.n, b.n AS other FROM r AS a JOIN r AS b ON a.n > b.n ORDER BY 1, 3
--- nested common table expressions
WITH outerone AS (WITH innerone AS (SELECT id FROM orders WHERE id < 5) SELECT id + 1 AS id FROM innerone) SELECT id FROM outerone ORDER BY id
--- a shadowed common table expression
WITH x AS (SELECT 1 AS a) SELECT a, (WITH x AS (SELECT 2 AS a) SELECT a FROM x) AS b FROM x
--- recursive
WITH RECURSIVE n AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM n WHERE x < 5) SELECT x FROM n ORDER BY x
--- scalar subquery
SELECT id, (SELECT MAX(amount) FROM orders) AS most FROM orders WHERE id < 4 ORDER BY id
--- correlated scalar subquery
SELECT c.id, (SELECT COUNT(*) FROM orders AS o WHERE o.customer = c.id) AS n FROM customers AS c ORDER BY c.id
--- correlated subquery that finds nothing
SELECT c.id, (SELECT MAX(o.amount) FROM orders AS o WHERE o.customer = c.id AND o.amount > 8000) AS most FROM customers AS c ORDER BY c.id
--- scalar subquery of several rows fails
SELECT id, (SELECT o.id FROM orders AS o) AS x FROM customers ORDER BY id
--- exists
SELECT c.id FROM customers AS c WHERE EXISTS (SELECT 1 FROM orders AS o WHERE o.customer = c.id AND o.paid) ORDER BY c.id
--- not exists
SELECT c.id FROM customers AS c WHERE NOT EXISTS (SELECT 1 FROM orders AS o WHERE o.customer = c.id) ORDER BY c.id
--- in a subquery
SELECT id FROM customers WHERE id IN (SELECT customer FROM orders WHERE paid) ORDER BY id
--- not in a subquery with nulls finds nothing
SELECT id FROM customers WHERE id NOT IN (SELECT customer FROM orders) ORDER BY id
--- in a correlated subquery
SELECT o.id FROM orders AS o WHERE o.region IN (SELECT c.region FROM customers AS c WHERE c.id = o.customer) ORDER BY o.id
--- subquery in having
SELECT region, COUNT(*) AS n FROM orders GROUP BY region HAVING COUNT(*) > (SELECT COUNT(*) / 4 FROM orders) ORDER BY region
--- subquery in from
SELECT x.region, x.n FROM (SELECT region, COUNT(*) AS n FROM orders GROUP BY region) AS x WHERE x.n > 5 ORDER BY 1
--- deep subqueries
SELECT id FROM customers WHERE id IN (SELECT customer FROM orders WHERE amount > (SELECT AVG(amount) FROM orders WHERE region = 'EU')) ORDER BY id
--- union all
SELECT id, 'order' AS kind FROM orders WHERE id < 3 UNION ALL SELECT id, 'customer' AS kind FROM customers WHERE id < 3 ORDER BY kind, id
--- union distinct
SELECT region FROM orders UNION DISTINCT SELECT region FROM customers ORDER BY region
--- intersect distinct
SELECT region FROM orders INTERSECT DISTINCT SELECT region FROM customers WHERE id < 5 ORDER BY region
--- except distinct
SELECT id FROM customers EXCEPT DISTINCT SELECT customer FROM orders ORDER BY id
--- union of different numbers
SELECT 1 AS x UNION ALL SELECT 2.5 ORDER BY x
--- union of three
SELECT 1 AS x UNION ALL SELECT 2 UNION ALL SELECT 2 ORDER BY x
--- nested set operations
(SELECT 1 AS x UNION ALL SELECT 2) EXCEPT DISTINCT SELECT 2 ORDER BY x
--- union in a common table expression
WITH u AS (SELECT region FROM orders UNION ALL SELECT region FROM customers) SELECT region, COUNT(*) AS n FROM u GROUP BY region ORDER BY region
--- order by several columns
SELECT id, region, amount FROM orders ORDER BY region DESC, amount, id LIMIT 10
--- order by nulls
SELECT id, amount FROM orders ORDER BY amount DESC NULLS FIRST, id LIMIT 6
--- order by an expression
SELECT id FROM orders ORDER BY ABS(id - 20), id LIMIT 5
--- order by a column that is not shown
SELECT note FROM orders WHERE note IS NOT NULL ORDER BY id LIMIT 5
--- order by each type
SELECT k FROM edges ORDER BY f, k
--- order by text
SELECT k, s FROM edges ORDER BY s DESC, k
--- order by bytes
SELECT k FROM edges ORDER BY y, k
--- order by an alias that hides a column
SELECT -id AS id FROM orders WHERE id < 6 ORDER BY id
--- limit and offset
SELECT id FROM orders ORDER BY id LIMIT 5 OFFSET 10
--- limit zero
SELECT id FROM orders ORDER BY id LIMIT 0
--- paging by parameters
-- param {"name": "size", "type": "INT64", "minimum": 0, "maximum": 100} = 4
-- param {"name": "skip", "type": "INT64", "minimum": 0, "maximum": 1000} = 8
SELECT id FROM orders ORDER BY id LIMIT @size OFFSET @skip
--- an optional filter that is absent
-- param {"name": "region", "type": "STRING", "nullable": true} = null
SELECT id FROM orders WHERE @region IS NULL OR region = @region ORDER BY id
--- an optional filter that is there
-- param {"name": "region", "type": "STRING", "nullable": true} = "EU"
SELECT id FROM orders WHERE @region IS NULL OR region = @region ORDER BY id
--- parameters of every type
-- param {"name": "i", "type": "INT64"} = 7
-- param {"name": "f", "type": "FLOAT64"} = 1.5
-- param {"name": "n", "type": "NUMERIC"} = "2.5"
-- param {"name": "s", "type": "STRING"} = "añb"
-- param {"name": "b", "type": "BOOL"} = true
-- param {"name": "d", "type": "DATE"} = "2024-02-29"
-- param {"name": "dt", "type": "DATETIME"} = "2024-02-29T12:00:00"
-- param {"name": "tm", "type": "TIME"} = "12:34:56"
-- param {"name": "ts", "type": "TIMESTAMP"} = "2024-03-31T01:00:00Z"
SELECT @i + 1 AS i, @f * 2 AS f, @n / 3 AS n, UPPER(@s) AS s, NOT @b AS b, DATE_ADD(@d, INTERVAL 1 YEAR) AS d, DATETIME_TRUNC(@dt, MONTH) AS dt, TIME_ADD(@tm, INTERVAL 1 HOUR) AS tm, STRING(@ts, 'Europe/Berlin') AS ts
--- null parameters
-- param {"name": "i", "type": "INT64", "nullable": true} = null
-- param {"name": "s", "type": "STRING", "nullable": true} = null
SELECT @i + 1 AS i, COALESCE(@i, 5) AS j, @s || 'x' AS s, CONCAT('a', @s) AS t, @i IS NULL AS u
--- a range of dates
-- param {"name": "start", "type": "DATE"} = "2024-01-01"
-- param {"name": "end_day", "type": "DATE"} = "2024-02-29"
SELECT id, day FROM orders WHERE day BETWEEN @start AND @end_day ORDER BY id
--- in an array parameter
-- param {"name": "regions", "type": "STRING", "repeated": true} = ["EU", "US"]
SELECT id FROM orders WHERE region IN UNNEST(@regions) ORDER BY id
--- in an empty array parameter
-- param {"name": "regions", "type": "STRING", "repeated": true} = []
SELECT id FROM orders WHERE region IN UNNEST(@regions) ORDER BY id
--- not in an array parameter
-- param {"name": "ids", "type": "INT64", "repeated": true} = [1, 2, 3]
SELECT id FROM orders WHERE id NOT IN UNNEST(@ids) ORDER BY id
--- an array parameter unnested
-- param {"name": "ids", "type": "INT64", "repeated": true} = [3, 5, 99]
SELECT x, o.amount FROM UNNEST(@ids) AS x LEFT JOIN orders AS o ON o.id = x ORDER BY x
--- a struct parameter
-- param {"name": "box", "type": "STRUCT", "fields": [{"name": "low", "type": "INT64"}, {"name": "high", "type": "INT64"}]} = {"low": 3, "high": 6}
SELECT id FROM orders WHERE id BETWEEN @box.low AND @box.high ORDER BY id
--- a moving average per customer
-- param {"name": "least", "type": "INT64"} = 2
WITH c AS (SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer) SELECT o.id, AVG(o.amount) OVER (PARTITION BY o.customer ORDER BY o.placed, o.id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS mean FROM orders AS o JOIN c ON c.customer = o.customer WHERE c.n >= @least ORDER BY o.id
--- unnest of a column of text
SELECT o.id, t AS tag FROM orders AS o, UNNEST(o.tags) AS t ORDER BY o.id, tag
--- unnest of a column of structs
SELECT o.id, l.sku, l.qty * l.price AS cost FROM orders AS o CROSS JOIN UNNEST(o.lines) AS l ORDER BY o.id, l.sku, cost
--- left join of an unnest
SELECT o.id, t AS tag FROM orders AS o LEFT JOIN UNNEST(o.tags) AS t ORDER BY o.id, tag
--- unnest with offset
SELECT o.id, t AS tag, pos FROM orders AS o, UNNEST(o.tags) AS t WITH OFFSET AS pos ORDER BY o.id, pos
--- unnest of a literal
SELECT x FROM UNNEST([3, 1, 2]) AS x ORDER BY x
--- unnest of a literal with offset
SELECT x, o FROM UNNEST(['a', 'b', 'c']) AS x WITH OFFSET AS o ORDER BY o DESC
--- unnest of generated numbers
SELECT x, x * x AS square FROM UNNEST(GENERATE_ARRAY(1, 5)) AS x ORDER BY x
--- unnest of generated dates fills gaps
SELECT d, COUNT(o.id) AS n FROM UNNEST(GENERATE_DATE_ARRAY(DATE '2024-01-01', DATE '2024-01-14')) AS d LEFT JOIN orders AS o ON o.day = d GROUP BY d ORDER BY d
--- aggregates of an unnest in a subquery
SELECT o.id, (SELECT SUM(l.qty * l.price) FROM UNNEST(o.lines) AS l) AS total, (SELECT COUNT(*) FROM UNNEST(o.tags) AS t) AS tags FROM orders AS o ORDER BY o.id
--- exists over an unnest
SELECT o.id FROM orders AS o WHERE EXISTS (SELECT 1 FROM UNNEST(o.lines) AS l WHERE l.qty > 5) ORDER BY o.id
--- in unnest of a column
SELECT id FROM orders WHERE 'vip' IN UNNEST(tags) ORDER BY id
--- array columns as they are
SELECT id, tags, lines FROM orders WHERE id < 10 ORDER BY id
--- struct columns as they are
SELECT id, ship, ship.city AS city FROM orders ORDER BY id
--- fields of structs in conditions
SELECT id FROM orders WHERE ship.city = 'Berlin' ORDER BY id
--- group by a field
SELECT ship.zip AS zip, COUNT(*) AS n FROM orders GROUP BY ship.zip ORDER BY zip
--- array_agg
SELECT region, ARRAY_AGG(id ORDER BY id) AS ids FROM orders GROUP BY region ORDER BY region
--- array_agg with limit and without nulls
SELECT region, ARRAY_AGG(amount IGNORE NULLS ORDER BY amount DESC, id LIMIT 2) AS top FROM orders GROUP BY region ORDER BY region
--- array_agg of distinct values
SELECT ARRAY_AGG(DISTINCT region IGNORE NULLS ORDER BY region) AS regions FROM orders
--- array_agg of structs
SELECT customer, ARRAY_AGG(STRUCT(id AS id, amount AS amount) ORDER BY id) AS orders FROM orders WHERE customer < 4 GROUP BY customer ORDER BY customer
--- array of a subquery
SELECT c.id, ARRAY(SELECT o.id FROM orders AS o WHERE o.customer = c.id ORDER BY o.id) AS ids FROM customers AS c ORDER BY c.id
--- array of structs of a subquery
SELECT c.id, ARRAY(SELECT AS STRUCT o.id, o.amount FROM orders AS o WHERE o.customer = c.id ORDER BY o.id) AS orders FROM customers AS c ORDER BY c.id
--- array functions
SELECT id, ARRAY_LENGTH(tags) AS n, ARRAY_TO_STRING(tags, '+') AS joined, ARRAY_CONCAT(tags, ['z']) AS longer, ARRAY_REVERSE(tags) AS back, tags[SAFE_OFFSET(0)] AS first FROM orders ORDER BY id
--- subscripts that fail
SELECT id, tags[OFFSET(0)] AS first FROM orders ORDER BY id
--- struct construction
SELECT id, STRUCT(region AS region, STRUCT(amount AS amount, paid AS paid) AS deep) AS held FROM orders WHERE id < 5 ORDER BY id
--- struct fields of what was built
SELECT x.held.region AS region, x.held.amount + 1 AS more FROM (SELECT id, STRUCT(region AS region, amount AS amount) AS held FROM orders) AS x WHERE x.held.amount > 5000 ORDER BY x.id
--- split and unnest
SELECT k, part FROM edges, UNNEST(SPLIT(s, 'a')) AS part WITH OFFSET AS o ORDER BY k, o
--- dates of zones
SELECT id, DATE(placed, 'Asia/Kolkata') AS kolkata, EXTRACT(HOUR FROM placed AT TIME ZONE 'Europe/Berlin') AS hour, FORMAT_TIMESTAMP('%F %H:%M %Ez', placed, 'Europe/Berlin') AS text FROM orders ORDER BY id
--- hours across the change of the clocks
SELECT TIMESTAMP_TRUNC(placed, HOUR, 'Europe/Berlin') AS hour, COUNT(*) AS n FROM orders GROUP BY hour ORDER BY hour
--- days across the change of the clocks
SELECT TIMESTAMP_TRUNC(placed, DAY, 'Europe/Berlin') AS day, COUNT(*) AS n, MIN(DATETIME(placed, 'Europe/Berlin')) AS first FROM orders GROUP BY day ORDER BY day
--- weeks
SELECT DATE_TRUNC(day, WEEK(MONDAY)) AS week, COUNT(*) AS n, SUM(amount) AS amount FROM orders WHERE day IS NOT NULL GROUP BY week ORDER BY week
--- ages
SELECT id, DATE_DIFF(DATE '2024-06-30', born, YEAR) AS years, EXTRACT(DAYOFYEAR FROM born) AS yday FROM customers ORDER BY id
--- case folding
SELECT id FROM customers WHERE LOWER(name) = 'ann' OR UPPER(name) LIKE 'ÜN%' ORDER BY id
--- patterns
SELECT id, name LIKE 'a\\_%' AS underscore, name LIKE 'a\\%%' AS percent, REGEXP_CONTAINS(name, r'^[A-Z]') AS capital FROM customers ORDER BY id
--- text work
SELECT id, CONCAT(SUBSTR(name, 1, 1), '.') AS initial, LPAD(CAST(id AS STRING), 4, '0') AS code, TO_HEX(SHA256(name)) AS digest FROM customers ORDER BY id
--- exact money
SELECT o.id, SUM(l.qty * l.price) AS gross, ROUND(SUM(l.qty * l.price) * NUMERIC '0.19', 2) AS tax, SUM(l.qty * l.price) / SUM(l.qty) AS per_piece FROM orders AS o CROSS JOIN UNNEST(o.lines) AS l WHERE l.qty > 0 GROUP BY o.id ORDER BY o.id
--- pivot by hand
SELECT EXTRACT(MONTH FROM day) AS month, SUM(IF(region = 'EU', amount, NULL)) AS eu, SUM(IF(region = 'US', amount, NULL)) AS us FROM orders GROUP BY 1 ORDER BY 1
--- buckets
SELECT CASE WHEN amount < 1000 THEN 'small' WHEN amount < 5000 THEN 'middle' WHEN amount IS NULL THEN 'none' ELSE 'large' END AS bucket, COUNT(*) AS n FROM orders GROUP BY bucket ORDER BY bucket
--- deduplicate
WITH x AS (SELECT customer, id, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY placed DESC, id) AS n FROM orders) SELECT customer, id FROM x WHERE n = 1 ORDER BY customer
--- gaps and islands
WITH x AS (SELECT id, id - ROW_NUMBER() OVER (ORDER BY id) AS island FROM orders WHERE paid) SELECT island, MIN(id) AS first, MAX(id) AS last, COUNT(*) AS n FROM x GROUP BY island ORDER BY island
--- running share
SELECT region, total, ROUND(total / SUM(total) OVER (), 4) AS share FROM (SELECT region, SUM(amount) AS total FROM orders GROUP BY region) AS x ORDER BY region
--- cohort
SELECT c.region, COUNT(DISTINCT c.id) AS customers, COUNT(o.id) AS orders, SAFE_DIVIDE(COUNT(o.id), COUNT(DISTINCT c.id)) AS each FROM customers AS c LEFT JOIN orders AS o ON o.customer = c.id GROUP BY c.region ORDER BY c.region
--- stock against sales
SELECT s.sku, IFNULL(s.on_hand, 0) - IFNULL(x.sold, 0) AS rest, s.cost * IFNULL(x.sold, 0) AS value FROM stock AS s LEFT JOIN (SELECT l.sku, SUM(l.qty) AS sold FROM orders AS o CROSS JOIN UNNEST(o.lines) AS l GROUP BY l.sku) AS x ON x.sku = s.sku ORDER BY s.sku
--- a filter on an alias of a lateral kind is refused
SELECT id AS a, a + 1 AS b FROM orders ORDER BY a
--- select without from
SELECT 1 AS one, 'x' AS two, CAST(NULL AS DATE) AS three
--- where false
SELECT id FROM orders WHERE FALSE ORDER BY id
--- where null
SELECT id FROM orders WHERE CAST(NULL AS BOOL) ORDER BY id
--- three-valued logic
SELECT id, paid AND amount > 100 AS a, paid OR amount > 100 AS b, NOT paid AS c, paid IS NOT TRUE AS d FROM orders ORDER BY id
--- division by zero in a branch that is not taken
SELECT k, IF(k = 0, NULL, 10 / k) AS x FROM edges ORDER BY k
--- division by zero
SELECT k, 10 / k AS x FROM edges ORDER BY k
--- a filter before a cast that would fail
SELECT k, CAST(s AS INT64) AS x FROM edges WHERE REGEXP_CONTAINS(s, r'^\d+$') ORDER BY k
--- tablesample
SELECT id FROM orders TABLESAMPLE SYSTEM (10 PERCENT) ORDER BY id
--- pivot
SELECT id FROM orders PIVOT(COUNT(*) FOR region IN ('EU')) ORDER BY id
--- any_value
SELECT region, ANY_VALUE(id) AS id FROM orders GROUP BY region ORDER BY region
--- except of columns
SELECT * EXCEPT (note) FROM stock ORDER BY sku
--- value tables
SELECT AS VALUE id FROM orders ORDER BY id
--- comma join
SELECT o.id, c.id AS c FROM orders AS o, customers AS c WHERE c.id = o.customer ORDER BY 1
--- aliases ignore case
SELECT O.Id AS x FROM orders AS o WHERE o.ID < 3 ORDER BY X
--- order by in a subquery with limit
SELECT SUM(amount) AS top FROM (SELECT amount FROM orders WHERE amount IS NOT NULL ORDER BY amount DESC, id LIMIT 3) AS x
--- between timestamps
-- param {"name": "since", "type": "TIMESTAMP"} = "2024-03-31T00:00:00Z"
SELECT id FROM orders WHERE placed >= @since AND placed < TIMESTAMP_ADD(@since, INTERVAL 1 DAY) ORDER BY id
--- a parameter in a zone's day
-- param {"name": "day", "type": "DATE"} = "2024-03-31"
SELECT id FROM orders WHERE DATE(placed, 'Europe/Berlin') = @day ORDER BY id
--- safe functions on dirty text
SELECT k, SAFE_CAST(s AS INT64) AS i, SAFE_CAST(s AS DATE) AS d, SAFE.PARSE_DATE('%Y-%m-%d', s) AS p, IFNULL(SAFE_CAST(s AS NUMERIC), 0) AS n FROM edges ORDER BY k
