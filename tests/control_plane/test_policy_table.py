"""A table of expected verdicts is read strictly: what it names, which case wins, and where it is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from contract.errors import Category, DatasetAgentError
from contract.scope import Mask, Obligations
from contract.verdict import Decision, Reason
from control_plane import policy_table
from control_plane.policy_table import Table, read_table

PEOPLE = ("ann", "bob")
DATASETS = {"plants": ("read", "count"), "trees": ("read",)}


def _table(tmp_path: Path, text: str, name: str = "t.yaml") -> Table:
    (tmp_path / name).write_text(text, encoding="utf-8")
    return read_table(tmp_path / name, PEOPLE, DATASETS)


def _said(table: Table) -> dict[tuple[str, str, str], str]:
    return {(one.principal, one.dataset, one.capability): one.case.verdict.value for one in table.expected}


def _fault(tmp_path: Path, text: str, name: str = "t.yaml") -> str:
    with pytest.raises(DatasetAgentError) as caught:
        _table(tmp_path, text, name)
    assert caught.value.category is Category.INVALID_INPUT
    return caught.value.message


ONE = "{principal: ann, dataset: plants, capability: read, verdict: GRANTED}"


def test_a_star_stands_for_everybody_and_for_the_capabilities_of_each_dataset(tmp_path: Path) -> None:
    table = _table(tmp_path, 'cases:\n  - {principal: "*", dataset: "*", capability: "*", verdict: REFUSED}')
    assert set(_said(table)) == {
        (person, dataset, name) for person in PEOPLE for dataset, names in DATASETS.items() for name in names
    }


def test_lists_are_every_combination(tmp_path: Path) -> None:
    text = "cases:\n  - {principal: [ann, bob], dataset: plants, capability: [read, count], verdict: REFUSED}"
    assert len(_table(tmp_path, text).expected) == 4


def test_the_more_exact_case_decides_wherever_it_stands(tmp_path: Path) -> None:
    star = '{principal: "*", dataset: plants, capability: read, verdict: REFUSED}'
    for lines in ((star, ONE), (ONE, star)):
        said = _said(_table(tmp_path, "cases:\n" + "".join(f"  - {line}\n" for line in lines)))
        assert said == {("ann", "plants", "read"): "GRANTED", ("bob", "plants", "read"): "REFUSED"}


def test_two_cases_as_exact_as_one_another_that_differ_are_a_fault_with_both_lines(tmp_path: Path) -> None:
    told = _fault(tmp_path, f"cases:\n  - {ONE}\n  - {ONE.replace('GRANTED', 'REFUSED')}\n")
    assert told == "t.yaml:3: ann plants read is said another way in line 2; keep one"


def test_a_case_that_stands_twice_is_one(tmp_path: Path) -> None:
    assert len(_table(tmp_path, f"cases:\n  - {ONE}\n  - {ONE}\n").expected) == 1


def test_one_call_with_two_ages_is_two_cases(tmp_path: Path) -> None:
    aged = ONE.replace("GRANTED", "REFUSED, max_age_s: 60")
    assert len(_table(tmp_path, f"cases:\n  - {ONE}\n  - {aged}\n").expected) == 2


def test_names_that_are_not_there_are_cases(tmp_path: Path) -> None:
    text = "cases:\n  - {principal: nobody, dataset: nowhere, capability: nothing, verdict: INDETERMINATE}"
    assert set(_said(_table(tmp_path, text))) == {("nobody", "nowhere", "nothing")}


def test_the_time_of_the_cases_is_read(tmp_path: Path) -> None:
    assert _table(tmp_path, f"now: 1970-01-01T00:01:00Z\ncases: [{ONE}]").now == 60.0
    assert _table(tmp_path, f"cases: [{ONE}]").now is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "must have members"),
        ("cases: []", "holds no case"),
        (f"cases: [{ONE}]\nmore: 1", "more: is unknown here"),
        (f"now: 2026-01-01T00:00:00\ncases: [{ONE}]", "needs a time zone"),
        ("cases:\n  - {dataset: plants, capability: read, verdict: GRANTED}", "line 2: cases[0].principal: is missing"),
        ("cases:\n  - " + ONE.replace("GRANTED", "granted"), "line 2"),
        ("cases:\n  - " + ONE.replace("ann", "[]"), "line 2: cases[0].principal"),
        ("cases:\n  - " + ONE.replace("ann", "Ann B"), "line 2: cases[0].principal"),
        ("cases:\n  - " + ONE.replace("verdict", "verdct"), "is unknown here; write verdict"),
        ("cases:\n  - " + ONE.replace("GRANTED", "GRANTED, reason: NO_SUCH"), "line 2"),
        ("cases:\n  - " + ONE.replace("GRANTED", "GRANTED, max_age_s: 0"), "line 2"),
        ("cases:\n  - " + ONE.replace("GRANTED", "GRANTED, reason: UNKNOWN_PRINCIPAL"), "t.yaml:2: UNKNOWN_PRINCIPAL is never GRANTED"),
        ("cases:\n  - " + ONE.replace("GRANTED", "INDETERMINATE, policy_id: P-1"), "names no policy"),
        ("cases:\n  - " + ONE.replace("GRANTED", "REFUSED, obligations: {columns: []}"), "only a GRANTED decision has obligations"),
        ("cases:\n  - " + ONE.replace("GRANTED", "GRANTED, obligations: {colums: []}"), "obligations"),
        ("cases:\n  - " + ONE.replace("GRANTED", "GRANTED, obligations: [1]"), "obligations must have members"),
        ("cases:\n  - &a " + ONE + "\n  - *a", "aliases"),
        ("cases: [", "t.yaml:"),
    ],
)  # fmt: skip
def test_a_table_that_is_not_of_this_form_is_told_by_its_line(tmp_path: Path, text: str, told: str) -> None:
    assert told in _fault(tmp_path, text)


def test_a_table_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_table, "MAX_COMBINATIONS", 3)
    text = 'cases:\n  - {principal: "*", dataset: plants, capability: "*", verdict: REFUSED}'
    assert "more than 3 combinations" in _fault(tmp_path, text)


HEAD = "principal,dataset,capability,verdict,reason,policy_id,max_age_s,obligations\n"


def test_a_csv_file_says_the_same(tmp_path: Path) -> None:
    rows = (
        "ann bob,plants,*,REFUSED,INSUFFICIENT_PRIVILEGE,AD-POL-005,,\n"
        "\n"
        'ann,plants,read,GRANTED,,P-1,60,"{""masks"": {""plants.id"": ""hash""}}"\n'
        "nobody,plants,read,INDETERMINATE,,-,,\n"
    )
    table = _table(tmp_path, HEAD + rows, "t.csv")
    found = {(one.principal, one.capability, one.line): one.case for one in table.expected}
    assert set(found) == {
        ("ann", "read", 2), ("ann", "count", 2), ("bob", "read", 2), ("bob", "count", 2),
        ("ann", "read", 4), ("nobody", "read", 5),
    }  # fmt: skip
    granted = found["ann", "read", 4]
    assert (granted.policy_id, granted.max_age_s) == ("P-1", 60.0)
    assert granted.obligations == Obligations(masks={"plants.id": Mask.HASH}).to_json()
    assert found["nobody", "read", 5].policy_id is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("who\n", "t.csv:1: there is no column 'who'"),
        (HEAD + "ann,plants\n", "t.csv:2: it has 2 cells and 8 columns"),
        (HEAD + "ann,plants,read,GRANTED,,,,{\n", "t.csv:2: obligations: "),
        (HEAD + "ann,plants,read,GRANTED,,,x,\n", "line 2: max_age_s"),
        (HEAD + ',plants,read,GRANTED,,,,\n', "line 2: principal: is missing"),
        (HEAD + '"ann,plants,read\n', "t.csv:"),
        (HEAD, "holds no case"),
        ("", "holds no case"),
    ],
)  # fmt: skip
def test_a_csv_file_that_is_wrong_is_told_by_its_line(tmp_path: Path, text: str, told: str) -> None:
    assert told in _fault(tmp_path, text, "t.csv")


@pytest.mark.parametrize("name", ["t.csv", "t.yaml"])
def test_a_file_that_cannot_be_read_is_told(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DatasetAgentError, match="is not UTF-8"):
        read_table(tmp_path / name, PEOPLE, DATASETS)
    with pytest.raises(DatasetAgentError, match="cannot be read"):
        read_table(tmp_path / f"no-{name}", PEOPLE, DATASETS)


GRANTED = Decision(
    Reason.PRINCIPAL_AUTHORIZED, "P-1", "1", "yes", obligations=Obligations(masks={"plants.id": Mask.HASH})
)


@pytest.mark.parametrize(
    ("more", "differences"),
    [
        ("GRANTED", ()),
        ("GRANTED, policy_id: P-1, reason: PRINCIPAL_AUTHORIZED", ()),
        ("GRANTED, obligations: {masks: {plants.id: hash}}", ()),
        ("REFUSED", ("verdict: expected REFUSED, found GRANTED",)),
        ("GRANTED, policy_id: P-2", ("policy_id: expected P-2, found P-1",)),
        ("GRANTED, policy_id: null", ("policy_id: expected none, found P-1",)),
        ("GRANTED, obligations: {}", ("masks: expected none, found {'plants.id': 'hash'}",)),
        (
            "GRANTED, obligations: {columns: [plants.id], masks: {plants.id: hash}, stale_s: 5}",
            ("columns: expected ['plants.id'], found none", "stale_s: expected 5, found none"),
        ),
    ],
)
def test_a_difference_says_what_was_expected_and_what_was_found(
    tmp_path: Path, more: str, differences: tuple[str, ...]
) -> None:
    table = _table(tmp_path, f"cases: [{ONE.replace('GRANTED', more)}]")
    assert table.expected[0].differences(GRANTED) == differences


def test_columns_that_are_expected_to_be_none_are_not_those_that_are_all(tmp_path: Path) -> None:
    table = _table(tmp_path, f"cases: [{ONE.replace('GRANTED', 'GRANTED, obligations: {columns: []}')}]")
    found: Any = Decision(Reason.PRINCIPAL_AUTHORIZED, "P-1", "1", "yes")
    assert table.expected[0].differences(found) == ("columns: expected [], found none",)
