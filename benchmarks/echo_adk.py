"""An ungoverned ADK echo agent behind A2A, as ADK itself composes one. Usage: echo_adk.py PORT."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator

from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import InMemoryTaskStore
from fastapi import FastAPI
from google.adk.a2a.executor.a2a_agent_executor import A2aAgentExecutor
from google.adk.agents import BaseAgent, InvocationContext
from google.adk.events import Event
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.genai import types

from benchmarks.serving import echo_app, echo_card, run


class EchoAgent(BaseAgent):
    """Answers with a text of the size of a governed result."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        yield Event(
            invocation_id=ctx.invocation_id,
            author=self.name,
            content=types.Content(role="model", parts=[types.Part(text="echo " * 200)]),
        )


def create_app(port: int) -> FastAPI:
    runner = Runner(app_name="echo", agent=EchoAgent(name="echo"), session_service=InMemorySessionService())
    card = echo_card(port)
    handler = DefaultRequestHandler(
        agent_executor=A2aAgentExecutor(runner=runner), task_store=InMemoryTaskStore(), agent_card=card
    )
    return echo_app(handler, card)


if __name__ == "__main__":
    run(create_app(int(sys.argv[1])), int(sys.argv[1]))
