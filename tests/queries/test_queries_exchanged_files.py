"""Who writes in one dataset's folder gets no other's rows by exchanging a file for a link while it is read."""

from __future__ import annotations

import os
from io import FileIO
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from contract.schema import Column, Table
from queries import duckdb_file
from queries.duckdb_file import database_file, source_file
from queries.errors import DataError
from queries.govern import DATA_SCHEMA

COLUMNS = (Column.model_validate({"name": "who", "type": "STRING"}),)


def written(path: Path, who: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".csv":
        path.write_text(f"who\n{who}\n")
    elif path.suffix == ".duckdb":
        with duckdb.connect(str(path)) as made:
            made.execute("CREATE TABLE z AS SELECT ? AS who", [who])
    else:
        pq.write_table(pa.table({"who": [who]}), path)


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".duckdb"])
@pytest.mark.parametrize("moment", ["before it is hashed", "before it is read"])
def test_what_is_built_is_of_the_file_that_was_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, moment: str
) -> None:
    own, secret = tmp_path / "own" / f"z{suffix}", tmp_path / "secret" / f"z{suffix}"
    written(own, "mine")
    written(secret, "somebody else's")
    hashed, read = duckdb_file._digest_of, duckdb_file.import_table

    def exchange() -> None:
        if not own.is_symlink():
            os.replace(own, tmp_path / "aside")
            own.symlink_to(secret)

    def late_hash(file: FileIO) -> str:
        if moment == "before it is hashed":
            exchange()
        return hashed(file)

    def late_read(connection: duckdb.DuckDBPyConnection, table: Table, source: FileIO) -> None:
        exchange()
        read(connection, table, source)

    monkeypatch.setattr(duckdb_file, "_digest_of", late_hash)
    monkeypatch.setattr(duckdb_file, "import_table", late_read)
    table = Table(name="z", file=f"z{suffix}", columns=COLUMNS)
    built = database_file("own", "1", "r", tmp_path / "own", [table], tmp_path / "scratch")
    with duckdb.connect(str(built), read_only=True) as connection:
        assert connection.execute(f'SELECT who FROM "{DATA_SCHEMA}".z').fetchall() == [("mine",)]
    assert [path.name for path in (tmp_path / "scratch").iterdir()] == [built.name]


@pytest.mark.parametrize("name", ["circle.csv", "a\0.csv", f"{'a' * 300}.csv"])
def test_what_no_file_can_be_called_is_told_as_that(tmp_path: Path, name: str) -> None:
    (tmp_path / "circle.csv").symlink_to("round.csv")
    (tmp_path / "round.csv").symlink_to("circle.csv")
    with pytest.raises(DataError, match="no file can have this path"):
        source_file(tmp_path, Table(name="z", file=name, columns=COLUMNS))
