"""``keys list|rotate|retire``: a key is changed step by step, and no step can be taken too early."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest

from contract.settings import Settings
from grants.key_store import KeyName, KeyStore
from grants.rotation import AHEAD, RETIRE_AFTER, stage, switch
from grants.trust import load_trust
from tests.dataset_agent.command_line import CommandLine

pytestmark = pytest.mark.live


@pytest.fixture
def home(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home")


@pytest.fixture
def command(home: Settings) -> CommandLine:
    made = CommandLine({"HOME": str(home.home), "URL": "http://127.0.0.1:1"})
    assert made("keys", "init").code == 0
    return made


def test_keys_that_nobody_pinned_are_not_said_to_be_pinned(command: CommandLine, home: Settings) -> None:
    assert f"5 keys; public ones are pinned in {home.trust_path}" in command("keys", "list").out
    home.trust_path.unlink()
    assert f"none is pinned: there is no {home.trust_path}; run: dataset-agent keys init" in command("keys", "list").out


def states(command: CommandLine, role: str) -> dict[str, str]:
    return {key["kid"]: key["state"] for key in command("keys", "list", "--json").json if key["role"] == role}


@pytest.mark.parametrize("role", list(KeyName))
def test_a_key_is_staged_switched_and_retired(command: CommandLine, home: Settings, role: KeyName) -> None:
    (old,) = states(command, role)
    staged = command("keys", "rotate", "--role", role, "--stage", "--json").json
    assert (staged["state"], staged["next_in_s"]) == ("staged", AHEAD)
    assert states(command, role) == {old: "current", staged["kid"]: "staged"}
    early = command("keys", "rotate", "--role", role)
    assert (early.code, "add --now" in early.line) == (1, True)
    KeyStore.of(home, role).note(staged["kid"], published_at=int(time.time()) - AHEAD)
    assert command("keys", "rotate", "--role", role, "--json").json["kid"] == staged["kid"]
    assert states(command, role) == {staged["kid"]: "current", old: "replaced"}
    early = command("keys", "retire", "--role", role, old)
    assert (early.code, "add --force" in early.line) == (1, True)
    KeyStore.of(home, role).note(old, replaced_at=int(time.time()) - RETIRE_AFTER[role])
    assert f"keys retire --role {role} {old}" in json.dumps(command("keys", "list", "--json").json)
    assert command("keys", "retire", "--role", role, old).code == 0
    left = {staged["kid"]: "current"} | ({old: "retired"} if role in (KeyName.ROOT, KeyName.REMOTE) else {})
    assert states(command, role) == left


def test_a_thumbprint_may_begin_with_a_dash(command: CommandLine) -> None:
    run = command("keys", "retire", "-" + "A" * 42, "--role", "root")
    assert run.code == 2
    assert "accepts no root key" in run.line


def test_the_list_fits_the_terminal_and_names_every_key_whole(command: CommandLine) -> None:
    assert command("keys", "rotate", "--role", "root", "--now").code == 0
    run = command("keys", "list")
    assert max(len(line) for line in run.out.splitlines()[1:] if "/" not in line) <= 80
    assert re.findall(r"^(\w+) +(current|staged|replaced) ", run.out, re.M) == [
        ("issuer", "current"),
        ("identity", "current"),
        ("root", "current"),
        ("root", "replaced"),
        ("remote", "current"),
        ("cache", "current"),
    ]
    assert all(key["kid"] in run.out for key in command("keys", "list", "--json").json)


def test_what_waits_for_somebody_is_said(command: CommandLine, home: Settings) -> None:
    old = int(time.time()) - 100 * 86_400
    stage(home, KeyName.ISSUER, now=old)
    switch(home, KeyName.ROOT, now=old, at_once=True)
    kid = next(kid for kid, state in states(command, "remote").items() if state == "current")
    KeyStore.of(home, KeyName.REMOTE).note(kid, created_at=old)
    advice = {(key["role"], key["state"]): key["advice"] for key in command("keys", "list", "--json").json}
    assert "100 days ago" in advice["issuer", "staged"]
    assert "keys retire --role root" in advice["root", "replaced"]
    assert "100 days old" in advice["remote", "current"]
    assert advice["identity", "current"] is None


def test_a_key_that_nobody_pins_is_named(command: CommandLine, home: Settings) -> None:
    home.trust_path.unlink()
    listed = command("keys", "list", "--json").json
    assert all("keys init" in key["advice"] for key in listed if key["role"] != "cache")


def test_no_private_half_is_ever_printed(command: CommandLine, home: Settings) -> None:
    said = ""
    for arguments in (
        ("rotate", "--role", "root", "--stage"),
        ("rotate", "--role", "remote", "--now"),
        ("list", "--json"),
    ):
        said += command("keys", *arguments).out
    for path in home.home.rglob("*.jwk"):
        assert json.loads(path.read_bytes())["d"] not in said


def test_looking_at_keys_makes_no_home(tmp_path: Path) -> None:
    run = CommandLine({"HOME": str(tmp_path / "none")})("keys", "list")
    assert run.code == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments", [("rotate",), ("retire", "x"), ("rotate", "--role", "auditor"), ("retire", "--role", "root")]
)
def test_a_role_and_a_key_must_be_named(command: CommandLine, arguments: tuple[str, ...]) -> None:
    assert command("keys", *arguments).code == 2


def test_a_key_that_somebody_else_may_have_is_revoked_for_good(command: CommandLine, home: Settings) -> None:
    (old,) = states(command, "root")
    assert command("keys", "rotate", "--role", "root", "--now").code == 0
    run = command("keys", "retire", "--role", "root", "--force", old, "--json")
    assert run.json == {"role": "root", "kid": old, "state": "retired", "revoked": True}
    assert load_trust(home.trust_path).revoked_keys == {old}
    assert states(command, "root")[old] == "retired"
    published = "A" * 43
    said = command("keys", "retire", "--role", "issuer", "--force", published)
    assert (said.code, "revoked_keys" in said.out) == (0, True)
    assert load_trust(home.trust_path).revoked_keys == {old, published}


def test_a_key_that_is_revoked_and_still_signs_is_named(command: CommandLine, home: Settings) -> None:
    (kid,) = states(command, "remote")
    home.trust_path.write_text(f'revoked_keys = ["{kid}"]\n' + home.trust_path.read_text())
    (advice,) = [key["advice"] for key in command("keys", "list", "--json").json if key["role"] == "remote"]
    assert "keys rotate --role remote --now" in advice
    assert "revokes it" in command("doctor").out
    assert command("keys", "rotate", "--role", "remote", "--now").code == 0
    assert command("keys", "retire", "--role", "remote", "--force", kid).code == 0
    assert not any(key["revoked"] and key["state"] != "retired" for key in command("keys", "list", "--json").json)


@pytest.mark.parametrize(
    "words", [("rotate", "cache"), ("rotate", "--role", "root", "--stage"), ("retire", "x", "--role", "root")], ids=str
)
def test_no_home_is_made_by_changing_what_is_not_there(
    command: CommandLine, tmp_path: Path, words: tuple[str, ...]
) -> None:
    run = command("keys", *words, HOME=str(tmp_path / "none"))
    assert (run.code, run.line.partition(":")[2]) == (
        2,
        f" there is no home at {tmp_path / 'none'}: correct DATASET_AGENT_HOME, or make one with dataset-agent keys init",
    )
    assert not (tmp_path / "none").exists()


def test_approvals_and_entries_are_called_as_their_pages_call_them(command: CommandLine) -> None:
    for words, name in ((("approvals", "show"), "ID"), (("cache", "diff"), "A"), (("cache", "diff", "x"), "B")):
        run = command(*words)
        assert (run.code, f"Missing argument '{name}'" in run.line) == (2, True)
