"""What a run of the root agent shows to who stands beside it: the steps it goes through, its callbacks, and its model."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from types import TracebackType
from typing import Any, Final, Self

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.events.event import Event
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from root_agent.entry import RootAgent

_STEP: Final = ("node", "verdict", "reason", "attempts", "candidates", "outcome")
_SENT: Final = ("system_instruction", "temperature", "response_mime_type", "response_json_schema", "tools")


class ProposingModel(BaseLlm):
    """Says one proposal, and keeps what it was sent."""

    model: str = "proposing"
    says: str = ""
    requests: list[dict[str, Any]] = []

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        config = llm_request.config.model_dump(mode="json", exclude_none=True) if llm_request.config else {}
        texts = [part.text for content in llm_request.contents for part in content.parts or []]
        self.requests.append({"contents": texts, **{name: config[name] for name in _SENT if name in config}})
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=self.says)]))


class _Beside(BasePlugin):
    """Notes events, and what the callbacks before it let through; answers nothing."""

    def __init__(self) -> None:
        super().__init__(name="replay_watch")
        self.steps: list[dict[str, Any]] = []
        self.passed: list[str] = []

    async def on_event_callback(self, *, invocation_context: Any, event: Event) -> None:
        output = event.output if isinstance(event.output, dict) else {}
        told = {name: output[name] for name in _STEP if name in output}
        if told and not event.partial:
            self.steps.append({"path": event.node_info.path, "route": event.actions.route, **told})

    async def before_agent_callback(self, *, agent: BaseAgent, callback_context: CallbackContext) -> None:
        self.passed.append(f"agent {agent.name}")

    async def before_model_callback(self, *, callback_context: CallbackContext, llm_request: LlmRequest) -> None:
        self.passed.append("model")

    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext
    ) -> None:
        self.passed.append(f"tool {tool.name}")


class Watched:
    """A root agent, watched inside the block. A model stands behind it where ``proposal`` says what that proposes."""

    def __init__(self, root: RootAgent, proposal: Mapping[str, Any] | None) -> None:
        self._root = root
        self._model = None if proposal is None else ProposingModel(says=json.dumps(dict(proposal)), requests=[])
        self._beside = _Beside()
        self._names: list[str] = []
        self._before: tuple[Any, Any] = (None, None)

    @property
    def _plugins(self) -> list[BasePlugin]:
        return self._root._runner.plugin_manager.plugins

    @property
    def steps(self) -> list[dict[str, Any]]:
        return self._beside.steps

    @property
    def callbacks(self) -> dict[str, list[str]]:
        """The plugins of the Runner in their order, and what they let through."""
        return {"plugins": self._names, "let_through": self._beside.passed}

    @property
    def model_requests(self) -> list[dict[str, Any]]:
        return [] if self._model is None else self._model.requests

    def __enter__(self) -> Self:
        self._names = [type(plugin).__name__ for plugin in self._plugins]
        self._plugins.append(self._beside)
        service = self._root.service
        self._before = (service.model, service.memo)
        # What equal words were read as before is no part of an asking that is to be the same each time.
        service.model, service.memo = self._model, None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._plugins.remove(self._beside)
        self._root.service.model, self._root.service.memo = self._before
