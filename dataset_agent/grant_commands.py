"""``grant inspect|verify|revoke|revocations``: what a grant says, whether it would be accepted, and taking it back."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from contract.call import Operation
from contract.canonical import sha256_hex
from contract.errors import Category, Component, DatasetAgentError
from contract.files import read_bounded
from contract.grant import VerifiedGrant
from contract.scope import Scope
from contract.settings import Settings
from contract.verdict import Verdict
from dataset_agent.configuration import load_settings
from dataset_agent.console import EXIT_OF, EXIT_USAGE, AsJson, note, paragraph, print_json, say
from dataset_agent.revoke_commands import revocations, revoke
from grants.claim_words import Explained
from grants.inspect import MAX_INSPECTED, Inspection, explain
from grants.jwks import PublishedKeys
from grants.state_look import NO_STORE, NOT_POLICY, look
from grants.state_reading import has_memory
from grants.trust import Trust, load_trust

grant_app = typer.Typer(help="Look at execution grants, and take them back.", no_args_is_help=True)

_INDENT: Final = 4
_MAX_CALL: Final = 2**20
Token = Annotated[str, typer.Argument(help="The header value: tokens, comma-separated; - reads standard input.")]


@grant_app.callback()
def grant_group() -> None:
    """Look at execution grants, and take them back."""


@grant_app.command("inspect")
def inspect(token: Token, as_json: AsJson = False) -> None:
    """Explain a grant, claim by claim and link by link, and say why it would be refused now. Nothing is spent.

    Exit 2 where a token does not read as one.
    """
    settings, now = load_settings(), time.time()
    text = _text(token)
    trust = load_trust(settings.trust_path) if settings.trust_path.exists() else None
    report = asyncio.run(_inspected(settings, text, trust, now))
    if as_json:
        print_json(report.to_json())
    else:
        _tell(report, trust is not None, settings.trust_path)
    if not report.tokens or any(view.fault for view in report.tokens):
        raise typer.Exit(EXIT_USAGE)


@grant_app.command("verify")
def verify(
    token: Token,
    audience: Annotated[str | None, typer.Option(help="The agent that receives it; default this one's id.")] = None,
    client: Annotated[str | None, typer.Option(help="The agent that sends it; default the root agent's id.")] = None,
    call: Annotated[Path | None, typer.Option(help="A file with the call, exactly as it is sent.")] = None,
    task: Annotated[str | None, typer.Option(help="The task that is asked about.")] = None,
    negotiate: Annotated[
        bool, typer.Option("--negotiate", help="Free text, or a call with arguments missing.")
    ] = False,
    method: Annotated[str, typer.Option(help="The A2A method, or discover.")] = "SendMessage",
    as_json: AsJson = False,
) -> None:
    """Verify a grant as the agent would that receives it with this request; exit 0, 3 or 4. Nothing is spent."""
    settings, now = load_settings(), time.time()
    operation = _operation(call, task, negotiate, method)
    report = asyncio.run(
        _inspected(
            settings,
            _text(token),
            load_trust(settings.trust_path),
            now,
            audience=audience or settings.agent_id,
            client=client or settings.root_id,
            operation=operation,
        )
    )
    if as_json:
        print_json(_public(report))
    elif report.refusal is None and report.grant is not None:
        _accepted(report.grant, report, now)
    if report.refusal is not None:
        if not as_json:
            note(f"{report.refusal.verdict} {report.refusal.reason}: {report.refusal.message}")
        raise typer.Exit(EXIT_OF[Verdict(report.refusal.verdict)])


grant_app.command("revoke")(revoke)
grant_app.command("revocations")(revocations)


async def _inspected(settings: Settings, text: str, trust: Trust | None, now: float, **request: Any) -> Inspection:
    """By pinned and published keys, and by the memory of spends and revocations where there is one."""
    if trust is not None:
        trust = await PublishedKeys().complete(trust, text, now=now)
    report = explain(text, trust=trust, now=now, **request)
    if report.grant is None:
        return report
    if not has_memory(settings):
        return report.remembered(None, not_checked=NO_STORE)
    return report.remembered(await look(settings, report.grant, now=now), not_checked=NOT_POLICY)


def _text(token: str) -> str:
    text = (sys.stdin.read(MAX_INSPECTED) if token == "-" else token).strip()  # noqa: S105 (a dash)
    if not text:
        raise _usage(
            "empty",
            "there is no grant: give the value of an Execution-Grant header, or - and the value on standard input",
        )
    return text


def _operation(call: Path | None, task: str | None, negotiate: bool, method: str) -> Operation:
    """What was received. Raises INVALID_INPUT where it is nothing, or more than one thing."""
    given = [name for name, there in (("--call", call), ("--task", task), ("--negotiate", negotiate)) if there]
    if len(given) != (0 if method == "discover" else 1):
        raise _usage("request", "say what was received: one of --call, --task and --negotiate, or --method discover")
    if call is None:
        return Operation(method, task=task, negotiate=negotiate)
    try:
        body = read_bounded(call, _MAX_CALL)
    except OSError as error:
        raise _usage("call", f"{call} cannot be read ({error.strerror}): name the file with the call") from error
    return Operation(method, call_hash=sha256_hex(body))


def _public(report: Inspection) -> dict[str, Any]:
    told = report.to_json()
    return {
        "accepted": report.refusal is None,
        "refusal": told["refusal"],
        "judged_as": told["judged_as"],
        "not_checked": told["not_checked"],
        "grant": None if report.grant is None else dict(_facts(report.grant)),
    }


def _accepted(grant: VerifiedGrant, report: Inspection, now: float) -> None:
    paragraph("The grant would be accepted: every signature, link and claim holds for this request.", indent=0)
    for name, value in _for_people(grant, now):
        paragraph(value, first=name, indent=14)
    if report.not_checked:
        note(report.not_checked)
    note("the receiver decides about the call itself: this is no decision")


def _for_people(grant: VerifiedGrant, now: float) -> list[tuple[str, str]]:
    """The facts as lines: an instant as a date, a list without brackets, a dataset a line."""
    until = datetime.fromtimestamp(grant.leaf_expires_at, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    told = {"holders": ", ".join(grant.holders), "expires_at": f"{until}, in {grant.leaf_expires_at - now:.0f} s"}
    lines = [(name, told.get(name, str(value))) for name, value in _facts(grant) if name != "datasets"]
    for scope in grant.scopes:
        what = ", ".join(sorted(scope.actions)) or "nothing"
        where = ", ".join(sorted(scope.locations))
        lines.append(
            ("dataset", f"{scope.dataset} {scope.dataset_version}, revision {scope.revision}: {what} at {where}")
        )
    return lines


def _facts(grant: VerifiedGrant) -> list[tuple[str, Any]]:
    return [
        ("issuer", grant.issuer),
        ("subject", grant.subject),
        ("tenant", grant.tenant),
        ("client", grant.client),
        ("txn", grant.txn),
        ("root_jti", grant.root_jti),
        ("leaf_jti", grant.leaf_jti),
        ("issuer_kid", grant.issuer_kid),
        ("holders", list(grant.holders)),
        ("expires_at", grant.leaf_expires_at),
        ("datasets", {scope.dataset: _scope(scope) for scope in grant.scopes}),
    ]


def _scope(scope: Scope) -> dict[str, Any]:
    return {
        "version": scope.dataset_version,
        "revision": scope.revision,
        "capabilities": sorted(scope.actions),
        "agents": sorted(scope.locations),
    }


def _tell(report: Inspection, trusted: bool, trust_path: Path) -> None:
    for number, view in enumerate(report.tokens):
        say(f"token {number} ({view.kind}, {view.bytes} bytes)")
        for claim in view.explained:
            _tell_claim(claim)
        if view.fault:
            say(f"  not readable as its kind: {view.fault}")
    for number, step in enumerate(report.steps, 1):
        say(f"link {number}: {step.sender} -> {step.receiver}")
        for what, taken in [("the token", step.token), *step.datasets.items()]:
            paragraph(", ".join(taken) or "unchanged", first=f"  {what}", indent=_INDENT + len(what))
        if step.widened:
            say(f"  would WIDEN {', '.join(step.widened)}")
    say(f"signatures: {report.signatures}")
    if report.refusal is not None:
        say(f"now it would be {report.refusal.verdict} {report.refusal.reason}: {report.refusal.message}")
    elif not trusted:
        say(f"there is no trust file at {trust_path}: who signed it cannot be said")
    else:
        say("now it would be accepted, by the receiver and for the operation that it names")
    if report.not_checked:
        say(f"not checked: {report.not_checked}")


def _tell_claim(claim: Explained) -> None:
    value = claim.value if isinstance(claim.value, str) else json.dumps(claim.value, ensure_ascii=False)
    paragraph(f"{claim.claim}: {value}", indent=2)
    paragraph(claim.meaning, indent=_INDENT)


def _usage(code: str, message: str) -> DatasetAgentError:
    return DatasetAgentError(Component.COMMAND, Category.INVALID_INPUT, f"command.grant.{code}", message)
