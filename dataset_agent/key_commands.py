"""``keys init|list|rotate|retire``: private stores, the public trust file, and changing a key without refusing anybody."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Final

import typer

from contract.settings import Settings
from dataset_agent.cache_secret import SecretRecord, list_secrets, rotate_secret
from dataset_agent.configuration import check_home, check_user, load_settings
from dataset_agent.console import AsJson, print_json, say, table
from grants.key_list import KeyRecord, list_keys
from grants.key_store import KeyName, KeyStore
from grants.keys import ROLES, init_keys
from grants.rotation import AHEAD, RETIRE_AFTER, retire, stage, switch

keys_app = typer.Typer(help="Keys of the issuer, the root agent and the dataset agent.", no_args_is_help=True)

_EVERYWHERE: Final = "Bring that file to everybody, then everywhere: dataset-agent reload --wait"
KeyRole = Annotated[KeyName, typer.Option("--role", help="Whose key; identity is the development issuer's.")]


class Secret(StrEnum):
    CACHE = "cache"


class RoleName(StrEnum):
    ISSUER = "issuer"
    ROOT = "root"
    REMOTE = "remote"


@keys_app.callback()
def keys_group() -> None:
    """Keys of the issuer, the root agent and the dataset agent."""


@keys_app.command("init")
def init(
    role: Annotated[list[RoleName] | None, typer.Option(help="Only this role. Repeatable.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the roles' keys and withdraw the old ones.")] = False,
    as_json: AsJson = False,
) -> None:
    """Make what is missing: a private store per role, and the public trust.toml. Safe to repeat."""
    wanted = {name.value for name in role or ()}
    roles = tuple(name for name in ROLES if not wanted or name in wanted)
    settings = load_settings()
    check_user(settings, *(getattr(settings, f"{name}_dir") for name in roles))
    report = init_keys(settings, force=force, roles=roles)
    if as_json:
        print_json(
            {
                "trust": str(report.trust),
                "created": [str(path) for path in report.created],
                "kept": [str(path) for path in report.kept],
                "public": {str(path): kid for path, kid in report.public.items()},
                "outside": report.outside,
            }
        )
        return
    for path in report.created:
        say(f"created  {path}")
    for path in report.kept:
        say(f"kept     {path}")
    for setting, kid in report.outside.items():
        say(f"outside  {setting} ({kid})")
    say(f"Public keys are pinned in {report.trust}")
    if force:
        say("The old ones are its revoked_keys: nothing that arrives is believed by them again. Bring that file to")
        say("everybody and reload what runs. Agents' old keys stay in it as retired_keys, for the ledgers and answers")
        say("they signed; take one out if somebody else may have it.")


@keys_app.command("list")
def list_all(as_json: AsJson = False) -> None:
    """List keys by role: state, age, and what to do about one that waits."""
    settings, now = load_settings(), time.time()
    check_home(settings)
    records, cache = list_keys(settings, now=now), list_secrets(settings, now=now)
    if as_json:
        held = [record.to_json() | {"advice": record.advice(now)} for record in records]
        print_json(held + [record.to_json() | {"advice": record.advice()} for record in cache])
        return
    columns = ("role", "state", "age", "kid", "from", "published", "replaced", "advice")
    rows = [_row(record, now) for record in records] + [_secret_row(record) for record in cache]
    table(
        f"{len(rows)} keys; public ones are pinned in {settings.trust_path}"
        if settings.trust_path.exists()
        else f"{len(rows)} keys, and none is pinned: there is no {settings.trust_path}; run: dataset-agent keys init",
        columns,
        rows,
        lead=columns[:4],
        right={"age"},
    )


@keys_app.command("rotate")
def rotate(
    secret: Annotated[
        Secret | None, typer.Argument(help="The cache's secret instead of a role's key: one step, nothing to wait for.")
    ] = None,
    role: Annotated[
        KeyName | None, typer.Option("--role", help="Whose key; identity is the development issuer's.")
    ] = None,
    only_stage: Annotated[
        bool, typer.Option("--stage", help="Make and publish the next key; the old one signs.")
    ] = False,
    at_once: Annotated[bool, typer.Option("--now", help="Do not wait until everybody can know the next key.")] = False,
    as_json: AsJson = False,
) -> None:
    """Change a key: first with --stage, and when everybody has the new trust.toml without it."""
    settings, now = load_settings(), time.time()
    if (secret is None) == (role is None):
        raise typer.BadParameter("give --role, or cache")
    if role is None:
        if only_stage or at_once:
            raise typer.BadParameter("--stage and --now are for --role: the cache's secret is changed in one step")
        _rotate_cache(settings, now, as_json)
        return
    if only_stage and at_once:
        raise typer.BadParameter("give --stage or --now")
    _check_kept(settings, role)
    if only_stage:
        key = stage(settings, role, now=now)
    else:
        key = switch(settings, role, now=now, at_once=at_once)
    state, waits = ("staged", AHEAD) if only_stage else ("current", RETIRE_AFTER[role])
    if as_json:
        print_json({"role": role, "kid": key.thumbprint, "state": state, "next_in_s": waits})
    elif only_stage:
        say(f"The next {role} key is {key.thumbprint}, published in {settings.trust_path}")
        say(_EVERYWHERE)
        say(f"Then, in {waits} s at the earliest: dataset-agent keys rotate --role {role}")
    else:
        say(
            f"The {role} key is {key.thumbprint} from now on; running processes take it at: dataset-agent reload --wait"
        )
        say(f"The one before is accepted until it is retired, in {waits} s at the earliest (dataset-agent keys list)")


def _rotate_cache(settings: Settings, now: float, as_json: bool) -> None:
    _check_kept(settings, KeyName.REMOTE)
    kid, earlier = rotate_secret(settings, now=now)
    if as_json:
        print_json({"role": "cache", "kid": kid, "state": "current", "earlier": list(earlier)})
        return
    say(f"The cache secret is {kid} from now on; running processes take it at: dataset-agent reload --wait")
    say("What was stored before is found no more, and expires. Bring the file to every process that shares the cache.")
    say(f"Earlier ones, which only open entries for cache verify: {', '.join(earlier)}")


@keys_app.command("retire", context_settings={"ignore_unknown_options": True})  # a thumbprint may begin with a dash
def retire_key(
    kid: Annotated[str, typer.Argument(help="The key's thumbprint, as keys list shows it.")],
    role: KeyRole,
    force: Annotated[
        bool, typer.Option("--force", help="Somebody else may have it: at once, and it is revoked for good.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Accept a replaced key no longer, or take back a staged one. The key that signs is never retired."""
    settings = load_settings()
    _check_kept(settings, role)
    retire(settings, role, kid, now=time.time(), force=force)
    if as_json:
        print_json({"role": role, "kid": kid, "state": "retired", "revoked": force})
        return
    say(f"The {role} key {kid} is accepted no longer, as {settings.trust_path} says")
    if force:
        say("It is one of its revoked_keys: whoever reads that file believes nothing by it again, published or not.")
    say(_EVERYWHERE)


def _check_kept(settings: Settings, role: KeyName) -> None:
    """That there is something to change, and that this user may. Raises NOT_FOUND and CONFIGURATION."""
    folder = KeyStore.of(settings, role).folder
    if not folder.exists() and not settings.trust_path.exists():
        check_home(settings)
    check_user(settings, folder)


def _row(record: KeyRecord, now: float) -> tuple[object, ...]:
    return (
        record.role,
        record.state,
        "" if record.age_s is None else _age(record.age_s),
        record.kid,
        record.source or "trust.toml",
        _instant(record.published_at),
        _instant(record.replaced_at),
        record.advice(now),
    )


def _secret_row(record: SecretRecord) -> tuple[object, ...]:
    age = "" if record.age_s is None else _age(record.age_s)
    replaced = _instant(record.replaced_at)
    return "cache", record.state, age, record.kid, record.source, None, replaced, record.advice()


def _age(seconds: int) -> str:
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def _instant(at: int | None) -> str | None:
    return None if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
