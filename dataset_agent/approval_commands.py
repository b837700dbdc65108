"""``approvals list|show|approve|deny``: what waits for a person at a dataset agent, and the person's decision."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from contract.errors import Category, Component, DatasetAgentError
from contract.result import instant
from contract.schema import Parameter
from contract.settings import Settings
from contract.verdict import Verdict
from dataset_agent.approval_source import ApprovalSource, approval_source
from dataset_agent.arguments import read_arguments
from dataset_agent.cache_display import duration
from dataset_agent.configuration import load_settings
from dataset_agent.console import EXIT_OF, AsJson, note, print_json, say, table
from dataset_agent.login import identity_token

approvals_app = typer.Typer(help="Decide about calls that wait for a person.", no_args_is_help=True)

_LIFE_S: Final = 60
_MOST: Final = 16_384
_OPEN: Final = ("pending", "approved")
Id = Annotated[
    str, typer.Argument(metavar="ID", help="The approval, or the end of its id, as `approvals list` shows it.")
]
AsApprover = Annotated[str | None, typer.Option("--as", help="Decide as this principal, by the development issuer.")]
TokenFile = Annotated[
    Path | None, typer.Option(help="Decide as the person of the identity token in this file; - reads standard input.")
]
Why = Annotated[str, typer.Option(help="Why, for who looks at it later. It is told to nobody else.")]
At = Annotated[str | None, typer.Option("--url", help="Ask the admin endpoint of the agent there instead.")]


@approvals_app.command("list")
def list_(
    everything: Annotated[bool, typer.Option("--all", help="Also what was decided, and what is over.")] = False,
    url: At = None,
    as_json: AsJson = False,
) -> None:
    """List what waits for a decision. No argument is shown."""
    found = approval_source(load_settings(), url).listed(everything=everything)["approvals"]
    if as_json:
        print_json(found)
        return
    if not found:
        say("Nothing is known." if everything else "Nothing waits.")
        return
    approval_table(found, time.time())


def approval_table(found: Sequence[Mapping[str, Any]], now: float) -> None:
    """Approvals for people, by how long ago each was asked for and how long it is still open."""
    lead, others = ("id", "state", "asked", "ends"), ("dataset", "capability", "requester")
    rows = [[one["id"], one["state"], *_ages(one, now), *(one[name] for name in others)] for one in found]
    table("", (*lead, *others), rows, lead=lead)


def _ages(one: Mapping[str, Any], now: float) -> tuple[str, str]:
    """How long ago a call was asked for, and how long it can still be approved or, once it is, used."""
    asked, ends = (instant(one[name]).timestamp() for name in ("created_at", "expires_at"))
    left = f"in {duration(ends - now)}" if one["state"] in _OPEN and ends > now else ""
    return f"{duration(max(0.0, now - asked))} ago", left


@approvals_app.command("show")
def show(
    approval: Id, as_: AsApprover = None, token_file: TokenFile = None, url: At = None, as_json: AsJson = False
) -> None:
    """Show one approval with its arguments, to who may decide about it."""
    settings = load_settings()
    answer = approval_source(settings, url).show(approval, _person(settings, as_, token_file))
    _end(answer, as_json, done=None)


@approvals_app.command("approve")
def approve(
    approval: Id,
    as_: AsApprover = None,
    token_file: TokenFile = None,
    edit: Annotated[
        list[str] | None, typer.Option(help="name=value in place of what was asked; name:=JSON. Repeatable.")
    ] = None,
    why: Why = "",
    url: At = None,
    as_json: AsJson = False,
) -> None:
    """Approve one call, once. It is judged anew when it is sent again."""
    settings = load_settings()
    source, person = approval_source(settings, url), _person(settings, as_, token_file)
    edits = _edits(source, approval, person, edit)
    if isinstance(edits, dict):
        _end(source.approve(approval, person, edits=edits, why=why), as_json, done="approved")
    else:
        _end(edits[0], as_json, done=None)


@approvals_app.command("deny")
def deny(
    approval: Id,
    as_: AsApprover = None,
    token_file: TokenFile = None,
    why: Why = "",
    url: At = None,
    as_json: AsJson = False,
) -> None:
    """Deny one call. It is refused when it is sent again."""
    settings = load_settings()
    _end(
        approval_source(settings, url).deny(approval, _person(settings, as_, token_file), why=why),
        as_json,
        done="denied",
    )


def _person(settings: Settings, name: str | None, file: Path | None) -> str:
    """An identity token of the approver, for the dataset agent."""
    if (name is None) == (file is None):
        raise typer.BadParameter("say who decides: --as NAME in development, or --token-file FILE")
    if name is not None:
        return identity_token(settings, name, _LIFE_S, audience=settings.agent_id)
    try:
        text = sys.stdin.read(_MOST + 1) if str(file) == "-" else _read(file)
    except (OSError, UnicodeDecodeError) as error:
        raise _fault(
            f"--token-file cannot be read ({type(error).__name__}): name a file with an identity token"
        ) from error
    if not 0 < len(text.strip()) <= _MOST:
        raise _fault(f"--token-file holds no identity token: one of at most {_MOST} characters")
    return text.strip()


def _read(file: Path | None) -> str:
    with open(str(file), encoding="ascii") as opened:
        return opened.read(_MOST + 1)


def _edits(
    source: ApprovalSource, approval: str, person: str, edit: list[str] | None
) -> dict[str, Any] | tuple[dict[str, Any]]:
    """The edited arguments, typed as the capability declares; or, alone, the answer to who may not see it."""
    if not edit:
        return {}
    shown = source.show(approval, person)
    if shown["approval"] is None:
        return (shown,)
    declared = [Parameter.model_validate_json(json.dumps(one)) for one in shown["approval"]["parameters"]]
    return read_arguments(edit, {parameter.name: parameter for parameter in declared})


def _end(answer: Mapping[str, Any], as_json: bool, *, done: str | None) -> None:
    decision, approval = answer["decision"], answer["approval"]
    if as_json:
        print_json(answer)
    elif approval is None:
        policy = f" by {decision['policy_id']}" if decision["policy_id"] else ""
        note(f"{decision['verdict']} {decision['reason']}{policy}: {decision['rationale']}")
    elif done is None:
        _describe(approval)
    else:
        say(f"{done}: {approval['capability']} on {approval['dataset']} for {approval['requester']}")
        if approval.get("approved_arguments") is not None:
            told = (json.dumps(approval[name], ensure_ascii=False) for name in ("approved_arguments", "arguments"))
            say(f"  with {' in place of '.join(told)}")
        if done == "approved":
            note(
                f"  it may be sent again in its task until {approval['expires_at']}, under a fresh grant: --task {approval['task_id']}"
            )
    raise typer.Exit(EXIT_OF[Verdict(decision["verdict"])])


def _describe(approval: Mapping[str, Any]) -> None:
    told = {name: value for name, value in approval.items() if name not in ("arguments", "parameters", "decided")}
    told["arguments"] = _text(approval["arguments"])
    told["approved_arguments"] = (
        None if approval["approved_arguments"] is None else _text(approval["approved_arguments"])
    )
    if approval["decided"]:
        told |= {f"decided_{name}": value for name, value in approval["decided"].items()}
    table("", ("what", "value"), [(name, value) for name, value in told.items() if value is not None])


def _text(arguments: Mapping[str, Any]) -> str:
    return json.dumps(arguments, ensure_ascii=False, sort_keys=True)


def _fault(message: str) -> DatasetAgentError:
    return DatasetAgentError(Component.COMMAND, Category.INVALID_INPUT, "command.approvals.person", message)
