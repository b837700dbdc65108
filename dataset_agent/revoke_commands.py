"""``grant revoke`` and ``grant revocations``: taking authority back, for every process that shares the state store."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Annotated, Any, Final, TypeVar

import typer

from contract.errors import Category, Component, DatasetAgentError
from contract.settings import Settings
from dataset_agent.configuration import check_home, load_settings
from dataset_agent.console import AsJson, paragraph, print_json, say, table
from grants.state import (
    Revocation,
    RevocationKind,
    StateStore,
    check_revocation,
    open_state,
    revoked_by_now,
)
from grants.state_look import has_memory

T = TypeVar("T")

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
    subject: Annotated[str | None, typer.Option(help="A person, as in sub.")] = None,
    grant: Annotated[str | None, typer.Option(help="The jti of a token.")] = None,
    policy: Annotated[str | None, typer.Option(help="id@version of the policy that granted.")] = None,
    dataset: Annotated[str | None, typer.Option(help="id@version of a dataset.")] = None,
    holder: Annotated[str | None, typer.Option(help="The thumbprint of an agent's key.")] = None,
    key: Annotated[str | None, typer.Option(help="The thumbprint of an issuer's key.")] = None,
    txn: Annotated[str | None, typer.Option(help="A transaction.")] = None,
    before: Annotated[
        str | None, typer.Option(help="Issued until then: ISO 8601 or POSIX seconds; default now.")
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
    revocation = asyncio.run(_revoked(settings, kind, value, _instant(before, now), now))
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
    found = asyncio.run(_with_store(settings, lambda store: store.revocations())) if has_memory(settings) else []
    if as_json:
        print_json([_public(revocation) for revocation in found])
        return
    rows = [(held.kind, held.value, _shown(held.not_before)) for held in found]
    table(f"{len(rows)} revoked", ("kind", "value", "issued until"), rows, lead=("kind", "issued until"))


async def _revoked(settings: Settings, kind: RevocationKind, value: str, until: float, now: float) -> Revocation:
    """What stands in the store afterwards: an instant that is there is never lowered."""

    async def work(store: StateStore) -> Revocation:
        name = kind, check_revocation(kind, value, until)
        await store.revoke(*name, not_before=until)
        return next(held for held in await store.revocations() if (held.kind, held.value) == name)

    return await _with_store(settings, work)


async def _with_store(settings: Settings, work: Callable[[StateStore], Awaitable[T]]) -> T:
    store = open_state(settings)
    try:
        return await work(store)
    finally:
        await store.close()


def _instant(text: str | None, now: float) -> float:
    """POSIX seconds of an instant. A clock that is a little ahead issued what it did before now, too."""
    if text is None:
        return revoked_by_now(now)
    try:
        return float(text)
    except ValueError:
        pass
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise _usage(f"{text[:60]!r} is no instant: write 2026-09-01T12:00:00Z, or POSIX seconds") from None
    if instant.tzinfo is None:
        raise _usage(f"{text[:60]!r} names no time zone: write a Z behind it, or an offset such as +02:00")
    return instant.timestamp()


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
