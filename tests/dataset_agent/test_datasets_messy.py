"""Files as people have them: what ``datasets init`` cannot know of one it says, and nothing is read wrongly in silence."""

from __future__ import annotations

import asyncio
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from pyarrow.parquet import read_schema

from contract.schema import SqlType
from contract.settings import Settings
from dataset_agent.dataset_validation import validate_folder
from queries.errors import DataError
from queries.source_columns import arrow_columns, csv_columns
from tests.dataset_agent.dataset_makers import csv_file, made_of

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "publish.md").read_text(encoding="utf-8")
COLUMNS_CALLED_AS_AN_ALIAS = "t,t0,site,amount\n1,2,a,1.5\n1,2,a,2.5\n1,2,b,3.5\n"


@pytest.mark.parametrize("name", ["readings.csv", "t.csv", "t1.csv"])
def test_a_table_whose_columns_are_called_as_an_alias_is_served_all_the_same(tmp_path: Path, name: str) -> None:
    made_of(tmp_path, csv_file(tmp_path, COLUMNS_CALLED_AS_AN_ALIAS, name))
    settings = Settings(home=tmp_path / "home", datasets=tmp_path / "world")
    assert asyncio.run(validate_folder(settings, tmp_path / "scratch")).faults == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("id;price;town\n1;1,50;Köln\n", "semicolons"),
        ("id;town\n1;Köln\n", "semicolons"),
        ("id\tname\n1\tx\n", "tabs"),
        ("id|name\n1|x\n", "bars"),
        ('\ufeffid;"name"\n1;x\n', "semicolons"),
    ],
)
def test_a_file_whose_fields_no_comma_separates_is_told_and_not_made_one_column(
    tmp_path: Path, text: str, said: str
) -> None:
    with pytest.raises(DataError) as caught:
        csv_columns(csv_file(tmp_path, text), "flights.csv")
    assert f"line 1: looks as if {said} separate the fields" in caught.value.message


def test_the_page_says_how_such_a_file_is_made_parquet(tmp_path: Path) -> None:
    """The line of docs/publish.md, as it is typed there."""
    csv_file(tmp_path, "id;price;town\n1;1,50;Köln\n2;2,75;Zürich\n", "prices.csv")
    (line,) = [line for line in PAGE.splitlines() if line.startswith('$ python -c "import duckdb')]
    subprocess.run([sys.executable, *shlex.split(line)[2:]], cwd=tmp_path, check=True)
    columns = read_schema(tmp_path / "prices.parquet")
    assert [(column.name, column.type) for column in arrow_columns(columns)] == [
        ("id", SqlType.INT64),
        ("price", SqlType.FLOAT64),
        ("town", SqlType.STRING),
    ]


@pytest.mark.parametrize("header", ['"a;b"', "weight|", "a;a", "kg"])
def test_an_only_column_may_have_a_separator_in_its_name(tmp_path: Path, header: str) -> None:
    (column,) = csv_columns(csv_file(tmp_path, f"{header}\n1\n2\n"), "flights.csv")
    assert (column.name, column.type) == (header.strip('"'), SqlType.INT64)


@pytest.mark.parametrize(
    ("values", "kind", "why"),
    [
        (('"1,50"', '"2,75"'), "STRING", "numbers in another form"),
        (('"1,500"', '"2,750,000.5"'), "STRING", "numbers in another form"),
        (('"1.234,50"', '"2,75"'), "STRING", "numbers in another form"),
        (("$1.50", "$2"), "STRING", "numbers in another form"),
        (("12 %", "7%"), "STRING", "numbers in another form"),
        (("01/02/2024", "31/12/2024"), "STRING", "days in another form"),
        (("1.2.24", "3.4.24"), "STRING", "days in another form"),
        (("2024-01-02 10:00:00+02", "2024-01-02 10:00:00+02"), "STRING", "times in another form"),
        (("99999999999999999999", "1"), "STRING", "too large for INT64"),
        (("9223372036854775807", "1"), "INT64", None),
        (("1.5", "99999999999999999999"), "STRING", "numbers in another form"),
        (("10.0.0.1", "10.0.0.2"), "STRING", None),
        (("a-1", "b-2"), "STRING", None),
        (("10.357019999999999", "1"), "FLOAT64", None),
    ],
)
def test_text_that_may_be_meant_as_a_number_or_a_time_is_told(
    tmp_path: Path, values: tuple[str, ...], kind: str, why: str | None
) -> None:
    path = csv_file(tmp_path, "value,other\n" + "".join(f"{value},x\n" for value in values))
    column, _ = csv_columns(path, "flights.csv")
    assert column.type == SqlType(kind)
    assert why in column.why if why else column.why == ""


def test_a_file_without_a_header_is_doubted(tmp_path: Path) -> None:
    made = made_of(tmp_path, csv_file(tmp_path, "1,2.5\n3,4.5\n"))
    assert any("has the file a header?" in note for note in made.notes())


def test_a_header_that_holds_one_number_is_one(tmp_path: Path) -> None:
    made = made_of(tmp_path, csv_file(tmp_path, "site,2024\na,4.5\n"))
    assert not any("header" in note for note in made.notes())
