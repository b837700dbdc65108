"""``keys rotate cache``: a new secret before the earlier ones, of which three are kept, in one step."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

import pytest

from cache.keys import MAX_SECRETS, load_secrets
from contract.errors import DatasetAgentError
from contract.settings import Settings
from dataset_agent.cache_secret import list_secrets, rotate_secret
from dataset_agent.doctor_keys import check_keys
from grants.key_list import ROTATE_AFTER
from grants.keys import init_keys
from tests.dataset_agent.command_line import CommandLine


@pytest.fixture
def home(tmp_path: Path) -> Settings:
    made = Settings(home=tmp_path / "home")
    init_keys(made)
    return made


def file(home: Settings) -> Path:
    return home.remote_dir / "cache.secret"


def test_a_new_secret_stands_before_the_others_and_three_of_them_stay(home: Settings) -> None:
    seen = list(load_secrets(home))
    for step in range(5):
        kid, earlier = rotate_secret(home, now=time.time())
        held = load_secrets(home)
        assert held[0] not in seen
        seen.insert(0, held[0])
        assert list(held) == seen[:MAX_SECRETS]
        assert [record.kid for record in list_secrets(home, now=time.time())] == [kid, *earlier]
        assert len(earlier) == min(step + 1, MAX_SECRETS - 1)
    assert stat.S_IMODE(file(home).stat().st_mode) == 0o600


def test_each_secret_has_its_age(home: Settings) -> None:
    made = int(file(home).stat().st_mtime)
    rotate_secret(home, now=made + 1_000)
    rotate_secret(home, now=made + 3_000)
    records = list_secrets(home, now=made + 3_500)
    assert [record.state for record in records] == ["current", "earlier", "earlier"]
    assert [record.age_s for record in records] == [500, 2_500, 3_500]
    assert [record.replaced_at for record in records] == [None, made + 3_000, made + 1_000]


def test_an_old_secret_is_advised_to_be_changed_and_doctor_says_so(home: Settings) -> None:
    long_ago = time.time() - ROTATE_AFTER - 86_400
    os.utime(file(home), (long_ago, long_ago))
    (record,) = list_secrets(home, now=time.time())
    assert record.advice() == "it is 91 days old: dataset-agent keys rotate cache"
    (found,) = [finding for finding in check_keys(home) if finding.check == "cache secret"]
    assert (found.status, found.advice) == ("ok", record.advice())
    rotate_secret(home, now=time.time())
    (found,) = [finding for finding in check_keys(home) if finding.check == "cache secret"]
    assert found.advice == "0 days old, 1 before it"


def test_doctor_names_a_secret_that_does_not_read(home: Settings) -> None:
    file(home).write_text("nothing")
    (found,) = [finding for finding in check_keys(home) if finding.check == "cache secret"]
    assert found.status == "broken"
    assert "64 hex digits" in found.advice


def test_a_file_that_does_not_read_stays_as_it_is(home: Settings) -> None:
    file(home).write_text("0f" * 32 + "\nbroken\n")
    with pytest.raises(DatasetAgentError, match="64 hex digits"):
        rotate_secret(home, now=time.time())
    assert file(home).read_text() == "0f" * 32 + "\nbroken\n"
    assert not list(home.remote_dir.glob("*.new"))


def test_secrets_of_the_environment_are_listed_and_changed_there(home: Settings) -> None:
    given = Settings(home=home.home, cache_secret="0a" * 32 + "," + "0b" * 32)
    records = list_secrets(given, now=time.time())
    assert [(record.state, record.source, record.age_s) for record in records] == [
        ("current", "DATASET_AGENT_CACHE_SECRET", None),
        ("earlier", "DATASET_AGENT_CACHE_SECRET", None),
    ]
    with pytest.raises(DatasetAgentError, match="before what DATASET_AGENT_CACHE_SECRET holds"):
        rotate_secret(given, now=time.time())


def test_a_home_without_a_dataset_agent_has_no_secret(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "root")
    init_keys(settings, roles=("root",))
    assert list_secrets(settings, now=time.time()) == []
    with pytest.raises(DatasetAgentError, match="keys init"):
        rotate_secret(settings, now=time.time())


def test_the_command_shows_kids_and_never_a_secret(home: Settings) -> None:
    command = CommandLine({"HOME": str(home.home)})
    told = command("keys", "rotate", "cache", "--json").json
    assert (told["role"], told["state"], len(told["earlier"])) == ("cache", "current", 1)
    listed = [key for key in command("keys", "list", "--json").json if key["role"] == "cache"]
    assert [(key["kid"], key["state"]) for key in listed] == [(told["kid"], "current"), (told["earlier"][0], "earlier")]
    shown = command("keys", "list").out + str(listed) + str(told)
    assert not any(secret.hex() in shown for secret in load_secrets(home))


@pytest.mark.parametrize(
    "arguments", [("rotate",), ("rotate", "cache", "--role", "root"), ("rotate", "cache", "--now"), ("rotate", "memo")]
)
def test_what_is_neither_a_role_nor_the_cache_is_usage(home: Settings, arguments: tuple[str, ...]) -> None:
    before = file(home).read_bytes()
    assert CommandLine({"HOME": str(home.home)})("keys", *arguments).code == 2
    assert file(home).read_bytes() == before
