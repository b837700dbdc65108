"""Small sources for ``datasets init``, and the command without a process."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from pydantic import TypeAdapter

from contract.settings import Settings
from dataset_agent.scaffold import Made, Wanted, make
from tests.dataset_agent.command_line import Run

ORDERS = """\
Order No,region,customer_email,amount,day,placed,note
007,north,ann@example.org,12.5,2024-02-29,2024-02-29T10:00:00Z,first
008,south,bob@example.org,7.25,2024-03-01,2024-03-01T11:00:00Z,
009,north,ann@example.org,NA,2024-03-02,2024-03-02T12:00:00Z,"a, b"
"""
FLIGHTS = """\
carrier,origin,flight,dep_delay,distance,time_hour
UA,EWR,1545,2.0,1400,2013-01-01T10:00:00Z
UA,LGA,1714,4.0,1416,2013-01-01T10:00:00Z
AA,JFK,1141,,1089,2013-01-01T10:00:00Z
B6,JFK,725,-1.0,1576,2013-01-02T10:00:00Z
UA,EWR,1696,-4.0,719,2013-01-02T10:00:00Z
AA,JFK,301,,733,2013-01-02T11:00:00Z
"""


def csv_file(folder: Path, text: str, name: str = "flights.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def parquet_file(folder: Path, columns: dict[str, Any], name: str = "levels.parquet") -> Path:
    pq.write_table(pa.table(columns), folder / name)
    return folder / name


def duckdb_file(folder: Path, *statements: str, name: str = "shop.duckdb") -> Path:
    with duckdb.connect(str(folder / name)) as connection:
        for statement in statements:
            connection.execute(statement)
    return folder / name


def made_of(folder: Path, *sources: Path | str, settings: Settings | None = None, **more: Any) -> Made:
    """``datasets init`` of ``folder / "world"``."""
    wanted = Wanted(folder / "world", tuple(str(source) for source in sources), **more)
    return make(wanted, settings or Settings(home=folder / "home"))


def descriptor_of(made: Made) -> dict[str, Any]:
    text = (made.folder / made.dataset.name / "descriptor.yaml").read_text(encoding="utf-8")
    return TypeAdapter(dict[str, Any]).validate_python(yaml.safe_load(text))


def types_of(made: Made) -> dict[str, str]:
    (table,) = descriptor_of(made)["tables"]
    return {column["name"]: column["type"] for column in table["columns"]}


def words(run: Run) -> str:
    """What was said, whatever the width of the terminal."""
    return " ".join((run.out + run.err).split())


NOON = dt.datetime(2024, 2, 29, 12, tzinfo=dt.UTC)
