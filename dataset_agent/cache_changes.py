"""``cache verify`` and ``cache purge``: open every entry with the keys at hand, and forget entries."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Final

import typer

from cache.opening import CACHE_FILE
from dataset_agent.cache_display import verified
from dataset_agent.cache_source import At, cache_source
from dataset_agent.configuration import check_user, load_settings
from dataset_agent.console import EXIT_FAULT, AsJson, note, print_json, progress, say
from remote_agent.admin_cache import Progress

SEALED_WITH: Final = "Only of this cache secret: current, earlier, other (not at hand), or its id."
_AGE: Final = re.compile(r"(\d{1,9})([smhd])")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


def verify(url: At = None, as_json: AsJson = False) -> None:
    """Open every entry with the keys at hand; exit 1 where one is damaged."""
    source = cache_source(load_settings(), url)
    with _counting("opening") as tell:
        report = source.verify(tell)
    if as_json:
        print_json(report)
    else:
        verified(report)
    if report["damaged"]:
        if not as_json:
            note("what is damaged is never served; to remove it: dataset-agent cache purge --damaged")
        raise typer.Exit(EXIT_FAULT)


def purge(
    dataset: Annotated[str | None, typer.Option(help="Only of this dataset.")] = None,
    capability: Annotated[str | None, typer.Option(help="Only of this capability.")] = None,
    class_: Annotated[str | None, typer.Option("--class", help="Only of this class of principals.")] = None,
    freshness: Annotated[str | None, typer.Option(help="Only of this freshness class.")] = None,
    revision: Annotated[str | None, typer.Option(help="Only of this revision of the data.")] = None,
    policy: Annotated[str | None, typer.Option(help="Only under this policy: id, version or id@version.")] = None,
    secret: Annotated[str | None, typer.Option(help=SEALED_WITH)] = None,
    older_than: Annotated[str | None, typer.Option(help="Only what is older: 90s, 15m, 6h, 7d.")] = None,
    expired: Annotated[bool, typer.Option("--expired", help="Only what is past its time.")] = False,
    damaged: Annotated[bool, typer.Option("--damaged", help="Only what is damaged or foreign.")] = False,
    everything: Annotated[bool, typer.Option("--all", help="Everything.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count what would be removed.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    url: At = None,
    as_json: AsJson = False,
) -> None:
    """Forget stored results: the next equal calls run again. All that is given must hold of an entry."""
    settings = load_settings()
    texts = {"dataset": dataset, "capability": capability, "class": class_, "freshness": freshness}
    texts |= {"revision": revision, "policy": policy, "secret": secret}
    members: dict[str, Any] = {name: value for name, value in texts.items() if value is not None}
    if older_than is not None:
        members["older_than_s"] = _seconds(older_than)
    members |= {name: True for name, is_on in (("expired", expired), ("damaged", damaged)) if is_on}
    if everything and members:
        raise typer.BadParameter("--all is everything, and more is given that must hold: leave one of them out")
    if not everything and not members:
        raise typer.BadParameter("say what to purge (--dataset, --expired, …), or --all for everything")
    members |= {"all": True} if everything else {}
    if url is None and settings.cache_url is None and not dry_run:
        check_user(settings, settings.home / CACHE_FILE)
    source = cache_source(settings, url)
    if not dry_run and not yes:
        _confirm(source.purge({**members, "dry_run": True}, None)["matched"], as_json)
    with _counting("counting" if dry_run else "purging") as tell:
        found = source.purge({**members, "dry_run": dry_run}, tell)
    if as_json:
        print_json(found)
    elif dry_run:
        say(f"{_entries(found['matched'])} would be removed")
    else:
        say(f"{_entries(found['removed'])} removed" + _of(found))


def _confirm(matched: int, as_json: bool) -> None:
    if as_json or not sys.stdin.isatty():
        raise typer.BadParameter(f"{_entries(matched)} would be removed: add --yes, or --dry-run to look only")
    typer.confirm(f"Remove {_entries(matched)}?", abort=True, err=True)


def _of(found: dict[str, Any]) -> str:
    """Others may have gone, or been removed, meanwhile."""
    return "" if found["removed"] == found["matched"] else f" of {found['matched']} that were found"


def _entries(number: int) -> str:
    return f"{number} {'entry' if number == 1 else 'entries'}"


def _seconds(text: str) -> int:
    found = _AGE.fullmatch(text)
    if found is None:
        raise typer.BadParameter("--older-than is a number with s, m, h or d, such as 6h")
    return int(found[1]) * _SECONDS[found[2]]


@contextmanager
def _counting(doing: str) -> Iterator[Progress | None]:
    """A bar of how many entries were looked at, where standard error is a terminal."""
    with progress(doing) as percent:
        yield None if percent is None else _told(percent)


def _told(percent: Callable[[int], None]) -> Progress:
    return lambda done, total: percent(min(100, done * 100 // max(total, done)))
