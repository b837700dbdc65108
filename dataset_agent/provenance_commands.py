"""``provenance verify``: whether a saved answer is what its dataset agent signed; works offline."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dataset_agent.configuration import load_settings
from dataset_agent.console import EXIT_FAULT, AsJson, fail, print_json, say, table
from dataset_agent.pinned import pinned_agent
from evidence.artifact import read_artifact
from evidence.dsse import InvalidProvenance
from evidence.predicate import Statement
from evidence.provenance import verify_provenance

provenance_app = typer.Typer(help="Verify a saved answer offline.", no_args_is_help=True)


@provenance_app.callback()
def provenance_group() -> None:
    """Verify a saved answer offline."""


@provenance_app.command("verify")
def verify(
    file: Annotated[Path, typer.Argument(help="A saved answer: ask --save FILE.")],
    agent: Annotated[str | None, typer.Option(help="The dataset agent's id; default: the configured one.")] = None,
    as_json: AsJson = False,
) -> None:
    """Verify a saved answer with the pinned public key and no service running."""
    settings = load_settings()
    signer = pinned_agent(settings, agent or settings.agent_id)
    artifact = read_artifact(file)
    try:
        statement = verify_provenance(artifact.envelope, signer.key, body=artifact.body, agent_id=signer.id)
    except InvalidProvenance as error:
        if as_json:
            print_json({"verified": False, "check": error.check, "problem": str(error)})
            raise typer.Exit(EXIT_FAULT) from error
        raise fail(f"the provenance of {file} does NOT hold ({error.check}): {error}") from error
    if as_json:
        print_json({"verified": True, "statement": statement.to_json()})
        return
    say(f"The provenance holds: signed by {signer.id}, and the rows are the bytes it speaks of")
    table("", ("statement", "value"), _facts(statement))


def _facts(statement: Statement) -> list[tuple[str, object]]:
    told = statement.predicate
    return [
        ("dataset", f"{told.dataset.dataset_id} {told.dataset.dataset_version}, revision {told.dataset.revision}"),
        ("capability", told.operation.capability),
        ("decision", f"{told.decision.verdict} by {told.decision.policy_id}, policies {told.decision.policy_version}"),
        ("rows returned", told.authorization.rows_returned),
        ("cache", told.cache.outcome),
        ("as of", told.result.as_of),
        ("ledger row", told.ledger["index"]),
        ("result sha-256", statement.result_digest),
    ]
