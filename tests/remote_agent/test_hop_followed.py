"""A call that another agent completes can be followed by whoever asks in the same asking; its proof is of one."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from contract.call import Operation
from evidence.provenance import verify_provenance
from grants.derive import derive
from tests.remote_agent.chain_world import ChainWorld, agent_id, chain_world
from tests.remote_agent.long_world import Listener
from tests.running_agent import message


@pytest.fixture
def two(tmp_path: Path) -> Iterator[ChainWorld]:
    with chain_world(tmp_path, 2) as world:
        yield world


def events(reply: httpx.Response) -> Listener:
    lines = (line for line in reply.iter_lines() if line.startswith("data: "))
    return Listener(json.loads(line[6:])["result"] for line in lines)


def followed(two: ChainWorld, token: str, follower: str) -> Any:
    """Send the call as a stream under one root token, follow it under another, and what the follower gets."""
    gate = asyncio.Event()
    two.slow(2, gate.wait)
    call, url = two.call(), two.agents[0].url + "/"
    headers = two.headers(1, two.leaf(token, call, method="SendStreamingMessage"))
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": {"message": message(call)}}
    with httpx.stream("POST", url, json=body, headers=headers, timeout=30) as sent:
        sending = events(sent)
        task_id = sending.next()["task"]["id"]
        operation = Operation("SubscribeToTask", task=task_id)
        leaf = derive((follower,), two.holder, audience=two.trusted(1), operation=operation, now=time.time(), ttl=60)
        body = {"jsonrpc": "2.0", "id": 2, "method": "SubscribeToTask", "params": {"id": task_id}}
        with httpx.stream("POST", url, json=body, headers=two.headers(1, leaf), timeout=30) as reply:
            following = events(reply)
            following.next()
            two.agents[1].loop.call_soon_threadsafe(gate.set)
            ended = following.rest()
        assert sending.rest().state == "TASK_STATE_COMPLETED"
    return ended


def test_under_the_same_root_token_the_follower_gets_rows_and_the_whole_tree_of_proofs(two: ChainWorld) -> None:
    token = two.root_token()
    ended = followed(two, token, token)
    assert ended.state == "TASK_STATE_COMPLETED"
    statement = verify_provenance(json.loads(ended.raw("provenance")), two.key(1).public_key, body=ended.raw("result"))
    assert [one.agent_id for one in statement.predicate.upstream] == [agent_id(2)]
    assert two.counts() == [2, 1], "one execution at the second agent, two releases at the first"


def test_under_another_root_token_there_is_no_proof_and_no_row(two: ChainWorld) -> None:
    ended = followed(two, two.root_token(), two.root_token())
    assert (ended.state, ended.reason, ended.artifacts) == (
        "TASK_STATE_REJECTED",
        "REMOTE_PROVENANCE_INVALID",
        {},
    )
    assert two.counts() == [2, 1]
