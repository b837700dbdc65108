"""``cache keys|show|diff|stats``: look inside the cache without being able to read anything in it."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from cache.opening import CACHE_FILE
from cache.selection import MAX_LISTED, Sort
from contract.settings import Settings
from dataset_agent.cache_changes import SEALED_WITH, purge, verify
from dataset_agent.cache_display import differences, entry_table, figure, one_entry, restricted_table
from dataset_agent.cache_explain import explain
from dataset_agent.cache_source import At, cache_source
from dataset_agent.configuration import load_settings
from dataset_agent.console import AsJson, note, print_json, say, table

cache_app = typer.Typer(help="Inspect the semantic result cache.", no_args_is_help=True)

_KEY: Final = "A key, or the end of one, as `cache keys` shows it."


@cache_app.command("keys")
def keys(
    dataset: Annotated[str | None, typer.Option(help="Only of this dataset.")] = None,
    capability: Annotated[str | None, typer.Option(help="Only of this capability.")] = None,
    class_: Annotated[str | None, typer.Option("--class", help="Only of this class of principals.")] = None,
    freshness: Annotated[str | None, typer.Option(help="Only of this freshness class, such as 3600s.")] = None,
    secret: Annotated[str | None, typer.Option(help=SEALED_WITH)] = None,
    expired: Annotated[bool, typer.Option("--expired", help="Only what is past its time.")] = False,
    problem: Annotated[bool, typer.Option("--problem", help="Only what does not read.")] = False,
    sort: Annotated[Sort, typer.Option(help="The oldest, largest, most used, or soonest to end first.")] = Sort.KEY,
    full: Annotated[bool, typer.Option("--full", help="Print whole keys, one a line.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=MAX_LISTED, help="Show at most so many.")] = MAX_LISTED,
    url: At = None,
    as_json: AsJson = False,
) -> None:
    """List entries with their plain dimensions. No scope, argument or row is readable from them."""
    settings = load_settings()
    texts = {"dataset": dataset, "capability": capability, "class": class_, "freshness": freshness, "secret": secret}
    members: dict[str, Any] = {name: value for name, value in texts.items() if value is not None}
    members |= {name: True for name, is_on in (("expired", expired), ("problem", problem)) if is_on}
    found = cache_source(settings, url).entries({**members, "sort": sort.value, "limit": limit})
    if as_json:
        print_json(found)
        return
    if full:
        for entry in found["entries"]:
            say(entry["key"])
        return
    if found["entries"]:
        entry_table(found["entries"], matched=found["matched"])
    elif members:
        say("No entry is of this kind.")
    elif not found["restricted"]:
        _say_empty(settings, url)
    if found["restricted"]:
        restricted_table(found["restricted"])


@cache_app.command("show")
def show(
    key: Annotated[str, typer.Argument(help=_KEY)],
    url: At = None,
    as_json: AsJson = False,
) -> None:
    """Show one entry: its dimensions, age, expiry and size."""
    entry = cache_source(load_settings(), url).show(key)
    if as_json:
        print_json(entry)
    else:
        one_entry(entry)


@cache_app.command("diff")
def diff(
    left: Annotated[str, typer.Argument(metavar="A", help=_KEY)],
    right: Annotated[str, typer.Argument(metavar="B", help="Another one.")],
    url: At = None,
    as_json: AsJson = False,
) -> None:
    """Say in which dimensions two entries differ: plain ones as they are, all else as digests."""
    found = cache_source(load_settings(), url).diff(left, right)
    if as_json:
        print_json(found)
    else:
        differences(found)


@cache_app.command("stats")
def stats(url: At = None, as_json: AsJson = False) -> None:
    """Entries, bytes, hits and misses of the store."""
    found = cache_source(load_settings(), url).stats()
    if as_json:
        print_json(found)
        return
    reasons = {f"misses: {reason}": count for reason, count in found.pop("miss_reasons").items()}
    table("Cache", ("figure", "value"), [(name, figure(value)) for name, value in (found | reasons).items()])


cache_app.command("explain")(explain)
cache_app.command("verify")(verify)
cache_app.command("purge")(purge)


def _say_empty(settings: Settings, url: str | None) -> None:
    say("The cache is empty.")
    if url is None and settings.cache_url is None and not (settings.home / CACHE_FILE).exists():
        note(f"nothing was ever stored in {settings.home}: ask something, or check DATASET_AGENT_HOME")
