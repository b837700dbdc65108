"""Tables that fit, and text that cannot steer a terminal."""

from __future__ import annotations

import io
import json
import unicodedata
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from contract.result import ResultDocument
from dataset_agent import console
from dataset_agent.answer_display import result_table
from dataset_agent.console import fail, note, one_line, paragraph, plain, print_json, say, table

LETTERS = ":x: :key: [red] [/] \\"


@pytest.fixture(autouse=True)
def _eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the environment said when the console was made."""
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setattr(console, "out", wide(80))


def wide(columns: int) -> Console:
    return Console(width=columns, height=25, highlight=False, soft_wrap=True, markup=False, emoji=False)


def shown(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [line.rstrip() for line in capsys.readouterr().out.splitlines()]


def test_a_narrow_table_has_a_line_per_row(capsys: pytest.CaptureFixture[str]) -> None:
    table("Two", ("name", "count"), [("a", 1), ("b", None)], right={"count"})
    assert shown(capsys) == ["Two", "name  count", "───────────", "a         1", "b"]


def test_columns_that_are_too_many_stand_below_the_leading_ones_by_their_names(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = [("a", 7, "b" * 40, None, "d" * 30), ("aa", None, "b" * 40, "c c", "d" * 30)]
    table("", ("key", "count", "first", "second", "third"), rows, lead=("key", "count"), right={"count"})
    assert shown(capsys) == [
        "key  count",
        "──────────",
        "a        7",
        f"    first {'b' * 40}",
        f"    third {'d' * 30}",
        "aa",
        f"    first {'b' * 40}, second c c",
        f"    third {'d' * 30}",
    ]


def test_a_single_column_below_the_others_needs_no_name_and_its_words_are_not_parted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    kid = "k" * 43
    table("", ("check", "status", "advice"), [("a" * 37, "broken", f"replace the key {kid}")], lead=("check", "status"))
    assert shown(capsys)[2:] == [f"{'a' * 37}  broken", f"    replace the key {kid}"]


def test_leading_columns_that_fit_beside_the_others_are_columns_among_them(capsys: pytest.CaptureFixture[str]) -> None:
    table("", ("key", "first"), [("a", "b")], lead=("key",))
    assert shown(capsys)[0] == "key  first"


def test_leading_columns_that_a_narrow_terminal_has_no_room_for_stand_below(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "out", wide(40))
    table(
        "", ("id", "state", "asked", "who"), [("a" * 33, "pending", "3m ago", "x" * 9)], lead=("id", "state", "asked")
    )
    assert shown(capsys) == ["id", "─" * 33, "a" * 33, "    state pending, asked 3m ago", "    who xxxxxxxxx"]


def test_a_line_is_wrapped_at_a_terminal_unless_it_is_to_be_copied() -> None:
    def told(line: str, **how: Any) -> list[str]:
        screen = io.StringIO()
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(
                console, "err", Console(file=screen, width=20, height=25, soft_wrap=True, markup=False, **how)
            )
            note(line)
        return screen.getvalue().splitlines()

    line = "  the words of a line [b] that is long"
    wrapped = ["  the words of a", "    line [b] that is", "    long"]
    assert told(line, force_terminal=True) == wrapped
    assert told(line) == [line]
    for copied in ("next: dataset-agent card lists them all", "the file /a/path/that/is/a/word.sqlite is one"):
        assert told(copied, force_terminal=True) == [copied]


def test_a_paragraph_is_wrapped_at_words_and_keeps_its_letters(capsys: pytest.CaptureFixture[str]) -> None:
    paragraph("word " * 40 + LETTERS, first=" 1.", indent=4)
    lines = shown(capsys)
    assert max(len(line) for line in lines) <= 80
    assert lines[0].startswith(" 1. word word")
    assert {line[:4] for line in lines[1:]} == {"    "}
    assert " ".join(lines[0][4:].split() + [w for line in lines[1:] for w in line.split()]) == "word " * 40 + LETTERS


def test_one_long_column_is_folded(capsys: pytest.CaptureFixture[str]) -> None:
    table("", ("check", "advice"), [("a", "word " * 30)])
    lines = shown(capsys)
    assert lines[0] == "check  advice"
    assert all(len(line) <= 80 for line in lines)
    assert len(lines) == 5


def test_a_few_wide_rows_are_turned_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    names = [f"measured_{number}" for number in range(12)]
    table("", names, [list(range(12)), list(range(12, 24))])
    lines = shown(capsys)
    assert lines[0].split() == ["row", "1", "row", "2"]
    assert lines[2].split() == ["measured_0", "0", "12"]
    assert len(lines) == 14


def test_many_wide_rows_are_turned_one_after_the_other(capsys: pytest.CaptureFixture[str]) -> None:
    names = [f"measured_{number}" for number in range(12)]
    table("", names, [["x" * 60] * 12] * 5)
    lines = shown(capsys)
    assert lines[0] == "row 1 of 5"
    assert lines.count("measured_0   " + "x" * 60) == 5
    assert all(len(line) <= 80 for line in lines)


def test_wide_rows_stand_side_by_side_as_far_as_there_is_room(capsys: pytest.CaptureFixture[str]) -> None:
    names = [f"measured_{number}" for number in range(12)]
    table("", names, [[f"{row}.{number:05}" for number in range(12)] for row in range(20)], of=30)
    lines = shown(capsys)
    told = [line for line in lines if line.startswith("row")]
    assert told == ["rows 1 to 7 of 30", "rows 8 to 14 of 30", "rows 15 to 20 of 30"]
    assert lines[1].split() == ["row", "1", "row", "2", "row", "3", "row", "4", "row", "5", "row", "6", "row", "7"]
    assert lines[3].split() == ["measured_0", *(f"{row}.00000" for row in range(7))]
    assert max(len(line) for line in lines) <= 80


@given(
    st.lists(st.lists(st.text("x \n漢", max_size=90), min_size=3, max_size=3), min_size=1, max_size=9),
    st.integers(30, 130),
    st.sampled_from([(), ("first",), ("first", "third")]),
)
def test_no_line_of_a_table_is_wider_than_the_terminal_and_no_cell_is_lost(
    rows: list[list[str]], width: int, lead: tuple[str, ...]
) -> None:
    told = io.StringIO()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(console, "out", Console(file=told, width=width, soft_wrap=True, markup=False, emoji=False))
        table("", ("first", "second", "third"), rows, lead=lead)
    lines = told.getvalue().splitlines()
    if not lead or max(cell_len(line) for row in rows for line in row) <= width:
        assert max(map(cell_len, lines)) <= width
    assert sum(line.count("漢") for line in lines) == sum(cell.count("漢") for row in rows for cell in row)


def test_rows_that_are_the_first_of_more_are_counted_among_all(capsys: pytest.CaptureFixture[str]) -> None:
    names = [f"measured_{number}" for number in range(12)]
    table("", names, [[f"value {row} {number}" * 6 for number in range(12)] for row in range(5)], of=30)
    told = [line for line in shown(capsys) if line.startswith("row ")]
    assert (told[0], told[-1]) == ("row 1 of 30", "row 5 of 30")


def test_wide_letters_are_counted_as_the_terminal_does(capsys: pytest.CaptureFixture[str]) -> None:
    table("", ("a", "b"), [("漢" * 30, "字" * 30)])
    assert shown(capsys)[0].split() == ["field", "value"]


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\u202eb", "a\\u202eb"),
        ("bell\x07", "bell\\x07"),
        ("\udcff", "\\udcff"),
        ("µ 漢 [bold]", "µ 漢 [bold]"),
        ("two\nlines", "two\nlines"),
    ],
)
def test_what_could_steer_a_terminal_is_shown_as_an_escape(text: str, safe: str) -> None:
    assert plain(text) == safe


def test_markup_in_data_is_only_text(capsys: pytest.CaptureFixture[str]) -> None:
    table("[bold]title", ("[red]a",), [("[/]b",)])
    assert shown(capsys) == ["[bold]title", "[red]a", "──────", "[/]b"]


def test_a_row_is_shown_letter_by_letter(capsys: pytest.CaptureFixture[str]) -> None:
    schema = [{"name": "note", "type": "STRING", "mode": "NULLABLE"}]
    body = json.dumps({"schema": schema, "rows": [[LETTERS]], "row_count": 1, "truncated": False})
    result_table(ResultDocument(body.encode(), 1, False, "2026-08-31T22:00:00Z"), LETTERS, limit=1)
    assert shown(capsys) == [LETTERS, "note", "─" * len(LETTERS), LETTERS]


def test_a_wide_row_that_is_turned_is_shown_letter_by_letter(capsys: pytest.CaptureFixture[str]) -> None:
    table("", [f"{LETTERS}{number}" for number in range(9)], [[LETTERS] * 9])
    assert shown(capsys)[2] == f"{LETTERS}0  {LETTERS}"


@pytest.mark.parametrize("told", [say, note, fail])
def test_a_line_is_printed_letter_by_letter(capsys: pytest.CaptureFixture[str], told: Callable[[str], object]) -> None:
    told(LETTERS)
    out, err = capsys.readouterr()
    assert out + err == ("error: " if told is fail else "") + f"{LETTERS}\n"


def test_a_message_is_one_line_and_keeps_its_indentation() -> None:
    assert one_line("  first\n  second\tthird ") == "  first second third"
    assert len(one_line("a" * 10_000)) < 1_100


def test_a_spinner_is_only_for_terminals(capsys: pytest.CaptureFixture[str]) -> None:
    with console.progress("working"):
        pass
    assert capsys.readouterr() == ("", "")


HOSTILE = (
    "a\x1b]0;x\x07\x9b31m\x7f\x85\u200b\u202e\u2066\u2028\u2029\ufeff\ud800\U000e0041\r\0 \N{GRINNING FACE}é\ue000"
)


def steering(text: str) -> set[str]:
    return {
        char for char in text if char != "\n" and unicodedata.category(char) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
    }


@pytest.mark.parametrize("value", [HOSTILE, {HOSTILE: [HOSTILE, {"deep": HOSTILE}]}, [HOSTILE], "line\nfeed"])
def test_no_json_document_steers_a_terminal_and_each_says_what_it_said(
    capsys: pytest.CaptureFixture[str], value: Any
) -> None:
    print_json({"value": value})
    text = capsys.readouterr().out
    assert steering(text) == set()
    assert json.loads(text) == {"value": value}


def test_letters_stay_letters_in_a_json_document(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"name": "Müller 東京 \N{GRINNING FACE}"})
    assert "Müller 東京 \N{GRINNING FACE}" in capsys.readouterr().out


def test_no_text_for_people_steers_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    say(HOSTILE)
    note(HOSTILE)
    fail(HOSTILE)
    paragraph(HOSTILE, first=HOSTILE, indent=4)
    for lead in ((), ("a",)):
        table(HOSTILE, ("a", "b"), [(HOSTILE, HOSTILE * 9)], lead=lead)
    told = capsys.readouterr()
    assert steering(told.out + told.err) == set()
