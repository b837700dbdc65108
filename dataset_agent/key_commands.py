"""``keys init`` and ``grant inspect``."""

from __future__ import annotations

import json
import sys
import time
from typing import Annotated

import typer

from contract.settings import Settings
from dataset_agent.console import AsJson, print_json, say, table
from grants.inspect import explain
from grants.keys import ROLES, init_keys
from grants.trust import load_trust

keys_app = typer.Typer(help="Keys of the issuer, the root agent and the dataset agent.", no_args_is_help=True)
grant_app = typer.Typer(help="Look at execution grants.", no_args_is_help=True)


@keys_app.callback()
def keys_group() -> None:
    """Keys of the issuer, the root agent and the dataset agent."""


@keys_app.command("init")
def init(
    role: Annotated[list[str] | None, typer.Option(help="Only these roles: issuer, root, remote. Repeatable.")] = None,
    force: Annotated[bool, typer.Option(help="Replace the roles' keys and withdraw the old ones.")] = False,
    as_json: AsJson = False,
) -> None:
    """Make what is missing: a private store per role, and the public trust.toml. Safe to repeat."""
    report = init_keys(Settings(), force=force, roles=tuple(role) if role else ROLES)  # type: ignore[arg-type]
    if as_json:
        print_json(
            {
                "trust": str(report.trust),
                "created": [str(path) for path in report.created],
                "kept": [str(path) for path in report.kept],
                "public": {str(path): kid for path, kid in report.public.items()},
            }
        )
        return
    rows = [(str(path), "created") for path in report.created] + [(str(path), "kept") for path in report.kept]
    table("Private stores", ("file", ""), rows)
    say(f"Public keys are pinned in {report.trust}.")


@grant_app.callback()
def grant_group() -> None:
    """Look at execution grants."""


@grant_app.command("inspect")
def inspect(
    token: Annotated[str, typer.Argument(help="The header value: tokens, comma-separated; - reads standard input.")],
    as_json: AsJson = False,
) -> None:
    """Decode a grant, claim by claim, and say why it would be refused now. Nothing is spent."""
    settings = Settings()
    text = sys.stdin.read().strip() if token == "-" else token.strip()  # noqa: S105 (a dash)
    trust = load_trust(settings.trust_path) if settings.trust_path.exists() else None
    report = explain(text, trust=trust, now=time.time())
    if as_json:
        print_json(report.to_json())
        return
    for number, token_view in enumerate(report.tokens):
        claims = token_view.claims if isinstance(token_view.claims, dict) else {}
        rows = [(name, json.dumps(value, ensure_ascii=False)) for name, value in claims.items()]
        table(f"token {number} ({token_view.kind}, {token_view.bytes} bytes)", ("claim", "value"), rows)
        if token_view.fault:
            say(f"  not readable as its kind: {token_view.fault}")
    for step in report.steps:
        say(f"{step.sender} -> {step.receiver}: narrowed {', '.join(step.narrowed) or 'nothing'}")
        if step.widened:
            say(f"  would WIDEN {', '.join(step.widened)}")
    say(f"signatures: {report.signatures}")
    if report.refusal is not None:
        say(f"now it would be {report.refusal.verdict} {report.refusal.reason}: {report.refusal.message}")
