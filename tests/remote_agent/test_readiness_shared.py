"""Anybody may ask whether the agent is ready, as often as they like: its stores are not asked by each of them."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import httpx
import pytest

from tests.running_agent import agent_home, running_agent

STRANGERS = 60


def test_strangers_who_ask_at_once_share_what_the_stores_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running_agent(agent_home(tmp_path, watch_interval=0)) as agent:
        service = agent.lifecycle.service
        looks: list[str] = []
        state, ledger = service.state.health, service.ledger.health

        async def ask_state() -> None:
            looks.append("state")
            await state()

        def ask_ledger() -> None:
            looks.append("ledger" if threading.current_thread().name.startswith("asyncio") else "ledger in the loop")
            ledger()

        async def all_at_once() -> list[int]:
            async with httpx.AsyncClient(limits=httpx.Limits(max_connections=STRANGERS)) as client:
                replies = await asyncio.gather(*(client.get(agent.url + "/readyz") for _ in range(STRANGERS)))
                return [reply.status_code for reply in replies]

        monkeypatch.setattr(service.state, "health", ask_state)
        monkeypatch.setattr(service.ledger, "health", ask_ledger)
        assert set(asyncio.run(all_at_once())) == {200}
        assert set(looks) == {"state", "ledger"}
        assert len(looks) < STRANGERS // 2
