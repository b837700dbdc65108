"""What follows a tool: that it is the run it says it is, and that an agent runtime is told no more than its schema.

Rows go to the request path and never through a tool's result. These two stand behind the policy plugin, in this
order, so that a tool which is wrong about itself ends its run, and can put nothing else into an event. Neither
turns a block or an error into a result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from google.adk.plugins.base_plugin import BasePlugin
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_context import ToolContext

from remote_agent.plugin import DatasetPolicyPlugin, RegisteredTool

RESULT_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "status": {"type": "string", "enum": ["executed"]},
        "execution_id": {"type": "string"},
        "row_count": {"type": "integer"},
    },
    "required": ["status", "execution_id", "row_count"],
    "additionalProperties": False,
}
"""What a governed tool answers where it ran."""
_TYPES: Final = {"status": str, "execution_id": str, "row_count": int}
_TOLD_OF_STOPS: Final = ("status", "reason")
_TOLD_OF_ERRORS: Final = ("kind", "message")


class ProvenancePlugin(BasePlugin):
    """Ends a run whose tool names another run than the one it was called in: its evidence could not be joined to it."""

    def __init__(self) -> None:
        super().__init__(name="dataset_provenance")

    async def after_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext, result: dict[str, Any]
    ) -> dict[str, Any] | None:
        if is_stop(result):
            return None
        here = (tool_context.session.id, tool_context.invocation_id, tool_context.function_call_id)
        ran = tool.ran_in() if isinstance(tool, RegisteredTool) else None
        if ran is None or ran.ids != here or result.get("execution_id") != ran.execution_id:
            raise RuntimeError("the tool's result is of another run")
        return None


class ResultFilterPlugin(BasePlugin):
    """Lets a tool's answer through as its schema says, and of a stop its code, kind and sentence. Anything else ends the run."""

    def __init__(self) -> None:
        super().__init__(name="dataset_result_filter")

    async def after_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext, result: dict[str, Any]
    ) -> dict[str, Any] | None:
        if is_stop(result):
            kept = _texts(result, _TOLD_OF_STOPS)
            if isinstance(result.get("error"), dict):
                kept["error"] = _texts(result["error"], _TOLD_OF_ERRORS)
            return None if kept == result else kept
        if not isinstance(result, dict) or any(type(result.get(name)) is not kind for name, kind in _TYPES.items()):
            raise RuntimeError("the tool's result is not of its schema")
        if result["status"] != "executed":
            raise RuntimeError("the tool's result is not of its schema")
        return None if set(result) == set(_TYPES) else {name: result[name] for name in _TYPES}


def is_stop(result: object) -> bool:
    """Whether a tool was blocked, or failed: then it says nothing else."""
    return isinstance(result, dict) and (isinstance(result.get("error"), dict) or result.get("status") == "blocked")


def _texts(told: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: told[name] for name in names if isinstance(told.get(name), str)}


def in_order(further: Sequence[BasePlugin], *, clock: Callable[[], float]) -> list[BasePlugin]:
    """The plugins of a Runner here: policy first, whatever comes last."""
    return [DatasetPolicyPlugin(clock), ProvenancePlugin(), ResultFilterPlugin(), *further]


def require_order(plugins: Sequence[BasePlugin]) -> None:
    """Raise where a Runner would be built without these three in front, in this order."""
    if [type(plugin) for plugin in plugins[:3]] != [DatasetPolicyPlugin, ProvenancePlugin, ResultFilterPlugin]:
        raise RuntimeError("a Runner needs the policy, provenance and result filter plugins first, in this order")
