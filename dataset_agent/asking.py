"""``ask`` and ``call``: the asking side from a terminal, with a root agent in this process."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from contract.errors import Category, Component, DatasetAgentError
from contract.settings import Settings
from dataset_agent.answer_display import show
from dataset_agent.completing import asked_for, can_be_asked
from dataset_agent.configuration import load_settings
from dataset_agent.console import EXIT_OF, AsJson, note, print_json, progress
from dataset_agent.login import As
from evidence.artifact import Artifact, write_artifact
from root_agent.asking import MAX_QUESTION_CHARS, Answer, Wanted

Save = Annotated[Path | None, typer.Option(help="Save rows and provenance for `provenance verify`.")]
Rows = Annotated[int, typer.Option(min=0, help="Show at most so many rows; --json prints all.")]

_SHOWN_ROWS: Final = 25


def ask(
    question: Annotated[str, typer.Argument(help="A question in words; - reads standard input.")],
    as_: As,
    save: Save = None,
    rows: Rows = _SHOWN_ROWS,
    as_json: AsJson = False,
) -> None:
    """Ask in words. The answer is GRANTED with rows, REFUSED or INDETERMINATE."""
    # one character more than is allowed, so that a longer text is refused and not cut
    words = sys.stdin.read(MAX_QUESTION_CHARS + 1) if question == "-" else question
    _answer(as_, {"question": words}, save, rows, as_json)


def call(
    capability: str,
    as_: As,
    dataset: Annotated[str, typer.Option(help="The dataset to ask.")],
    arg: Annotated[
        list[str] | None, typer.Option(help="name=value, typed as the card says; name:=JSON. Repeatable.")
    ] = None,
    task: Annotated[
        str | None, typer.Option(help="The task of an earlier call that missed arguments, to complete it.")
    ] = None,
    save: Save = None,
    rows: Rows = _SHOWN_ROWS,
    as_json: AsJson = False,
) -> None:
    """Call one capability with typed arguments."""
    wanted = {"dataset": dataset, "capability": capability, "arguments": list(arg or []), "task": task}
    _answer(as_, wanted, save, rows, as_json)


def _answer(principal: str, wanted: dict[str, Any], save: Path | None, rows: int, as_json: bool) -> None:
    if "question" in wanted:
        Wanted.of(question=wanted["question"])  # before ADK is loaded, which takes seconds
    settings = load_settings()
    if save is not None:
        _check_place(save)
    answer, shown = _answered(settings, principal, wanted)
    while can_be_asked(answer, as_json=as_json) and (arguments := asked_for(answer)) is not None:
        answer, shown = _answered(settings, principal, completed(shown, arguments))
    saved = save is not None and _saved(answer, save)
    if as_json:
        print_json(shown)
    else:
        show(answer, shown, principal=principal, limit=rows)
    if save is not None and not as_json:
        note(f"saved in {save}: dataset-agent provenance verify {save}" if saved else "there are no rows to save")
    raise typer.Exit(EXIT_OF[answer.verdict])


def _answered(settings: Settings, principal: str, wanted: dict[str, Any]) -> tuple[Answer, dict[str, Any]]:
    with progress("asking") as watch:
        from dataset_agent.answering import answer_to

        return asyncio.run(answer_to(settings, principal, wanted, watch))


def completed(shown: dict[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """The whole call; in the dataset agent's task where it was the one that asked for what was missing."""
    call = {name: shown[name] for name in ("dataset", "capability")}
    return {**call, "arguments": arguments, "task": (shown["remote"] or {}).get("task_id")}


def _saved(answer: Answer, path: Path) -> bool:
    """What an auditor needs in one file: the root agent's statement, with those of all who answered inside."""
    if answer.document is None or answer.asking.relayed is None:
        return False
    write_artifact(path, Artifact(envelope=dict(answer.asking.relayed), body=answer.document.body))
    return True


def _check_place(path: Path) -> None:
    """Before anything is asked: rows that cannot be kept are not fetched."""
    if path.is_dir() or not os.access(path.parent, os.W_OK):
        raise DatasetAgentError(
            Component.COMMAND,
            Category.INVALID_INPUT,
            "command.save.place",
            f"--save {path} cannot be written: name a file in a folder that exists",
        )
