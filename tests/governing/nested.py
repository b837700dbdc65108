"""A world of ARRAY and STRUCT columns, and templates that reach into them where a mask or a filter might be forgotten."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from typing import Any, Final

from contract.schema import Column, Parameter, ResultColumn, Table
from contract.scope import Sensitivity
from queries.template import Template, load_template
from tests.governing.worlds import Entry, World
from tests.queries.world import DATASET, parameter

_PLACE: Final = [{"name": "city", "type": "STRING"}, {"name": "zip", "type": "INT64"}]
_PARTS: Final = [
    {"name": "sku", "type": "STRING"},
    {"name": "qty", "type": "INT64"},
    {"name": "marks", "type": "STRING", "mode": "REPEATED"},
]
_COLUMNS: Final[list[dict[str, Any]]] = [
    {"name": "id", "type": "INT64"},
    {"name": "region", "type": "STRING"},
    {"name": "tags", "type": "STRING", "mode": "REPEATED"},
    {"name": "sizes", "type": "INT64", "mode": "REPEATED"},
    {"name": "place", "type": "STRUCT", "fields": _PLACE},
    {"name": "parts", "type": "STRUCT", "mode": "REPEATED", "fields": _PARTS},
    {"name": "made", "type": "DATETIME"},
    {"name": "opens", "type": "TIME"},
    {"name": "raw", "type": "BYTES"},
    {"name": "price", "type": "NUMERIC"},
]
ITEMS: Final = Table(
    name="items", file="data/items.parquet", columns=tuple(Column.model_validate(column) for column in _COLUMNS)
)
SHELVES: Final = Table(
    name="shelves",
    file="data/shelves.parquet",
    columns=tuple(
        Column.model_validate(column)
        for column in (
            {"name": "item", "type": "INT64"},
            {"name": "tag", "type": "STRING"},
            {"name": "holds", "type": "INT64", "mode": "REPEATED"},
        )
    ),
)
TABLES: Final = (ITEMS, SHELVES)
_PLACE_RESULT: Final = {"type": "STRUCT", "fields": _PLACE}
_TAG: Final = parameter("tag:STRING", values=("red", "blue", "old"))
_SIZES: Final = parameter("sizes:INT64[]", minimum=0, maximum=9)

# fmt: off
_WRITTEN: Final[list[tuple[str, dict[str, Any], tuple[Parameter, ...]]]] = [
    ("SELECT i.id, t FROM items AS i, UNNEST(i.tags) AS t ORDER BY 1, 2", {"id": "INT64", "t": "STRING"}, ()),
    ("SELECT i.id, t FROM items AS i CROSS JOIN UNNEST(i.tags) AS t WHERE t = @tag ORDER BY 1, 2", {"id": "INT64", "t": "STRING"}, (_TAG,)),
    ("SELECT i.id, t FROM items AS i LEFT JOIN UNNEST(i.tags) AS t ORDER BY 1, 2", {"id": "INT64", "t": "STRING"}, ()),
    ("SELECT t AS tag, COUNT(*) AS n FROM items AS i, UNNEST(i.tags) AS t GROUP BY t ORDER BY 1", {"tag": "STRING", "n": "INT64"}, ()),
    ("SELECT a.id, b.id AS other FROM items AS a, UNNEST(a.tags) AS t JOIN items AS b ON t IN UNNEST(b.tags) AND b.id > a.id ORDER BY 1, 2", {"id": "INT64", "other": "INT64"}, ()),
    ("SELECT i.id, s.item FROM items AS i, UNNEST(i.tags) AS t JOIN shelves AS s ON s.tag = t ORDER BY 1, 2", {"id": "INT64", "item": "INT64"}, ()),
    ("SELECT i.id FROM items AS i WHERE EXISTS (SELECT 1 FROM UNNEST(i.tags) AS t WHERE t = @tag) ORDER BY 1", {"id": "INT64"}, (_TAG,)),
    ("SELECT i.id FROM items AS i WHERE NOT EXISTS (SELECT 1 FROM UNNEST(i.sizes) AS z WHERE z > 4) ORDER BY 1", {"id": "INT64"}, ()),
    ("SELECT i.id, (SELECT SUM(z) FROM UNNEST(i.sizes) AS z) AS total FROM items AS i ORDER BY 1", {"id": "INT64", "total": "INT64"}, ()),
    ("SELECT i.id, (SELECT COUNT(*) FROM shelves AS s, UNNEST(s.holds) AS h WHERE h = i.id) AS n FROM items AS i ORDER BY 1", {"id": "INT64", "n": "INT64"}, ()),
    ("SELECT i.id, ARRAY_LENGTH(i.tags) AS n FROM items AS i ORDER BY 1", {"id": "INT64", "n": "INT64"}, ()),
    ("SELECT i.id FROM items AS i WHERE @tag IN UNNEST(i.tags) ORDER BY 1", {"id": "INT64"}, (_TAG,)),
    ("SELECT i.id FROM items AS i WHERE i.id IN UNNEST(@sizes) ORDER BY 1", {"id": "INT64"}, (_SIZES,)),
    ("SELECT i.id, i.tags, i.sizes FROM items AS i ORDER BY i.id", {"id": "INT64", "tags": ["STRING"], "sizes": ["INT64"]}, ()),
    ("SELECT i.id, i.place FROM items AS i ORDER BY i.id", {"id": "INT64", "place": _PLACE_RESULT}, ()),
    ("SELECT i.id, i.place.city AS city FROM items AS i ORDER BY 1, 2", {"id": "INT64", "city": "STRING"}, ()),
    ("SELECT i.place.city AS city, COUNT(*) AS n FROM items AS i GROUP BY 1 ORDER BY 1", {"city": "STRING", "n": "INT64"}, ()),
    ("SELECT i.id FROM items AS i WHERE i.place.zip > 500 ORDER BY 1", {"id": "INT64"}, ()),
    ("SELECT i.id FROM items AS i WHERE i.place IS NULL ORDER BY 1", {"id": "INT64"}, ()),
    ("SELECT a.id, b.id AS other FROM items AS a JOIN items AS b ON a.place.city = b.place.city ORDER BY 1, 2", {"id": "INT64", "other": "INT64"}, ()),
    ("SELECT i.id, p.sku, p.qty FROM items AS i, UNNEST(i.parts) AS p ORDER BY 1, 2, 3", {"id": "INT64", "sku": "STRING", "qty": "INT64"}, ()),
    ("SELECT p.sku, SUM(p.qty) AS n FROM items AS i, UNNEST(i.parts) AS p GROUP BY p.sku ORDER BY 1", {"sku": "STRING", "n": "INT64"}, ()),
    ("SELECT i.id, p.sku, m FROM items AS i, UNNEST(i.parts) AS p, UNNEST(p.marks) AS m ORDER BY 1, 2, 3", {"id": "INT64", "sku": "STRING", "m": "STRING"}, ()),
    ("SELECT i.id, ARRAY(SELECT p.sku FROM UNNEST(i.parts) AS p WHERE p.qty > 2 ORDER BY p.sku) AS skus FROM items AS i ORDER BY i.id", {"id": "INT64", "skus": ["STRING"]}, ()),
    ("WITH x AS (SELECT id, tags, place FROM items) SELECT x.id, t, x.place.city AS city FROM x, UNNEST(x.tags) AS t ORDER BY 1, 2, 3", {"id": "INT64", "t": "STRING", "city": "STRING"}, ()),
    ("SELECT q.id, q.tags FROM (SELECT i.id AS id, i.tags AS tags FROM items AS i LEFT JOIN shelves AS s ON s.item = i.id WHERE s.item IS NULL) AS q ORDER BY q.id", {"id": "INT64", "tags": ["STRING"]}, ()),
    ("SELECT s.tag, i.tags FROM shelves AS s LEFT JOIN items AS i ON i.id = s.item ORDER BY s.tag, i.id, s.item, ARRAY_LENGTH(i.tags)", {"tag": "STRING", "tags": ["STRING"]}, ()),
    ("SELECT i.id, i.made, i.opens, i.raw, i.price FROM items AS i ORDER BY 1, 2, 3, 4, 5", {"id": "INT64", "made": "DATETIME", "opens": "TIME", "raw": "BYTES", "price": "NUMERIC"}, ()),
    ("SELECT i.made, COUNT(*) AS n FROM items AS i GROUP BY i.made ORDER BY 1", {"made": "DATETIME", "n": "INT64"}, ()),
    ("SELECT COUNT(*) AS n FROM items AS i, UNNEST(i.sizes) AS z, shelves AS s", {"n": "INT64"}, ()),
    ("SELECT i.tags[SAFE_OFFSET(0)] AS first, COUNT(*) AS n FROM items AS i GROUP BY 1 ORDER BY 1", {"first": "STRING", "n": "INT64"}, ()),
    ("SELECT i.id, STRUCT(i.region AS region, i.id AS id) AS both FROM items AS i ORDER BY i.id", {"id": "INT64", "both": {"type": "STRUCT", "fields": [{"name": "region", "type": "STRING"}, {"name": "id", "type": "INT64"}]}}, ()),
]
# fmt: on


def nested(seed: int, size: int = 40) -> World:
    entries = tuple(
        Entry("nested", sql, _template(sql, declared, parameters)) for sql, declared, parameters in _WRITTEN
    )
    return World(DATASET, "1.0.0", TABLES, _rows(seed, size), entries)


def _template(sql: str, declared: dict[str, Any], parameters: tuple[Parameter, ...]) -> Template:
    results = []
    for name, kind in declared.items():
        if isinstance(kind, dict):
            raw = {"name": name, **kind}
        else:
            raw = (
                {"name": name, "type": kind[0], "mode": "REPEATED"}
                if isinstance(kind, list)
                else {"name": name, "type": kind}
            )
        results.append(ResultColumn.model_validate(raw))
    return load_template(
        sql,
        name="templates/test.sql",
        dataset=DATASET,
        tables=TABLES,
        parameters=parameters,
        results=results,
        ceiling=Sensitivity.RESTRICTED,
    )


def _rows(seed: int, size: int) -> dict[str, list[dict[str, Any]]]:
    rng = random.Random(seed)
    tags = ["red", "blue", "old", "new", ""]

    def maybe(value: Any) -> Any:
        return None if rng.random() < 0.15 else value

    def several(make: Any, most: int) -> list[Any]:
        return [make() for _ in range(rng.randrange(most))]

    def part() -> dict[str, Any]:
        return {
            "sku": maybe(rng.choice("ABC")),
            "qty": maybe(rng.randrange(9)),
            "marks": several(lambda: rng.choice("xyz"), 3),
        }

    items = [
        {
            "id": number,
            "region": maybe(rng.choice(["EU", "US"])),
            "tags": several(lambda: rng.choice(tags), 4),
            "sizes": several(lambda: rng.randrange(9), 4),
            "place": maybe({"city": maybe(rng.choice(["Ulm", "Bonn"])), "zip": maybe(rng.randrange(1_000))}),
            "parts": several(part, 3),
            "made": maybe(dt.datetime(2020, 1, 1) + dt.timedelta(hours=rng.randrange(40_000))),
            "opens": maybe(dt.time(rng.randrange(24), 30)),
            "raw": maybe(bytes([rng.randrange(256), 0, 255])),
            "price": maybe(Decimal(rng.randrange(-500, 9_000)) / 8),
        }
        for number in range(size)
    ]
    shelves = [
        {
            "item": maybe(rng.randrange(size + 5)),
            "tag": maybe(rng.choice(tags)),
            "holds": several(lambda: rng.randrange(size + 5), 4),
        }
        for _ in range(size)
    ]
    return {"items": items, "shelves": shelves}
