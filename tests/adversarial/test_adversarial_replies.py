"""A hostile dataset agent before the real root agent: whatever it writes is data, and what is not proven shows no row."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from root_agent.answer_view import to_json
from root_agent.entry import RootAgent
from tests.adversarial.hostile_model import HostileModel
from tests.adversarial.leak_watch import Watch, watching
from tests.adversarial.reply_attacks import CALL, INJECTED, REPLIES, Replied
from tests.root_agent.root_world import MARKER_ROW, root_world
from tests.root_agent.scripted_remote import AgentServer

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def watch() -> Iterator[Watch]:
    with watching() as watched:
        yield watched


@pytest.mark.parametrize("attack", REPLIES, ids=str)
async def test_what_a_hostile_agent_writes_is_neither_obeyed_nor_kept(
    attack: Replied, tmp_path: Path, agent_server: AgentServer, watch: Watch
) -> None:
    async with root_world(tmp_path, agent_server) as world:
        if attack.via is not None:  # its card is honest, and read before
            agent, url = world.service.agents[0]
            await world.service.cards.offers(agent, url, world.clock())
        attack.prepare(world)
        watch.begin()
        root = RootAgent(world.service)
        asked = {"question": attack.question} if attack.question else {"call": CALL, "via": attack.via}
        view = to_json(await root.ask(world.token("process_engineer"), **asked))
        await root.close()
        arrived = [message.call for message in world.remote.arrived]
        rows = world.service.ledger.checkpoint().size
        model = world.service.model
    assert f"{view['verdict']} {view['reason']}" == attack.ends
    used = attack.ends.startswith("GRANTED")
    assert (view["result"] is not None, MARKER_ROW in json.dumps(view)) == (used, used)
    assert rows == 1 and view["tool_calls"] == []
    assert all(json.loads(sent) == CALL for sent in arrived) and len(arrived) <= 1
    if isinstance(model, HostileModel):
        assert len(model.requests) == 1 and arrived == []
    for place, text in watch.places().items():
        assert INJECTED not in text and "raw_bigquery_tool" not in text and MARKER_ROW not in text, place
    assert watch.artifacts == []
    told = {name: value for name, value in view.items() if name not in ("remote", "rationale")}
    assert "raw_bigquery_tool" not in json.dumps(told)
