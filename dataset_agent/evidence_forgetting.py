"""``evidence forget``: a person's key in every ledger that is here, and the approvals that name them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeVar

import typer

from contract.errors import DatasetAgentError
from contract.settings import Settings
from contract.verdict import NotGranted
from control_plane.principals import load_directory
from dataset_agent.configuration import check_home, load_settings
from dataset_agent.console import AsJson, fail, note, print_json, say
from dataset_agent.evidence_keeping import act_row, ask_first, counted, opened_ledger
from dataset_agent.evidence_options import DryRun, Side, Yes, ledger_path
from evidence.ledger import Ledger
from evidence.row import Kind
from evidence.subjects import Subject

if TYPE_CHECKING:
    from approvals.book import ApprovalBook

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Known:
    """A person in one ledger: its subjects of their name, and how many rows are theirs."""

    side: Side
    ledger: Ledger
    people: Sequence[Subject]
    rows: int
    forgotten: bool = False

    @classmethod
    def of(cls, side: Side, ledger: Ledger, subject: str, issuer: str | None) -> Self:
        people = _named(ledger.subjects(), subject, issuer)
        return cls(side, ledger, people, sum(1 for person in people for _ in ledger.entries_of(person)))

    def to_json(self) -> dict[str, Any]:
        return {"side": self.side.value, "known": bool(self.people), "rows": self.rows, "forgotten": self.forgotten}

    def sentence(self, dry_run: bool) -> str:
        if not self.people:
            return f"{self.side.value} ledger: nobody of this name is known; no row can be told to be theirs"
        verb = "would be" if dry_run else "are"
        return f"{self.side.value} ledger: {counted(self.rows, 'row')} {verb} nobody's now"


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
    if settings.ledger_url is None:
        check_home(settings)
    reviews = side is not Side.ROOT and _approvals_are_here(settings)
    with ExitStack() as opened:
        known = [
            _Known.of(one, opened.enter_context(closing(opened_ledger(settings, one))), subject, issuer)
            for one in _sides(settings, side, reviews=reviews)
        ]
        named = _named(_in_approvals(settings, _people), subject, issuer) if reviews else []
        _check_one(subject, {*named, *(person for one in known for person in one.people)})
        approvals = _in_approvals(settings, lambda book: _count(book, named)) if named else 0
        if not dry_run and (approvals or any(one.people for one in known)):
            # Once for all of it, before any of it is done.
            ask_first(yes, as_json, _would_be(known, approvals), f"Forget {subject}?")
            known = [_forgotten(settings, one) if one.people else one for one in known]
            approvals = _in_approvals(settings, lambda book: _remove(book, named)) if named else 0
    if as_json:
        print_json({"ledgers": [one.to_json() for one in known], "approvals": approvals, "dry_run": dry_run})
    _tell(settings, subject, known, approvals, dry_run=dry_run, as_json=as_json)


def _sides(settings: Settings, side: Side | None, *, reviews: bool) -> list[Side]:
    """The ledgers to look into: those that are here; one that is named also where it is not, unless approvals are."""
    here = [one for one in Side if settings.ledger_url is not None or ledger_path(settings, one).is_file()]
    if side is None:
        return here
    return [] if reviews and side not in here else [side]


def _approvals_are_here(settings: Settings) -> bool:
    """Whether this home has a dataset agent's approvals to look through, whether or not its ledger is here."""
    from remote_agent.approvals_place import approval_seal, approvals_file  # it brings a cache and a server's client

    if settings.state_url is None:
        return approvals_file(settings).is_file()
    try:
        approval_seal(settings)
    except DatasetAgentError as fault:
        if not fault.code.endswith(".missing") or ledger_path(settings, Side.REMOTE).is_file():
            raise
        note("approvals on the state server were not looked through: the cache secret of their agent is not here")
        return False
    return True


def _in_approvals(settings: Settings, act: Callable[[ApprovalBook], Awaitable[T]]) -> T:
    """What ``act`` finds or does in the approvals of this home. Raises what ends the command."""
    from remote_agent.approvals_place import open_approvals

    async def run() -> T:
        book = open_approvals(settings)
        try:
            return await act(book)
        finally:
            await book.close()

    try:
        return asyncio.run(run())
    except NotGranted as stop:
        raise fail(f"the approvals of the person could not be looked through: {stop.message}") from stop


async def _people(book: ApprovalBook) -> list[Subject]:
    """Whom approvals name, as who asked or decided."""
    return sorted({person for approval in await book.all() for person in approval.people})


async def _count(book: ApprovalBook, people: Sequence[Subject]) -> int:
    return sum([len(await book.of_person(person)) for person in people])


async def _remove(book: ApprovalBook, people: Sequence[Subject]) -> int:
    return sum([await book.forget(person) for person in people])


def _named(known: Iterable[Subject], subject: str, issuer: str | None) -> list[Subject]:
    return [person for person in known if person[1] == subject and issuer in (None, person[0])]


def _check_one(subject: str, people: Collection[Subject]) -> None:
    if len(people) > 1:
        issuers = ", ".join(sorted(issuer for issuer, _ in people))
        raise typer.BadParameter(f"several issuers name one {subject}: add --issuer ({issuers})")


def _forgotten(settings: Settings, known: _Known) -> _Known:
    for person in known.people:
        known.ledger.forget(*person)
    try:
        known.ledger.append(act_row(settings, known.side, Kind.SUBJECT_FORGOTTEN, "forget"))
    except NotGranted as stop:
        raise fail(f"the person is forgotten, but no row could be written that says so: {stop.message}") from stop
    return replace(known, forgotten=True)


def _would_be(known: Sequence[_Known], approvals: int) -> str:
    parts = [f"{counted(one.rows, 'row')} of the {one.side.value} ledger" for one in known if one.people]
    parts += [counted(approvals, "approval")] if approvals else []
    return f"{' and '.join(parts)} would be nobody's"


def _tell(
    settings: Settings, subject: str, known: Sequence[_Known], approvals: int, *, dry_run: bool, as_json: bool
) -> None:
    """What was done, on standard output unless it was told as JSON; what is left to do, beside it."""
    for one in () if as_json else known:
        say(one.sentence(dry_run))
    if approvals and not as_json:
        say(f"{counted(approvals, 'approval')} of theirs {'would be' if dry_run else 'are'} gone")
    if any(one.forgotten for one in known):
        where = "the server's log, replicas and backups" if settings.ledger_url else "backups of subjects.sqlite"
        note(f"{where} may still have the key: remove it there too, or forget again after one is put back")
    if approvals and not any(one.side is Side.REMOTE for one in known):
        note("the dataset agent's ledger is not here: no row says so, and rows of theirs are where it is")
    elif not known and not as_json:
        kept = "nothing is kept of anybody: is this the home that was served from?"
        note(f"there is no ledger in {settings.home}, so {kept}")
    elif known and not as_json and not any(one.people for one in known):
        _tell_label(settings, subject)


def _tell_label(settings: Settings, subject: str) -> None:
    """Ledgers know people as issuers do; the label of ``principals.yaml`` is another name."""
    try:
        person = load_directory(settings.datasets / "principals.yaml").named(subject)
    except DatasetAgentError:  # what is broken there says nothing about the name
        return
    if person is not None:
        note(f"{subject} is a label of principals.yaml, whose subject is {person.subject}: name that")
