"""What ``datasets init`` makes of a table is whole and can be served at once, or nothing is made."""

from __future__ import annotations

import asyncio
import csv
import json
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from contract.errors import DatasetAgentError
from contract.settings import SHIPPED_DATASETS, Settings
from control_plane.policy import load_policies
from control_plane.principals import load_directory
from control_plane.registry import load_registry
from dataset_agent.dataset_validation import Report, validate_folder
from dataset_agent.scaffold import declared
from dataset_agent.scaffold_facts import look_at
from dataset_agent.scaffold_names import RESERVED, column_names, is_column, slug_of
from dataset_agent.scaffold_source import read_file
from tests.dataset_agent.dataset_makers import (
    FLIGHTS,
    NOON,
    ORDERS,
    csv_file,
    descriptor_of,
    duckdb_file,
    made_of,
    parquet_file,
    types_of,
)

pytestmark = pytest.mark.live


def checked(folder: Path, world: Path | None = None) -> Report:
    settings = Settings(home=folder / "home", datasets=world or folder / "world")
    return asyncio.run(validate_folder(settings, folder / "scratch"))


def refused(folder: Path, *sources: Path | str, **more: Any) -> str:
    with pytest.raises(DatasetAgentError) as caught:
        made_of(folder, *sources, **more)
    assert not [path for path in folder.iterdir() if path.name.startswith(".init-")]
    return caught.value.message


def test_a_folder_made_of_a_csv_file_has_no_fault_and_no_warning(tmp_path: Path) -> None:
    made_of(tmp_path, csv_file(tmp_path, FLIGHTS))
    report = checked(tmp_path)
    assert (report.faults, report.warnings, report.datasets) == ([], [], ["flights"])


def test_a_csv_file_whose_names_are_names_is_copied_as_it_is(tmp_path: Path) -> None:
    path = csv_file(tmp_path, FLIGHTS)
    made = made_of(tmp_path, path)
    assert (made.folder / "flights" / "data" / "flights.csv").read_bytes() == path.read_bytes()
    assert types_of(made) == {
        "carrier": "STRING",
        "origin": "STRING",
        "flight": "INT64",
        "dep_delay": "INT64",
        "distance": "INT64",
        "time_hour": "TIMESTAMP",
    }


def test_names_that_are_none_are_mapped_and_said_and_codes_stay_text(tmp_path: Path) -> None:
    made = made_of(tmp_path, csv_file(tmp_path, ORDERS, "Orders 2024.csv"), null=("NA",))
    assert made.dataset.name == "orders_2024"
    assert types_of(made) == {
        "order_no": "STRING",
        "region": "STRING",
        "customer_email": "STRING",
        "amount": "FLOAT64",
        "day": "DATE",
        "placed": "TIMESTAMP",
        "note": "STRING",
    }
    notes = list(made.notes())
    assert 'orders_2024.order_no: was "Order No"; text, to keep leading zeros' in notes
    assert "orders_2024: NA became NULL; written as data/orders_2024.parquet" in notes
    assert checked(tmp_path).ok


def test_a_text_that_stands_for_null_is_told_where_it_was_not_given(tmp_path: Path) -> None:
    made = made_of(tmp_path, csv_file(tmp_path, ORDERS))
    assert types_of(made)["amount"] == "STRING"
    assert any("try --null NA" in note for note in made.notes())


def test_what_sounds_personal_is_confidential_and_in_no_template(tmp_path: Path) -> None:
    made = made_of(tmp_path, csv_file(tmp_path, ORDERS, "orders.csv"))
    raw = descriptor_of(made)
    (email,) = [column for column in raw["tables"][0]["columns"] if column["name"] == "customer_email"]
    assert email["sensitivity"] == "confidential"
    assert all("customer_email" not in path.read_text() for path in (made.folder / "orders" / "templates").iterdir())
    assert any("customer_email: sounds personal" in note for note in made.notes())


def test_few_texts_become_the_values_of_a_filter(tmp_path: Path) -> None:
    made = made_of(tmp_path, csv_file(tmp_path, FLIGHTS))
    listing = descriptor_of(made)["capabilities"][0]
    filters = {parameter["name"]: parameter.get("values") for parameter in listing["parameters"]}
    assert filters["carrier"] == ["AA", "B6", "UA"]
    assert filters["time_hour_from"] is None


def test_every_type_of_a_parquet_file_is_declared_or_left_out_with_its_reason(tmp_path: Path) -> None:
    columns = {
        "Id": pa.array([1, 2], pa.int32()),
        "ratio": pa.array([0.5, float("nan")]),
        "price": pa.array([Decimal("1.50"), None], pa.decimal128(9, 2)),
        "fine": pa.array([Decimal("1"), None], pa.decimal128(30, 12)),
        "at": pa.array([NOON, None], pa.timestamp("us", "UTC")),
        "tags": pa.array([["a"], []], pa.list_(pa.string())),
        "point": pa.array([{"x": 1}, None], pa.struct([("x", pa.int64())])),
        "kind": pa.array(["a", "b"]).dictionary_encode(),
        "span": pa.array([1, 2], pa.duration("s")),
        "order": pa.array([True, False]),
    }
    made = made_of(tmp_path, parquet_file(tmp_path, columns))
    assert types_of(made) == {
        "id": "INT64",
        "ratio": "FLOAT64",
        "price": "NUMERIC",
        "at_value": "TIMESTAMP",
        "tags": "STRING",
        "point": "STRUCT",
        "kind": "STRING",
        "order_value": "BOOL",
    }
    notes = " | ".join(made.notes())
    assert "ratio: NaN and infinities became NULL" in notes
    assert "fine: left out: the file holds decimal128(30, 12)" in notes
    assert "span: left out: the file holds duration[s]" in notes
    assert checked(tmp_path).faults == []


def test_a_parquet_file_that_needs_nothing_is_copied_as_it_is(tmp_path: Path) -> None:
    path = parquet_file(tmp_path, {"site": ["a", "b"], "level": [1.5, None]})
    made = made_of(tmp_path, path)
    assert (made.folder / "levels" / "data" / "levels.parquet").read_bytes() == path.read_bytes()


def test_the_tables_of_a_duckdb_file_are_one_dataset(tmp_path: Path) -> None:
    path = duckdb_file(
        tmp_path,
        "CREATE TABLE orders AS SELECT 1 AS id, 'north' AS region, 2.5::DECIMAL(9, 2) AS amount",
        "CREATE TABLE \"Order Lines\" AS SELECT 1 AS id, 'x' AS sku",
        "CREATE VIEW hidden AS SELECT 1 AS id",
    )
    made = made_of(tmp_path, path)
    tables = {table["name"]: (table["file"], table.get("relation")) for table in descriptor_of(made)["tables"]}
    assert tables == {
        "orders": ("data/shop.duckdb", None),
        "order_lines": ("data/shop.duckdb", "Order Lines"),
    }
    assert checked(tmp_path).faults == []


def test_chosen_tables_of_a_duckdb_file_are_taken_alone(tmp_path: Path) -> None:
    path = duckdb_file(tmp_path, "CREATE TABLE a AS SELECT 1 AS id", "CREATE TABLE b AS SELECT 2 AS id")
    assert [table["name"] for table in descriptor_of(made_of(tmp_path, path, tables=("b",)))["tables"]] == ["b"]


def test_several_files_are_one_dataset(tmp_path: Path) -> None:
    made = made_of(
        tmp_path, csv_file(tmp_path, FLIGHTS), csv_file(tmp_path, "carrier,name\nUA,United\n", "airlines.csv")
    )
    assert [table["name"] for table in descriptor_of(made)["tables"]] == ["flights", "airlines"]
    assert checked(tmp_path).faults == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a,b\n1\n", "1 fields where the header has 2"),
        ("a,a\n1,2\n", "has the name of another"),
        ("", "is empty"),
    ],
)
def test_a_file_that_cannot_be_read_makes_nothing(tmp_path: Path, text: str, told: str) -> None:
    assert told in refused(tmp_path, csv_file(tmp_path, text))
    assert not (tmp_path / "world").exists()


@pytest.mark.parametrize(
    ("name", "more", "told"),
    [
        ("flights.xlsx", {}, "is none of .csv"),
        ("none.csv", {}, "is not there"),
        ("world", {}, "world is a folder: name a file in it"),
        ("flights.csv", {"name": "Not A Name"}, "is no name for a dataset"),
        ("flights.csv", {"tenant": "ACME"}, "is no name for a tenant"),
        ("flights.csv", {"tables": ("a", "b")}, "holds one table"),
        ("flights.csv", {"into": True}, "has no policies"),
    ],
)
def test_what_is_asked_for_wrongly_is_said(tmp_path: Path, name: str, more: dict[str, Any], told: str) -> None:
    for file in ("flights.csv", "flights.xlsx"):
        csv_file(tmp_path, FLIGHTS, file)
    (tmp_path / "world").mkdir()
    assert told in refused(tmp_path, tmp_path / name, **more)


def test_a_place_that_cannot_be_written_is_named_and_no_hidden_folder(tmp_path: Path) -> None:
    source = csv_file(tmp_path, FLIGHTS)
    with pytest.raises(DatasetAgentError) as caught:  # a place where not even root makes a folder
        made_of(Path("/proc"), source, settings=Settings(home=tmp_path / "home"))
    assert caught.value.message.startswith("/proc cannot be written (")
    assert caught.value.message.endswith("name a place in a folder that may be")


def test_nothing_that_is_there_is_overwritten(tmp_path: Path) -> None:
    path = csv_file(tmp_path, FLIGHTS)
    made = made_of(tmp_path, path)
    before = {file: file.read_bytes() for file in made.folder.rglob("*") if file.is_file()}
    assert "--into" in refused(tmp_path, path)
    assert "give the new dataset another --name" in refused(tmp_path, path, into=True)
    assert {file: file.read_bytes() for file in made.folder.rglob("*") if file.is_file()} == before


def test_a_dataset_added_to_a_folder_leaves_the_others_and_their_policies_as_they_are(tmp_path: Path) -> None:
    world = Path(shutil.copytree(SHIPPED_DATASETS, tmp_path / "world"))
    before = checked(tmp_path)
    held, people = load_policies(world / "policies"), load_directory(world / "principals.yaml")
    made = made_of(tmp_path, csv_file(tmp_path, FLIGHTS), into=True)
    policies, directory = load_policies(world / "policies"), load_directory(world / "principals.yaml")
    assert {name: policies.policies[name] for name in held.policies} == dict(held.policies)
    assert {name: directory.by_name[name] for name in people.by_name} == dict(people.by_name)
    assert made.principals == ("flights_analyst",)
    assert policies.version == f"{held.version}+flights"
    report = checked(tmp_path)
    assert (report.faults, report.warnings) == ([], before.warnings)
    assert sorted(report.datasets) == ["chromatography-results", "clinical-private", "flights", "purification-batches"]


def test_a_second_dataset_is_added_like_the_first(tmp_path: Path) -> None:
    path = csv_file(tmp_path, FLIGHTS)
    made_of(tmp_path, path)
    made_of(tmp_path, path, into=True, name="flights-2014")
    report = checked(tmp_path)
    assert (report.faults, report.warnings, sorted(report.datasets)) == ([], [], ["flights", "flights-2014"])


def test_policies_that_no_program_can_add_to_are_left_alone(tmp_path: Path) -> None:
    path = csv_file(tmp_path, FLIGHTS)
    made = made_of(tmp_path, path)
    people = made.folder / "principals.yaml"
    people.write_text("principals: []\nissuer: https://issuer.dataset-agent.example\n")
    assert "copy its parts" in refused(tmp_path, path, into=True, name="more")
    assert people.read_text().startswith("principals: []")
    assert sorted(load_registry(made.folder).datasets) == ["flights"]


def test_the_schema_beside_a_descriptor_is_the_one_it_names(tmp_path: Path) -> None:
    made = made_of(tmp_path, csv_file(tmp_path, FLIGHTS))
    first = (made.folder / "flights" / "descriptor.yaml").read_text().splitlines()[0]
    named = first.rpartition("$schema=")[2]
    assert first.startswith("# yaml-language-server: ")
    assert json.loads((made.folder / "flights" / named).read_text())["title"] == "dataset-agent descriptor"


def test_a_table_of_bigquery_is_named_in_full(tmp_path: Path) -> None:
    assert "write bq:project.dataset.table" in refused(tmp_path, "bq:flights")
    assert "two datasets" in refused(tmp_path, csv_file(tmp_path, FLIGHTS), "bq:my-project.d.t")


@given(names=st.lists(st.text(max_size=70), max_size=12, unique=True))
def test_any_names_become_distinct_names_and_those_that_are_stay(names: list[str]) -> None:
    found = column_names(names)
    assert list(found) == names
    assert len(set(found.values())) == len(names)
    assert all(is_column(new) for new in found.values())
    assert all(new == old for old, new in found.items() if is_column(old))


@pytest.mark.parametrize(
    ("text", "name"),
    [("Dep Time (local)", "dep_time_local"), ("Über-Größe", "uber_groe"), ("2024", "column_2024"), ("", "column")],
)
def test_a_name_is_made_of_what_is_there(text: str, name: str) -> None:
    assert slug_of(text) == name


def test_a_reserved_word_is_no_name_of_a_column() -> None:
    assert column_names(["order", "select"]) == {"order": "order_value", "select": "select_value"}
    assert {"order", "group", "hash"} <= RESERVED


TABLES = st.lists(
    st.tuples(
        st.text(min_size=1, max_size=8).filter(lambda text: text.isprintable() and "\ufeff" not in text),
        st.lists(
            st.sampled_from(["", "1", "2.0", "x", "a, b", 'q"q', "2024-02-29", "true", "NA", "007", "1e3", "ß", "  "]),
            min_size=3,
            max_size=3,
        ),
    ),
    min_size=1,
    max_size=4,
    unique_by=lambda column: column[0],
)


@settings(max_examples=25, deadline=None)
@given(columns=TABLES)
def test_whatever_a_csv_file_holds_its_columns_are_declared_as_they_are_read(
    columns: list[tuple[str, list[str]]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    assume(len(columns) > 1 or not set(columns[0][0]) & set(";\t|"))  # an only name must be in quotes then
    folder = tmp_path_factory.mktemp("any")
    (folder / "data").mkdir()
    with (folder / "any.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(
            [[name for name, _ in columns], *zip(*(values for _, values in columns), strict=True)]
        )
    (found,) = read_file(folder / "any.csv", folder / "data", tables=(), null=())
    facts = look_at(folder, found, declared(found))  # which raises where a value does not fit
    assert (found.name, len(found.columns), facts.rows) == ("any_table", len(columns), 3)
