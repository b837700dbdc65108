"""The attack table at the MCP door: refused by the same names, nothing spent, nothing run, one row of evidence."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

import pytest

from contract.canonical import sha256_hex
from contract.extension import GRANT_HEADER
from contract.mcp import MCP_DECISION, MCP_ERROR, MCP_METHOD, mcp_path
from contract.verdict import VERDICTS, Reason
from remote_agent.refusals import OUTWARD
from tests.attacks.attack_table import ATTACKS, Attack
from tests.attacks.attack_world import CAPABILITY, DATASET, ELSEWHERE, Attempt, Door, Reply, Scene, Target

MCP: Final = Door("mcp", mcp_path(DATASET), MCP_METHOD, True)
PROTOCOL: Final = "2026-07-28"
TOOLS: Final = {"search": "search_batches"}


# These deform what only a message of A2A has, its parts and bytes that are hashed as they are sent; or they
# name another dataset, which is another address here.
OF_MESSAGES: Final = frozenset(
    {
        "operation: one blank more",
        "operation: an empty part",
        "operation: a data part",
        "operation: two parts",
        "operation: another media type",
        "operation: no call at all",
        "operation: a member more",
        "operation: another dataset",
        "operation: a dataset outside the scope",
        "narrowing: this agent put beside the other's detail",
        "narrowing: a call on a dataset for another agent",
    }
)


@dataclass(frozen=True)
class Sent:
    """An attempt as a tool call; none where it cannot be one."""

    tool: str
    arguments: dict[str, Any]

    @classmethod
    def of(cls, attempt: Attempt) -> Sent | None:
        if attempt.parts is not None:
            return None
        try:
            call = json.loads(attempt.call)
        except ValueError:
            return None
        plain = isinstance(call, dict) and set(call) == {"dataset", "capability", "arguments"}
        if not plain or call["dataset"] != DATASET or not isinstance(call["arguments"], dict):
            return None
        return cls(TOOLS.get(call["capability"], call["capability"]), call["arguments"])


def post(target: Target, sent: Sent, grants: tuple[str | bytes, ...], client: str | None) -> Reply:
    meta = {
        "io.modelcontextprotocol/protocolVersion": PROTOCOL,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": sent.tool, "arguments": sent.arguments, "_meta": meta}
    lines: list[tuple[str, str | bytes]] = [
        ("Content-Type", "application/json"),
        ("Accept", "application/json"),
        ("MCP-Protocol-Version", PROTOCOL),
        ("Mcp-Method", "tools/call"),
        ("Mcp-Name", sent.tool),
        *((GRANT_HEADER, grant) for grant in grants),
    ]
    if client is not None:
        lines.append(("Authorization", f"Bearer {target.assertion(client)}"))
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
    return target.exchange("POST", MCP.path, lines, body)


def refused(reply: Reply, reason: Reason, attempt: Attempt) -> None:
    """An error result with the decision in it, and never a row nor anything that was sent."""
    assert reply.status == 200
    result = json.loads(reply.text)["result"]
    meta, outward = result["_meta"], OUTWARD[reason]
    assert result["isError"] is True
    assert (meta[MCP_DECISION]["reason"], meta[MCP_DECISION]["verdict"]) == (reason.value, VERDICTS[reason].value)
    assert meta[MCP_ERROR] == {"retryable": outward.retryable, "hint": outward.hint}
    assert "dataset-agent/provenance" not in reply.text
    assert "dataset-agent/cache" not in reply.text
    for line in attempt.grants:
        text = line if isinstance(line, str) else line.decode("latin-1")
        assert not any(part in reply.text for part in text.replace(",", ".").split(".") if len(part) > 20)
    for word in ("u-eng-01", "Dublin", "B001", "schema", sha256_hex(attempt.call)):
        assert word not in reply.text


@pytest.mark.parametrize("attack", [attack for attack in ATTACKS if str(attack) not in OF_MESSAGES], ids=str)
def test_an_attack_at_the_mcp_door_is_refused_by_its_name_and_leaves_one_row(target: Target, attack: Attack) -> None:
    attempt = attack.forge(Scene(target, MCP))
    sent = Sent.of(attempt)
    assert sent is not None
    rows, spends, runs = target.rows(), target.spends(), target.runs()

    refused(post(target, sent, attempt.grants, attempt.client), attack.reason, attempt)
    assert (target.spends(), target.runs()) == (spends, runs)
    assert target.rows() == rows + 1
    row = target.row(rows)
    assert (row["reason"], row["client"]) == (attack.reason.value, attempt.client)
    assert (row["rows_returned"], row["execution_id"], row["cache"]) == (None, None, None)


def test_the_honest_grant_of_the_table_runs_one_query_and_only_once(target: Target) -> None:
    scene = Scene(target, MCP)
    sent, runs = Sent(CAPABILITY, {"batch_id": "B001"}), target.runs()
    first, again = (post(target, sent, (scene.honest,), target.root_id) for _ in range(2))
    assert json.loads(first.text)["result"]["isError"] is False
    refused(again, Reason.GRANT_REPLAYED, scene.attempt(scene.honest))
    assert target.runs() == runs + 1


def test_a_stranger_is_nobody_at_the_mcp_door(target: Target) -> None:
    scene, rows = Scene(target, MCP), target.rows()
    reply = post(target, Sent(CAPABILITY, {"batch_id": "B001"}), (scene.honest,), None)
    assert (reply.status, target.rows()) == (401, rows)


def test_another_dataset_is_another_address_and_not_there(target: Target) -> None:
    lines = [("Authorization", f"Bearer {target.assertion(target.root_id)}")]
    for dataset in (ELSEWHERE, "nothing", "..", "%2e%2e"):
        assert target.exchange("POST", f"/mcp/{dataset}", lines, b"{}").status == 404


def test_the_table_is_taken_as_it_is_but_for_what_is_named(target: Target) -> None:
    assert {str(attack) for attack in ATTACKS} >= OF_MESSAGES
    named = [attack for attack in ATTACKS if str(attack) in OF_MESSAGES]
    callable_ = [str(attack) for attack in named if Sent.of(attack.forge(Scene(target, MCP))) is not None]
    assert callable_ == ["operation: one blank more"]  # which is the honest call here: a tool has no bytes
