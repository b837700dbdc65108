"""A dataset with arrays and structs, asked through both agents: card, grant, arguments, rows, cache."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.dataset_agent.command_line import CommandLine, Run, command_for
from tests.large_world import write_people
from tests.running_agent import agent_home, running_agent

FIELDS = [{"name": "sku", "type": "STRING"}, {"name": "qty", "type": "INT64"}]
SQL = """
SELECT
  b.id AS id,
  ARRAY(SELECT AS STRUCT l.sku AS sku, l.qty AS qty FROM UNNEST(b.lines) AS l WHERE l.qty >= @range.low ORDER BY l.qty) AS lines,
  b.tags AS tags
FROM basket AS b
WHERE (@skus IS NULL OR EXISTS (SELECT 1 FROM UNNEST(b.lines) AS l WHERE l.sku IN UNNEST(@skus)))
ORDER BY b.id
LIMIT @size
"""
BASKETS: list[dict[str, Any]] = [
    {"id": 1, "site": "Basel", "tags": ["b", "a"], "lines": [{"sku": "A", "qty": 2}, {"sku": "B", "qty": 1}]},
    {"id": 2, "site": "Stein", "tags": ["secret"], "lines": [{"sku": "A", "qty": 9}]},
    {"id": 3, "site": "Basel", "tags": [], "lines": []},
]


def _descriptor() -> dict[str, Any]:
    lines = {"name": "lines", "type": "STRUCT", "mode": "REPEATED", "fields": FIELDS}
    tags = {"name": "tags", "type": "STRING", "mode": "REPEATED"}
    column = {"name": "id", "type": "INT64", "mode": "REQUIRED"}
    low = {"name": "range", "type": "STRUCT", "fields": [{"name": "low", "type": "INT64"}], "description": "A range."}
    return {
        "dataset": "readings",
        "description": "Baskets and what is in them.",
        "tenant": "acme",
        "version": "1",
        "revision": "r1",
        "schema_version": "1",
        "as_of": "2026-08-31T00:00:00Z",
        "freshness": {"maximum_age_s": 86_400, "reuse_s": 600},
        "provenance": {"system": "test", "source": "baskets"},
        "tables": [
            {
                "name": "basket",
                "file": "data/basket.parquet",
                "columns": [column, {"name": "site", "type": "STRING", "attribute": "site"}, tags, lines],
            }
        ],
        "capabilities": [
            {
                "name": "list",
                "description": "baskets with some article",
                "effect": "read",
                "tool_name": "list",
                "template": "list.sql",
                "max_rows": 100,
                "keywords": ["baskets", "articles"],
                "examples": ["list baskets with article A"],
                "parameters": [
                    {**low, "default": {"low": 0}},
                    {"name": "skus", "type": "STRING", "repeated": True, "nullable": True, "description": "Articles."},
                    {
                        "name": "size",
                        "type": "INT64",
                        "minimum": 0,
                        "maximum": 50,
                        "default": 50,
                        "description": "Rows.",
                    },
                ],
                "results": [column, lines, tags],
            }
        ],
    }


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLine]:
    from tests import large_world

    folder = tmp_path_factory.mktemp("nested")
    datasets = folder / "datasets"
    _write(datasets, large_world._POLICY.replace("reading.site", "basket.site"), large_world._SCHEMA)
    with running_agent(agent_home(folder / "home", datasets=datasets)) as agent:
        assert not agent.lifecycle.status()["invalid"], agent.lifecycle.status()["invalid"]
        yield command_for(agent.settings, URL=agent.url, DATASETS=str(datasets))


def _write(datasets: Path, policy: str, schema: str) -> None:
    (datasets / "readings/data").mkdir(parents=True)
    (datasets / "policies").mkdir()
    kind = pa.list_(pa.struct([("sku", pa.string()), ("qty", pa.int64())]))
    stored = pa.schema([("id", pa.int64()), ("site", pa.string()), ("tags", pa.list_(pa.string())), ("lines", kind)])
    pq.write_table(pa.Table.from_pylist(BASKETS, schema=stored), datasets / "readings/data/basket.parquet")
    (datasets / "readings/list.sql").write_text(SQL)
    (datasets / "readings/descriptor.json").write_text(json.dumps(_descriptor()))
    for name, text in (("t.cedar", policy), ("t.cedarschema", schema), ("version", "1\n")):
        (datasets / "policies" / name).write_text(text)
    write_people(datasets, {"engineer": ["Basel"]})


def call(command: CommandLine, *arguments: str) -> Run:
    given = [part for argument in arguments for part in ("--arg", argument)]
    return command("call", "list", "--as", "engineer", "--dataset", "readings", *given, "--json")


FIRST = [1, [{"sku": "B", "qty": 1}, {"sku": "A", "qty": 2}], ["b", "a"]]


def test_nested_rows_come_back_governed_and_verified(command: CommandLine) -> None:
    run = call(command)
    assert (run.code, run.json["result"]["rows"]) == (0, [FIRST, [3, [], []]])
    assert run.json["provenance"]["verified"]
    assert run.json["result"]["schema"][1]["fields"] == [field | {"mode": "NULLABLE"} for field in FIELDS]


def test_arguments_of_structs_and_lists_are_taken_and_their_order_means_nothing_to_the_cache(
    command: CommandLine,
) -> None:
    run = call(command, 'range={"low": 2}', "skus=B,A", "size=1")
    assert (run.code, run.json["result"]["rows"]) == (0, [[1, [{"sku": "A", "qty": 2}], ["b", "a"]]])
    again = call(command, 'range:={"low":2}', 'skus:=["A","B","A"]', "size:=1")
    assert (again.json["cache"]["outcome"], again.json["result"]["rows"]) == ("HIT", run.json["result"]["rows"])


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        ('range={"low": "x7712377"}', "has a field low that must be a whole number"),
        ('range={"high": 7712377}', "has no field high"),
        ("range={}", "lacks the field low"),
        ("range=[]", "must be an object of its fields"),
        ("size=51", "is above the declared maximum"),
    ],
)
def test_an_argument_that_does_not_fit_is_refused_by_its_field(command: CommandLine, argument: str, said: str) -> None:
    run = call(command, argument)
    assert (run.code, run.json["verdict"]) == (3, "REFUSED")
    assert said in run.out
    assert "7712377" not in json.dumps(run.json["remote"])
