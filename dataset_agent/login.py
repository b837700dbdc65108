"""``login``, and who asks where nobody signed in: the development issuer's identity tokens."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from contract.errors import Category, Component, DatasetAgentError
from contract.settings import Settings
from control_plane.identity import issue_identity, refuse_in_production
from control_plane.principals import load_directory
from dataset_agent.configuration import check_datasets_folder, load_settings
from dataset_agent.console import AsJson, print_json
from grants.key_store import KeyName
from grants.signers import open_signer

As = Annotated[str, typer.Option("--as", help="Ask as this principal, by the development issuer.")]


def login(
    as_: As,
    ttl: Annotated[int, typer.Option(min=1, max=86_400, help="Life of the token in seconds.")] = 3_600,
    as_json: AsJson = False,
) -> None:
    """Print a development identity token, for POST /ask of the root agent."""
    token = identity_token(load_settings(), as_, ttl)
    if as_json:
        print_json({"token": token, "expires_in": ttl})
    else:
        typer.echo(token)


def identity_token(settings: Settings, principal: str, ttl: int = 3_600, *, audience: str | None = None) -> str:
    """A development token for a principal of the directory, to be shown to the root agent or to ``audience``.

    Raises a fault that names the known ones.
    """
    refuse_in_production(settings)
    if not settings.development_issuer:
        why = " and ".join(settings.production) or "DATASET_AGENT_DEV_ISSUER=false"
        raise DatasetAgentError(
            Component.COMMAND,
            Category.CONFIGURATION,
            "command.login.off",
            f"the development issuer is off ({why}): use your identity provider's token with POST /ask",
        )
    check_datasets_folder(settings)
    directory = load_directory(settings.datasets / "principals.yaml")
    found = directory.named(principal)
    if found is None:
        known = ", ".join(sorted(directory.by_name))
        raise DatasetAgentError(
            Component.COMMAND,
            Category.INVALID_INPUT,
            "command.principal.unknown",
            f"there is no principal {principal[:100]!r}; known: {known}",
        )
    signer = open_signer(settings, KeyName.IDENTITY)
    return issue_identity(
        signer,
        issuer_url=settings.issuer_url,
        subject=found.subject,
        audience=audience or settings.root_id,
        now=time.time(),
        ttl=ttl,
    )
