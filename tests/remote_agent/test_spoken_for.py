"""Who speaks for one person presents no grant of another, at whatever door: nothing is shown, and the grant is not spent."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from contract.call import Operation
from contract.canonical import sha256_hex
from contract.extension import GRANT_HEADER
from delegation.mcp import McpFault
from delegation.reply import Outcome
from tests.mcp_asker import DATASET, McpAsker
from tests.remote_agent.long_tasks import detached
from tests.remote_agent.long_world import Client, Held
from tests.remote_agent.test_tasks_and_cards import ANALYST, ENGINEER, as_person
from tests.running_agent import COMPARE, RunningAgent, decision_of, task_of

Speaks = dict[str, str]
"""The headers of a client that speaks for somebody."""


def by_message(asker: McpAsker) -> Callable[[Speaks], str]:
    call = asker.call(DATASET, "compare_batches", COMPARE)
    operation = Operation("SendMessage", call_hash=sha256_hex(call))
    grant = asker.grant(asker.scope(DATASET, "compare_batches"), operation)
    return lambda speaks: str(decision_of(task_of(asker.send(call, asker.headers(grant) | speaks)))["reason"])


def by_tool(asker: McpAsker) -> Callable[[Speaks], str]:
    grant = asker.tool_grant("compare_batches", COMPARE)

    def called(speaks: Speaks) -> str:
        reply = asker.call_tool("compare_batches", COMPARE, asker.mcp_headers(grant) | speaks)
        return "PRINCIPAL_AUTHORIZED" if reply.outcome is Outcome.COMPLETED else str(reply.reason)

    return called


def by_listing(asker: McpAsker) -> Callable[[Speaks], str]:
    grant = asker.discover_grant("analyst")

    def listed(speaks: Speaks) -> str:
        try:
            asker.tools(asker.mcp_headers(grant) | speaks)
        except McpFault:
            return "no tools"
        return "PRINCIPAL_AUTHORIZED"

    return listed


def by_card(asker: McpAsker) -> Callable[[Speaks], str]:
    grant = {GRANT_HEADER: asker.discover_grant("analyst")}

    def shown(speaks: Speaks) -> str:
        told = asker.rpc("GetExtendedAgentCard", {}, asker.headers() | grant | speaks).json()
        return "PRINCIPAL_AUTHORIZED" if "result" in told else str(told["error"]["message"])

    return shown


@pytest.mark.parametrize("door", [by_message, by_tool, by_listing, by_card])
def test_the_grant_of_another_person_is_refused_and_is_good_for_its_own_all_the_same(
    agent: RunningAgent, door: Callable[[McpAsker], Callable[[Speaks], str]]
) -> None:
    asker, before = McpAsker(agent.settings, agent.url, principal="analyst"), len(agent.rows())
    present = door(asker)
    assert present(as_person(asker, ENGINEER)) != "PRINCIPAL_AUTHORIZED"
    assert present(as_person(asker, ANALYST)) == "PRINCIPAL_AUTHORIZED"
    told = [row.cells["reason"] for row in agent.rows()[before:]]
    assert told == ["GRANT_CLIENT_MISMATCH", "PRINCIPAL_AUTHORIZED"]


def test_the_persons_own_task_is_not_followed_under_the_grant_of_another(rpc: Client, holding: Held) -> None:
    task = detached(rpc, holding)
    leaf = Client(rpc.agent, rpc.binding, "analyst").leaf(Operation("SubscribeToTask", task=task["id"]))
    with rpc.stream("SubscribeToTask", {"id": task["id"]}, rpc.headers(leaf)) as events:
        refused = events.next()
    assert refused["message"].startswith("GRANT_CLIENT_MISMATCH: ")
