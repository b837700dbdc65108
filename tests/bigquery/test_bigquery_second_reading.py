"""A generated text is read again before BigQuery gets it; one that reads anything else is not sent."""

from __future__ import annotations

import pytest
from sqlglot import exp

from contract.verdict import NotGranted, Reason
from queries import bigquery_text
from queries.bigquery_text import BigQueryTexts, check_text
from queries.govern import Shape
from tests.bigquery.bigquery_world import STORED, stored_template

SOURCES = {table.name: str(table.bigquery) for table in STORED}
ORDERS = "`data-project`.`shop_data`.`orders` AS `_b`"
TEMPLATE = stored_template("SELECT COUNT(*) AS n FROM orders", "n:INT64")


def test_a_text_is_read_again_before_it_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def other(tree: exp.Query, *_: object) -> str:
        return "SELECT COUNT(*) AS n FROM `data-project`.`shop_data`.`customers` AS `_b`"

    monkeypatch.setattr(bigquery_text, "to_bigquery", other)
    texts = BigQueryTexts()
    with pytest.raises(NotGranted) as refused:
        texts.text(TEMPLATE, Shape((), ()))
    assert refused.value.reason is Reason.EXECUTION_FAILED
    assert len(texts) == 0


@pytest.mark.parametrize(
    "tampered",
    [
        f"DELETE FROM {ORDERS} WHERE TRUE",
        f"WITH called AS (SELECT 1 AS x) SELECT COUNT(*) AS n FROM {ORDERS}, called('c', 'SELECT 1')",
        f"SELECT COUNT(*) AS n FROM ({ORDERS} CROSS JOIN UNNEST([1, 2]) AS x)",
        f"SELECT COUNT(*) AS n FROM {ORDERS} TABLESAMPLE SYSTEM (1 PERCENT)",
    ],
    ids=["no query", "a function in FROM", "a join in parentheses", "a sample"],
)
def test_a_governed_table_is_read_whole_and_by_a_query_alone(tampered: str) -> None:
    check_text(TEMPLATE, f"SELECT COUNT(*) AS n FROM {ORDERS}", SOURCES)
    with pytest.raises(NotGranted):
        check_text(TEMPLATE, tampered, SOURCES)
