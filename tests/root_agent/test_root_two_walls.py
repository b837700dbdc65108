"""At the root, too, each wall holds alone: the plugin carries no exchange but the admitted one, and ``prepare`` signs for no other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from contract.verdict import NotGranted, Reason, Verdict
from delegation.mcp_tool import McpTool
from delegation.remote import Delegate, Exchange
from root_agent import ask as path
from root_agent import plugin as wall
from root_agent.asking import Asking
from root_agent.entry import RootAgent
from root_agent.plugin import ADMITTED, DatasetPolicyPlugin, admitting
from root_agent.service import Service
from root_agent.workflow import Nodes
from tests.root_agent.root_world import QUESTION, RootWorld

NOTHING: Any = None
PLUGIN = DatasetPolicyPlugin(lambda context: None)


def carrier(exchange: Exchange) -> Delegate:
    """A delegate as ADK holds one, with no agent behind it."""
    agent = Delegate.model_construct(name="remote_dataset_agent")
    object.__setattr__(agent, "__pydantic_private__", {"_exchange": exchange})
    return agent


async def told(exchange: Exchange, **args: Any) -> tuple[str, str]:
    """What the plugin says to the tool and to the agent that carry an exchange; empty where it lets them run."""
    tool = McpTool(NOTHING, exchange, NOTHING)
    block = await PLUGIN.before_tool_callback(tool=tool, tool_args=args, tool_context=NOTHING)
    said = await PLUGIN.before_agent_callback(agent=carrier(exchange), callback_context=NOTHING)
    return str(block["reason"]) if block else "", said.parts[0].text or "" if said and said.parts else ""


def exchange_of() -> Exchange:
    return Exchange(NOTHING, NOTHING, timeout=1.0)


async def test_only_the_exchange_that_was_admitted_is_carried() -> None:
    mine, other = exchange_of(), exchange_of()
    blocked = ("NO_ACTIVE_GRANT", "blocked: NO_ACTIVE_GRANT")
    assert await told(mine) == blocked
    with admitting(mine, Verdict.GRANTED):
        assert await told(mine) == ("", "")
        assert await told(other) == blocked
        assert (await told(mine, batch_a="B001"))[0] == "ARGUMENTS_INVALID"
    assert ADMITTED.get() is None


@pytest.mark.parametrize("verdict", [Verdict.REFUSED, Verdict.INDETERMINATE])
async def test_what_was_not_granted_admits_no_exchange(verdict: Verdict) -> None:
    mine = exchange_of()
    with admitting(mine, verdict):
        assert await told(mine) == ("NO_ACTIVE_GRANT", "blocked: NO_ACTIVE_GRANT")


async def asked_after(world: RootWorld, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A question whose asking is stopped just before it is sent, as a step that was added might do it."""

    async def stopping(self: Any, ctx: Any, asking: Asking, service: Service) -> Asking:
        stop = NotGranted(Reason.INSUFFICIENT_PRIVILEGE, "stopped").decision("1")
        return await attempt(self, ctx, replace(asking, stop=stop), service)

    attempt = Nodes._attempt
    monkeypatch.setattr(Nodes, "_attempt", stopping)
    root = RootAgent(world.service)
    answer = await root.ask(world.token("process_engineer"), question=QUESTION)
    await root.close()
    return answer


async def test_without_the_check_where_it_leaves_the_plugin_carries_nothing(
    world: RootWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = path.prepare

    def careless(asking: Asking, service: Service) -> Any:
        return honest(replace(asking, stop=None), service)

    monkeypatch.setattr(path, "prepare", careless)
    answer = await asked_after(world, monkeypatch)
    assert (answer.document, world.remote.arrived) == (None, [])


async def test_without_the_plugin_nothing_is_signed_for_what_was_not_admitted(
    world: RootWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    for hook in ("before_agent_callback", "before_tool_callback"):
        monkeypatch.setattr(wall.DatasetPolicyPlugin, hook, silent)
    answer = await asked_after(world, monkeypatch)
    assert (answer.document, world.remote.arrived) == (None, [])


async def test_with_neither_of_them_it_would_have_arrived(world: RootWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = path.prepare
    monkeypatch.setattr(path, "prepare", lambda asking, service: honest(replace(asking, stop=None), service))
    monkeypatch.setattr(wall.DatasetPolicyPlugin, "before_agent_callback", silent)
    await asked_after(world, monkeypatch)
    assert len(world.remote.arrived) == 1


async def silent(self: Any, **_: Any) -> None:
    """A hook of a plugin that is not there."""
