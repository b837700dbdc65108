"""A result that was completed from another agent's rows is fetched like any other, from the agent that was asked."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pyarrow as pa
import pytest

from contract.call import ARROW_MEDIA_TYPE, GET_RESULTS, Operation
from contract.canonical import sha256_hex
from grants.derive import derive
from tests.large_world import part_of, statement_of
from tests.remote_agent.chain_world import ChainWorld, chain_world
from tests.running_agent import message, task_of


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChainWorld]:
    with chain_world(tmp_path_factory.mktemp("chain"), 2) as running:
        yield running


def asked(world: ChainWorld) -> dict[str, Any]:
    """The task of a call whose rows are wanted in Arrow."""
    call = world.call()
    params = {"message": message(call), "configuration": {"acceptedOutputModes": [ARROW_MEDIA_TYPE]}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}
    headers = world.headers(1, world.leaf(world.root_token(), call))
    return task_of(httpx.post(world.agents[0].url + "/", json=body, headers=headers, timeout=30))


def fetched(world: ChainWorld, task: dict[str, Any], token: str, place: int = 1) -> httpx.Response:
    operation = Operation(GET_RESULTS, task=task["id"])
    leaf = derive((token,), world.holder, audience=world.trusted(1), operation=operation, now=time.time(), max_depth=1)
    return httpx.get(f"{world.agents[place - 1].url}/results/{task['id']}", headers=world.headers(1, leaf))


def test_it_is_fetched_and_its_proof_holds_the_other_agents(world: ChainWorld) -> None:
    task = asked(world)
    response = fetched(world, task, world.root_token())
    assert part_of(task)["mediaType"] == ARROW_MEDIA_TYPE
    assert pa.ipc.open_stream(io.BytesIO(response.content)).read_all().column("amount").to_pylist() == [110]
    statement = statement_of(task)
    assert statement["subject"][0]["digest"]["sha256"] == sha256_hex(response.content)
    assert [below["agent_id"] for below in statement["predicate"]["upstream"]] == ["urn:test:agent-2"]


def test_a_leaf_that_does_not_reach_the_other_agent_is_not_what_it_was_made_under(world: ChainWorld) -> None:
    task = asked(world)
    response = fetched(world, task, world.root_token(world.scope(1), max_depth=2))
    assert (response.status_code, response.json()["decision"]["reason"]) == (403, "GRANT_WIDENED")


def test_the_other_agent_knows_nothing_of_it(world: ChainWorld) -> None:
    task = asked(world)
    assert fetched(world, task, world.root_token(), place=2).status_code == 401
