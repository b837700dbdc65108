"""``evidence verify``: whether a ledger is whole, and what exactly is wrong with one that is not; works offline."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated

import typer

from contract.settings import Settings
from dataset_agent.configuration import load_settings
from dataset_agent.console import EXIT_FAULT, AsJson, fail, note, print_json, progress, say
from dataset_agent.evidence_options import (
    AgentOption,
    LedgerOption,
    Side,
    SideOption,
    agent_of,
    ledger_at,
    read_keys,
    read_receipts,
)
from dataset_agent.pinned import audited_agent
from evidence.checkpoint import Checkpoint
from evidence.export import Leaves
from evidence.parts import Part
from evidence.reader import check_there
from evidence.verify import LedgerReport, verify_ledger
from grants.trust import TrustedAgent, load_trust


def verify(
    side: SideOption = Side.REMOTE,
    agent: AgentOption = None,
    ledger: LedgerOption = None,
    key: Annotated[
        list[Path] | None,
        typer.Option("--key", help="A public key (JWK, JWKS, PEM) instead of trust.toml; repeatable."),
    ] = None,
    receipt: Annotated[
        list[Path] | None,
        typer.Option(help="A later receipt, a saved answer or an export: it shows a cut tail; repeatable."),
    ] = None,
    part: Annotated[
        bool, typer.Option("--part", help="The file may begin after row 0: the rest is elsewhere.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Verify every row and checkpoint of a ledger or an export with public keys alone; what is wrong is named."""
    settings = load_settings()
    signer = None if key else audited_agent(settings, agent or agent_of(settings, side))
    keys = read_keys(key) if key else signer.every_key if signer else ()
    held = read_receipts(receipt or ())
    with ExitStack() as opened:
        path = opened.enter_context(ledger_at(settings, side, ledger))
        check_there(path)
        seen = opened.enter_context(_counted())
        report = verify_ledger(path, keys, receipt=held or None, part=part, progress=seen)
    name = "ledger" if key else f"{side} ledger" if agent is None else f"ledger of {agent}"
    if as_json:
        print_json(report.public())
    elif report.ok:
        _tell_whole(report, path, name, signer, bool(held))
    elif not report.is_ledger:
        raise fail(f"{path} is {report.problem}")
    elif signer is not None and (whose := whose_else(settings, path, but=signer.id)):
        raise fail(f"{path} is not the {name}{whose}")
    else:
        raise fail(f"the {name} {path} is NOT whole: {damage(report)}")
    if not report.ok:
        raise typer.Exit(EXIT_FAULT)


@contextmanager
def _counted() -> Iterator[Callable[[Iterator[Part]], Iterator[Part]]]:
    """A bar of the rows that were looked at, where standard error is a terminal."""
    with progress("verifying") as percent:
        yield (lambda parts: parts) if percent is None else lambda parts: _counting(parts, percent)


def _counting(parts: Iterator[Part], percent: Callable[[int], None]) -> Iterator[Part]:
    size, rows = 1, 0
    for part in parts:
        if isinstance(part, Checkpoint):
            size = max(1, part.size)
        rows += len(part.hashes) if isinstance(part, Leaves) else 1
        if rows % 512 == 0:
            percent(min(100, 100 * rows // size))
        yield part


def _tell_whole(report: LedgerReport, path: Path, name: str, signer: TrustedAgent | None, compared: bool) -> None:
    say(f"The {name} is whole: {report.size} rows")
    say(f"  file {path}")
    say(f"  root {report.root}")
    if report.begins:
        say(f"  begins with row {report.begins}")
    for removed in report.removed:
        say(f"  rows {removed.start} to {removed.stop - 1} were removed by retention, as row {removed.by} says")
    for signed in report.signed_by:
        some = "" if signed.rows == signed.last - signed.first + 1 else f"{signed.rows} of "
        say(f"  {_kid(signed.kid, signer)}: {some}rows {signed.first} to {signed.last}")
    if report.compared:
        say("  it agrees with every receipt of it that was given")
    elif compared:
        note("the receipt is of a row before the first one here: nothing was compared with it")


def _kid(kid: str, signer: TrustedAgent | None) -> str:
    """A key with what the trust file has it for."""
    if signer is None or kid == signer.key.thumbprint:
        return f"kid {kid}"
    return f"{'retired' if signer.accepted_key(kid) is None else 'further accepted'} kid {kid}"


def whose_else(settings: Settings, path: Path, *, but: str) -> str:
    """The end of a sentence about a ledger that is another pinned agent's, and whole as such; else nothing."""
    for owner in load_trust(settings.trust_path).agents.values():
        if owner.id != but and verify_ledger(path, owner.every_key, part=True).ok:
            sides = [f"--side {side}" for side in Side if agent_of(settings, side) == owner.id]
            return f": it is the one of {owner.id}, and whole as such; add {next(iter(sides), f'--agent {owner.id}')}"
    return ""


def damage(report: LedgerReport) -> str:
    """Where a ledger stops being what its signer committed to."""
    problem = str(report.problem)
    named = report.bad_row is None or f"row {report.bad_row}" in problem
    return problem if named else f"row {report.bad_row}: {problem}"
