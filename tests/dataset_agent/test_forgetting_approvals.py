"""A person is forgotten in approvals too, wherever the ledger of their dataset agent is."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest

from approvals.approval import Requester
from contract.settings import Settings
from dataset_agent.cli import run
from remote_agent.approvals_place import open_approvals
from tests.approvals.approvals_world import OTHER, REQUESTER, make_asked, make_origin
from tests.running_agent import agent_home

PERSON = REQUESTER.subject


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A home with secrets and without a ledger."""
    settings = agent_home(tmp_path / "home")
    monkeypatch.setenv("DATASET_AGENT_HOME", str(settings.home))
    return settings


def asked_for(settings: Settings, *requesters: Requester) -> None:
    async def ask() -> None:
        book = open_approvals(settings)
        for number, requester in enumerate(requesters):
            await book.ask(requester, make_asked(), make_origin(f"task-{number}"), time.time())
        await book.close()

    asyncio.run(ask())


def left(settings: Settings) -> list[str]:
    async def look() -> list[str]:
        book = open_approvals(settings)
        return [one.requester.subject for one in await book.all()]

    return asyncio.run(look())


def forget(capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, str, str]:
    code = run(["evidence", "forget", "--subject", PERSON, *options])
    told = capsys.readouterr()
    return code, told.out, told.err


def as_json(capsys: pytest.CaptureFixture[str], *options: str) -> Any:
    code, out, _ = forget(capsys, "--json", *options)
    assert code == 0
    return json.loads(out)


@pytest.mark.parametrize("side", [(), ("--side", "remote")])
def test_approvals_are_removed_where_the_ledger_is_not_here(
    home: Settings, capsys: pytest.CaptureFixture[str], side: tuple[str, ...]
) -> None:
    asked_for(home, REQUESTER, OTHER, REQUESTER)
    assert as_json(capsys, *side, "--dry-run") == {"ledgers": [], "approvals": 2, "dry_run": True}
    assert forget(capsys, *side)[0] == 2  # nobody said yes
    assert len(left(home)) == 3
    code, out, err = forget(capsys, *side, "--yes")
    assert (code, out) == (0, "2 approvals of theirs are gone\n")
    assert "no row says so" in err
    assert left(home) == [OTHER.subject]


def test_the_side_that_has_no_approvals_is_asked_for_none(home: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    asked_for(home, REQUESTER)
    assert forget(capsys, "--side", "root", "--yes")[0] == 2  # it has no ledger here
    assert left(home) == [PERSON]


def test_of_people_of_one_name_in_approvals_one_is_named(home: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    namesake = REQUESTER.model_copy(update={"issuer": "https://another.example"})
    asked_for(home, REQUESTER, namesake)
    code, _, err = forget(capsys, "--yes")
    assert (code, left(home)) == (2, [PERSON, PERSON])
    assert "add --issuer (https://another.example, https://issuer.example)" in " ".join(err.split())
    assert as_json(capsys, "--issuer", namesake.issuer, "--yes")["approvals"] == 1
    assert len(left(home)) == 1


def test_where_nobody_ever_asked_for_an_approval_no_store_is_made(
    home: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    assert as_json(capsys, "--yes")["approvals"] == 0
    assert not (home.home / "remote" / "approvals.sqlite").exists()


def test_who_has_not_the_secret_of_approvals_on_a_server_is_told_that_they_were_not_looked_through(
    home: Settings, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATASET_AGENT_STATE_URL", "redis://127.0.0.1:1/0")
    (home.remote_dir / "cache.secret").unlink()
    code, _, err = forget(capsys, "--yes")
    assert (code, "the cache secret of their agent is not here" in err) == (0, True)
    monkeypatch.setenv("DATASET_AGENT_CACHE_SECRET", "0" * 64)
    code, _, err = forget(capsys, "--yes")
    assert (code, "could not be looked through" in err) == (1, True)
