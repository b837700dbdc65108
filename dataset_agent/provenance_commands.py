"""``provenance verify|lineage``: whether a saved answer, and all it rests on, is what its agents signed; works offline."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from contract.canonical import InvalidJson, parse_json
from contract.result import Content
from contract.settings import Settings
from contract.signing import PublicKey
from dataset_agent.configuration import load_settings
from dataset_agent.console import EXIT_FAULT, AsJson, fail, note, print_json, say, table
from dataset_agent.pinned import audited_agent
from dataset_agent.result_rows import held_rows
from evidence.artifact import MAX_ARTIFACT_BYTES, Artifact, read_artifact
from evidence.dsse import InvalidProvenance, payload_of
from evidence.lineage import run_events
from evidence.predicate import Statement
from evidence.provenance import verify_saved
from evidence.tree import Branch, verify_tree, walk
from grants.trust import TrustedAgent, load_trust

provenance_app = typer.Typer(help="Verify a saved answer offline, or print it as lineage.", no_args_is_help=True)


@provenance_app.callback()
def provenance_group() -> None:
    """Verify a saved answer offline, or print it as lineage."""


@provenance_app.command("verify")
def verify(
    file: Annotated[Path, typer.Argument(help="A saved answer: ask --save FILE.")],
    agent: Annotated[
        str | None, typer.Option(help="The agent that signed; default: the configured one that it says.")
    ] = None,
    result: Annotated[
        Path | None, typer.Option(help="The file that the rows were written to: ask --output FILE.")
    ] = None,
    rows: Annotated[bool, typer.Option("--rows", help="Show the rows that are vouched for.")] = False,
    as_json: AsJson = False,
) -> None:
    """Verify a saved answer and every answer it rests on, with pinned public keys and no service running.

    It says what the answer vouches for, and which agent asked which other.
    """
    settings = load_settings()
    artifact = read_artifact(file)
    held = held_rows(artifact, result)
    signer, tree = _verified(file, artifact, held.content, settings, agent, as_json=as_json)
    agents = load_trust(settings.trust_path).agents
    statement, key, branches = tree.statement, tree.key, tree.branches
    retired = key not in signer.accepted_keys
    if as_json:
        signed_by = {"agent_id": signer.id, "kid": key.thumbprint, "retired": retired}
        told = {"verified": True, "signed_by": signed_by, "statement": statement.to_json(), "tree": _told(tree, agents)}
        print_json(told | {"result": held.as_json()})
        return
    say(f"The provenance holds: signed by {signer.id}")
    say("The rows are the bytes it speaks of.")
    if retired:
        note("the key is retired: it vouches for this answer only as far as nobody else had it then")
    table("", ("statement", "value"), _facts(statement, key, retired))
    if branches:
        _show_tree(tree, agents)
    if rows:
        held.show(statement)


@provenance_app.command("lineage")
def lineage(
    file: Annotated[Path, typer.Argument(help="A saved answer: ask --save FILE.")],
    agent: Annotated[
        str | None, typer.Option(help="The agent that signed; default: the configured one that it says.")
    ] = None,
    result: Annotated[
        Path | None, typer.Option(help="The file that the rows were written to: ask --output FILE.")
    ] = None,
) -> None:
    """Verify a saved answer and print it, and all it rests on, as OpenLineage events: one JSON object a line."""
    settings = load_settings()
    artifact = read_artifact(file)
    _, tree = _verified(file, artifact, held_rows(artifact, result).content, settings, agent, as_json=False)
    for event in run_events(artifact.envelope, tree):
        typer.echo(json.dumps(event, sort_keys=True))  # for programs: no width of a terminal folds it


def _verified(
    file: Path, artifact: Artifact, content: Content, settings: Settings, agent: str | None, *, as_json: bool
) -> tuple[TrustedAgent, Branch]:
    """Who signed, and the whole tree. Ends the command where something of it does not hold."""
    signer = audited_agent(settings, agent or _configured(artifact, settings))
    agents = load_trust(settings.trust_path).agents
    try:
        statement, key = verify_saved(artifact.envelope, signer.every_key, body=content, agent_id=signer.id)
        branches = verify_tree(statement, {name: pinned.every_key for name, pinned in agents.items()})
    except InvalidProvenance as error:
        if as_json:
            print_json({"verified": False, "check": error.check, "problem": str(error)})
            raise typer.Exit(EXIT_FAULT) from error
        named = _pinned_name(artifact, agents)
        hint = f"; it says to be of {named}: --agent {named}" if named not in (None, signer.id) else ""
        raise fail(f"the provenance of {file} does NOT hold ({error.check}): {error}{hint}") from error
    return signer, Branch(statement, key, None, branches)


def _show_tree(tree: Branch, agents: Mapping[str, TrustedAgent]) -> None:
    """One agent a line, below the one that asked it."""
    told = [(level, _branch(branch, agents)) for level, branch in [(0, tree), *walk(tree.branches)]]
    further = len(told) - 1
    say(f"It rests on what {further} more agent{'s' if further > 1 else ''} answered, each by its pinned key:")
    if any(branch["retired"] for _, branch in told[1:]):
        note("a key in the tree is retired: it vouches for its answer only as far as nobody else had it then")
    shown = [
        ("  " * level + branch["agent_id"], f"{branch['dataset']} {branch['capability']}", branch["rows_returned"])
        + tuple(branch[name] for name in _BRANCH)
        for level, branch in told
    ]
    table("", ("agent", "asked for", "rows", *_BRANCH.values()), shown, lead=("agent", "rows"), right={"rows"})


_BRANCH: Final = {
    "asked_by": "asked by",
    "revision": "revision",
    "policy_id": "granted by",
    "cache": "cache",
    "ledger_row": "ledger row",
    "task_id": "task",
    "result_sha256": "result sha-256",
    "kid": "key",
}


def _told(branch: Branch, agents: Mapping[str, TrustedAgent]) -> dict[str, Any]:
    """A branch and all below it, for programs."""
    return _branch(branch, agents) | {"upstream": [_told(below, agents) for below in branch.branches]}


def _branch(branch: Branch, agents: Mapping[str, TrustedAgent]) -> dict[str, Any]:
    told = branch.statement.predicate
    return {
        "agent_id": told.agent.id,
        "kid": branch.key.thumbprint,
        "retired": branch.key not in agents[told.agent.id].accepted_keys,
        "task_id": branch.task_id,
        "asked_by": told.grant.client,
        "dataset": told.dataset.dataset_id,
        "revision": told.dataset.revision,
        "capability": told.operation.capability,
        "decision_id": told.decision.decision_id,
        "policy_id": told.decision.policy_id,
        "policy_version": told.decision.policy_version,
        "leaf_jti": told.grant.jti,
        "tool_origin": told.execution.tool_origin,
        "cache": told.cache.outcome,
        "rows_returned": told.authorization.rows_returned,
        "result_sha256": branch.statement.result_digest,
        "ledger_row": told.ledger["index"],
    }


def _facts(statement: Statement, key: PublicKey, retired: bool) -> list[tuple[str, object]]:
    told = statement.predicate
    data, applied, run = told.dataset, told.authorization, told.execution
    return [
        ("signed by", told.agent.id),
        ("with key", f"{key.thumbprint}{' (retired)' if retired else ''}"),
        ("signed at", told.sealed_at),
        ("decision", f"{told.decision.verdict} by {told.decision.policy_id}, policies {told.decision.policy_version}"),
        ("decision id", told.decision.decision_id),
        ("asked by", told.grant.client),
        ("for", f"a principal of class {applied.principal_class}"),
        ("transaction", told.grant.txn),
        ("dataset", data.dataset_id),
        ("version", f"{data.dataset_version}, schema {data.schema_version}"),
        ("revision", data.revision),
        ("capability", told.operation.capability),
        ("columns", "every one" if applied.columns is None else ", ".join(applied.columns)),
        ("rows", f"{applied.rows_returned}{', cut at the limit' if applied.truncated else ''}"),
        ("as of", told.result.as_of),
        ("executed at", f"{run.ended} by {run.engine}"),
        ("cache", told.cache.outcome),
        ("ledger row", told.ledger["index"]),
        ("result sha-256", statement.result_digest),
    ]


def _configured(artifact: Artifact, settings: Settings) -> str:
    """Of the two agents of the settings the one that the file says to be of; that it is, its key has to prove."""
    return settings.root_id if _named(artifact) == settings.root_id else settings.agent_id


def _pinned_name(artifact: Artifact, agents: Mapping[str, TrustedAgent]) -> str | None:
    """Whose the envelope says it is, *unverified*, where that is an agent of the trust file."""
    name = _named(artifact)
    return name if name in agents else None


def _named(artifact: Artifact) -> str | None:
    """Whose the envelope says it is, *unverified*; ``None`` where it says nothing readable."""
    try:
        name = parse_json(payload_of(artifact.envelope), limit=MAX_ARTIFACT_BYTES)["predicate"]["agent"]["id"]
    except (InvalidProvenance, InvalidJson, KeyError, TypeError):
        return None
    return name if isinstance(name, str) else None
