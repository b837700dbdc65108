"""A template that is refused says where: the file as the operator knows it, and the line of the construct."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from contract.scope import Sensitivity
from control_plane.manifest import CapabilityManifest, DatasetManifest
from queries.template import Template, TemplateError, load_template
from tests.queries.world import ORDERS, parameter, template
from tests.shipped_registry import shipped_registry

DATASETS = Path(__file__).resolve().parents[2] / "datasets"
REGISTRY = shipped_registry()
_QUALIFIED = re.compile(r"\b([a-z_]+)\.([a-z_0-9]+)\b")


def _shipped() -> Iterator[tuple[DatasetManifest, CapabilityManifest, str]]:
    for name, manifest in REGISTRY.datasets.items():
        for capability in manifest.capabilities:
            yield manifest, capability, (REGISTRY.path(name) / str(capability.template)).read_text("utf-8")


SHIPPED = list(_shipped())


def _load(manifest: DatasetManifest, capability: CapabilityManifest, sql: str) -> Template:
    return load_template(
        sql,
        name=str(capability.template),
        dataset=manifest.dataset,
        tables=manifest.tables,
        parameters=capability.parameters,
        results=capability.results,
        ceiling=capability.sensitivity,
    )


@pytest.mark.parametrize(
    ("manifest", "capability", "sql"), SHIPPED, ids=[f"{m.dataset}/{c.name}" for m, c, _ in SHIPPED]
)
def test_a_column_that_is_not_there_is_reported_on_its_own_line(
    manifest: DatasetManifest, capability: CapabilityManifest, sql: str
) -> None:
    wrong = []
    code = re.sub(r"--[^\n]*", lambda match: " " * len(match.group()), sql)
    for match in list(_QUALIFIED.finditer(code))[::3]:
        line = sql.count("\n", 0, match.start()) + 1
        with pytest.raises(TemplateError) as refused:
            _load(manifest, capability, f"{sql[: match.start(2)]}gone_{sql[match.end(2) :]}")
        if refused.value.line != line:
            wrong.append((line, refused.value.message))
    assert wrong == []


SQL = """\
SELECT
  o.id AS id,
  MIN({0}) AS least
FROM orders AS o
WHERE o.id = @x
GROUP BY o.id
ORDER BY o.id"""


@pytest.mark.parametrize(
    ("sql", "line", "said"),
    [
        (SQL.format("o.gone"), 3, "table orders has no column gone"),
        (SQL.format("q.id"), 3, "'q'"),
        (SQL.format("(SELECT MAX(c.gone) FROM customers AS c)"), 3, "table customers has no column gone"),
        (SQL.format("o.id").replace("WHERE o.id", "WHERE o.gone"), 5, "table orders has no column gone"),
        (SQL.format("o.id").replace("GROUP BY o.id", "GROUP BY o.gone"), 6, "table orders has no column gone"),
        (SQL.format("o.id").replace("ORDER BY o.id", "ORDER BY o.id, gone"), 7, "gone"),
        (SQL.format("o.id").replace("orders AS", "gone AS"), 4, "table gone is not declared"),
        (SQL.format("o.id").replace("@x", "@y"), 5, "@y is not a declared parameter"),
        (SQL.format("o.id").replace("AS least", "AS most"), 3, "the declared results are id, least"),
        (SQL.format("o.note"), 3, "least is declared INT64, the query returns STRING"),
        (SQL.format("o.id") + ";\nSELECT 1 AS id", 8, "this file holds 2 statements"),
        (SQL.format("o.id") + "\nLIMIT", 8, "LIMIT is not complete"),
        ("\n\nFROM orders\n|> SELECT id", 4, "the pipe syntax is not accepted"),
    ],
)
def test_a_fault_is_reported_on_its_line_in_words(sql: str, line: int, said: str) -> None:
    with pytest.raises(TemplateError) as refused:
        template(sql, "id:INT64 least:INT64", parameter("x:INT64"))
    assert (refused.value.line, said in refused.value.reason) == (line, True), refused.value.message


def test_a_column_above_the_ceiling_is_reported_where_it_is_read_first() -> None:
    columns = [c.model_copy(update={"sensitivity": Sensitivity.RESTRICTED}) for c in ORDERS.columns if c.name == "note"]
    tables = (ORDERS.model_copy(update={"columns": (*(c for c in ORDERS.columns if c.name != "note"), *columns)}),)
    sql = "SELECT\n  o.id AS id,\n  o.note AS note\nFROM orders AS o\nORDER BY o.id, o.note"
    with pytest.raises(TemplateError, match=r":3: orders\.note is restricted"):
        template(sql, "id:INT64 note:STRING", tables=tables, ceiling=Sensitivity.INTERNAL)


def test_what_is_no_lines_fault_names_the_file_alone() -> None:
    with pytest.raises(TemplateError) as refused:
        template("SELECT id FROM orders ORDER BY id", "id:INT64", parameter("x:INT64"))
    assert refused.value.line is None
    assert refused.value.message == f"{refused.value.file}: parameter x is declared and not used"


def test_the_file_is_named_below_its_dataset() -> None:
    manifest, capability, _ = SHIPPED[0]
    with pytest.raises(TemplateError) as refused:
        _load(manifest, capability, "SELECT\n")
    assert refused.value.file == f"{manifest.dataset}/{capability.template}"
