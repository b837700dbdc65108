"""A conversion inside an aggregate of a minimum group is to a type that is known; any other is refused there."""

from __future__ import annotations

import pytest
from sqlglot import exp

from queries.errors import Refused
from queries.group_guards import check_cast
from tests.queries.test_queries_groups import PAY


def test_a_conversion_to_a_type_that_is_not_known_is_refused() -> None:
    number = exp.Literal.number(1)
    check_cast(exp.Cast(this=number.copy(), to=exp.DataType.build("FLOAT64", dialect="bigquery")), "SUM", PAY)
    with pytest.raises(Refused, match="a CAST is to FLOAT64"):
        check_cast(exp.Cast(this=number, to=exp.DataType.build("JSON", dialect="bigquery")), "SUM", PAY)
