"""``grant revoke`` and ``grant revocations``: taking authority back, for every process that shares the state store."""

from __future__ import annotations

import asyncio
import re
import time
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import typer

from contract.errors import Category, Component, DatasetAgentError
from contract.settings import Settings
from dataset_agent.configuration import check_home, load_settings
from dataset_agent.console import AsJson, note, paragraph, print_json, say, table
from dataset_agent.known_names import doubt
from grants.revocation_form import check_revocation
from grants.state import Revocation, RevocationKind, reach_state, revoked_by_now
from grants.state_reading import has_memory, read_memory

_EARLIEST: Final = datetime(2020, 1, 1, tzinfo=UTC).timestamp()
_LATEST: Final = datetime(2199, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp()
_AHEAD_S: Final = 86_400
_SECONDS: Final = re.compile(r"[0-9]{1,15}(\.[0-9]{1,9})?", re.ASCII)
_RFC3339: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?([Zz]|[+-][0-9]{2}:[0-9]{2})?", re.ASCII
)
_STOPS: Final = {
    RevocationKind.SUBJECT: "for the person {value}, at whatever dataset",
    RevocationKind.GRANT: "with a token whose id is {value}, and what was derived from it",
    RevocationKind.POLICY: "granted by the policy {value}, the receiver's own or the issuer's",
    RevocationKind.DATASET: "for the dataset {value}",
    RevocationKind.HOLDER: "that name the agent's key {value} anywhere in their chain",
    RevocationKind.KEY: "whose root token the issuer signed with the key {value}",
    RevocationKind.TXN: "of the transaction {value}",
}


def revoke(
    subject: Annotated[str | None, typer.Option(help="A person, as in sub: not the label of --as.")] = None,
    grant: Annotated[str | None, typer.Option(help="The jti of a token.")] = None,
    policy: Annotated[str | None, typer.Option(help="id@version of the policy that granted.")] = None,
    dataset: Annotated[str | None, typer.Option(help="id@version of a dataset.")] = None,
    holder: Annotated[str | None, typer.Option(help="The thumbprint of an agent's key.")] = None,
    key: Annotated[str | None, typer.Option(help="The thumbprint of an issuer's key.")] = None,
    txn: Annotated[str | None, typer.Option(help="A transaction.")] = None,
    before: Annotated[
        str | None, typer.Option(help="Issued until then: RFC 3339 or POSIX seconds; default 5 s from now.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Refuse what was granted so far, from the next call on, in every process that shares the state store."""
    options = (subject, grant, policy, dataset, holder, key, txn)
    kinds = ("subject", "grant", "policy", "dataset", "holder", "key", "txn")
    given = [(RevocationKind(kind), value) for kind, value in zip(kinds, options, strict=True) if value is not None]
    if len(given) != 1:
        raise _usage(f"give exactly one of {', '.join(f'--{kind}' for kind in kinds)}")
    kind, value = given[0]
    settings, now = load_settings(), time.time()
    check_home(settings)
    until = _instant(before, now)
    value = check_revocation(kind, value, until)
    revocation = asyncio.run(_revoked(settings, kind, value, until))
    if (why := doubt(settings, kind, value)) is not None:
        note(f"warning: {why}")
    if as_json:
        print_json(_public(revocation) | {"stops": _stops(revocation)})
        return
    say(f"Revoked: grants {_stops(revocation)}.")
    paragraph(
        f"Those issued until {_shown(revocation.not_before)} are refused from the next call on, and what waits under "
        "one is not released, in every process that shares this state store. Later ones are accepted.",
        indent=0,
    )
    if revocation.not_before > revoked_by_now(now):
        say("That is in the future: new ones are refused too until then.")


def revocations(as_json: AsJson = False) -> None:
    """List what is revoked. Grants that were issued later are accepted."""
    settings = load_settings()
    check_home(settings)
    found = asyncio.run(read_memory(settings)).revocations if has_memory(settings) else ()
    if as_json:
        print_json([_public(revocation) for revocation in found])
        return
    rows = [(held.kind, held.value, _shown(held.not_before)) for held in found]
    table(f"{len(rows)} revoked", ("kind", "value", "issued until"), rows, lead=("kind", "issued until"))


async def _revoked(settings: Settings, kind: RevocationKind, value: str, until: float) -> Revocation:
    """What stands in the store afterwards: an instant that is there is never lowered."""
    store = reach_state(settings)
    try:
        await store.revoke(kind, value, not_before=until)
        held = (revoked for revoked in await store.revocations() if (revoked.kind, revoked.value) == (kind, value))
        return next(held, Revocation(kind, value, until))
    finally:
        await store.close()


def _instant(text: str | None, now: float) -> float:
    """POSIX seconds of an instant. A clock that is a little ahead issued what it did before now, too.

    Digits that nobody can mean (milliseconds, a date) are refused: they would revoke nothing, or for
    ever. Who wants a key's grants refused for ever writes the year.
    """
    if text is None:
        return revoked_by_now(now)
    digits = _SECONDS.fullmatch(text) is not None
    seconds = float(text) if digits else _rfc3339(text)
    if not _EARLIEST <= seconds <= (now + _AHEAD_S if digits else _LATEST):
        raise _usage(
            f"--before {text[:60]!r} is {_shown(seconds)}: give POSIX seconds from 2020 to a day from now, "
            "or write it out, such as 2026-09-01T12:00:00Z, from 2020 to 2199"
        )
    return seconds


def _rfc3339(text: str) -> float:
    wrong = f"--before {text[:60]!r} is no instant: write 2026-09-01T12:00:00Z, or POSIX seconds"
    found = _RFC3339.fullmatch(text)
    if found is None:
        raise _usage(wrong)
    if found.group(2) is None:
        raise _usage(f"--before {text[:60]!r} names no time zone: write a Z behind it, or an offset such as +02:00")
    try:
        return datetime.fromisoformat(text.upper()).timestamp()
    except (ValueError, OverflowError):
        raise _usage(wrong) from None


def _stops(revocation: Revocation) -> str:
    return _STOPS[revocation.kind].format(value=revocation.value)


def _public(revocation: Revocation) -> dict[str, Any]:
    return {"kind": revocation.kind, "value": revocation.value, "not_before": revocation.not_before}


def _shown(instant: float) -> str:
    try:
        return datetime.fromtimestamp(instant, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    except (OverflowError, ValueError):
        return f"{instant:.0f}"


def _usage(message: str) -> DatasetAgentError:
    return DatasetAgentError(Component.COMMAND, Category.INVALID_INPUT, "command.grant.revoke", message)
