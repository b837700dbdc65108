"""``ask`` and ``call``: the asking side from a terminal, with a root agent in this process."""

from __future__ import annotations

import asyncio
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from contract.call import MAX_QUESTION_CHARS
from contract.result import ResultDocument, StoredResult
from contract.settings import Settings
from contract.verdict import Reason
from control_plane.principals import load_directory
from dataset_agent.answer_display import show, waits_for_a_person
from dataset_agent.completing import asked_for, can_be_asked
from dataset_agent.configuration import load_settings
from dataset_agent.console import EXIT_OF, EXIT_WAITS, AsJson, note, print_json, progress
from dataset_agent.login import As
from dataset_agent.result_options import Format, FormatOption, Output, Place, Save
from evidence.artifact import Artifact, write_artifact
from root_agent.asking import Answer
from root_agent.wanted import Wanted, zone_of


class Door(StrEnum):
    """A door of a dataset agent."""

    A2A = "a2a"
    MCP = "mcp"


Zone = Annotated[
    str | None,
    typer.Option(help="Where it is asked, for words such as today: an IANA time zone; default: the setting."),
]
Via = Annotated[
    Door | None, typer.Option(help="The dataset agent's door: a2a or mcp; default: as the publisher prefers.")
]
Rows = Annotated[int, typer.Option(min=0, help="Show at most so many rows; --json prints all.")]

_SHOWN_ROWS: Final = 25


def ask(
    question: Annotated[str, typer.Argument(help="A question in words; - reads standard input.")],
    as_: As,
    output: Output = None,
    form: FormatOption = Format.JSON,
    save: Save = None,
    zone: Zone = None,
    via: Via = None,
    rows: Rows = _SHOWN_ROWS,
    as_json: AsJson = False,
) -> None:
    """Ask in words. The answer is GRANTED with rows, REFUSED or INDETERMINATE."""
    # one character more than is allowed, so that a longer text is refused and not cut
    words = sys.stdin.read(MAX_QUESTION_CHARS + 1) if question == "-" else question
    _answer(as_, {"question": words, "via": via}, Place(output, form, save), zone, rows, as_json)


def call(
    capability: str,
    as_: As,
    dataset: Annotated[str, typer.Option(help="The dataset to ask.")],
    arg: Annotated[
        list[str] | None, typer.Option(help="name=value, typed as the card says; name:=JSON. Repeatable.")
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(
            help="The task of an earlier call that missed arguments, or waited for a person, to go on with it."
        ),
    ] = None,
    output: Output = None,
    form: FormatOption = Format.JSON,
    save: Save = None,
    zone: Zone = None,
    via: Via = None,
    rows: Rows = _SHOWN_ROWS,
    as_json: AsJson = False,
) -> None:
    """Call one capability with typed arguments."""
    wanted = {"dataset": dataset, "capability": capability, "arguments": list(arg or []), "task": task, "via": via}
    _answer(as_, wanted, Place(output, form, save), zone, rows, as_json)


def _answer(principal: str, wanted: dict[str, Any], place: Place, zone: str | None, rows: int, as_json: bool) -> None:
    if zone is not None:
        zone_of(zone)
    if "question" in wanted:
        Wanted.of(
            question=wanted["question"], media_type=place.form.media_type, via=wanted["via"]
        )  # before ADK is loaded, which takes seconds
    settings = load_settings()
    place.check()
    answer, shown = _answered(settings, principal, wanted, place, zone)
    while can_be_asked(answer, as_json=as_json) and (arguments := asked_for(answer)) is not None:
        answer, shown = _answered(
            settings, principal, completed(shown, arguments) | {"via": wanted["via"]}, place, zone
        )
    saved = place.save is not None and _saved(answer, place.save)
    if as_json:
        print_json(shown)
    else:
        show(answer, shown, principal=principal, limit=rows, in_words="question" in wanted)
        _say_folder(settings, answer, shown)
        _say_where(answer, place, saved)
    raise typer.Exit(EXIT_WAITS if waits_for_a_person(answer, shown) else EXIT_OF[answer.verdict])


def _answered(
    settings: Settings, principal: str, wanted: dict[str, Any], place: Place, zone: str | None
) -> tuple[Answer, dict[str, Any]]:
    with progress("starting"):  # ADK takes seconds to load
        from dataset_agent.answering import answer_to
    asked = answer_to(
        settings,
        principal,
        wanted,
        output=place.output,
        media_type=place.form.media_type,
        zone=zone,
        during=progress,
    )
    return asyncio.run(asked)


def _say_folder(settings: Settings, answer: Answer, shown: dict[str, Any]) -> None:
    """Where nobody of this folder may ask the dataset, another folder than the one that is served may be meant."""
    if answer.decision.reason is not Reason.INSUFFICIENT_PRIVILEGE or shown["remote"] is not None:
        return
    people = load_directory(settings.datasets / "principals.yaml").by_name.values()
    if shown["dataset"] and not any(shown["dataset"] in person.entitlements for person in people):
        note(
            f"  nobody in {settings.datasets} is entitled to {shown['dataset']}: if another folder is served, "
            "set DATASET_AGENT_DATASETS to it here too"
        )


def _say_where(answer: Answer, place: Place, saved: bool) -> None:
    """What was written, and how it is verified."""
    if place.output is not None and answer.document is not None:
        note(f"the rows are in {place.output}")
    elif isinstance(answer.document, StoredResult):
        note("they are too many to be shown: the same command with --output FILE writes them to a file")
    if place.save is None:
        return
    if not saved:
        note("there are no rows to save")
        return
    apart = f" --result {place.output or 'FILE'}" if isinstance(answer.document, StoredResult) else ""
    note(f"saved in {place.save}: dataset-agent provenance verify {place.save}{apart}")


def completed(shown: dict[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """The whole call; in the dataset agent's task where it was the one that asked for what was missing."""
    call = {name: shown[name] for name in ("dataset", "capability")}
    return {**call, "arguments": arguments, "task": (shown["remote"] or {}).get("task_id")}


def _saved(answer: Answer, path: Path) -> bool:
    """What an auditor needs in one file: the root agent's statement, with those of all who answered inside.

    Rows that were fetched stay in the file they were written to.
    """
    if answer.document is None or answer.asking.relayed is None:
        return False
    body = answer.document.body if isinstance(answer.document, ResultDocument) else None
    write_artifact(path, Artifact(envelope=dict(answer.asking.relayed), body=body))
    return True
