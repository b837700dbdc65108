"""``grant inspect``: what a grant says, and why it would be refused now."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from contract.errors import Category, Component, DatasetAgentError
from dataset_agent.configuration import load_settings
from dataset_agent.console import EXIT_USAGE, AsJson, print_json, say, table
from grants.inspect import MAX_INSPECTED, Inspection, explain
from grants.trust import load_trust

grant_app = typer.Typer(help="Look at execution grants.", no_args_is_help=True)

_TIMES: Final = frozenset({"iat", "nbf", "exp"})


@grant_app.callback()
def grant_group() -> None:
    """Look at execution grants."""


@grant_app.command("inspect")
def inspect(
    token: Annotated[str, typer.Argument(help="The header value: tokens, comma-separated; - reads standard input.")],
    as_json: AsJson = False,
) -> None:
    """Decode a grant, claim by claim, and say why it would be refused now. Nothing is spent.

    Exit 2 where a token does not read as one.
    """
    settings, now = load_settings(), time.time()
    text = (sys.stdin.read(MAX_INSPECTED) if token == "-" else token).strip()  # noqa: S105 (a dash)
    if not text:
        raise DatasetAgentError(
            Component.COMMAND,
            Category.INVALID_INPUT,
            "command.grant.empty",
            "there is no grant: give the value of an Execution-Grant header, or - and the value on standard input",
        )
    trust = load_trust(settings.trust_path) if settings.trust_path.exists() else None
    report = explain(text, trust=trust, now=now)
    if as_json:
        print_json(report.to_json())
    else:
        _tell(report, trust is not None, settings.trust_path, now)
    if not report.tokens or any(view.fault for view in report.tokens):
        raise typer.Exit(EXIT_USAGE)


def _tell(report: Inspection, trusted: bool, trust_path: Path, now: float) -> None:
    for number, view in enumerate(report.tokens):
        claims = view.claims if isinstance(view.claims, dict) else {}
        rows = [(name, _shown(name, value, now)) for name, value in _members(claims)]
        table(f"token {number} ({view.kind}, {view.bytes} bytes)", ("claim", "value"), rows)
        if view.fault:
            say(f"  not readable as its kind: {view.fault}")
    for step in report.steps:
        say(f"{step.sender} -> {step.receiver}: narrowed {', '.join(step.narrowed) or 'nothing'}")
        if step.widened:
            say(f"  would WIDEN {', '.join(step.widened)}")
    say(f"signatures: {report.signatures}")
    if report.refusal is not None:
        say(f"now it would be {report.refusal.verdict} {report.refusal.reason}: {report.refusal.message}")
    elif not trusted:
        say(f"there is no trust file at {trust_path}: who signed it cannot be said")


def _members(claims: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Claims and their members, each by its path: ``cnf.jwk.x``, ``authorization_details.0.actions``."""
    for name, value in claims.items():
        inner = dict(enumerate(value)) if isinstance(value, list) and any(isinstance(v, dict) for v in value) else value
        if isinstance(inner, dict) and inner:
            yield from _members({str(key): member for key, member in inner.items()}, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _shown(name: str, value: Any, now: float) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if name in _TIMES and isinstance(value, int):
        return f"{text} ({value - now:+.0f} s from now)"
    return text
