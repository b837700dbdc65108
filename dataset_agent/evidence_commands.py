"""``evidence list|verify`` and ``provenance verify``: what happened, and whether the proof holds."""

from __future__ import annotations

from collections import deque
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from contract.canonical import InvalidJson, parse_json
from contract.errors import Category, Component, DatasetAgentError
from contract.settings import Settings
from contract.signing import PublicKey
from dataset_agent.console import EXIT_FAULT, AsJson, print_json, say, table
from evidence.artifact import read_artifact
from evidence.checkpoint import InvalidReceipt, Receipt
from evidence.provenance import verify_provenance
from evidence.reader import LedgerFile
from evidence.verify import verify_ledger
from grants.trust import load_trust

evidence_app = typer.Typer(help="Read and verify the evidence ledgers.", no_args_is_help=True)
provenance_app = typer.Typer(help="Verify a saved answer offline.", no_args_is_help=True)
MAX_FILE_BYTES = 256 * 2**20


class Side(StrEnum):
    REMOTE = "remote"
    ROOT = "root"


SideOption = Annotated[Side, typer.Option(help="Whose ledger.")]
LedgerOption = Annotated[Path | None, typer.Option("--ledger", help="A ledger file; default: the side's own.")]


@evidence_app.command("list")
def list_rows(
    side: SideOption = Side.REMOTE,
    ledger: LedgerOption = None,
    limit: Annotated[int, typer.Option(min=1, help="The newest so many rows.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List terminal rows: who decided what under which policy. Subjects are shown as commitments."""
    path = ledger or ledger_path(Settings(), side)
    rows = [entry.to_json() for entry in deque(LedgerFile(path).rows(), maxlen=limit)]
    if as_json:
        print_json(rows)
        return
    names = (
        "index",
        "recorded_at",
        "verdict",
        "reason",
        "policy_id",
        "dataset",
        "capability",
        "cache",
        "rows_returned",
    )
    table(f"{path}", names, [[row.get(name) for name in names] for row in rows])


@evidence_app.command("verify")
def verify(
    side: SideOption = Side.REMOTE,
    ledger: LedgerOption = None,
    receipt: Annotated[Path | None, typer.Option(help="A later receipt: it shows a cut tail.")] = None,
    as_json: AsJson = False,
) -> None:
    """Verify every row and checkpoint against the side's public key; the first bad row is named."""
    settings = Settings()
    report = verify_ledger(ledger or ledger_path(settings, side), ledger_key(settings, side), receipt=_receipt(receipt))
    if as_json:
        print_json(report.public())
    elif report.ok:
        say(f"The ledger is whole: {report.size} rows, root {report.root}.")
    else:
        where = "" if report.bad_row is None else f" at row {report.bad_row}"
        say(f"The ledger is NOT whole{where}: {report.problem}.")
    if not report.ok:
        raise typer.Exit(EXIT_FAULT)


@provenance_app.command("verify")
def verify_file(
    file: Annotated[Path, typer.Argument(help="A saved answer: ask --save FILE.")],
    agent: Annotated[str | None, typer.Option(help="The dataset agent's id; default: the configured one.")] = None,
    as_json: AsJson = False,
) -> None:
    """Verify a saved answer with the pinned public key and no service running."""
    settings = Settings()
    artifact = read_artifact(file)
    statement = verify_provenance(
        artifact.envelope, agent_key(settings, agent or settings.agent_id), body=artifact.body
    )
    if as_json:
        print_json({"verified": True, "statement": statement.to_json()})
        return
    say(f"The provenance holds: signed by {agent or settings.agent_id}, and the rows are the bytes it speaks of.")


def ledger_path(settings: Settings, side: Side) -> Path:
    return settings.home / side.value / "ledger.sqlite"


def ledger_key(settings: Settings, side: Side) -> PublicKey:
    """The pinned key that signs a side's checkpoints."""
    return agent_key(settings, settings.agent_id if side is Side.REMOTE else settings.root_id)


def agent_key(settings: Settings, agent_id: str) -> PublicKey:
    entry = load_trust(settings.trust_path).agent(agent_id)
    if entry is None:
        raise DatasetAgentError(
            Component.COMMAND,
            Category.NOT_FOUND,
            "command.agent.unknown",
            f"{settings.trust_path} pins no agent {agent_id}: name one that is in the file",
        )
    return entry.key


def _receipt(path: Path | None) -> Receipt | None:
    if path is None:
        return None
    try:
        return Receipt.from_json(parse_json(path.read_bytes(), limit=2**20))
    except (OSError, InvalidJson, InvalidReceipt) as error:
        raise DatasetAgentError(
            Component.COMMAND, Category.INVALID_INPUT, "command.receipt.invalid", f"{path} is not a receipt: {error}"
        ) from error
