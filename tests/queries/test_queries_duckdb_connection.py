"""How an engine's file is opened: a bound of memory is one, and nothing is said beside it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import duckdb
import pytest

from contract.errors import DatasetAgentError
from queries.duckdb_connection import connect, memory_bytes


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with duckdb.connect(str(tmp_path / "file")) as connection:
        connection.execute("CREATE TABLE t (a INT)")
    return tmp_path / "file"


@pytest.mark.parametrize("limit", ["100MB'; SET GLOBAL TimeZone='CET", "-1", "", "all"])
def test_a_memory_limit_says_nothing_else(path: Path, limit: str) -> None:
    with pytest.raises(DatasetAgentError, match="its form is not 512MB"):
        connect(path, limit, 1.0, threads=1)


def test_a_file_is_opened_to_be_read_within_its_bounds(path: Path) -> None:
    with connect(path, "64MB", 1.0, threads=3) as connection:
        assert connection.execute("SELECT current_setting('threads')").fetchall() == [(3,)]
        assert memory_bytes(connection) == pytest.approx(64 * 10**6, rel=0.01)
        with pytest.raises(duckdb.Error, match="read-only"):
            connection.execute("INSERT INTO t VALUES (1)")


def test_a_limit_that_cannot_be_read_is_a_fault() -> None:
    def saying(*rows: tuple[Any, ...]) -> duckdb.DuckDBPyConnection:
        answer = SimpleNamespace(fetchone=lambda: rows[0] if rows else None)
        return cast(duckdb.DuckDBPyConnection, SimpleNamespace(execute=lambda _: answer))

    assert memory_bytes(saying(("1.5 GiB",))) == 3 * 2**29
    for connection in (saying(("unlimited",)), saying()):
        with pytest.raises(DatasetAgentError, match="cannot be read"):
            memory_bytes(connection)
