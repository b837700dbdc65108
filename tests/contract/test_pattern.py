"""A declared pattern is matched in bounded time whoever declared it: what is accepted, and what is not."""

from __future__ import annotations

import re

import pytest
from pydantic import ValidationError

from contract.pattern import ACCEPTED, check_pattern
from contract.schema import Parameter

ALLOWED = (
    "B[0-9]{3}",
    "L[0-9]+",
    "[a-z]+",
    "RUN-[0-9]{4}",
    r"\d{4}\.\d{2}",
    r"\w{1,4096}",
    "[*+]x",
    "[^a-z]?x",
    "[^^]",
    r"[\]\[\\-]{2}",
    "AB[0-9]{1,6}|CD[0-9]{1,6}",
    "a{256}b*",
    ".{3}",
    "é+",
    "-".join("a" * 100),
    "|".join(["a*b"] * 32),
)
HOSTILE = (
    "(a+)+",
    "(a|a)*b",
    "(a*)*",
    "([a-z]+)*X",
    "(?:a|a)?" * 24,
    "(?:a|a)?(?:a|a)?b",
    "a{0,9}" * 30,
    "a{0,9}a{0,9}b",
    "a*a*a*b",
    "a?" * 2,
    "a+b|c*d*",
    "(a)",
    "(?:a)",
    r"(a)\1",
    r"\1",
    "(?=a)a",
    "(?<!a)b",
    "(?i)a",
    "(?P<x>a)+",
    "(a{1,9}){1,9}",
    "^a",
    "a$",
    r"\Aa\Z",
    r"\bword",
    r"\s+",
    r"\x41",
    "a**",
    "a+?",
    "a++",
    "a{2}{3}",
    "a{2}?",
    "a{2}+",
    "a{257}",
    "a{0,4097}",
    "a{9999,99999}",
    "a{3,}",
    "a{,3}",
    "a{3,2}",
    "a{٣}",
    "{2}",
    "a{",
    "a}",
    "[",
    "[]a]",
    "[a",
    "[z-a]",
    "[[a]]",
    "[a--b]",
    "[a&&b]",
    "*a",
    "",
    "|a",
    "a|",
    "a||b",
    "\\",
    "a" * 201,
    "|".join("a" * 33),
)


@pytest.mark.parametrize("pattern", ALLOWED)
def test_a_plain_pattern_is_accepted(pattern: str) -> None:
    check_pattern(pattern)
    re.compile(pattern)


@pytest.mark.parametrize("pattern", HOSTILE)
def test_what_is_outside_the_grammar_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="."):
        check_pattern(pattern)


@pytest.mark.parametrize("pattern", ["(?:a|a)?" * 20, "a{0,9}" * 9])
def test_the_refusal_names_the_parameter_and_what_is_accepted(pattern: str) -> None:
    raw = {"name": "lot", "type": "STRING", "description": "d", "pattern": pattern}
    with pytest.raises(ValidationError) as refused:
        Parameter.model_validate(raw)
    assert "parameter lot: pattern" in str(refused.value)
    assert ACCEPTED in str(refused.value)
