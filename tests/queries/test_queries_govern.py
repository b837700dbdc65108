"""What an authority allows of a template, what it refuses, and what reaches the generated text.

That governed results are right is judged in ``tests/governing``.
"""

from __future__ import annotations

from typing import Any

import pytest

from contract.authority import Authority
from contract.schema import Table
from contract.scope import Sensitivity
from contract.verdict import NotGranted, Reason
from queries.duckdb_dialect import to_duckdb
from queries.govern import govern, rewrite
from queries.template import Template
from tests.authority_builder import make_authority
from tests.queries.world import DATASET, TABLES, template


def _authority(**case: Any) -> Authority:
    return make_authority(dataset=DATASET, capability="c", **case)


def test_no_value_of_a_constraint_enters_the_text() -> None:
    loaded = template("SELECT id FROM orders ORDER BY id", "id:INT64")
    hostile = "x') OR 1=1 --"
    authority = _authority(
        rows={"orders.region": {"one_of": [hostile], "prefix": "'; DROP"}, "orders.id": {"max": 77123}}
    )
    governed = govern(loaded, authority)
    text = to_duckdb(rewrite(loaded, governed.shape))[0]
    assert "DROP" not in text
    assert "OR 1" not in text
    assert "77123" not in text
    assert hostile in governed.values["__s1"]


def test_constraints_of_one_shape_share_one_text() -> None:
    loaded = template("SELECT id FROM orders ORDER BY id", "id:INT64")
    shapes = {
        govern(loaded, _authority(rows={"orders.region": {"one_of": values}})).shape
        for values in (["EU"], ["US", "EU"], [], ["' OR ''='"])
    }
    assert len(shapes) == 1


def test_a_column_outside_the_permitted_ones_is_refused_wherever_it_is_read() -> None:
    for sql in (
        "SELECT id FROM orders WHERE note = 'x' ORDER BY id",
        "SELECT id FROM orders ORDER BY note",
        "SELECT o.id FROM orders AS o WHERE EXISTS (SELECT 1 FROM orders AS p WHERE p.note = 'x') ORDER BY o.id",
    ):
        with pytest.raises(NotGranted) as refused:
            govern(
                template(sql, "id:INT64"), _authority(columns=["orders.id"], grant_columns=["orders.id", "orders.note"])
            )
        assert refused.value.reason is Reason.COLUMN_NOT_PERMITTED
        assert "note" not in refused.value.message


def test_permitted_columns_are_enough() -> None:
    loaded = template("SELECT id FROM orders ORDER BY id", "id:INT64")
    govern(loaded, _authority(columns=["orders.id", "secrets.gone"], rows={"orders.region": {"one_of": ["EU"]}}))


@pytest.mark.parametrize(
    "case",
    [
        {"rows": {"orders.gone": {"one_of": ["EU"]}}},
        {"rows": {"gone.region": {"one_of": ["EU"]}}},
        {"rows": {"lines.gone": {"one_of": ["EU"]}}},
        {"masks": {"orders.gone": "null"}},
        {"rows": {"orders.id": {"one_of": ["EU"]}}},
        {"rows": {"orders.id": {"prefix": "1"}}},
        {"rows": {"orders.region": {"max": 5}}},
        {"rows": {"orders.region": {"one_of": [5]}}},
        {"rows": {"orders.day": {"min": 20240101}}},
        {"rows": {"orders.day": {"min": "2024-01-01T00:00:00.000000Z"}}},
        {"rows": {"orders.paid": {"one_of": ["yes"]}}},
    ],
)
def test_a_constraint_or_mask_that_cannot_be_applied_fails_closed(case: dict[str, Any]) -> None:
    loaded = template("SELECT id FROM orders ORDER BY id", "id:INT64")
    with pytest.raises(NotGranted) as refused:
        govern(loaded, _authority(**case))
    assert refused.value.reason is Reason.GRANT_CONSTRAINT_UNKNOWN


def test_an_authority_for_another_dataset_governs_nothing_here() -> None:
    loaded = template("SELECT id FROM orders ORDER BY id", "id:INT64")
    with pytest.raises(NotGranted) as refused:
        govern(loaded, make_authority(dataset="other", capability="c"))
    assert refused.value.reason is Reason.GRANT_WIDENED


def test_only_columns_the_template_names_leave_the_base_table() -> None:
    loaded = template("SELECT COUNT(*) AS n FROM orders", "n:INT64")
    text = to_duckdb(rewrite(loaded, govern(loaded, _authority()).shape))[0]
    assert 'SELECT 1 AS "_one"' in text.replace("CAST(1 AS BIGINT)", "1")
    assert '"note"' not in text


def _refused(loaded: Template, **case: Any) -> Reason:
    with pytest.raises(NotGranted) as refused:
        govern(loaded, _authority(**case))
    return refused.value.reason


REGION_EU = {"orders.region": {"one_of": ["EU"]}}


def test_a_constraint_on_a_table_that_is_not_read_is_refused_and_not_ignored() -> None:
    loaded = template("SELECT id FROM orders ORDER BY id", "id:INT64")
    unread = {"customers.region": {"one_of": ["EU"]}}
    assert _refused(loaded, rows=unread) is Reason.GRANT_CONSTRAINT_UNKNOWN
    assert _refused(loaded, grant_rows=unread) is Reason.COLUMN_NOT_PERMITTED


def _with_attribute(name: str) -> tuple[Table, ...]:
    """The tables with every column of this name declared an attribute."""
    return tuple(
        table.model_copy(
            update={
                "columns": tuple(
                    column.model_copy(update={"attribute": name}) if column.name == name else column
                    for column in table.columns
                )
            }
        )
        for table in TABLES
    )


def test_columns_of_one_attribute_are_constrained_together() -> None:
    tables = _with_attribute("region")
    sql = "SELECT o.id AS id FROM orders AS o JOIN customers AS c ON c.id = o.customer ORDER BY id"
    loaded = template(sql, "id:INT64", tables=tables)
    assert _refused(loaded, rows=REGION_EU) is Reason.GRANT_CONSTRAINT_UNKNOWN
    govern(loaded, _authority(rows=REGION_EU | {"customers.region": {"one_of": ["EU"]}}))
    alone = template("SELECT id FROM orders ORDER BY id", "id:INT64", tables=tables)
    govern(alone, _authority(rows=REGION_EU))


def test_a_holder_may_not_constrain_what_it_may_not_see() -> None:
    loaded = template("SELECT id, region FROM orders ORDER BY id", "id:INT64 region:STRING")
    holder = {"grant_rows": REGION_EU}
    govern(loaded, _authority(**holder))
    masked = _refused(loaded, **holder, masks={"orders.region": "hash"})
    restricted = _refused(loaded, **holder, sensitivity=Sensitivity.RESTRICTED)
    without = template("SELECT id FROM orders ORDER BY id", "id:INT64")
    unread = _refused(without, **holder)
    assert {masked, restricted, unread} == {Reason.COLUMN_NOT_PERMITTED}


def test_a_holder_may_narrow_by_an_attribute_that_is_not_shown() -> None:
    tables = _with_attribute("region")
    loaded = template("SELECT id FROM orders ORDER BY id", "id:INT64", tables=tables)
    govern(loaded, _authority(grant_rows=REGION_EU))
    assert _refused(loaded, grant_rows=REGION_EU, grant_columns=["orders.id"]) is Reason.COLUMN_NOT_PERMITTED


def test_a_holder_may_not_constrain_a_column_above_the_capability() -> None:
    tables = tuple(
        table.model_copy(
            update={
                "columns": tuple(
                    column.model_copy(update={"sensitivity": Sensitivity.CONFIDENTIAL})
                    if column.name == "note"
                    else column
                    for column in table.columns
                )
            }
        )
        for table in TABLES
    )
    loaded = template("SELECT id, note FROM orders ORDER BY id", "id:INT64 note:STRING", tables=tables)
    narrow = template("SELECT id FROM orders ORDER BY id", "id:INT64", tables=tables)
    assert _refused(narrow, grant_rows={"orders.note": {"prefix": "a"}}) is Reason.COLUMN_NOT_PERMITTED
    assert _refused(loaded, grant_rows={"orders.note": {"prefix": "a"}}) is Reason.COLUMN_NOT_PERMITTED


def test_a_constraint_that_the_policy_itself_demands_may_stand_in_the_grant_too() -> None:
    loaded = template("SELECT id FROM orders ORDER BY id", "id:INT64")
    policy = {"rows": REGION_EU, "masks": {"orders.region": "hash"}, "columns": ["orders.id"]}
    wider = {"orders.region": {"one_of": ["EU", "US"]}}
    for asked in (REGION_EU, wider):
        governed = govern(loaded, _authority(**policy, grant_rows=asked, sensitivity=Sensitivity.RESTRICTED))
        assert governed.values["__s0"] == ["EU"]
    narrower = {"orders.region": {"one_of": []}}
    assert _refused(loaded, **policy, grant_rows=narrower) is Reason.COLUMN_NOT_PERMITTED
