"""What is built of a dataset's files is of those files alone, and for this user alone."""

from __future__ import annotations

import stat
from io import FileIO
from pathlib import Path

import duckdb
import pytest

from contract.schema import Table
from queries import duckdb_file
from queries.duckdb_file import database_file, source_file
from queries.errors import DataError
from tests.queries.world import DATASET, ORDERS, TABLES, rows, write


def test_a_file_that_changes_while_it_is_read_is_refused_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, read = write(tmp_path, rows()), duckdb_file.import_table

    def changing(connection: duckdb.DuckDBPyConnection, table: Table, source: FileIO) -> None:
        read(connection, table, source)
        with (folder / table.source).open("ab") as file:
            file.write(b"\n")

    monkeypatch.setattr(duckdb_file, "import_table", changing)
    with pytest.raises(DataError, match="changed while it was read"):
        database_file(DATASET, "1.0.0", "", folder, TABLES, folder / "scratch")
    assert list((folder / "scratch").iterdir()) == []


def test_the_database_and_its_folder_are_their_owners_only(tmp_path: Path) -> None:
    path = database_file(DATASET, "1.0.0", "", write(tmp_path, rows()), TABLES, tmp_path / "scratch")
    assert [stat.S_IMODE(place.stat().st_mode) for place in (path, path.parent)] == [0o600, 0o700]


def test_a_table_without_a_file_has_no_place_here(tmp_path: Path) -> None:
    stored = Table(name="orders", bigquery="data-project.shop_data.orders", columns=ORDERS.columns)
    with pytest.raises(DataError, match="lie in BigQuery"):
        source_file(tmp_path, stored)


@pytest.mark.parametrize("name", ["../secret.parquet", "data/../../secret.parquet"])
def test_a_file_outside_the_folder_is_none_of_the_dataset(tmp_path: Path, name: str) -> None:
    (tmp_path / "secret.parquet").write_bytes(b"")
    (tmp_path / "data").mkdir()
    outside = ORDERS.model_copy(update={"file": name})
    with pytest.raises(DataError, match="outside the dataset"):
        source_file(tmp_path / "inside", outside)
    linked = tmp_path / "inside" / "linked.parquet"
    linked.parent.mkdir()
    linked.symlink_to(tmp_path / "secret.parquet")
    with pytest.raises(DataError, match="outside the dataset"):
        source_file(tmp_path / "inside", ORDERS.model_copy(update={"file": "linked.parquet"}))


def test_a_file_that_is_a_folder_is_none(tmp_path: Path) -> None:
    (tmp_path / "data" / "orders.parquet").mkdir(parents=True)
    with pytest.raises(DataError, match="does not exist"):
        source_file(tmp_path, ORDERS)
