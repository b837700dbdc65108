"""Templates that try to take more memory or time than they may: large values, large results, endless work."""

from __future__ import annotations

from typing import Any, Final

from tests.queries.hostile_row import Hostile, bounded, refused
from tests.queries.world import parameter

_MAX: Final = 2**63 - 1
BIG: Final = "big AS a, big AS b"


def doubled(times: int, expression: str = "CONCAT(t, t)", start: str = "word") -> str:
    """A query whose column ``t`` was made twice as long ``times`` times, each in a common table of its own."""
    parts = [f"c0 AS (SELECT id, {start} AS t FROM big)"]
    parts += [f"c{number} AS (SELECT id, {expression} AS t FROM c{number - 1})" for number in range(1, times + 1)]
    return f"WITH {', '.join(parts)} SELECT COUNT(DISTINCT t) AS x FROM c{times}"


def crossed(levels: int) -> str:
    """Common tables that each read the one before twice."""
    parts = ["c0 AS (SELECT id FROM big)"]
    parts += [f"c{n} AS (SELECT p.id AS id FROM c{n - 1} AS p, c{n - 1} AS q)" for n in range(1, levels + 1)]
    return f"WITH {', '.join(parts)} SELECT COUNT(*) AS x FROM c{levels}"


def nested(times: int, function: str, start: str = "word") -> str:
    for _ in range(times):
        start = function.format(start)
    return f"SELECT MAX({start}) AS x FROM big"


def listed(count: int) -> str:
    return f"SELECT COUNT(*) AS x FROM big WHERE id IN ({', '.join(map(str, range(count)))})"


_N: Final[tuple[Any, ...]] = (parameter("p:INT64"),)
_ARRAYS: Final = {
    "written": "1, 100000000000",
    "of all numbers": f"-{_MAX}, {_MAX}",
    "backwards": f"{_MAX}, -{_MAX}, -1",
    "step of zero": "1, 10, 0",
    "bound": "1, @p",
    "of a column": "1, id * 1000000",
}
_TEXTS: Final = {
    "repeat written": "REPEAT('x', 100000000000)",
    "repeat bound": "REPEAT(word, @p)",
    "repeat most": f"REPEAT(word, {_MAX})",
    "repeat of repeat": "REPEAT(REPEAT(REPEAT(word, 100), 100), 100)",
    "repeat at the bound": "REPEAT('x', 1048576)",
    "pad left": "LPAD(word, 2000000000, 'ab')",
    "pad right bound": "RPAD(word, @p)",
    "pad at the bound": "LPAD(word, 1048576, 'é')",
    "replace that grows": f"REPLACE(word, 'x', '{'y' * 20000}')",
    "replace by a column": "REPLACE(word, 'x', word)",
    "replace of replace": "REPLACE(REPLACE(word, 'x', word), 'x', word)",
    "pattern replaced by itself": "REGEXP_REPLACE(word, 'x', '\\\\0\\\\0\\\\0\\\\0')",
    "patterns of patterns": "REGEXP_REPLACE(REGEXP_REPLACE(REGEXP_REPLACE(word, 'x', '\\\\0\\\\0\\\\0\\\\0\\\\0\\\\0\\\\0\\\\0'), 'x', '\\\\0\\\\0\\\\0\\\\0\\\\0\\\\0\\\\0\\\\0'), 'x', '\\\\0\\\\0\\\\0\\\\0\\\\0\\\\0\\\\0\\\\0')",
    "base64 of base64": "TO_BASE64(CAST(TO_BASE64(CAST(REPEAT(word, 5000) AS BYTES)) AS BYTES))",
}

SIZE: Final[tuple[Hostile, ...]] = (
    *(
        bounded(f"array: {name}", f"SELECT SUM(ARRAY_LENGTH(GENERATE_ARRAY({bounds}))) AS x FROM big", "x:INT64", *(_N if "@p" in bounds else ()), arguments={"p": _MAX} if "@p" in bounds else None)
        for name, bounds in _ARRAYS.items()
    ),
    *(
        bounded(f"text: {name}", f"SELECT MAX(LENGTH({text})) AS x FROM big", "x:INT64", *(_N if "@p" in text else ()), arguments={"p": 10**9} if "@p" in text else None)
        for name, text in _TEXTS.items()
    ),
    *(
        bounded(f"text of every row: {name}", f"SELECT id AS x, {text} AS y FROM big ORDER BY x", "x:INT64 y:STRING", *(_N if "@p" in text else ()), arguments={"p": 10**6} if "@p" in text else None, slow=True)
        for name, text in _TEXTS.items()
    ),
    bounded("array: unnested", "SELECT COUNT(*) AS x FROM UNNEST(GENERATE_ARRAY(1, 1000000)) AS n", slow=True),
    bounded("array: unnested twice", "SELECT COUNT(*) AS x FROM UNNEST(GENERATE_ARRAY(1, 1000000)) AS n, UNNEST(GENERATE_ARRAY(1, 1000000)) AS m", slow=True),
    bounded("array: a million for each row", "SELECT SUM(n) AS x FROM big AS b, UNNEST(GENERATE_ARRAY(1, 1000000)) AS n", slow=True),
    bounded("array: a million in each row", "SELECT MAX(ARRAY_LENGTH(GENERATE_ARRAY(1, 900000 + id))) AS x FROM big", slow=True),
    bounded("array: in an array", "SELECT COUNT(*) AS x FROM big WHERE id IN UNNEST(GENERATE_ARRAY(id, id + 900000))", slow=True),
    bounded("array: of days", "SELECT SUM(ARRAY_LENGTH(GENERATE_DATE_ARRAY('0001-01-01', '9999-12-31', INTERVAL 1 DAY))) AS x FROM big"),
    bounded("array: of months", "SELECT SUM(ARRAY_LENGTH(GENERATE_DATE_ARRAY('0001-01-01', '9999-12-31', INTERVAL 1 MONTH))) AS x FROM big", slow=True),
    bounded("array: concatenated", "WITH c AS (SELECT GENERATE_ARRAY(1, 500000) AS g) SELECT ARRAY_LENGTH(ARRAY_CONCAT(g, g, g, g, g, g, g, g, g, g, g, g, g, g, g, g, g, g, g, g)) AS x FROM c ORDER BY x"),
    bounded("array: doubled in each row", doubled(12, "ARRAY_CONCAT(t, t)", "[id, id]").replace("COUNT(DISTINCT t)", "SUM(ARRAY_LENGTH(t))"), slow=True),
    bounded("array: reversed again and again", "SELECT MAX(ARRAY_LENGTH(ARRAY_REVERSE(ARRAY_REVERSE(GENERATE_ARRAY(1, 100000 + id))))) AS x FROM big", slow=True),
    bounded("array: collected of a cross join", f"SELECT ARRAY_LENGTH(ARRAY_AGG(a.id ORDER BY a.id, b.id)) AS x FROM {BIG}", slow=True),
    bounded("array: collected for each row", "SELECT SUM(ARRAY_LENGTH(ARRAY(SELECT b.id FROM big AS b WHERE b.id >= a.id ORDER BY b.id))) AS x FROM big AS a", slow=True),
    bounded("array: running", "SELECT MAX(ARRAY_LENGTH(g)) AS x FROM (SELECT ARRAY_AGG(word ORDER BY word) AS g FROM big GROUP BY MOD(id, 3)) AS q", slow=True),
    bounded("doubled 4 times", doubled(4), slow=True),
    bounded("doubled 12 times", doubled(12), slow=True),
    bounded("doubled 40 times", doubled(40)),
    bounded("doubled by pipes", doubled(20, "t || t"), slow=True),
    bounded("doubled and cut again", doubled(14, "CONCAT(t, t)").replace("COUNT(DISTINCT t)", "COUNT(DISTINCT LEFT(t, 5))"), slow=True),
    bounded("concatenated in one call", f"SELECT MAX(LENGTH(CONCAT({', '.join(['word'] * 200)}))) AS x FROM big", slow=True),
    bounded("concatenated in a condition", f"SELECT COUNT(*) AS x FROM big WHERE CONCAT({', '.join(['word'] * 240)}) > 'y'", slow=True),
    bounded("concatenated in an order", f"SELECT id AS x FROM big ORDER BY CONCAT({', '.join(['word'] * 100)}), x LIMIT 3", slow=True),
    bounded("concatenated as a key", f"SELECT COUNT(*) AS x FROM (SELECT CONCAT({', '.join(['word'] * 150)}) AS k FROM big GROUP BY k) AS q", slow=True),
    bounded("upper case letter by letter", "SELECT MAX(UPPER(REPEAT('ß', 100000))) AS x FROM big", "x:STRING", slow=True),
    bounded("all texts as one", "SELECT LENGTH(STRING_AGG(word, ',' ORDER BY id)) AS x FROM big"),
    bounded("all texts of a cross join as one", f"SELECT LENGTH(STRING_AGG(a.word, ',' ORDER BY a.id)) AS x FROM {BIG}", slow=True),
    bounded("one text, returned", "SELECT STRING_AGG(word, ',' ORDER BY id) AS x FROM big", "x:STRING"),
    bounded("a cross join of three", "SELECT COUNT(*) AS x FROM big AS a, big AS b, big AS c WHERE a.id + b.id + c.id = 7", slow=True),
    bounded("a cross join of ten", f"SELECT COUNT(*) AS x FROM {', '.join(f'big AS t{n}' for n in range(10))}", slow=True),
    bounded("crossed in common tables", crossed(5), slow=True),
    bounded("crossed in many common tables", crossed(40), slow=True),
    bounded("everything of a cross join", "SELECT a.id AS x, b.word AS y FROM big AS a, big AS b ORDER BY x, y", "x:INT64 y:STRING", slow=True),
    bounded("everything sorted by text", "SELECT word AS x FROM big ORDER BY x DESC", "x:STRING"),
    bounded("a large limit", "SELECT a.id AS x FROM big AS a, big AS b ORDER BY x LIMIT 1000000000", slow=True),
    bounded("a large offset", "SELECT a.id AS x FROM big AS a, big AS b ORDER BY x LIMIT 10 OFFSET 900000000", slow=True),
    bounded("a limit of all numbers", f"SELECT id AS x FROM big ORDER BY x LIMIT {_MAX}"),
    bounded("distinct of a product", f"SELECT COUNT(DISTINCT a.id * b.id) AS x FROM {BIG}", slow=True),
    bounded("groups of a product", f"SELECT COUNT(*) AS x FROM (SELECT a.id * b.id AS k FROM {BIG} GROUP BY k) AS q", slow=True),
    bounded("a window over a cross join", f"SELECT MAX(n) AS x FROM (SELECT ROW_NUMBER() OVER (ORDER BY a.id * b.id) AS n FROM {BIG}) AS q", slow=True),
    bounded("many windows", f"SELECT COUNT(*) AS x FROM (SELECT {', '.join(f'SUM(id) OVER (PARTITION BY MOD(id, {n + 2}) ORDER BY word) AS w{n}' for n in range(40))} FROM big) AS q", slow=True),
    bounded("medians over each row", "SELECT MAX(m) AS x FROM (SELECT PERCENTILE_CONT(CAST(a.id AS FLOAT64), 0.5) OVER (PARTITION BY b.id) AS m FROM big AS a, big AS b) AS q", "x:FLOAT64", slow=True),
    bounded("a union of itself", f"SELECT COUNT(*) AS x FROM ({' UNION ALL '.join(['SELECT word FROM big'] * 40)}) AS u"),
    bounded("unions without duplicates", f"SELECT COUNT(*) AS x FROM ({' UNION DISTINCT '.join(['SELECT word FROM big'] * 40)}) AS u", slow=True),
    bounded("correlated for each row", "SELECT SUM((SELECT COUNT(*) FROM big AS b WHERE b.id > a.id AND b.word < a.word)) AS x FROM big AS a", slow=True),
    bounded("a pattern that tries everything", "SELECT COUNT(*) AS x FROM big WHERE REGEXP_CONTAINS(word, '^(x+x+)+y$')"),
    bounded("a pattern of many groups", "SELECT COUNT(*) AS x FROM big WHERE REGEXP_CONTAINS(word, '(.*)(.*)(.*)(.*)(.*)(.*)(.*)[^x0-9]$')", slow=True),
    bounded("a counted pattern", "SELECT COUNT(*) AS x FROM big WHERE REGEXP_CONTAINS(word, '(x{1,30}){1,30}y')", slow=True),
    bounded("a pattern over a long text", "SELECT COUNT(*) AS x FROM big WHERE REGEXP_CONTAINS(REPEAT(word, 5000), '(x+x+)+y')", slow=True),
    bounded("an extract of a long text", "SELECT MAX(LENGTH(REGEXP_EXTRACT(REPEAT(word, 5000), '(x.*)+z?$'))) AS x FROM big", slow=True),
    bounded("wildcards", "SELECT COUNT(*) AS x FROM big WHERE word LIKE '%x%x%x%x%x%x%x%x%x%x%x%x%x%x%y'"),
    bounded("wildcards and places", "SELECT COUNT(*) AS x FROM big WHERE word LIKE '%_x%_x%_x%_x%_x%_x%_x%_x%_y'", slow=True),
    bounded("wildcards over a long text", "SELECT COUNT(*) AS x FROM big WHERE REPEAT(word, 1000) LIKE '%_x%_x%_x%_x%_x%_y'", slow=True),
    bounded("a wide list", listed(1000)),
    bounded("the largest numbers", f"SELECT SUM(id * {_MAX // 2}) AS x FROM big"),
    bounded("a power", "SELECT ROUND(POW(10.0, CAST(id AS FLOAT64) * 1e300)) AS x FROM big ORDER BY x", "x:FLOAT64"),
    bounded("dates at the end of time", "SELECT MAX(DATE_ADD(DATE '9999-12-31', INTERVAL id YEAR)) AS x FROM big", "x:DATE"),
    bounded("case over case", nested(12, "CASE WHEN id > 3 THEN {0} ELSE 'x' END"), "x:STRING"),
    refused("too deep: cases", nested(70, "CASE WHEN id > 3 THEN {0} ELSE 'x' END")),
    refused("too deep: parentheses", f"SELECT {'(' * 300}1{')' * 300} AS x FROM big ORDER BY x", "x:INT64"),
    refused("too deep: many parentheses", f"SELECT {'(' * 5000}1{')' * 5000} AS x FROM big ORDER BY x", "x:INT64"),
    refused("too deep: sums", "SELECT " + " + ".join(["1"] * 3000) + " AS x", "x:INT64"),
    refused("too deep: negations", "SELECT COUNT(*) AS x FROM big WHERE " + "NOT " * 2000 + "TRUE", "x:INT64"),
    refused("too deep: copies of macros", nested(20, "SUBSTR({0}, 2)")),
    refused("too deep: copies of case", nested(20, "UPPER({0})")),
    refused("too deep: queries", "SELECT COUNT(*) AS x FROM " + "(SELECT id FROM " * 60 + "big" + ") AS q" * 60, "x:INT64"),
    refused("too long: a list", listed(9000), "x:INT64"),
    refused("too long: a text", "SELECT '" + "x" * 70_000 + "' AS x"),
    refused("too long: comments", "SELECT 1 AS x " + "/* x */" * 12_000, "x:INT64"),
    refused("too long: a name", f"SELECT 1 AS {'x' * 5000}", "x:INT64"),
    refused("an array of arrays", "SELECT ARRAY_LENGTH([[1], [2]]) AS x", "x:INT64"),
    refused("a format as wide as it likes", "SELECT FORMAT('%1000000000d', id) AS x FROM big ORDER BY x"),
    refused("code points without end", "SELECT CODE_POINTS_TO_STRING(GENERATE_ARRAY(1, 1000000)) AS x"),
    refused("a distance of texts", "SELECT EDIT_DISTANCE(word, word) AS x FROM big ORDER BY x", "x:INT64"),
    refused("joined with a column", "SELECT ARRAY_TO_STRING([word, word], REPEAT(word, 1000)) AS x FROM big ORDER BY x"),
    refused("too deep: one long concatenation", f"SELECT MAX(CONCAT({', '.join(['word'] * 1000)})) AS x FROM big"),
    bounded("a split into letters", "SELECT SUM(ARRAY_LENGTH(SPLIT(REPEAT(word, 5000), ''))) AS x FROM big", slow=True),
)  # fmt: skip
