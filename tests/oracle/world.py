"""Tables for the corpus: one row for each edge of each type, and a small shop with arrays and structs."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from contract.schema import Table
from queries.duckdb_types import arrow_type
from queries.typed import declared_type
from tests.oracle.product import declared

Rows = Sequence[Mapping[str, Any]]
UTC = dt.UTC

COLUMNS: dict[str, dict[str, str]] = {
    "edges": {
        "k": "INT64", "i": "INT64", "f": "FLOAT64", "n": "NUMERIC", "s": "STRING", "b": "BOOL", "d": "DATE",
        "dt": "DATETIME", "tm": "TIME", "ts": "TIMESTAMP", "y": "BYTES",
    },
    "orders": {
        "id": "INT64", "customer": "INT64", "region": "STRING", "amount": "NUMERIC", "score": "FLOAT64", "day": "DATE",
        "placed": "TIMESTAMP", "paid": "BOOL", "note": "STRING", "tags": "ARRAY<STRING>",
        "lines": "ARRAY<STRUCT<sku STRING, qty INT64, price NUMERIC>>", "ship": "STRUCT<city STRING, zip STRING>",
    },
    "customers": {"id": "INT64", "name": "STRING", "region": "STRING", "born": "DATE"},
    "stock": {"sku": "STRING", "on_hand": "INT64", "cost": "NUMERIC"},
}  # fmt: skip


def _edges() -> Rows:
    ints = [0, 1, -1, 7, -7, 9223372036854775807, -9223372036854775808, 1000000, 86400, None, 3, -3]
    floats = [0.0, 1.5, -1.5, 0.1, 2.5, -2.5, 1e15, 1.7e308, 5e-324, None, 0.30000000000000004, 123456.789]
    numerics = ["0", "1.5", "-1.5", "0.000000001", "2.5", "99999999999999999999999999999.999999999",
                "-99999999999999999999999999999.999999999", "12345678901234567890.123456789", "3", None, "0.5", "-7"]  # fmt: skip
    texts = ["", "abc", "ABC", "añb", "  padded  ", "50%", "under_score", "back\\slash", "ß", None, "12", "2024-02-29"]
    days = ["1970-01-01", "2024-02-29", "2023-12-31", "2024-12-30", "0001-01-01", "9999-12-31", "2021-01-03", "2000-03-01",
            "1900-02-28", None, "2024-01-01", "2016-01-03"]  # fmt: skip
    moments = ["1970-01-01 00:00:00", "2024-03-31 00:59:59.999999", "2024-03-31 01:00:00", "2024-10-27 00:30:00",
               "2024-10-27 01:30:00", "0001-01-02 00:00:00", "9999-12-30 23:59:59.999999", "1969-12-31 23:59:59.5",
               "2024-11-03 05:30:00", None, "2024-02-29 12:34:56.789", "2018-11-04 12:00:00"]  # fmt: skip
    times = ["00:00:00", "23:59:59.999999", "12:34:56", "12:34:56.5", "01:02:03", "12:00:00", "11:59:59", "06:30:00.001",
             "18:00:00", None, "09:09:09", "00:00:00.000001"]  # fmt: skip
    bools = [True, False, None]
    data = [b"", b"abc", b"\x00\xff", "é".encode(), b"\xff\xfe", b"12", b"xyz", b"a", b"b", None, b"zz", b"\n"]
    out = []
    for k in range(12):
        moment = None if moments[k] is None else dt.datetime.fromisoformat(moments[k])
        out.append(
            {
                "k": k, "i": ints[k], "f": floats[k], "n": None if numerics[k] is None else Decimal(numerics[k]),
                "s": texts[k], "b": bools[k % 3], "d": None if days[k] is None else dt.date.fromisoformat(days[k]),
                "dt": moment, "tm": None if times[k] is None else dt.time.fromisoformat(times[k]),
                "ts": None if moment is None else moment.replace(tzinfo=UTC), "y": data[k],
            }
        )  # fmt: skip
    return out


def _orders(rng: random.Random) -> Rows:
    def maybe(value: Any, share: float = 0.12) -> Any:
        return None if rng.random() < share else value

    start = dt.datetime(2024, 3, 29, tzinfo=UTC)
    out = []
    for number in range(1, 41):
        lines = [
            {
                "sku": rng.choice(["A-1", "A-2", "B-1", "C", "Z-9"]),
                "qty": rng.randrange(0, 9),
                "price": Decimal(rng.randrange(0, 100_000)) / Decimal(1_000),
            }
            for _ in range(rng.randrange(0, 4))
        ]
        out.append(
            {
                "id": number,
                "customer": maybe(rng.randrange(1, 13)),
                "region": maybe(rng.choice(["EU", "US", "APAC"])),
                "amount": maybe(Decimal(rng.randrange(-500_000, 9_000_000)) / Decimal(1_000)),
                # Multiples of an eighth, so that a sum has one value in any order.
                "score": maybe(rng.randrange(-80, 800) / 8),
                "day": maybe(dt.date(2023, 12, 20) + dt.timedelta(days=rng.randrange(120))),
                "placed": maybe(start + dt.timedelta(seconds=number * 6_007, microseconds=rng.randrange(1_000_000))),
                "paid": maybe(rng.random() < 0.5),
                "note": maybe(rng.choice(["", "x", "50% off", "under_score", "back\\slash", " padded ", "é", "Été"])),
                "tags": rng.sample(["new", "gift", "bulk", "vip"], rng.randrange(0, 4)),
                "lines": lines,
                "ship": maybe(
                    {"city": maybe(rng.choice(["Berlin", "Paris", "Ōsaka"])), "zip": rng.choice(["10115", "75001"])}
                ),
            }
        )
    return out


def data() -> dict[str, Rows]:
    rng = random.Random(7)
    names = ["Ann", "Bob", "Zoë", "a%b", "a_b", "ann", "Ünal", "李", "O'Neil", "", "Bob", "dan"]
    customers = [
        {"id": number, "name": names[number - 1], "region": ["EU", "US", "APAC", None][number % 4],
         "born": None if number == 5 else dt.date(1950 + number * 3, 1 + number % 12, 1 + number * 2)}
        for number in range(1, 13)
    ]  # fmt: skip
    stock = [
        {"sku": "A-1", "on_hand": 10, "cost": Decimal("1.25")}, {"sku": "A-2", "on_hand": 0, "cost": Decimal("0.1")},
        {"sku": "B-1", "on_hand": None, "cost": Decimal("3.333333333")}, {"sku": "D", "on_hand": 4, "cost": None},
    ]  # fmt: skip
    return {"edges": _edges(), "orders": _orders(rng), "customers": customers, "stock": stock}


def tables() -> tuple[Table, ...]:
    return tuple(
        Table.model_validate(
            {
                "name": name,
                "file": f"data/{name}.parquet",
                "columns": [declared(column, kind) for column, kind in columns.items()],
            }
        )
        for name, columns in COLUMNS.items()
    )


def write(folder: Path, held: Mapping[str, Rows] | None = None) -> Path:
    """Write the tables' Parquet files below ``folder`` and return it; ``held`` are other rows than ``data()``."""
    import pyarrow as pa

    held = held or data()
    for table in tables():
        schema = pa.schema([(column.name, arrow_type(declared_type(column))) for column in table.columns])
        path = folder / str(table.file)
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist([dict(row) for row in held[table.name]], schema=schema), path)
    return folder


def reference_tables() -> dict[str, tuple[Mapping[str, str], Rows]]:
    """The same tables as ``Reference`` takes them."""
    held = data()
    return {name: (columns, held[name]) for name, columns in COLUMNS.items()}
