"""Analytics of the root agent: off by default, ids alone where they are on, after the policy plugin, and no evidence."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from google.adk.plugins.bigquery_agent_analytics_plugin import BigQueryAgentAnalyticsPlugin
from pydantic import ValidationError

from contract.errors import DatasetAgentError
from contract.settings import Settings
from root_agent.analytics import EVENTS, WITHHELD, analytics_plugins
from root_agent.entry import RootAgent
from root_agent.plugin import DatasetPolicyPlugin
from tests.root_agent.root_world import MARKER_ROW, QUESTION, RootWorld

TABLE = "acme-analytics.agents.askings"
COLUMNS = {
    *("timestamp", "event_id", "event_type", "agent", "user_id", "session_id", "invocation_id"),
    *("trace_id", "span_id", "parent_span_id", "status", "error_message", "is_truncated"),
}


@pytest.fixture
def plugin(tmp_path: Path) -> BigQueryAgentAnalyticsPlugin:
    (made,) = analytics_plugins(Settings(home=tmp_path, analytics_table=TABLE))
    assert isinstance(made, BigQueryAgentAnalyticsPlugin)
    return made


@pytest.fixture
def rows(plugin: BigQueryAgentAnalyticsPlugin, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the plugin would write, as it leaves it."""
    found: list[dict[str, Any]] = []

    async def append(row: dict[str, Any]) -> None:
        found.append(row)

    async def ready(*_: Any, **__: Any) -> str:
        plugin._started, plugin.parser = True, object()  # type: ignore[assignment]
        return "ok"

    async def state() -> Any:
        return SimpleNamespace(batch_processor=SimpleNamespace(append=append))

    async def no_more(*_: Any, **__: Any) -> None:
        return None

    monkeypatch.setattr(plugin, "_ensure_started", ready)
    monkeypatch.setattr(plugin, "_get_loop_state", state)
    monkeypatch.setattr(plugin, "close", no_more)
    return found


def test_there_are_none_by_default(tmp_path: Path) -> None:
    assert analytics_plugins(Settings(home=tmp_path)) == ()


@pytest.mark.parametrize(
    "table", ["askings", "a.b", "Acme.agents.askings", "acme-analytics.agents.askings;drop", "a.b.c.d"]
)
def test_what_is_no_table_is_refused(tmp_path: Path, table: str) -> None:
    with pytest.raises(ValidationError):
        Settings(home=tmp_path, analytics_table=table)


def test_without_the_extra_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("root_agent.analytics.find_spec", lambda _: None)
    with pytest.raises(DatasetAgentError, match=r"dataset-agent\[analytics\]"):
        analytics_plugins(Settings(home=tmp_path, analytics_table=TABLE))


def test_the_plugin_keeps_no_content_and_makes_nobody_wait(plugin: BigQueryAgentAnalyticsPlugin) -> None:
    config = plugin.config
    assert (plugin.project_id, plugin.dataset_id, plugin.table_id) == tuple(TABLE.split("."))
    assert set(config.payload_column_denylist or ()) == set(WITHHELD)
    assert (config.log_multi_modal_content, config.log_session_metadata, config.flush_on_run_end) == (
        False,
        False,
        False,
    )
    assert (
        config.content_formatter is not None
        and config.content_formatter("zebra crossing 9000", "TOOL_STARTING") is None
    )


async def test_an_asking_is_rows_of_ids_alone_that_say_nothing_of_its_end(
    world: RootWorld, plugin: BigQueryAgentAnalyticsPlugin, rows: list[dict[str, Any]]
) -> None:
    world.service.analytics = (plugin,)
    root = RootAgent(world.service)
    answer = await root.ask(world.token("process_engineer"), question=QUESTION)
    await root.close()
    assert answer.decision.verdict == "GRANTED" and answer.document is not None
    assert {row["event_type"] for row in rows} <= set(EVENTS)
    assert rows[0]["event_type"] == "INVOCATION_STARTING"
    assert all(set(row) <= COLUMNS and row["error_message"] is None for row in rows)
    assert {row["session_id"] for row in rows} == {str(answer.asking.session_id)}
    text = json.dumps(rows, default=str)
    secrets = {QUESTION, MARKER_ROW, "B001", "process_engineer", "u-eng", world.token("process_engineer")}
    assert [secret for secret in secrets if secret in text] == []


async def test_the_policy_plugin_comes_first(world: RootWorld, plugin: BigQueryAgentAnalyticsPlugin) -> None:
    world.service.analytics = (plugin,)
    root = RootAgent(world.service)
    order = [type(one) for one in root._runner.plugin_manager.plugins]
    assert order == [DatasetPolicyPlugin, BigQueryAgentAnalyticsPlugin]


async def test_analytics_that_fail_change_no_answer(
    world: RootWorld,
    plugin: BigQueryAgentAnalyticsPlugin,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def away(*_: Any, **__: Any) -> str:
        raise OSError("zebra crossing 9000")

    monkeypatch.setattr(plugin, "_ensure_started", away)
    world.service.analytics = (plugin,)
    root = RootAgent(world.service)
    answer = await root.ask(world.token("process_engineer"), question=QUESTION)
    assert answer.decision.verdict == "GRANTED" and answer.document is not None
