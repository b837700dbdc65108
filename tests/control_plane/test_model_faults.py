"""What is wrong with a file is told once for each cause, in words that say what to write."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from pydantic import Field, ValidationError

from contract.schema import Strict
from control_plane.model_faults import faults_in
from control_plane.yaml_reader import parse_document


class Item(Strict):
    name: str
    effect: Literal["read", "compute"] = "read"
    rows: int = 1


class Folder(Strict):
    tenant: str
    version: str
    live: bool = True
    items: tuple[Item, ...] = Field(default=(), strict=False)
    needed: tuple[Item, ...] = Field(default=(Item(name="a"),), min_length=1, strict=False)
    source: dict[str, str] = Field(default_factory=dict)


def told(text: str) -> str:
    document = parse_document(text.encode())
    with pytest.raises(ValidationError) as stop:
        Folder.model_validate(document.value)
    return faults_in(stop.value, document)


WHOLE = 'tenant: acme\nversion: "1"\n'


def test_a_misspelt_name_is_one_fault_that_names_the_right_one() -> None:
    assert told('tennant: acme\nversion: "1"\n') == "line 1: tennant: is unknown here; write tenant"


def test_two_misspelt_names_are_two_faults_each_with_its_own_right_one() -> None:
    assert told('tennant: acme\nversoin: "1"\n') == (
        "line 1: tennant: is unknown here; write tenant; line 2: versoin: is unknown here; write version"
    )


def test_an_unknown_name_that_looks_like_nothing_missing_and_a_missing_one_are_two() -> None:
    assert told("tenant: acme\nowner: me\n") == "line 1: version: is missing; line 2: owner: is unknown here"


def test_a_name_elsewhere_is_not_what_is_meant() -> None:
    assert told(WHOLE + "items:\n  - {name: a, tenant: b}\n") == "line 4: items[0] (a).tenant: is unknown here"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tenant: 7\nversion: '1'\n", "line 1: tenant: must be text; put it in quotes"),
        (WHOLE + "live: maybe\n", "line 3: live: must be true or false"),
        (WHOLE + "items: 3\n", "line 3: items: must be a list"),
        (WHOLE + "source: [a]\n", "line 3: source: must have members, each with a name"),
        (WHOLE + "items: [3]\n", "line 3: items[0]: must have members, each with a name"),
        (WHOLE + "items: [{name: a, rows: x}]\n", "line 3: items[0] (a).rows: must be a whole number"),
        (WHOLE + "needed: []\n", "line 3: needed: must name at least one"),
        (WHOLE + "needed: [{name: a, rows: x}]\n", "line 3: needed[0] (a).rows: must be a whole number"),
        (WHOLE + "items: [{name: a, effect: x}]\n", "line 3: items[0] (a).effect: must be 'read' or 'compute'"),
    ],
)
def test_a_fault_says_what_to_write_in_words_of_files(text: str, expected: str) -> None:
    assert told(text) == expected


def test_more_than_three_are_counted() -> None:
    text = WHOLE + "items:\n" + "".join(f"  - {{name: a{n}, rows: x}}\n" for n in range(5))
    assert told(text).endswith("; and 2 more")


def test_a_name_of_any_length_is_told_bounded_and_without_control_characters() -> None:
    value: dict[str, Any] = {"tenant": "a", "version": "1", "x\x1b" * 5_000: 1}
    with pytest.raises(ValidationError) as stop:
        Folder.model_validate(value)
    line = faults_in(stop.value)
    assert len(line) <= 900
    assert line.isprintable()
