"""A template that reads rows a call supplies: what is refused when it is loaded, and what its digest covers."""

from __future__ import annotations

import pytest

from contract.schema import Mode, ResultColumn
from queries.errors import TemplateError
from queries.supplied import SuppliedRelation
from tests.queries.supplied_world import PEAKS, supplied_template
from tests.queries.world import results

PLAIN = "SELECT p.order_id FROM peaks AS p ORDER BY 1"
REFUSED = {
    "a column it does not have": ("SELECT p.height AS h FROM peaks AS p ORDER BY 1", "table peaks has no column height"),
    "its name in another case": ("SELECT p.order_id FROM Peaks AS p ORDER BY 1", "table Peaks is not declared"),
    "a qualified name": ("SELECT p.order_id FROM other.peaks AS p ORDER BY 1", "declared name alone"),
    "a qualified name in back-ticks": ("SELECT p.order_id FROM `a.b.peaks` AS p ORDER BY 1", "declared name alone|not accepted"),
    "a CTE of its name": ("WITH peaks AS (SELECT id FROM orders) SELECT id AS order_id FROM peaks ORDER BY 1", "WITH peaks has the name"),
    "a CTE of its name in another case": ("WITH PEAKS AS (SELECT id FROM orders) SELECT p.order_id FROM peaks AS p, PEAKS AS q ORDER BY 1", "WITH PEAKS has the name"),
    "an alias of its name": ("SELECT peaks.id AS order_id FROM orders AS peaks ORDER BY 1", "the alias peaks has the name"),
    "a derived table of its name": ("SELECT peaks.id AS order_id FROM (SELECT id FROM orders) AS peaks ORDER BY 1", "the alias peaks has the name"),
    "an alias that hides a table": ("SELECT orders.order_id FROM peaks AS orders ORDER BY 1", "the alias orders has the name"),
    "not reading it": ("SELECT id AS order_id FROM orders ORDER BY 1", "the supplied relation peaks is declared and not read"),
    "an ambiguous name": ("SELECT region FROM orders AS o JOIN peaks AS p ON p.order_id = o.id ORDER BY 1", "region"),
    "a row value": ("SELECT p AS order_id FROM peaks AS p ORDER BY 1", "p"),
    "UNNEST of the parameter": ("SELECT x.order_id FROM peaks AS p, UNNEST(@__supplied) AS x ORDER BY 1", "@__supplied is not a declared parameter"),
    "the name it is bound under": ("SELECT x.order_id FROM peaks AS p, __supplied AS x ORDER BY 1", "__supplied"),
    "every column": ("SELECT * FROM peaks ORDER BY 1", r"\*"),
    "a type that does not fit": ("SELECT o.id AS order_id FROM orders AS o JOIN peaks AS p ON p.region = o.id ORDER BY 1", "no common type"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_could_not_be_told_apart_or_read_is_refused_when_it_is_loaded(name: str) -> None:
    sql, message = REFUSED[name]
    with pytest.raises(TemplateError, match=message):
        supplied_template(sql, "order_id:INT64")


def test_the_message_names_the_line_of_a_column_that_is_not_supplied() -> None:
    with pytest.raises(TemplateError) as refused:
        supplied_template(
            "SELECT\n  p.order_id,\n  p.height\nFROM peaks AS p\nORDER BY 1", "order_id:INT64 height:INT64"
        )
    assert refused.value.line == 3


@pytest.mark.parametrize("name", ["orders", "Orders", "lines"])
def test_it_cannot_have_the_name_of_a_base_table_even_of_one_that_is_not_read(name: str) -> None:
    with pytest.raises(TemplateError, match="has the name of a declared table"):
        supplied_template(PLAIN, "order_id:INT64", supplied=SuppliedRelation(name, PEAKS.columns))


def test_its_columns_are_declared_once_each() -> None:
    for columns, message in ((PEAKS.columns * 2, "names a column twice"), ((), "has no columns")):
        with pytest.raises(TemplateError, match=message):
            supplied_template(PLAIN, "order_id:INT64", supplied=SuppliedRelation("peaks", columns))


def test_without_a_declaration_no_template_reads_it() -> None:
    with pytest.raises(TemplateError, match="table peaks is not declared"):
        supplied_template(PLAIN, "order_id:INT64", supplied=None)


def test_nested_columns_may_be_supplied_and_read() -> None:
    tags = ResultColumn.model_validate({"name": "tags", "type": "STRING", "mode": "REPEATED"})
    fields = [{"name": "x", "type": "INT64"}]
    place = ResultColumn.model_validate({"name": "place", "type": "STRUCT", "fields": fields})
    relation = SuppliedRelation("peaks", (*PEAKS.columns, tags, place))
    assert supplied_template(PLAIN, "order_id:INT64", supplied=relation).supplied_read == {"order_id"}
    sql = "SELECT p.place.x AS x, tag AS tag FROM peaks AS p, UNNEST(p.tags) AS tag ORDER BY 1, 2"
    assert supplied_template(sql, "x:INT64 tag:STRING", supplied=relation).supplied_read == {"place", "tags"}


def test_what_it_reads_is_told_apart_from_base_tables() -> None:
    loaded = supplied_template(
        "SELECT o.id, p.area FROM orders AS o JOIN peaks AS p ON p.order_id = o.id ORDER BY 1, 2",
        "id:INT64 area:FLOAT64",
    )
    assert loaded.tables_read == {"orders"}
    assert loaded.columns_read == {"orders.id"}
    assert loaded.supplied_read == {"order_id", "area"}


def test_the_digest_covers_the_declaration() -> None:
    columns = PEAKS.columns
    others = [
        SuppliedRelation("peaks", columns[::-1]),
        SuppliedRelation("peaks", columns[:-1]),
        SuppliedRelation("peaks", (*columns, *results("more:INT64"))),
        SuppliedRelation("peaks", (columns[0].model_copy(update={"mode": Mode.REQUIRED}), *columns[1:])),
    ]
    digests = [supplied_template(PLAIN, "order_id:INT64", supplied=one).digest for one in (PEAKS, *others)]
    assert len(set(digests)) == len(digests)
