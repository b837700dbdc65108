"""At a served agent: what is no id or no path ends at the door, in the form of the door, and leaves no row."""

from __future__ import annotations

import httpx
import pytest

from contract.extension import EXTENSION_URI
from tests.running_agent import Asker, RunningAgent

BAD_IDS = ["x" * 513, "é" * 257, "a\x00b"]


@pytest.mark.parametrize("method", ["GetTask", "CancelTask", "SubscribeToTask"])
@pytest.mark.parametrize("bad", BAD_IDS)
def test_what_is_no_id_names_no_task(agent: RunningAgent, asker: Asker, method: str, bad: str) -> None:
    before = len(agent.rows())
    answer = asker.rpc(method, {"id": bad}, asker.headers(None) | {"A2A-Extensions": EXTENSION_URI})
    text = answer.text.removeprefix("data: ")
    assert '"code":-32602' in text.replace(" ", "") and "512 bytes" in text
    assert bad not in text
    assert len(agent.rows()) == before


def test_over_http_json_it_is_400(asker: Asker) -> None:
    answer = httpx.get(asker.url + "/tasks/" + "x" * 513, headers=asker.headers(None))
    assert (answer.status_code, "512 bytes" in answer.text) == (400, True)


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/patient-0042", 404, "remote_agent.path.unknown"),
        ("PUT", "/", 405, "remote_agent.method.unknown"),
        ("POST", "/healthz", 405, "remote_agent.method.unknown"),
    ],
)
def test_a_path_or_method_that_is_not_there_is_problem_details(
    asker: Asker, method: str, path: str, status: int, code: str
) -> None:
    answer = httpx.request(method, asker.url + path, headers=asker.headers(None))
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    assert (answer.json()["code"], answer.json()["status"]) == (code, status)
    assert "patient" not in answer.text


def test_a_stranger_is_told_nothing_of_paths(asker: Asker) -> None:
    answer = httpx.get(asker.url + "/patient-0042")
    assert (answer.status_code, answer.headers["content-type"]) == (401, "application/problem+json")


def test_what_is_too_large_is_413(asker: Asker) -> None:
    answer = httpx.post(asker.url + "/", content=b"x" * 300_000, headers=asker.headers(None))
    assert (answer.status_code, answer.json()["code"]) == (413, "remote_agent.body.too_large")
