"""A policy, or a version of policies, that evidence could not name decides nothing; and what is no file is no policy."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.errors import DatasetAgentError
from contract.ids import is_name_of_record
from control_plane.evaluator import EvaluatorUnavailable, HttpEvaluator
from control_plane.policy import PolicyAnswer, load_policies
from control_plane.yaml_reader import UnreadableFile, read_document
from evidence.row import recordable
from tests.control_plane.control_plane_world import make_question, write_policies
from tests.control_plane.policy_servers import listening

UNNAMEABLE = [
    "Acme rule 7",
    "two\nlines",
    "nul\x00",
    "right\u202eleft",
    "\x1b[31mred",
    "révision",
    "x" * 201,
    "a token eyJhbGciOiJFZDI1NTE5In0",
    "eyJ",
    "tab\t",
    "",
]
NAMED = {"outcome": "permit", "policy_id": "ACME-1", "policy_version": "1"}


@given(st.text(max_size=220))
def test_what_may_be_named_is_what_evidence_holds_as_it_is(text: str) -> None:
    assert is_name_of_record(text) == (recordable(text) == text)


@pytest.mark.parametrize("name", UNNAMEABLE)
@pytest.mark.parametrize("outcome", ["permit", "forbid"])
def test_an_answer_by_a_policy_that_no_row_may_name_is_none(outcome: str, name: str) -> None:
    with pytest.raises(ValueError):
        PolicyAnswer.from_json({**NAMED, "outcome": outcome, "policy_id": name})


@pytest.mark.parametrize("name", UNNAMEABLE)
@pytest.mark.parametrize("outcome", ["permit", "forbid", "none", "error", "missing_attribute"])
def test_an_answer_under_a_version_that_no_row_may_name_is_none(outcome: str, name: str) -> None:
    policy_id = "ACME-1" if outcome in ("permit", "forbid") else None
    with pytest.raises(ValueError):
        PolicyAnswer.from_json({"outcome": outcome, "policy_id": policy_id, "policy_version": name})


@pytest.mark.parametrize("outcome", ["permit", "forbid"])
def test_no_policy_of_a_server_has_the_id_of_an_admission_rule(outcome: str) -> None:
    with pytest.raises(ValueError, match="admission rules"):
        PolicyAnswer.from_json({**NAMED, "outcome": outcome, "policy_id": "AD-POL-005"})


def encoded(body: bytes, encoding: bytes) -> Callable[..., Awaitable[None]]:
    async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
        await receive()
        headers = [(b"content-type", b"application/json"), (b"content-encoding", encoding)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return app


@pytest.mark.parametrize("encoding", [b"gzip", b"deflate", b"foo"])
async def test_an_encoded_answer_is_not_inflated(encoding: bytes) -> None:
    body = json.dumps({"result": NAMED}).encode()
    async with listening(encoded(gzip.compress(body) if encoding == b"gzip" else body, encoding)) as url:
        evaluator = HttpEvaluator(url, 5.0)
        with pytest.raises(EvaluatorUnavailable, match="encoded"):
            await evaluator.evaluate(make_question())
        await evaluator.close()


@pytest.mark.parametrize("policy_id", ["ACME-" + "7" * 200, "eyJ-1"])
def test_a_policy_whose_id_no_row_may_hold_is_refused_when_it_is_read(tmp_path: Path, policy_id: str) -> None:
    with pytest.raises(DatasetAgentError, match="needs an id"):
        load_policies(write_policies(tmp_path, f'@id("{policy_id}") permit (principal, action, resource);'))


def test_a_version_that_reads_as_a_token_is_refused(tmp_path: Path) -> None:
    folder = write_policies(tmp_path, '@id("ACME-1") permit (principal, action, resource);')
    (folder / "version").write_text("eyJ1")
    with pytest.raises(DatasetAgentError, match="must hold one version"):
        load_policies(folder)


@pytest.mark.parametrize("name", ["more.cedar", "version", "schema.cedarschema"])
def test_a_pipe_among_the_policies_is_told_and_not_waited_for(tmp_path: Path, name: str) -> None:
    folder = write_policies(tmp_path, '@id("ACME-1") permit (principal, action, resource);')
    found = next(iter(folder.glob("*.cedarschema"))).name if name == "schema.cedarschema" else name
    (folder / found).unlink(missing_ok=True)
    os.mkfifo(folder / found)
    with pytest.raises(DatasetAgentError, match="no regular file"):
        load_policies(folder)


def test_a_directory_of_people_that_is_a_pipe_is_told_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "principals.yaml")
    with pytest.raises(UnreadableFile, match="no regular file"):
        read_document(tmp_path / "principals.yaml")
