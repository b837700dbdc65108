"""Where the admin token comes from, and what is none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from contract.errors import Category, DatasetAgentError
from contract.settings import Settings
from remote_agent.admin_token import admin_token, token_text

TOKEN = "a" * 32


def code(**fields: Any) -> str:
    with pytest.raises(DatasetAgentError) as caught:
        admin_token(Settings(**fields))
    assert caught.value.category is Category.CONFIGURATION
    assert TOKEN not in caught.value.message
    return caught.value.code.removeprefix("remote_agent.admin.")


def in_file(path: Path, text: str = TOKEN, mode: int = 0o600) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


def test_without_a_setting_there_is_no_token() -> None:
    assert admin_token(Settings()) is None


def test_a_file_of_its_owner_holds_one(tmp_path: Path) -> None:
    file = in_file(tmp_path / "token", TOKEN + "\n")
    assert token_text(Settings(admin_token_file=file)) == TOKEN
    (tmp_path / "link").symlink_to(file)
    assert token_text(Settings(admin_token_file=tmp_path / "link")) == TOKEN


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o644])
def test_a_file_that_others_may_touch_is_refused(tmp_path: Path, mode: int) -> None:
    assert code(admin_token_file=in_file(tmp_path / "token", mode=mode)) == "permissions"


def test_no_file_a_folder_and_an_endless_one_are_refused(tmp_path: Path) -> None:
    assert code(admin_token_file=tmp_path / "nothing") == "missing"
    assert code(admin_token_file=tmp_path) == "unreadable"
    assert code(admin_token_file=in_file(tmp_path / "token", TOKEN * 100)) == "malformed"


def test_two_sources_are_one_too_many(tmp_path: Path) -> None:
    assert code(admin_token=TOKEN, admin_token_file=in_file(tmp_path / "token")) == "two_sources"


@pytest.mark.parametrize("text", ["a" * 31, "a" * 513, "a" * 20 + " " + "a" * 20, "ä" * 40, "a" * 40 + "\x00"])
def test_what_is_short_or_no_plain_text_is_no_token(tmp_path: Path, text: str) -> None:
    assert code(admin_token=text) == "malformed"
    assert code(admin_token_file=in_file(tmp_path / "token", text)) == "malformed"


def test_no_text_is_no_token(tmp_path: Path) -> None:
    assert code(admin_token_file=in_file(tmp_path / "token", "")) == "malformed"
    with pytest.raises(ValidationError, match="it is empty"):
        Settings(admin_token="")


def test_a_token_is_compared_whole_and_never_shown() -> None:
    token = admin_token(Settings(admin_token=TOKEN))
    assert token is not None
    assert TOKEN not in repr(token)
    assert token.is_of([(b"authorization", b"Bearer " + TOKEN.encode())])
    assert token.is_of([(b"x", b"y"), (b"authorization", b"bearer  " + TOKEN.encode())])
    for value in (b"", b"Bearer", b"Bearer ", b"Bearer " + b"a" * 31, b"Basic " + TOKEN.encode()):
        assert not token.is_of([(b"authorization", value)])
    assert not token.is_of([])
    assert not token.is_of([(b"authorization", b"Bearer " + TOKEN.encode())] * 2)
