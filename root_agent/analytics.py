"""ADK's BigQuery Agent Analytics: how many askings there are, of whom and when. Analytics, and no evidence.

Off unless a table is named. What a row has is ids: the digest that stands for a person, session,
invocation and agent. Nothing of what was asked or answered is in one, nor when anything ended: how long an
asking of a restricted capability took says whether its result was stored. Needs the extra ``analytics``.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from contract.errors import Category, Component, DatasetAgentError
from contract.settings import Settings

if TYPE_CHECKING:
    from google.adk.plugins.base_plugin import BasePlugin

EVENTS: Final = ("INVOCATION_STARTING", "AGENT_STARTING")
WITHHELD: Final = ("content", "content_parts", "attributes", "latency_ms")
"""Columns that the table does not have."""
_NEEDED: Final = ("google.cloud.bigquery", "google.cloud.bigquery_storage", "google.cloud.storage")


def analytics_plugins(settings: Settings) -> tuple[BasePlugin, ...]:
    """None by default. Raises a CONFIGURATION fault where the extra is missing."""
    if settings.analytics_table is None:
        return ()
    if not all(_is_there(name) for name in _NEEDED):
        raise DatasetAgentError(
            Component.ROOT_AGENT,
            Category.CONFIGURATION,
            "root_agent.analytics.extra",
            "DATASET_AGENT_ANALYTICS_TABLE needs the extra: pip install 'dataset-agent[analytics]', or unset it",
        )
    from google.adk.plugins.bigquery_agent_analytics_plugin import BigQueryAgentAnalyticsPlugin, BigQueryLoggerConfig

    project, dataset, table = settings.analytics_table.split(".")
    config = BigQueryLoggerConfig(
        event_allowlist=list(EVENTS),
        payload_column_denylist=list(WITHHELD),
        content_formatter=_nothing,
        log_multi_modal_content=False,
        log_session_metadata=False,
        create_views=False,  # they read columns that are not there
        flush_on_run_end=False,  # nobody waits for a row
    )
    return (BigQueryAgentAnalyticsPlugin(project, dataset, table, config, settings.analytics_location),)


def _nothing(*_: Any) -> None:
    """What is left of any content."""


def _is_there(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False
