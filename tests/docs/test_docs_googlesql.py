"""The page on GoogleSQL names every function that is accepted, and none that is not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from contract.schema import SqlType
from queries.errors import Refused
from queries.formats import PRINTED, READ
from queries.grammar import parse
from queries.vocabulary import FUNCTION_NAMES

PAGE = (Path(__file__).parents[2] / "docs" / "googlesql.md").read_text()
FUNCTIONS = PAGE[PAGE.index("## Functions") : PAGE.index("## Refused, and why")]
REFUSED = PAGE[PAGE.index("## Refused, and why") : PAGE.index("## What may still surprise")]
# Named among the refused for one way to use them.
WITH_A_CONDITION = {
    "ARRAY_AGG", "STRING_AGG", "LIMIT", "SQRT", "LN", "EXP", "POW", "INSTR", "RANGE", "DATE", "DATETIME", "REGEXP_EXTRACT", "ROUND",
    "TRUNC",
}  # fmt: skip
WORDS = {"DISTINCT", "ROUND", "IGNORE NULLS", "ORDER BY"}


def test_every_accepted_function_is_on_the_page() -> None:
    assert {name for name in FUNCTION_NAMES if f"`{name}`" not in FUNCTIONS and name != "WEEK"} == set()
    assert "`WEEK(MONDAY)`" in FUNCTIONS


def test_no_other_function_is_said_to_be_accepted() -> None:
    named = {name for name in re.findall(r"`([A-Z][A-Z0-9_ ]+)`", FUNCTIONS) if not name.endswith("_")}
    assert named - FUNCTION_NAMES <= WORDS | {"PARSE_", "FORMAT_"}


@pytest.mark.parametrize(
    "name",
    re.findall(r"`([A-Z][A-Z0-9_]+)`", "\n".join(line.split("|")[1] for line in REFUSED.split("\n") if "|" in line)),
)
def test_what_the_page_calls_refused_is_no_accepted_function(name: str) -> None:
    assert name in WITH_A_CONDITION or name not in FUNCTION_NAMES
    if name not in WITH_A_CONDITION:
        with pytest.raises(Refused):
            parse(f"SELECT {name}(a) AS x FROM t")


def test_every_element_of_a_format_is_on_the_page() -> None:
    printed, _, read = FUNCTIONS.partition("`PARSE_` accepts")
    for accepted, text in ((PRINTED, printed[printed.index("`FORMAT_` accepts") :]), (READ, read)):
        said = set(re.findall(r"%(E\*S|E\dS|E4Y|Ez|\w)", text))
        assert said == set().union(*accepted.values()) - {"n", "t", "%"}
    assert set(PRINTED) == set(READ) == {SqlType.DATE, SqlType.DATETIME, SqlType.TIME, SqlType.TIMESTAMP}
