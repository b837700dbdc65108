"""Make the Parquet files of the shipped datasets: seeded, deterministic, no network.

    python datasets/generate.py            # rewrite the files in place
    python datasets/generate.py --out DIR  # write DIR/<dataset>/data/*.parquet

Column order and types come from each ``descriptor.yaml``, so a table cannot drift from its
descriptor. Equal seeds give equal tables; bytes also depend on the pyarrow version.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

HERE: Final = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from generate_batches import Row, build_batches  # noqa: E402
from generate_runs import build_runs  # noqa: E402
from generate_subjects import build_subjects  # noqa: E402

SEED: Final = 20260831
ARROW: Final[Mapping[str, Any]] = {
    "STRING": pa.string(),
    "INT64": pa.int64(),
    "FLOAT64": pa.float64(),
    "NUMERIC": pa.decimal128(38, 9),
    "BOOL": pa.bool_(),
    "DATE": pa.date32(),
    "DATETIME": pa.timestamp("us"),
    "TIMESTAMP": pa.timestamp("us", tz="UTC"),
}


def build(seed: int = SEED) -> dict[str, pa.Table]:
    """Every table of the world, keyed by its file relative to ``datasets/``."""
    batch_rows, batches = build_batches(seed)
    rows = {
        "purification-batches": batch_rows,
        "chromatography-results": build_runs(seed + 1, batches),
        "clinical-private": build_subjects(seed + 2),
    }
    tables: dict[str, pa.Table] = {}
    for dataset, by_table in rows.items():
        descriptor = yaml.safe_load((HERE / dataset / "descriptor.yaml").read_text(encoding="utf-8"))
        for table in descriptor["tables"]:
            tables[f"{dataset}/{table['file']}"] = _table(table["columns"], by_table[table["name"]])
    return tables


def _table(columns: Sequence[Mapping[str, Any]], rows: Sequence[Row]) -> pa.Table:
    """Rows as Arrow; raises ``ValueError`` where rows and columns disagree."""
    names = {column["name"] for column in columns}
    for row in rows:
        if row.keys() != names:
            raise ValueError(f"columns differ: {sorted(names ^ row.keys())}")
    fields = [
        pa.field(column["name"], ARROW[column["type"]], nullable=column.get("mode") != "REQUIRED") for column in columns
    ]
    table = pa.Table.from_pylist(list(rows), schema=pa.schema(fields))
    table.validate(full=True)
    return table


def write(tables: Mapping[str, pa.Table], out: Path) -> int:
    """Write the tables below ``out``; returns their bytes on disk."""
    total = 0
    for name, table in tables.items():
        path = out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, path, compression="zstd", compression_level=19, store_schema=False)
        total += path.stat().st_size
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the Parquet files of the shipped datasets.")
    parser.add_argument("--out", type=Path, default=HERE, help="folder to write below (default: in place)")
    tables = build()
    size = write(tables, parser.parse_args().out)
    for name, table in tables.items():
        print(f"{table.num_rows:>7} rows  {name}")
    print(f"{size:>7} bytes in all")


if __name__ == "__main__":
    main()
