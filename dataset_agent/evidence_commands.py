"""``evidence list|show|verify|export|rotate|prune|forget``: what happened, whether the ledger is whole, how it is kept."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from contract.errors import DatasetAgentError
from contract.settings import Settings
from dataset_agent.configuration import load_settings
from dataset_agent.console import EXIT_USAGE, AsJson, fail, note, print_json, table
from dataset_agent.evidence_forgetting import forget
from dataset_agent.evidence_keeping import export, prune, rotate
from dataset_agent.evidence_options import (
    AgentOption,
    LedgerOption,
    Side,
    SideOption,
    agent_of,
    ledger_at,
    ledger_keys,
    ledger_path,
    read_receipts,
)
from dataset_agent.evidence_verify import damage, verify, whose_else
from dataset_agent.pinned import audited_agent
from evidence.entry import Entry, InvalidLedger
from evidence.proving import tree_of
from evidence.reader import LedgerFile
from evidence.row import Kind
from evidence.walk import Held

__all__ = ["Side", "agent_of", "damage", "evidence_app", "ledger_keys", "ledger_path"]

evidence_app = typer.Typer(help="Read, verify and keep the evidence ledgers.", no_args_is_help=True)
evidence_app.command("verify")(verify)
evidence_app.command("export")(export)
evidence_app.command("rotate")(rotate)
evidence_app.command("prune")(prune)
evidence_app.command("forget")(forget)

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
    with ledger_at(settings, side, ledger) as path:
        file = LedgerFile(path)
        newest = file.checkpoint()
        if agent is not None and not newest.verifies(audited_agent(settings, agent).every_key):
            raise fail(f"{file.path} is not the ledger of {agent}{whose_else(settings, file.path, but=agent)}")
        size = newest.size
        rows = [_row(entry) for entry in file.rows(start=max(0, size - limit))]
    if as_json:
        print_json(rows)
        return
    shown = [[_cell(row, name) for name in _COLUMNS.values()] for row in rows]
    table(f"{file.path}: {len(rows)} of {size} rows", list(_COLUMNS), shown, lead=_LEAD, right={"rows"})


@evidence_app.command("show")
def show(
    index: Annotated[int | None, typer.Argument(help="The row.", min=0)] = None,
    trace: Annotated[str | None, typer.Option(help="Every row of this trace, of both sides.")] = None,
    side: SideOption = Side.REMOTE,
    ledger: LedgerOption = None,
    since: Annotated[Path | None, typer.Option(help="A receipt: prove that the ledger went on from there.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show a row with the proof that it is in the ledger, or the whole story of a trace over both ledgers.

    Rows are not verified here (evidence verify); a proof is, by whoever checks it with the public key.
    """
    settings = load_settings()
    if (index is None) is (trace is None):
        raise typer.BadParameter("name a row, or a trace with --trace")
    if trace is not None:
        _show_trace(_story(settings, trace, ledger), trace, as_json)
        return
    with ledger_at(settings, side, ledger) as path:
        entry = LedgerFile(path).get(index or 0)
        if entry is None:
            raise fail(
                f"{path} has no row {index}, or retention removed it: dataset-agent evidence list shows the newest",
                EXIT_USAGE,
            )
        told: dict[str, Any] = {"row": _row(entry), **_proofs(path, entry.index, since)}
    if as_json:
        print_json(told)
        return
    table("", ("member", "value"), [pair for pair in told["row"].items() if pair[1] not in (None, [])])
    table("", ("proof", "value"), _facts(told))


def _proofs(path: Path, index: int, since: Path | None) -> dict[str, Any]:
    try:
        tree = tree_of(path)
    except DatasetAgentError as fault:
        note(f"there is no proof: {fault.message}")
        return {"proof": None}
    told: dict[str, Any] = {"proof": tree.inclusion(index)}
    if since is None:
        return told
    held = [_checkpoint_of(one) for one in read_receipts([since])]
    own = [one for one in held if one.origin == tree.checkpoint.origin]
    if not own:
        raise fail(f"{since} has no receipt of this ledger")
    try:
        return told | {"consistency": tree.consistency(max(own, key=lambda one: one.size))}
    except InvalidLedger as error:
        raise fail(f"the ledger did not go on from {since}: {error}") from error


def _checkpoint_of(held: Held) -> Any:
    return getattr(held, "checkpoint", held)


def _facts(told: dict[str, Any]) -> list[tuple[str, object]]:
    facts: list[tuple[str, object]] = []
    for name in ("proof", "consistency"):
        for member, value in (told.get(name) or {}).items():
            if isinstance(value, dict):
                facts += [(f"{member}.{inner}", cell) for inner, cell in value.items()]
            else:
                facts += [(member, " ".join(value) if isinstance(value, list) else value)]
    return facts


def _story(settings: Settings, trace: str, ledger: Path | None) -> list[dict[str, Any]]:
    """The rows of a trace, of whichever ledgers are here, in the order of their time."""
    with ExitStack() as opened:
        if ledger is not None:
            here = [ledger]
        elif settings.ledger_url is not None:
            here = [opened.enter_context(ledger_at(settings, side)) for side in Side]
        else:
            here = [path for side in Side if (path := ledger_path(settings, side)).is_file()]
        rows = [_row(entry) for path in here for entry in LedgerFile(path).find("trace_id", trace)]
    return sorted(rows, key=lambda row: str(row["recorded_at"]))


def _show_trace(rows: list[dict[str, Any]], trace: str, as_json: bool) -> None:
    if as_json:
        print_json(rows)
        return
    if not rows:
        raise fail(
            f"no ledger here has a row of trace {trace}: dataset-agent evidence show INDEX tells the trace_id of a row",
            EXIT_USAGE,
        )
    columns = {"side": "side", **_COLUMNS, "decision": "decision_id", "caused by": "caused_by", "task": "task_id"}
    shown = [[_cell(row, name) for name in columns.values()] for row in rows]
    table(f"trace {trace}: {len(rows)} rows", list(columns), shown, lead=("side", *_LEAD), right={"rows"})


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
