"""``keys init``: private stores and the public trust file."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from dataset_agent.configuration import load_settings
from dataset_agent.console import AsJson, print_json, say
from grants.keys import ROLES, init_keys

keys_app = typer.Typer(help="Keys of the issuer, the root agent and the dataset agent.", no_args_is_help=True)


class RoleName(StrEnum):
    ISSUER = "issuer"
    ROOT = "root"
    REMOTE = "remote"


@keys_app.callback()
def keys_group() -> None:
    """Keys of the issuer, the root agent and the dataset agent."""


@keys_app.command("init")
def init(
    role: Annotated[list[RoleName] | None, typer.Option(help="Only this role. Repeatable.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the roles' keys and withdraw the old ones.")] = False,
    as_json: AsJson = False,
) -> None:
    """Make what is missing: a private store per role, and the public trust.toml. Safe to repeat."""
    wanted = {name.value for name in role or ()}
    roles = tuple(name for name in ROLES if not wanted or name in wanted)
    report = init_keys(load_settings(), force=force, roles=roles)
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
    for path in report.created:
        say(f"created  {path}")
    for path in report.kept:
        say(f"kept     {path}")
    say(f"Public keys are pinned in {report.trust}")
    if force:
        say("Bring that file to everybody and restart what runs. Agents' old keys stay in it as retired_keys,")
        say("for the ledgers and answers they signed; take one out if somebody else may have it.")
