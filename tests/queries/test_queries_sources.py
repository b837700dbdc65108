"""CSV and DuckDB files are read as declared: what does not fit is named by column and row, never by value."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.schema import SqlType, Table
from queries.csv_values import SPELLINGS, read_values
from queries.duckdb_file import database_file, import_table, source_file
from queries.errors import DataError
from queries.govern import DATA_SCHEMA

S = SqlType


def declare(file: str, *columns: str, **more: Any) -> Table:
    """Columns as ``name:TYPE`` or ``name:TYPE:MODE``."""
    raw = [dict(zip(("name", "type", "mode"), column.split(":"), strict=False)) for column in columns]
    return Table.model_validate({"name": "t", "file": file, "columns": raw, **more})


def rows_of(folder: Path, table: Table) -> list[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        connection.execute(f'CREATE SCHEMA "{DATA_SCHEMA}"')
        with source_file(folder, table) as source:
            import_table(connection, table, source)
        connection.execute("SET TimeZone='UTC'")
        return connection.execute(f'SELECT * FROM "{DATA_SCHEMA}".t').fetchall()


def csv(tmp_path: Path, text: str | bytes, *columns: str) -> list[tuple[Any, ...]]:
    (tmp_path / "t.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    return rows_of(tmp_path, declare("t.csv", *columns))


def refused(tmp_path: Path, text: str | bytes, *columns: str) -> str:
    with pytest.raises(DataError) as caught:
        csv(tmp_path, text, *columns)
    return caught.value.message


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("STRING", "a b", "a b"),
        ("INT64", "-9223372036854775808", -(2**63)),
        ("INT64", "517.0", 517),
        ("FLOAT64", "1e-3", 0.001),
        ("FLOAT64", ".5", 0.5),
        ("NUMERIC", "12345678901234567890123456789.123456789", Decimal("12345678901234567890123456789.123456789")),
        ("BOOL", "True", True),
        ("BOOL", "false", False),
        ("DATE", "2024-02-29", dt.date(2024, 2, 29)),
        ("DATETIME", "2024-02-29 23:59", dt.datetime(2024, 2, 29, 23, 59)),
        ("TIMESTAMP", "2024-02-29T01:00:00.25+02:00", dt.datetime(2024, 2, 28, 23, 0, 0, 250_000, dt.UTC)),
        ("TIMESTAMP", "2024-02-29 01:00:00 UTC", dt.datetime(2024, 2, 29, 1, tzinfo=dt.UTC)),
        ("TIME", "23:59:59.5", dt.time(23, 59, 59, 500_000)),
        ("BYTES", "YWI=", b"ab"),
    ],
)
def test_a_field_is_read_as_the_type_that_is_declared(tmp_path: Path, kind: str, text: str, value: Any) -> None:
    (found,) = csv(tmp_path, f"a,b\n{text},\n", f"a:{kind}", f"b:{kind}")
    shown = found[0].astimezone(dt.UTC) if kind == "TIMESTAMP" else found[0]
    assert (shown, type(shown), found[1]) == (value, type(value), None)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("INT64", "9223372036854775808"),
        ("INT64", "1.5"),
        ("INT64", "0x10"),
        ("INT64", " 1"),
        ("INT64", "1e3"),
        ("FLOAT64", "NaN"),
        ("FLOAT64", "inf"),
        ("FLOAT64", '"1,5"'),
        ("NUMERIC", "0.0000000001"),
        ("NUMERIC", "123456789012345678901234567890"),
        ("BOOL", "1"),
        ("DATE", "2023-02-29"),
        ("DATE", "29.02.2024"),
        ("DATETIME", "2024-02-29T00:00:00Z"),
        ("TIMESTAMP", "2024-02-29T00:00:00"),
        ("TIMESTAMP", "2024-02-29T00:00:00.1234567Z"),
        ("TIME", "24:00:00"),
        ("BYTES", "YWI=YQ"),
    ],
)
def test_a_field_that_is_spelt_otherwise_is_refused_by_its_row_and_not_repeated(
    tmp_path: Path, kind: str, text: str
) -> None:
    told = refused(tmp_path, f"a,z\n,1\n,2\n{text},3\n", f"a:{kind}")
    assert told.startswith(f"t.csv: t.a: row 3 does not hold {kind} (")
    assert text.strip('"') not in told


def test_the_row_is_counted_over_every_batch_and_over_line_feeds_in_quotes(tmp_path: Path) -> None:
    body = 'n,s\n1,"two\nlines"\n' + "2,x\n" * 70_000 + "three,x\n"
    assert "t.n: row 70,002 " in refused(tmp_path, body, "n:INT64")


def test_a_value_that_only_conversion_refuses_is_found_among_many(tmp_path: Path) -> None:
    body = "d\n" + "2024-01-31\n" * 999 + "2024-02-30\n" + "2024-01-31\n" * 500
    assert "t.d: row 1,000 " in refused(tmp_path, body, "d:DATE")


def test_columns_are_found_by_the_header_and_others_are_left(tmp_path: Path) -> None:
    assert csv(tmp_path, "x,b,a\n9,two,1\n", "a:INT64", "b:STRING") == [(1, "two")]


def test_quotes_commas_and_line_feeds_are_read_as_the_rfc_writes_them(tmp_path: Path) -> None:
    assert csv(tmp_path, 'a,b\r\n"x ""y"", z","1\r\n2"\r\n', "a:STRING", "b:STRING") == [('x "y", z', "1\r\n2")]


def test_an_empty_field_is_null_and_an_empty_text_in_quotes_is_a_text(tmp_path: Path) -> None:
    assert csv(tmp_path, 'a,b,c\n,"",""\n', "a:STRING", "b:STRING", "c:INT64") == [(None, "", None)]


def test_a_byte_order_mark_belongs_to_no_name(tmp_path: Path) -> None:
    assert csv(tmp_path, b"\xef\xbb\xbfa\n1\n", "a:INT64") == [(1,)]


def test_a_file_of_a_header_alone_has_no_rows(tmp_path: Path) -> None:
    assert csv(tmp_path, "a,b\n", "a:INT64") == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "is empty"),
        ("a,a\n1,2\n", "column 2 has the name of another"),
        ("a,\n1,2\n", "column 2 has no name"),
        ("a,b\n1\n", "line 2: 1 fields where the header has 2"),
        ("a,b\n1,2\n1,2,3\n", "line 3: 3 fields where the header has 2"),
        ('a,b\n1,"2\n', "line 2: a quote is not closed"),
        ('a,b\n1,"2"3\n', "line 2: a quote is not closed"),
        (b"a,b\n1,\xff\n", "line 2: not UTF-8"),
        (b"\xff,b\n1,2\n", "line 1: the header is not UTF-8"),
        ("b\n1\n", "t.a is declared and not in the header"),
        ("A,b\n1,2\n", "the header spells it in another way"),
        ("a,b\n" + "x" * 2_200_000 + ",1\n", "longer than"),
    ],
)
def test_a_file_that_is_no_such_csv_is_refused_with_its_line(tmp_path: Path, text: str | bytes, told: str) -> None:
    assert told in refused(tmp_path, text, "a:STRING")


def test_a_required_column_names_the_row_that_is_empty(tmp_path: Path) -> None:
    assert "t.a is REQUIRED and row 2 is empty" in refused(tmp_path, "a,b\n1,2\n,2\n", "a:INT64:REQUIRED")


@pytest.mark.parametrize("column", [{"name": "a", "type": "INT64", "mode": "REPEATED"},
                                    {"name": "a", "type": "STRUCT", "fields": [{"name": "x", "type": "INT64"}]}])  # fmt: skip
def test_a_csv_file_holds_no_nested_value(tmp_path: Path, column: dict[str, Any]) -> None:
    (tmp_path / "t.csv").write_text("a\n1\n")
    table = Table.model_validate({"name": "t", "file": "t.csv", "columns": [column]})
    with pytest.raises(DataError, match="holds no STRUCT and no list"):
        rows_of(tmp_path, table)


_WRITERS: dict[SqlType, Any] = {
    S.INT64: st.integers(-(2**63), 2**63 - 1).map(lambda v: (str(v), v)),
    S.FLOAT64: st.floats(allow_nan=False, allow_infinity=False).map(lambda v: (repr(v), v)),
    S.BOOL: st.booleans().map(lambda v: (str(v).lower(), v)),
    S.DATE: st.dates(dt.date(1, 1, 1)).map(lambda v: (v.isoformat(), v)),
    S.DATETIME: st.datetimes(dt.datetime(1, 1, 1)).map(lambda v: (v.isoformat(), v)),
    S.TIME: st.times().map(lambda v: (v.isoformat(), v)),
    S.TIMESTAMP: st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30), timezones=st.just(dt.UTC)).map(
        lambda v: (v.isoformat(), v)
    ),
    S.NUMERIC: st.decimals(
        min_value=Decimal("-1e28"), max_value=Decimal("1e28"), places=9, allow_nan=False, allow_infinity=False
    ).map(lambda v: (format(v, "f"), v)),
}


@given(data=st.data(), kind=st.sampled_from(sorted(_WRITERS)))
def test_what_python_writes_is_read_back_equal(data: st.DataObject, kind: SqlType) -> None:
    pairs = data.draw(st.lists(_WRITERS[kind] | st.just((None, None)), min_size=1, max_size=8))
    read = read_values(kind, pa.array([text for text, _ in pairs], pa.string()))
    assert read.wrong is None
    assert read.values.to_pylist() == [value for _, value in pairs]


@given(kind=st.sampled_from(sorted(SPELLINGS)), texts=st.lists(st.text(max_size=12), min_size=1, max_size=6))
def test_any_text_is_read_or_placed_and_nothing_else(kind: SqlType, texts: list[str]) -> None:
    read = read_values(kind, pa.array(texts, pa.string()))
    assert (read.wrong is None) == (read.values is not None)
    assert read.wrong is None or texts[read.wrong] != ""


def store(tmp_path: Path, *statements: str) -> Path:
    path = tmp_path / "t.duckdb"
    with duckdb.connect(str(path)) as connection:
        for statement in statements:
            connection.execute(statement)
    return path


def test_a_table_of_a_duckdb_file_is_read_by_its_relation(tmp_path: Path) -> None:
    store(tmp_path, "CREATE TABLE flights AS SELECT 7::INTEGER AS a, 1.5::DECIMAL(9, 2) AS b, [1, 2] AS c")
    table = declare("t.duckdb", "b:NUMERIC", "a:INT64", "c:INT64:REPEATED", relation="flights")
    assert rows_of(tmp_path, table) == [(Decimal("1.5"), 7, [1, 2])]


def test_a_timestamp_of_a_duckdb_file_is_the_same_instant(tmp_path: Path) -> None:
    store(
        tmp_path, "SET TimeZone='America/New_York'", "CREATE TABLE t AS SELECT TIMESTAMPTZ '2024-02-29 20:00:00' AS a"
    )
    ((found,),) = rows_of(tmp_path, declare("t.duckdb", "a:TIMESTAMP"))
    assert found.astimezone(dt.UTC) == dt.datetime(2024, 3, 1, 1, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("statement", "column", "told"),
    [
        ("CREATE TABLE t AS SELECT 'x' AS a", "a:INT64", "t.a is declared INT64, the file holds string"),
        ("CREATE TABLE t AS SELECT 1 AS b", "a:INT64", "t.a is declared and not in the file"),
        ("CREATE TABLE u AS SELECT 1 AS a", "a:INT64", "no base table 't'; it has u"),
        ("CREATE VIEW t AS SELECT 1 AS a", "a:INT64", "no base table 't'"),
        ("CREATE TABLE t AS SELECT DATE '-infinity' AS a", "a:DATE", "t.a holds infinity"),
        ("CREATE TABLE t AS SELECT 'nan'::DOUBLE AS a", "a:FLOAT64", "t.a holds NaN"),
    ],
)
def test_a_duckdb_file_that_does_not_fit_is_refused(tmp_path: Path, statement: str, column: str, told: str) -> None:
    store(tmp_path, statement)
    with pytest.raises(DataError) as caught:
        rows_of(tmp_path, declare("t.duckdb", column))
    assert told in caught.value.message


def test_a_duckdb_file_that_is_written_meanwhile_is_refused(tmp_path: Path) -> None:
    store(tmp_path, "CREATE TABLE t AS SELECT 1 AS a").with_name("t.duckdb.wal").write_bytes(b"")
    with pytest.raises(DataError, match="CHECKPOINT"):
        rows_of(tmp_path, declare("t.duckdb", "a:INT64"))


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.duckdb").write_bytes(b"rubbish" * 9_000)
    with pytest.raises(DataError, match="no DuckDB database"):
        rows_of(tmp_path, declare("t.duckdb", "a:INT64"))


def test_a_csv_file_is_not_read_by_a_pattern_in_its_name(tmp_path: Path) -> None:
    (tmp_path / "t[1].csv").write_text("a\n1\n")
    (tmp_path / "t1.csv").write_text("a\n2\n")
    assert rows_of(tmp_path, declare("t[1].csv", "a:INT64")) == [(1,)]


def test_a_duckdb_file_that_somebody_writes_to_is_refused(tmp_path: Path) -> None:
    writing = f"import duckdb, sys; held = duckdb.connect({str(store(tmp_path, 'CREATE TABLE t AS SELECT 1 AS a'))!r}); print(); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", writing], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None and other.stdout.readline()
        with pytest.raises(DataError, match="open for writing"):
            rows_of(tmp_path, declare("t.duckdb", "a:INT64"))
        other.communicate()


def test_what_is_built_of_a_csv_file_follows_its_bytes(tmp_path: Path) -> None:
    table = declare("t.csv", "a:INT64")
    built = []
    for text in ("a\n1\n", "a\n2\n"):
        (tmp_path / "t.csv").write_text(text)
        built.append(database_file("shop", "1", "r", tmp_path, [table], tmp_path / "scratch"))
    assert built[0] != built[1]
