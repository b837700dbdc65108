"""A holder chooses rows of a minimum group only where counts and sums are both rounded: either alone can be subtracted."""

from __future__ import annotations

from typing import Any

import pytest

from contract.minimum_group import GroupRule
from contract.schema import Column
from contract.scope import Sensitivity
from contract.verdict import NotGranted, Reason
from queries.govern import govern
from queries.template import TemplateError, load_template
from tests.authority_builder import make_authority
from tests.queries.test_queries_groups import PAY, ROUNDED, load
from tests.queries.world import DATASET, results

SQL = "SELECT dept, SUM(salary) AS s FROM pay GROUP BY dept ORDER BY dept"
CHOSEN: dict[str, Any] = {"grant_rows": {"pay.dept": {"one_of": ["ops"]}}}


@pytest.mark.parametrize("exact", ["round_counts_to", "round_sums_to"])
def test_a_holder_chooses_no_rows_where_half_of_the_figures_are_exact(exact: str) -> None:
    authority = make_authority(dataset=DATASET, capability="c", **CHOSEN)
    govern(load(SQL, "dept:STRING s:NUMERIC", **ROUNDED), authority)
    half = {name: step for name, step in ROUNDED.items() if name != exact}
    with pytest.raises(NotGranted) as refused:
        govern(load(SQL, "dept:STRING s:NUMERIC", **half), authority)
    assert refused.value.reason is Reason.COLUMN_NOT_PERMITTED


def test_a_list_names_no_subject() -> None:
    lists = Column.model_validate({"name": "people", "type": "STRING", "mode": "REPEATED"})
    with pytest.raises(TemplateError, match="names no subject"):
        load_template(
            "SELECT dept, COUNT(*) AS n FROM pay GROUP BY dept ORDER BY dept",
            name="templates/test.sql",
            dataset=DATASET,
            tables=(PAY.model_copy(update={"columns": (*PAY.columns, lists)}),),
            parameters=(),
            results=results("dept:STRING n:INT64"),
            ceiling=Sensitivity.RESTRICTED,
            minimum_group=GroupRule(subject="pay.people", size=5),
        )
