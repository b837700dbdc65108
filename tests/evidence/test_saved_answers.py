"""An answer in a file: what was saved is what is read, and a file of another form is told from one that is not there."""

from __future__ import annotations

import base64
import json
import stat
from pathlib import Path
from typing import Any

import pytest

from contract.errors import DatasetAgentError
from evidence import artifact as module
from evidence.artifact import Artifact, read_artifact, write_artifact

ENVELOPE = {"payloadType": "application/vnd.in-toto+json", "payload": "eA==", "signatures": []}
BODY = b'{"rows":[["\xc3\xa9"]]}'


@pytest.mark.parametrize("body", [BODY, b"", None])
def test_what_was_saved_is_read_and_is_its_users_alone(tmp_path: Path, body: bytes | None) -> None:
    file = tmp_path / "answer.json"
    for written in (Artifact({}, b"earlier"), Artifact(ENVELOPE, body)):
        write_artifact(file, written)
        assert read_artifact(file) == written
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["answer.json"]


def test_a_write_that_fails_leaves_the_file_that_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "answer.json"
    write_artifact(file, Artifact(ENVELOPE, BODY))

    def fails(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(module.os, "replace", fails)
    with pytest.raises(OSError, match="no space"):
        write_artifact(file, Artifact({}, b""))
    monkeypatch.undo()
    assert read_artifact(file) == Artifact(ENVELOPE, BODY)
    assert [path.name for path in tmp_path.iterdir()] == ["answer.json"]


SAVED: dict[str, Any] = {"envelope": ENVELOPE, "result_base64": base64.b64encode(BODY).decode()}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it is not JSON"),
        ("{", "it is not JSON"),
        ("[]", "exactly the members"),
        ("7", "exactly the members"),
        ("null", "exactly the members"),
        ('["envelope"]', "exactly the members"),
        ("{}", "exactly the members"),
        (json.dumps({"result_base64": ""}), "exactly the members"),
        (json.dumps(SAVED | {"more": 1}), "exactly the members"),
        (json.dumps({"envelope": []}), "must be an object"),
        (json.dumps(SAVED | {"envelope": "text"}), "must be an object"),
        (json.dumps(SAVED | {"result_base64": None}), "must be an object"),
        (json.dumps(SAVED | {"result_base64": 7}), "must be an object"),
        (json.dumps(SAVED | {"result_base64": "%"}), "is not base64"),
        (json.dumps(SAVED | {"result_base64": "\u00e9"}), "is not base64"),
    ],
)
def test_a_file_of_another_form_is_none(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "answer.json"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(DatasetAgentError, match=said) as caught:
        read_artifact(file)
    assert caught.value.code == "evidence.artifact.malformed"


def test_a_file_that_is_too_large_is_none_and_one_that_is_not_there_is_not_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "answer.json"
    write_artifact(file, Artifact(ENVELOPE, BODY))
    monkeypatch.setattr(module, "MAX_ARTIFACT_BYTES", file.stat().st_size)
    assert read_artifact(file).body == BODY
    monkeypatch.setattr(module, "MAX_ARTIFACT_BYTES", file.stat().st_size - 1)
    codes = []
    for path in (file, tmp_path / "none.json"):
        with pytest.raises(DatasetAgentError) as caught:
            read_artifact(path)
        codes.append(caught.value.code)
    assert codes == ["evidence.artifact.malformed", "evidence.artifact.not_found"]
