"""A secret is read where nobody but its owner can read or change it, and nothing of it is repeated."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from contract.secret_file import SecretFileError, read_secret

SECRET = b"a secret\n"


def in_file(path: Path, data: bytes = SECRET, mode: int = 0o600) -> Path:
    path.write_bytes(data)
    path.chmod(mode)
    return path


def code(path: Path, *, limit: int = 64) -> str:
    with pytest.raises(SecretFileError) as caught:
        read_secret(path, what="the secret", limit=limit)
    assert "a secret" not in str(caught.value)
    return caught.value.code


def test_a_file_of_its_owner_is_read_whole(tmp_path: Path) -> None:
    assert read_secret(in_file(tmp_path / "secret"), what="it", limit=len(SECRET)) == SECRET
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    assert read_secret(tmp_path / "link", what="it", limit=64) == SECRET


@pytest.mark.parametrize("mode", [0o640, 0o620, 0o610, 0o604, 0o602, 0o601])
def test_a_file_that_others_may_touch_is_refused_with_what_to_run(tmp_path: Path, mode: int) -> None:
    path = in_file(tmp_path / "secret", mode=mode)
    with pytest.raises(SecretFileError, match=f"chmod 600 {path}"):
        read_secret(path, what="it", limit=64)
    assert code(path) == "permissions"


def test_what_to_run_can_be_run_as_it_is_told_whatever_the_path_holds(tmp_path: Path) -> None:
    path = in_file(tmp_path / "my $(touch x) secret", mode=0o644)
    with pytest.raises(SecretFileError) as told:
        read_secret(path, what="it", limit=64)
    subprocess.run(str(told.value).partition("run: ")[2], shell=True, check=True, cwd=tmp_path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


def test_a_file_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = in_file(tmp_path / "secret")
    os.chown(path, 12345, -1) if os.geteuid() == 0 else monkeypatch.setattr("os.geteuid", lambda: os.getuid() + 1)
    assert code(path) == "permissions"


def test_a_byte_more_than_the_limit_is_too_much(tmp_path: Path) -> None:
    assert code(in_file(tmp_path / "secret"), limit=len(SECRET) - 1) == "malformed"


def test_what_is_not_there_or_no_file_is_told(tmp_path: Path) -> None:
    assert code(tmp_path / "nothing") == "missing"
    assert code(tmp_path) == "unreadable"
    os.mkfifo(tmp_path / "pipe", 0o600)
    assert code(tmp_path / "pipe") == "unreadable"
