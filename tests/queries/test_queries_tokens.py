"""What is refused by its words alone, whatever a parser would make of them."""

from __future__ import annotations

import pytest

from queries.errors import Refused
from queries.googlesql import GoogleSql
from queries.tokens import MAX_DEPTH, check_tokens


def check(sql: str) -> None:
    check_tokens(sql, GoogleSql().tokenize(sql))


@pytest.mark.parametrize(
    "name", ["a.LENGTH", "o.a.LENGTH", "a.SAFE.LENGTH", "`SAFE`.LENGTH", "SAFE.HOST", "keys.SHA256"]
)
def test_the_name_of_an_accepted_function_has_no_dot_but_that_of_safe(name: str) -> None:
    check("SELECT LENGTH(x) AS y, SAFE.LENGTH(x) AS z FROM o")
    with pytest.raises(Refused, match="a function name with a dot is not accepted"):
        check(f"SELECT {name}(x) AS y FROM o")


@pytest.mark.parametrize("written", [r"b'\101'", r"b'\q'", "b'ä'", r"b'\u0041'", "B'\t'"])
def test_bytes_are_written_in_one_way(written: str) -> None:
    check(r"""SELECT b'ab \x00\n' AS y, B"'" AS z""")
    with pytest.raises(Refused, match="bytes are written"):
        check(f"SELECT {written} AS y")


@pytest.mark.parametrize("name", [r"`a\x62`", r"`\u0061`", r"`a\`b`"])
def test_a_name_has_no_escape(name: str) -> None:
    with pytest.raises(Refused, match="a name with an escape"):
        check(f"SELECT {name} AS y FROM o")


@pytest.mark.parametrize(("opening", "closing"), [("(", ")"), ("[", "]"), ("ABS(", ")"), ("([", "])")])
def test_brackets_are_nested_to_a_depth_that_is_read_once(opening: str, closing: str) -> None:
    within = MAX_DEPTH // sum(char in "([" for char in opening)
    check(f"SELECT {opening * within}1{closing * within} AS y")
    for depth in (within + 1, 20_000):
        with pytest.raises(Refused, match="nested too deeply"):
            check(f"SELECT {opening * depth}1{closing * depth} AS y")
