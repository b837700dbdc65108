"""What follows a governed tool: one call for one admission, of this very run, and of its schema."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import Runner

from contract.run_limits import MAX_STEPS, Steps
from contract.verdict import VERDICTS, NotGranted, Reason, Verdict
from delegation.tool_errors import blocked, failed, kind_of
from remote_agent import executor as executor_module
from remote_agent.executor import AdkExecutor, GovernedTool
from remote_agent.plugin import ADMITTED, Admitted, DatasetPolicyPlugin
from remote_agent.result_plugins import RESULT_SCHEMA, ProvenancePlugin, ResultFilterPlugin, in_order, require_order
from tests.authority_builder import make_authority
from tests.remote_agent.test_two_walls import CALLED, Engine, alone

SECRET = "patient-0042"


class Context:
    """What the plugins read of a tool context."""

    def __init__(self, session: str = "s", invocation: str = "i", call: str = "c") -> None:
        self.session = type("Session", (), {"id": session})()
        self.invocation_id, self.function_call_id = invocation, call


class Named(GovernedTool):
    """A governed tool that says what a test lets it say."""

    said: Any = None

    async def run_async(self, *, args: dict[str, Any], tool_context: Any) -> Any:
        made = await super().run_async(args=args, tool_context=tool_context)
        return made if self.said is None else self.said(made)


async def execute(monkeypatch: pytest.MonkeyPatch, said: Any, *plugins: BasePlugin) -> Any:
    monkeypatch.setattr(Named, "said", staticmethod(said) if said else None)
    monkeypatch.setattr(executor_module, "GovernedTool", Named)
    return await AdkExecutor(extra_plugins=list(plugins)).execute(make_authority(), CALLED, Engine())


class Heard(BasePlugin):
    """Notes what a run's events hold of tools."""

    def __init__(self) -> None:
        super().__init__(name="heard")
        self.text = ""

    async def on_event_callback(self, *, invocation_context: Any, event: Any) -> None:
        self.text += event.model_dump_json()


async def test_what_a_tool_says_beside_its_schema_reaches_no_event(monkeypatch: pytest.MonkeyPatch) -> None:
    heard = Heard()
    found = await execute(monkeypatch, lambda made: made | {"rows": [[SECRET]]}, heard)
    assert found.document.row_count == 0
    assert "exe-1" in heard.text and SECRET not in heard.text


@pytest.mark.parametrize(
    "said",
    [
        lambda made: made | {"row_count": SECRET},
        lambda made: made | {"status": SECRET},
        lambda made: made | {"row_count": True},
        lambda made: {"status": "executed"},
        lambda made: [SECRET],
        lambda made: made | {"execution_id": "exe-9"},
    ],
)
async def test_a_tool_whose_answer_is_of_no_schema_or_of_another_run_ends_the_run(
    said: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = Heard()
    with pytest.raises(RuntimeError):
        await execute(monkeypatch, said, heard)
    assert SECRET not in heard.text and ADMITTED.get() is None


async def test_a_governed_tool_answers_as_it_declares(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[Any] = []

    def watched(made: Any) -> Any:
        answers.append(made)
        return made

    await execute(monkeypatch, watched)
    jsonschema.validate(answers[0], dict(RESULT_SCHEMA))
    declared = GovernedTool("a", "b", Engine())._get_declaration()
    assert declared.response_json_schema == RESULT_SCHEMA


@pytest.mark.parametrize("said", [None, [SECRET], SECRET, 7])
async def test_what_is_no_object_is_no_result_and_is_not_told(said: Any) -> None:
    tool = GovernedTool("a", "b", Engine())
    context: Any = Context("s", "i", "c")
    with pytest.raises(RuntimeError, match="not of its schema") as stop:
        await ResultFilterPlugin().after_tool_callback(tool=tool, tool_args={}, tool_context=context, result=said)
    assert SECRET not in str(stop.value)


@pytest.mark.parametrize("part", [0, 1, 2])
async def test_the_evidence_of_a_call_is_of_the_run_that_it_was_called_in(part: int) -> None:
    ids = ["s", "i", "c"]
    tool = GovernedTool("a", "b", Engine())
    result = {"status": "executed", "execution_id": "exe-1", "row_count": 0}
    context: Any = Context(*ids)
    with pytest.raises(RuntimeError):  # it did not run
        await ProvenancePlugin().after_tool_callback(tool=tool, tool_args={}, tool_context=context, result=result)
    token = ADMITTED.set(Admitted(make_authority(), tool, "s"))
    try:
        context.session.app_name, context.session.user_id = "remote_agent", "u"
        made = await tool.run_async(args={}, tool_context=context)
    finally:
        ADMITTED.reset(token)
    assert (
        await ProvenancePlugin().after_tool_callback(tool=tool, tool_args={}, tool_context=context, result=made) is None
    )
    ids[part] = "another"
    elsewhere: Any = Context(*ids)
    with pytest.raises(RuntimeError):
        await ProvenancePlugin().after_tool_callback(tool=tool, tool_args={}, tool_context=elsewhere, result=made)


async def test_of_a_stop_its_code_kind_and_sentence_are_told_and_it_stays_one() -> None:
    filtering, context = ResultFilterPlugin(), Context()
    tool = GovernedTool("a", "b", Engine())
    for stop in (
        blocked(Reason.GRANT_EXPIRED, "it has expired"),
        failed(Reason.EXECUTION_FAILED),
        {"status": "blocked"},
    ):
        more: dict[str, Any] = stop | {"rows": [SECRET], "status": stop.get("status", ["executed"])}
        if "error" in more:
            more["error"] = {**more["error"], "detail": SECRET}
        for given in (stop, more):
            kept = await filtering.after_tool_callback(
                tool=tool,
                tool_args={},
                tool_context=context,  # type: ignore[arg-type]
                result=given,
            )
            assert (kept or given) == stop


async def judged(tool: GovernedTool, admitted: Admitted, now: float) -> str | None:
    token = ADMITTED.set(admitted)
    context: Any = Context()
    try:
        block = await DatasetPolicyPlugin(lambda: now).before_tool_callback(
            tool=tool, tool_args={}, tool_context=context
        )
    finally:
        ADMITTED.reset(token)
    return None if block is None else f"{block['reason']} {block['error']['kind']}"


async def test_an_admitted_call_runs_once() -> None:
    tool = GovernedTool("a", "b", Engine())
    admitted = Admitted(make_authority(), tool, "s")
    assert await judged(tool, admitted, 0.0) is None
    assert await judged(tool, admitted, 0.0) == "BUDGET_EXCEEDED RunLimitExceeded"


async def test_a_tool_is_not_begun_when_its_grant_has_expired() -> None:
    tool = GovernedTool("a", "b", Engine())
    assert await judged(tool, Admitted(make_authority(), tool, "s", until=100.0), 99.9) is None
    assert (
        await judged(tool, Admitted(make_authority(), tool, "s", until=100.0), 100.0)
        == "GRANT_EXPIRED GuardrailBlocked"
    )


async def test_a_tool_is_not_begun_over_another_revision_than_was_admitted() -> None:
    tool = GovernedTool("a", "b", Engine())
    replaced = Admitted(make_authority(), tool, "s", stands=lambda: False)
    assert await judged(tool, replaced, 0.0) == "UNKNOWN_DATASET_REVISION GuardrailBlocked"
    assert [reason for reason, _ in replaced.blocked] == [Reason.UNKNOWN_DATASET_REVISION] and replaced.calls == []


@pytest.mark.parametrize("served", ["another", None], ids=["another", "none"])
async def test_who_waits_is_told_that_the_revision_was_replaced(served: str | None) -> None:
    engine, authority = Engine(), make_authority()
    with pytest.raises(NotGranted, match="revision") as stop:
        await AdkExecutor(revision=lambda _: served).execute(authority, CALLED, engine)
    assert (stop.value.reason, engine.runs) == (Reason.UNKNOWN_DATASET_REVISION, 0)
    await AdkExecutor(revision={authority.dataset: authority.revision}.get).execute(authority, CALLED, engine)
    assert engine.runs == 1


async def test_the_executor_says_until_when_a_call_is_admitted() -> None:
    engine, authority = Engine(), make_authority()
    late = AdkExecutor(clock=lambda: math.inf)
    with pytest.raises(NotGranted) as stop:
        await late.execute(authority, CALLED, engine)
    assert (stop.value.reason, engine.runs) == (Reason.GRANT_EXPIRED, 0)
    assert (await AdkExecutor(clock=lambda: 0.0).execute(authority, CALLED, engine)).document.row_count == 0


async def test_a_run_that_takes_more_steps_than_one_may_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor_module, "Steps", lambda: Steps(0))
    with pytest.raises(NotGranted) as stop:
        await AdkExecutor().execute(make_authority(), CALLED, Engine())
    assert stop.value.reason is Reason.BUDGET_EXCEEDED and ADMITTED.get() is None
    steps = Steps()
    for _ in range(MAX_STEPS):
        steps.take()
    with pytest.raises(NotGranted):
        steps.take()


async def test_a_run_that_is_stopped_has_ended_when_that_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[bool] = []

    class Watched(Runner):
        async def run_async(self, **given: Any) -> AsyncGenerator[Any, None]:
            try:
                async with aclosing(super().run_async(**given)) as events:
                    async for event in events:
                        yield event
            finally:
                ended.append(ADMITTED.get() is not None)

    monkeypatch.setattr(executor_module, "Runner", Watched)
    monkeypatch.setattr(executor_module, "Steps", lambda: Steps(0))
    with pytest.raises(NotGranted):
        await AdkExecutor().execute(make_authority(), CALLED, Engine())
    assert ended == [True]


def test_the_plugins_stand_in_one_order_policy_first() -> None:
    plugins = in_order([Heard()], clock=lambda: 0.0)
    require_order(plugins)
    for wrong in ([], plugins[1:], [plugins[1], plugins[0], *plugins[2:]], [plugins[0], plugins[2], plugins[1]]):
        with pytest.raises(RuntimeError):
            require_order(wrong)


def test_no_runner_is_made_whose_plugins_stand_in_another_order(monkeypatch: pytest.MonkeyPatch) -> None:
    tool = GovernedTool("compare_batches", "compare", Engine())
    monkeypatch.setattr(
        executor_module, "in_order", lambda further, clock: [DatasetPolicyPlugin(), ResultFilterPlugin()]
    )
    with pytest.raises(RuntimeError, match="in this order"):
        AdkExecutor().runner(alone(tool), tool)


def test_a_stop_is_told_as_one_of_five_kinds() -> None:
    kinds = {reason: kind_of(reason) for reason in Reason if VERDICTS[reason] is not Verdict.GRANTED}
    assert set(kinds.values()) == {
        "ToolArgsInvalid",
        "ToolError",
        "ApprovalDenied",
        "GuardrailBlocked",
        "RunLimitExceeded",
    }
    assert {reason for reason, kind in kinds.items() if kind == "ToolArgsInvalid"} == {
        Reason.ARGUMENTS_INVALID,
        Reason.ARGUMENTS_MISSING,
        Reason.CALL_MALFORMED,
    }
    assert all(kinds[reason] == "GuardrailBlocked" for reason in kinds if "GRANT" in reason.name)
