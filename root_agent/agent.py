"""What ADK loads: ``adk run root_agent`` and ``adk web .`` find ``app`` and ``root_agent`` here.

The service is built at the first question, so that the folder can be listed and loaded without
keys; without them the answer is one sentence that says which command makes them.
"""

from __future__ import annotations

from functools import cache

from contract.settings import Settings
from root_agent.entry import build_app
from root_agent.holder import Desk
from root_agent.opening import open_service
from root_agent.service import Service


@cache
def _service() -> Service:
    return open_service(Settings())


app = build_app(_service, Desk())
root_agent = app.root_agent
