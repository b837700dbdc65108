"""``evidence list|verify``: what happened, and whether the ledger is whole."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from contract.canonical import InvalidJson, parse_json
from contract.errors import Category, Component, DatasetAgentError
from contract.files import read_bounded
from contract.settings import Settings
from contract.signing import PublicKey
from dataset_agent.configuration import load_settings
from dataset_agent.console import EXIT_FAULT, AsJson, fail, print_json, say, table
from dataset_agent.pinned import audited_agent
from evidence.checkpoint import InvalidReceipt, Receipt
from evidence.entry import Entry
from evidence.reader import LedgerFile
from evidence.row import Kind
from evidence.verify import LedgerReport, verify_ledger
from grants.trust import TrustedAgent, load_trust

evidence_app = typer.Typer(help="Read and verify the evidence ledgers.", no_args_is_help=True)

_MAX_RECEIPT: Final = 2**20
_COLUMNS: Final = {
    "#": "index",
    "when": "recorded_at",
    "verdict": "verdict",
    "reason": "reason",
    "policy": "policy_id",
    "dataset": "dataset",
    "capability": "capability",
    "cache": "cache",
    "rows": "rows_returned",
    "kind": "kind",
    "bytes": "bytes_released",
}
_LEAD: Final = ("#", "when", "verdict", "cache", "rows")


class Side(StrEnum):
    REMOTE = "remote"
    ROOT = "root"


SideOption = Annotated[Side, typer.Option(help="Whose ledger.")]
AgentOption = Annotated[str | None, typer.Option("--agent", help="The agent that signs it; default: the side's own.")]
LedgerOption = Annotated[Path | None, typer.Option("--ledger", help="A ledger file; default: the side's own.")]


@evidence_app.command("list")
def list_rows(
    side: SideOption = Side.REMOTE,
    agent: AgentOption = None,
    ledger: LedgerOption = None,
    limit: Annotated[int, typer.Option(min=1, help="The newest so many rows.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List ledger rows: who decided what under which policy. Subjects are shown as commitments.

    Rows are not verified; with --agent it is at least looked at whose ledger it is.
    """
    settings = load_settings()
    file = LedgerFile(ledger or ledger_path(settings, side))
    newest = file.checkpoint()
    if agent is not None and not newest.verifies(audited_agent(settings, agent).every_key):
        raise fail(f"{file.path} is not the ledger of {agent}{_whose(settings, file.path, but=agent)}")
    size = newest.size
    rows = [_row(entry) for entry in file.rows(start=max(0, size - limit))]
    if as_json:
        print_json(rows)
        return
    shown = [[_cell(row, name) for name in _COLUMNS.values()] for row in rows]
    table(f"{file.path}: {len(rows)} of {size} rows", list(_COLUMNS), shown, lead=_LEAD, right={"rows"})


@evidence_app.command("verify")
def verify(
    side: SideOption = Side.REMOTE,
    agent: AgentOption = None,
    ledger: LedgerOption = None,
    receipt: Annotated[Path | None, typer.Option(help="A later receipt: it shows a cut tail.")] = None,
    as_json: AsJson = False,
) -> None:
    """Verify every row and checkpoint against the agent's public keys; the first bad row is named."""
    settings = load_settings()
    path = ledger or ledger_path(settings, side)
    signer = audited_agent(settings, agent or _agent_of(settings, side))
    name = f"{side} ledger" if agent is None else f"ledger of {agent}"
    report = verify_ledger(path, signer.every_key, receipt=_receipt(receipt))
    if as_json:
        print_json(report.public())
    elif report.ok:
        _tell_whole(report, path, name, signer)
    elif not report.is_ledger:
        raise fail(f"{path} is {report.problem}")
    elif whose := _whose(settings, path, but=signer.id):
        raise fail(f"{path} is not the {name}{whose}")
    else:
        raise fail(f"the {name} {path} is NOT whole: {damage(report)}")
    if not report.ok:
        raise typer.Exit(EXIT_FAULT)


def _tell_whole(report: LedgerReport, path: Path, name: str, signer: TrustedAgent) -> None:
    say(f"The {name} is whole: {report.size} rows")
    say(f"  file {path}")
    say(f"  root {report.root}")
    for signed in report.signed_by:
        some = "" if signed.rows == signed.last - signed.first + 1 else f"{signed.rows} of "
        say(f"  {_kid(signed.kid, signer)}: {some}rows {signed.first} to {signed.last}")


def _kid(kid: str, signer: TrustedAgent) -> str:
    """A key with what the trust file has it for."""
    if kid == signer.key.thumbprint:
        return f"kid {kid}"
    return f"{'retired' if signer.accepted_key(kid) is None else 'further accepted'} kid {kid}"


def _whose(settings: Settings, path: Path, *, but: str) -> str:
    """The end of a sentence about a ledger that is another pinned agent's, and whole as such; else nothing."""
    for owner in load_trust(settings.trust_path).agents.values():
        if owner.id != but and verify_ledger(path, owner.every_key).ok:
            sides = [f"--side {side}" for side in Side if _agent_of(settings, side) == owner.id]
            return f": it is the one of {owner.id}, and whole as such; add {next(iter(sides), f'--agent {owner.id}')}"
    return ""


def damage(report: LedgerReport) -> str:
    """Where a ledger stops being what its signer committed to."""
    problem = str(report.problem)
    named = report.bad_row is None or f"row {report.bad_row}" in problem
    return problem if named else f"row {report.bad_row}: {problem}"


def ledger_path(settings: Settings, side: Side) -> Path:
    return settings.home / side.value / "ledger.sqlite"


def ledger_keys(settings: Settings, side: Side) -> tuple[PublicKey, ...]:
    """The pinned key that signs a side's checkpoints, and those that did before."""
    return audited_agent(settings, _agent_of(settings, side)).every_key


def _agent_of(settings: Settings, side: Side) -> str:
    return settings.agent_id if side is Side.REMOTE else settings.root_id


def _row(entry: Entry) -> dict[str, Any]:
    return {"index": entry.index, **entry.cells, "event_ids": entry.event_ids()}


def _cell(row: dict[str, Any], name: str) -> Any:
    if name == "recorded_at":  # to the second; --json has the microseconds
        return str(row[name]).partition(".")[0].replace("T", " ")
    if name == "kind":  # most are
        return None if row[name] == Kind.TERMINAL.value else row[name]
    if name in ("dataset", "capability"):
        return row[name] or row[f"requested_{name}"]
    return row[name]


def _receipt(path: Path | None) -> Receipt | None:
    if path is None:
        return None
    try:
        return Receipt.from_json(parse_json(read_bounded(path, _MAX_RECEIPT), limit=_MAX_RECEIPT))
    except (OSError, InvalidJson, InvalidReceipt) as error:
        raise DatasetAgentError(
            Component.COMMAND,
            Category.INVALID_INPUT,
            "command.receipt.invalid",
            f"{path} is not a receipt ({error}): save the member evidence.remote (or .root) of an answer's JSON",
        ) from error
