"""``evidence export|rotate|prune``: taking a ledger away, moving old rows, removing them."""

from __future__ import annotations

import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Annotated, Final

import typer

from contract.errors import Category, Component, DatasetAgentError
from contract.ids import new_id
from contract.settings import Settings
from contract.verdict import NotGranted, Reason
from dataset_agent.configuration import check_user, load_settings
from dataset_agent.console import EXIT_USAGE, AsJson, fail, note, print_json, progress, say
from dataset_agent.evidence_options import (
    DryRun,
    LedgerOption,
    OlderThan,
    Side,
    SideOption,
    Yes,
    agent_of,
    ledger_at,
    ledger_keys,
    ledger_path,
    seconds,
)
from evidence import keeping
from evidence.entry import InvalidLedger
from evidence.exporting import RowsRemoved, write_export
from evidence.ledger import Ledger
from evidence.opening import open_own
from evidence.reader import LedgerFile
from evidence.row import Kind, LedgerRow
from evidence.row import Side as RowSide
from evidence.store import LedgerBusy
from grants.key_store import KeyName
from grants.signers import open_signer

_KEY: Final = {Side.REMOTE: KeyName.REMOTE, Side.ROOT: KeyName.ROOT}


def export(
    file: Annotated[Path, typer.Argument(help="The file to write: JSON lines.")],
    side: SideOption = Side.REMOTE,
    ledger: LedgerOption = None,
    start: Annotated[int, typer.Option("--from", min=0, help="The first row; default: all.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Write a ledger as JSON lines, whole or not at all; one that broke off goes on where it was."""
    if file.is_dir():
        raise fail(f"{file} is a folder: name a file in it", EXIT_USAGE)
    try:
        with ledger_at(load_settings(), side, ledger) as path, progress("exporting") as percent:
            done = write_export(path, file, start=start, progress=_counting(percent))
    except RowsRemoved as error:
        raise fail(f"{error}: begin with --from 0, or with a later row") from error
    except OSError as error:
        left = Path(f"{file}.partial")
        advice = f"what is there of it is in {left}" if left.exists() else "name a file in a folder that may be written"
        raise fail(f"{file} cannot be written ({error.strerror}): {advice}") from error
    if as_json:
        print_json({"file": str(file), "begins": done.begins, "size": done.size, "resumed": done.resumed})
        return
    say(f"{file}: rows {done.begins} to {done.size - 1}" if done.size > done.begins else f"{file}: no rows")
    if done.resumed:
        note(f"{done.resumed} of them were there from a try that broke off")


def _counting(percent: Callable[[int], None] | None) -> Callable[[Iterator[str], int], Iterator[str]]:
    def reported(lines: Iterator[str], total: int) -> Iterator[str]:
        for number, line in enumerate(lines):
            if percent is not None and number % 512 == 0:
                percent(min(100, 100 * number // max(1, total)))
            yield line

    return reported


def rotate(
    side: SideOption = Side.REMOTE,
    older_than: Annotated[str | None, typer.Option(help="Only rows that are older: 90s, 15m, 6h, 7d.")] = None,
    as_json: AsJson = False,
) -> None:
    """Move rows to a segment beside the ledger, which stays one tree; whoever serves goes on meanwhile."""
    settings = load_settings()
    path = _own(settings, side)
    before = None if older_than is None else time.time() - seconds(older_than)
    try:
        with progress("rotating"):
            moved = keeping.rotate(path, ledger_keys(settings, side), before=before)
    except (InvalidLedger, LedgerBusy, sqlite3.Error, OSError) as error:
        raise _not_kept(path, error) from error
    if as_json:
        print_json({"start": moved.start, "stop": moved.stop, "segment": str(moved.segment) if moved.segment else None})
    elif moved.segment is None:
        say("No row is old enough to be moved.")
    else:
        say(f"Rows {moved.start} to {moved.stop - 1} are in {moved.segment}")


def prune(
    older_than: OlderThan,
    side: SideOption = Side.REMOTE,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Remove the rows of segments that are older; a signed row says so, and their hashes stay, so that all verifies."""
    settings = load_settings()
    path, keys = _own(settings, side), ledger_keys(settings, side)
    try:
        old = list(keeping.removable(path, before=time.time() - seconds(older_than)))
        if old and not dry_run:
            ask_first(
                yes, as_json, f"the rows of {counted(len(old), 'segment')} would be removed", "Remove their rows?"
            )
            with closing(opened_ledger(settings, side)) as ledger:
                said = keeping.already_told(ledger.rows())
                for removal in old:
                    if removal.text not in said:
                        ledger.append(act_row(settings, side, Kind.SEGMENT_REMOVED, "prune", segment=removal.text))
                    keeping.strip(removal, keys)
    except (InvalidLedger, NotGranted, sqlite3.Error, OSError) as error:
        raise _not_kept(path, error) from error
    told = [{"segment": one.segment.path.name, "rows": one.text.partition(":")[0], "newest": one.newest} for one in old]
    if as_json:
        print_json(
            {"removed": [] if dry_run else told, "would_be_removed": told if dry_run else [], "dry_run": dry_run}
        )
        return
    for one in told:
        first, _, stop = str(one["rows"]).partition("-")
        verb = "would be removed" if dry_run else "were removed; their hashes and the row that says so are kept"
        say(f"rows {first} to {int(stop) - 1}, the newest of {one['newest']}, {verb}")
    if not told:
        say("No segment is old enough; evidence rotate makes them.")


def act_row(settings: Settings, side: Side, kind: Kind, act: str, *, segment: str | None = None) -> LedgerRow:
    """What an operator did to the ledger; whom it was about is not said."""
    return LedgerRow(
        kind=kind,
        side=RowSide(side.value),
        recorded_at=time.time(),
        agent_id=agent_of(settings, side),
        request_id=new_id("req"),
        reason=Reason.PRINCIPAL_AUTHORIZED,
        policy_id=f"operator:{act}",
        policy_version=None,
        decision_id=new_id("dec"),
        segment=segment,
    )


def _own(settings: Settings, side: Side) -> Path:
    """The side's ledger, which is there and this user's. Raises ``DatasetAgentError``."""
    if settings.ledger_url is not None:
        raise fail("the ledger lies on a server, which keeps it: rotation and retention in files are for one in a file")
    path = ledger_path(settings, side)
    LedgerFile(path).checkpoint()
    check_user(settings, path)
    return path


def opened_ledger(settings: Settings, side: Side) -> Ledger:
    """The side's ledger, which is there already."""
    folder = ledger_path(settings, side).parent if settings.ledger_url is not None else _own(settings, side).parent
    keys = ledger_keys(settings, side)
    signer = open_signer(settings, _KEY[side])
    return open_own(settings, agent_of(settings, side), folder, signer, now=time.time(), retired=keys)


def ask_first(yes: bool, as_json: bool, what: str, question: str) -> None:
    if yes:
        return
    if as_json or not sys.stdin.isatty():
        raise typer.BadParameter(f"{what}: add --yes, or --dry-run to look only")
    note(what)
    typer.confirm(question, abort=True, err=True)


def _not_kept(path: Path, error: Exception) -> DatasetAgentError:
    return DatasetAgentError(
        Component.EVIDENCE, Category.CONFLICT, "evidence.ledger.not_kept", f"{path} was left as it is: {error}"
    )


def counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
