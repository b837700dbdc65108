"""``evidence export|rotate|prune|forget``: taking a ledger away, moving old rows, removing them, forgetting a person."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from contract.errors import Category, Component, DatasetAgentError
from contract.ids import new_id
from contract.settings import Settings
from contract.verdict import NotGranted, Reason
from control_plane.principals import load_directory
from dataset_agent.configuration import check_home, check_user, load_settings
from dataset_agent.console import AsJson, fail, note, print_json, progress, say
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
from evidence.subjects import Subject
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
    def counted(lines: Iterator[str], total: int) -> Iterator[str]:
        for number, line in enumerate(lines):
            if percent is not None and number % 512 == 0:
                percent(min(100, 100 * number // max(1, total)))
            yield line

    return counted


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
            _ask(yes, as_json, f"the rows of {_counted(len(old), 'segment')} would be removed", "Remove their rows?")
            with closing(_opened(settings, side)) as ledger:
                said = keeping.already_told(ledger.rows())
                for removal in old:
                    if removal.text not in said:
                        ledger.append(_row(settings, side, Kind.SEGMENT_REMOVED, "prune", segment=removal.text))
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


def forget(
    subject: Annotated[str, typer.Option(help="The person, as their issuer names them.")],
    issuer: Annotated[str | None, typer.Option(help="Who names them so; needed where several do.")] = None,
    side: Annotated[Side | None, typer.Option(help="Only in this ledger; default: in every one that is here.")] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Erase a person's key: nobody can tell any more which rows are theirs, and the tree still verifies."""
    settings = load_settings()
    on_server = settings.ledger_url is not None
    if not on_server:
        check_home(settings)
    sides = [side] if side else [one for one in Side if on_server or ledger_path(settings, one).is_file()]
    told: list[dict[str, Any]] = []
    approvals = 0
    with ExitStack() as opened:
        ledgers = [(one, opened.enter_context(closing(_opened(settings, one)))) for one in sides]
        known = [(one, ledger, _people(ledger, subject, issuer)) for one, ledger in ledgers]
        for one, ledger, people in known:
            rows = sum(1 for person in people for _ in ledger.entries_of(person))
            told.append({"side": one.value, "known": bool(people), "rows": rows, "forgotten": False})
        if Side.REMOTE in sides:
            approvals = asyncio.run(_approvals_of(settings, subject, issuer, forgetting=False))
        if not dry_run and (approvals or any(people for _, _, people in known)):
            # Once for all of it, before any of it is done.
            _ask(yes, as_json, _would_be(told, approvals), f"Forget {subject}?")
            for (one, ledger, people), one_told in zip(known, told, strict=True):
                if people:
                    _forgotten(settings, one, ledger, people)
                    one_told["forgotten"] = True
            if Side.REMOTE in sides:
                approvals = asyncio.run(_approvals_of(settings, subject, issuer, forgetting=True))
    if as_json:
        print_json({"ledgers": told, "approvals": approvals, "dry_run": dry_run})
    for one_told in () if as_json else told:
        say(_sentence(one_told, dry_run))
    if not as_json and not told:
        note(
            f"there is no ledger in {settings.home}, so nothing is kept of anybody: is this the home that was served from?"
        )
    if not as_json and told and not any(one_told["known"] for one_told in told):
        _say_label(settings, subject)
    if approvals and not as_json:
        say(f"{_counted(approvals, 'approval')} of theirs {'would be' if dry_run else 'are'} gone")
    if not as_json and any(one_told["forgotten"] for one_told in told):
        where = "the server's log, replicas and backups" if on_server else "backups of subjects.sqlite"
        note(f"{where} may still have the key: remove it there too, or forget again after one is put back")


def _would_be(told: Sequence[dict[str, Any]], approvals: int) -> str:
    parts = [f"{_counted(one['rows'], 'row')} of the {one['side']} ledger" for one in told if one["known"]]
    parts += [f"{_counted(approvals, 'approval')}"] if approvals else []
    return f"{' and '.join(parts)} would be nobody's"


def _say_label(settings: Settings, subject: str) -> None:
    """Ledgers know people as issuers do; the label of ``principals.yaml`` is another name."""
    try:
        person = load_directory(settings.datasets / "principals.yaml").named(subject)
    except DatasetAgentError:  # what is broken there says nothing about the name
        return
    if person is not None:
        note(f"{subject} is a label of principals.yaml, whose subject is {person.subject}: name that")


async def _approvals_of(settings: Settings, subject: str, issuer: str | None, *, forgetting: bool) -> int:
    """How many approvals name the person, as who asked or decided; they are removed where it is ``forgetting``."""
    from remote_agent.approvals_place import open_approvals  # it brings a cache and a server's client

    book = open_approvals(settings)
    try:
        named = {one for approval in await book.all() for one in approval.people}
        people = [one for one in named if one[1] == subject and issuer in (None, one[0])]
        return sum([await book.forget(one) if forgetting else len(await book.of_person(one)) for one in people])
    except NotGranted as stop:
        raise fail(f"the approvals of the person could not be looked through: {stop.message}") from stop
    finally:
        await book.close()


def _people(ledger: Ledger, subject: str, issuer: str | None) -> list[Subject]:
    found = [person for person in ledger.subjects() if person[1] == subject and issuer in (None, person[0])]
    if len(found) > 1:
        raise typer.BadParameter(f"several issuers name one so: add --issuer ({', '.join(one for one, _ in found)})")
    return found


def _forgotten(settings: Settings, side: Side, ledger: Ledger, people: Sequence[Subject]) -> None:
    for person in people:
        ledger.forget(*person)
    try:
        ledger.append(_row(settings, side, Kind.SUBJECT_FORGOTTEN, "forget"))
    except NotGranted as stop:
        raise fail(f"the person is forgotten, but no row could be written that says so: {stop.message}") from stop


def _sentence(told: dict[str, Any], dry_run: bool) -> str:
    if not told["known"]:
        return f"{told['side']} ledger: nobody of this name is known; no row can be told to be theirs"
    verb = "would be" if dry_run else "are"
    return f"{told['side']} ledger: {_counted(told['rows'], 'row')} {verb} nobody's now"


def _row(settings: Settings, side: Side, kind: Kind, act: str, *, segment: str | None = None) -> LedgerRow:
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


def _opened(settings: Settings, side: Side) -> Ledger:
    """The side's ledger, which is there already."""
    folder = ledger_path(settings, side).parent if settings.ledger_url is not None else _own(settings, side).parent
    keys = ledger_keys(settings, side)
    signer = open_signer(settings, _KEY[side])
    return open_own(settings, agent_of(settings, side), folder, signer, now=time.time(), retired=keys)


def _ask(yes: bool, as_json: bool, what: str, question: str) -> None:
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


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
