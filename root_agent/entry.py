"""The doors into the asking path: a person's token for programs, a named principal for development."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import aclosing
from time import perf_counter
from typing import Any, Final, Unpack

from google.adk.agents.invocation_context import InvocationContext
from google.adk.apps.app import App
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from google.genai import types

from contract.about import about
from contract.errors import Category, Component, DatasetAgentError
from contract.identity import try_execution_identity
from contract.ids import SessionId
from contract.progress import Watch
from contract.run_limits import Steps
from contract.telemetry import quiet_content_loggers, refuse_content_capture
from contract.tracing import Kind
from contract.verdict import NotGranted, Reason
from delegation.roles import USER
from delegation.trace import new_trace_id
from evidence.arrivals import Arrival
from root_agent import ask as path
from root_agent.asking import Answer, Asking
from root_agent.holder import Desk
from root_agent.identity import APP_NAME, RequestContext
from root_agent.plugin import DatasetPolicyPlugin, open_runner
from root_agent.quotas import limit, too_many
from root_agent.service import Service
from root_agent.traced import ending, traced
from root_agent.wanted import Asked, Wanted
from root_agent.workflow import Nodes, build_workflow

log = logging.getLogger(__name__)

_NO_PERSON: Final = (
    "A verified person is needed. For development set DATASET_AGENT_AS_PRINCIPAL to a name of the principals "
    "directory; applications send an identity token to POST /ask."
)


def build_app(service: Callable[[], Service], desk: Desk, further: Sequence[BasePlugin] = ()) -> App:
    """The ADK application: the workflow and, first, the policy plugin; ``further`` ones come after it."""
    refuse_content_capture(Component.ROOT_AGENT)
    quiet_content_loggers()
    plugin = DatasetPolicyPlugin(lambda context: begin(context, service, desk))
    return App(name=str(APP_NAME), root_agent=build_workflow(Nodes(desk, service)), plugins=[plugin, *further])


def begin(context: InvocationContext, service: Callable[[], Service], desk: Desk) -> str | None:
    """Begin what waits for this session, else a development run; or say why nothing begins.

    Nothing is read from session state: whoever writes ``temp:admission_result`` changes nothing.
    """
    run = try_execution_identity(context, branch=context.branch or "", agent_name=str(APP_NAME))
    if isinstance(run, str):  # ids that are none are taken in nowhere
        return run
    if desk.claim(run):
        return None
    try:
        person = service().development_person()
        if person is None:
            return _NO_PERSON
        asking = _asking(person, Wanted.of(_words(context.user_content), zone=service().zone), run.adk.session_id)
        desk.begin(asking, run)
        _expect(asking, service(), desk)
    except DatasetAgentError as error:
        return error.message
    return None


class RootAgent:
    """A running root agent: one workflow, one Runner, many askings at a time."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._desk = Desk()
        self._sessions = InMemorySessionService()
        self._runner = open_runner(build_app(lambda: self.service, self._desk, service.analytics), self._sessions)

    async def ask(self, person_token: str | None, *, watch: Watch | None = None, **asked: Unpack[Asked]) -> Answer:
        """Ask on behalf of the person an identity token stands for.

        Raises as ``ask_for``, and ``DatasetAgentError`` UNAUTHENTICATED or UNAVAILABLE.
        """
        return await self.ask_for(await self.service.person(person_token), watch=watch, **asked)

    async def ask_for(self, person: RequestContext, *, watch: Watch | None = None, **asked: Unpack[Asked]) -> Answer:
        """Ask on behalf of a verified person.

        ``question`` is text; ``call`` a mapping with dataset, capability and arguments, and
        ``task`` the dataset agent's task that it completes, if any. ``watch`` is told a percentage
        whenever one comes; cancelling the coroutine cancels the call at the dataset agent. ``zone`` is
        where it is asked, by its IANA name; the service's own where none is named. Data older than
        ``max_age_s`` seconds, and of another ``schema_version``, are refused where these are given. ``via`` is
        ``a2a`` or ``mcp``, or as the publisher prefers.

        Raises ``DatasetAgentError``: INVALID_INPUT, RATE_LIMITED. Every other end is an ``Answer``.
        """
        await limit(person, self.service)
        if asked.get("zone") is None:
            asked["zone"] = self.service.zone
        wanted = Wanted.of(**asked)
        with self.service.traces.begin("ask", Kind.INTERNAL):
            asking = _asking(person, wanted, SessionId.generate(), watch)
            self._desk.open(asking)
            _expect(asking, self.service, self._desk)
            about.set(asking)
            with self.service.measures.asking():
                return await self._answered(asking)

    async def _answered(self, asking: Asking) -> Answer:
        run = asyncio.ensure_future(self._run(asking))
        try:
            await asyncio.shield(run)
        except asyncio.CancelledError:
            await asyncio.shield(self._abandon(asking, run))
            raise
        except NotGranted as stop:
            return await self._end(asking, stop.reason, stop.message)
        except Exception as fault:  # a run that broke outside every step still ends recorded
            log.error("a run failed with %s", type(fault).__name__)
        return await self._end(asking, Reason.EXECUTION_FAILED, "the root agent failed")

    async def _abandon(self, asking: Asking, run: asyncio.Future[None]) -> None:
        """End a run whose caller went away; one that is writing its row ends by itself, so that it writes one."""
        if not self._desk.is_ending(asking.adk):
            run.cancel()
        await asyncio.wait({run})
        await self._end(asking, Reason.CANCELLED, "the caller went away")

    async def _run(self, asking: Asking) -> None:
        message, steps = types.Content(role=USER, parts=[types.Part(text="ask")]), Steps()
        run = self._runner.run_async(
            user_id=asking.adk.user_id, session_id=str(await self._open(asking)), new_message=message
        )
        async with aclosing(run) as events:
            async for _ in events:
                steps.take()

    async def _open(self, asking: Asking) -> SessionId:
        await self._sessions.create_session(
            app_name=str(asking.adk.app_name), user_id=str(asking.adk.user_id), session_id=str(asking.adk.session_id)
        )
        return asking.session_id

    async def _forget(self, asking: Asking) -> None:
        await self._sessions.delete_session(
            app_name=str(asking.adk.app_name), user_id=str(asking.adk.user_id), session_id=str(asking.adk.session_id)
        )

    async def _end(self, asking: Asking, reason: Reason, message: str) -> Answer:
        """The answer on the desk; where the run left none, one without rows, recorded."""
        ended = self._desk.close(asking.adk) or asking
        answer = await self._left(ended, reason, message)
        took, restricted = perf_counter() - asking.began, ended.is_restricted or answer.asking.is_restricted
        self.service.measures.asked(answer.decision, took, restricted=restricted)
        traced(answer, restricted=restricted)
        if log.isEnabledFor(logging.INFO):
            log.info("an asking ended", extra={"told": ending(answer, None if restricted else took)})
        return answer

    async def _left(self, ended: Asking, reason: Reason, message: str) -> Answer:
        await self._forget(ended)
        if ended.answer is not None:
            return ended.answer
        stop = NotGranted(reason, message).decision(ended.world_in(self.service).policy_version)
        finish = path.record_stop if ended.evidence is None else path.explain_response
        ended = await finish(ended.stopped(stop), self.service)
        return ended.answer or Answer(ended, stop)

    async def close(self) -> None:
        await self._runner.close()


async def ask(
    service: Service, person_token: str | None, *, watch: Watch | None = None, **asked: Unpack[Asked]
) -> Answer:
    """One question through a root agent of its own; see ``RootAgent.ask``."""
    root = RootAgent(service)
    try:
        return await root.ask(person_token, watch=watch, **asked)
    finally:
        await root.close()


def _asking(person: RequestContext, wanted: Wanted, session_id: SessionId, watch: Watch | None = None) -> Asking:
    return Asking(person, wanted, session_id, new_trace_id(), watch=watch)


def _expect(asking: Asking, service: Service, desk: Desk) -> None:
    """Its row will come, whatever happens to this process. Raises ``DatasetAgentError`` RATE_LIMITED, UNAVAILABLE."""
    arrival = Arrival(asking.request_id, trace_id=asking.trace_id)
    try:
        service.ledger.expect(arrival, (asking.person.issuer, asking.person.subject))
    except NotGranted as stop:
        desk.close(asking.adk)
        if stop.reason is Reason.CONCURRENCY_LIMITED:
            raise too_many(stop) from None
        raise DatasetAgentError(
            Component.ROOT_AGENT, Category.UNAVAILABLE, "root_agent.evidence.unavailable", stop.message
        ) from stop


def _words(content: Any) -> str:
    """The words of a person. Raises INVALID_INPUT for a part that is no text: it would change what is asked, so it is not left out."""
    parts = (content.parts or []) if isinstance(content, types.Content) else []
    if any(part.text is None or part.model_dump(exclude_none=True, exclude={"text"}) for part in parts):
        raise DatasetAgentError(
            Component.ROOT_AGENT,
            Category.INVALID_INPUT,
            "root_agent.question.parts",
            "a question is text: files, data, calls and answers of functions are not read",
        )
    return "\n".join(part.text for part in parts if part.text)
