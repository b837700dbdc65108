"""Files of a dataset that reach elsewhere, are none, or compute when they are read: told, and never opened."""

from __future__ import annotations

import os
from pathlib import Path

import duckdb
import pytest

from contract.schema import Column, Table
from queries.duckdb_file import database_file, source_file
from queries.errors import DataError


def declared(file: str, *more: str) -> Table:
    columns = [{"name": "id", "type": "INT64"}, *({"name": name, "type": "STRING"} for name in more)]
    return Table(name="t", file=file, columns=tuple(Column.model_validate(column) for column in columns))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A dataset's folder beside a file that is nobody's of it."""
    made = tmp_path / "dataset"
    made.mkdir()
    (tmp_path / "secret.csv").write_text("id\n1\n")
    os.symlink(tmp_path / "secret.csv", made / "link.csv")
    os.symlink(tmp_path, made / "out")
    os.symlink("/dev/zero", made / "zero.csv")
    os.symlink(made / "round.csv", made / "circle.csv")
    os.symlink(made / "circle.csv", made / "round.csv")
    os.mkfifo(made / "pipe.csv")
    return made


@pytest.mark.parametrize(
    "file",
    [
        "../secret.csv",
        "sub/../../secret.csv",
        "link.csv",
        "out/secret.csv",
        "/proc/self/environ",
        "zero.csv",
        "pipe.csv",
        "circle.csv",
        "s3://bucket/x.csv",
        "http://127.0.0.1:1/x.csv",
        "~/x.csv",
        "a\0.csv",
        f"{'a' * 300}.csv",
        ".",
    ],
)
def test_a_path_that_is_no_file_of_the_folder_is_told_in_fixed_words(folder: Path, file: str) -> None:
    with pytest.raises(DataError, match="table t: (the file|no file)"):
        source_file(folder, declared(file))


@pytest.mark.parametrize(
    "name", ['it\'s "q".csv', "a\nb.csv", "$path.csv", "{a,b}.csv", "a;b.csv", "a\\b.csv", " a.csv"]
)
def test_a_name_is_read_as_a_name_whatever_it_is_made_of(folder: Path, tmp_path: Path, name: str) -> None:
    (folder / name).write_text("id\n7\n")
    built = database_file("d", "1.0.0", "", folder, (declared(name),), tmp_path / "scratch")
    with duckdb.connect(str(built), read_only=True) as connection:
        assert connection.execute('SELECT id FROM "__data".t').fetchall() == [(7,)]


@pytest.mark.parametrize(
    "expression", ["repeat('x', 1000)", "current_setting('temp_directory')", "CAST(id AS VARCHAR)"]
)
@pytest.mark.parametrize("spelled", ["GENERATED ALWAYS AS ({}) VIRTUAL", "AS ({})"])
def test_a_table_that_computes_when_it_is_read_is_not_read(
    folder: Path, tmp_path: Path, expression: str, spelled: str
) -> None:
    with duckdb.connect(str(folder / "t.duckdb")) as connection:
        connection.execute(f"CREATE TABLE t (id BIGINT, x VARCHAR {spelled.format(expression)})")
        connection.execute("INSERT INTO t (id) VALUES (1)")
    for table in (declared("t.duckdb", "x"), declared("t.duckdb")):
        with pytest.raises(DataError, match="a column is GENERATED"):
            database_file("d", "1.0.0", "", folder, (table,), tmp_path / "scratch")


def test_a_default_is_no_computed_column(folder: Path, tmp_path: Path) -> None:
    with duckdb.connect(str(folder / "t.duckdb")) as connection:
        connection.execute("CREATE TABLE t (id BIGINT DEFAULT 3 PRIMARY KEY CHECK (id > 0))")
        connection.execute("INSERT INTO t VALUES (5)")
    database_file("d", "1.0.0", "", folder, (declared("t.duckdb"),), tmp_path / "scratch")
