"""A model may propose a typed intent, and nothing more: code confirms it or drops it.

The model reads public descriptor text and the question. It has no tools, sees no history, and
what it writes reaches the proposal only, never an event.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.agents.llm_agent import LlmAgent
from google.adk.agents.readonly_context import ReadonlyContext
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types

from contract.canonical import InvalidJson, parse_json
from control_plane.descriptor import DatasetCapability, DatasetDescriptor
from control_plane.periods import WRITTEN
from root_agent.intent_schema import intent_schema

INTENT_AGENT_NAME: Final = "intent_proposer"
_MAX_PROPOSAL: Final = 64 * 1024
_FENCE: Final = re.compile(r"\A\s*```(?:json)?\s*\n(.*?)\n\s*```\s*\Z", re.DOTALL)
_INSTRUCTION: Final = (
    "Turn the question into one call of one listed capability. Answer with one JSON object and nothing else: "
    '{"dataset": name, "capability": name, "arguments": {parameter name: value}}. '
    "Use names exactly as listed. Leave an argument out where the question does not give it. "
    "Where no capability fits, answer with {}."
)


class Proposed:
    """What the model wrote, until it is read."""

    def __init__(self) -> None:
        self._text = ""

    def write(self, text: str) -> None:
        self._text = text

    def read(self) -> dict[str, Any] | None:
        """The proposal as a JSON object; ``None`` for anything else."""
        fenced = _FENCE.match(self._text)
        try:
            value = parse_json((fenced.group(1) if fenced else self._text).encode(), limit=_MAX_PROPOSAL)
        except (InvalidJson, UnicodeEncodeError):
            return None
        return value if isinstance(value, dict) else None


def intent_agent(
    model: str | BaseLlm, question: str, descriptors: Sequence[DatasetDescriptor], proposed: Proposed
) -> LlmAgent:
    """An agent for one question over these descriptors; ``proposed`` receives what the model writes."""
    return LlmAgent(
        name=INTENT_AGENT_NAME,
        model=model,
        instruction=_instruction,
        include_contents="none",
        disallow_transfer_to_parent=True,
        disallow_transfer_to_peers=True,
        generate_content_config=types.GenerateContentConfig(
            temperature=0.0, response_mime_type="application/json", response_json_schema=intent_schema(descriptors)
        ),
        before_model_callback=_only(prompt(question, descriptors)),
        after_model_callback=_into(proposed),
        on_model_error_callback=_no_answer,
    )


def is_intent_agent(agent: BaseAgent) -> bool:
    """Whether an agent is of the only shape that may call a model here (ADK runs a clone of it).

    Nothing that acts by itself: no tool, no other agent, no code, no plan, and no place in state for what is said.
    """
    if type(agent) is not LlmAgent or agent.name != INTENT_AGENT_NAME:
        return False
    acts = (agent.tools, agent.sub_agents, agent.code_executor, agent.planner, agent.output_key, agent.output_schema)
    return not any(acts) and agent.before_model_callback is not None and agent.after_model_callback is not None


def prompt(question: str, descriptors: Sequence[DatasetDescriptor]) -> str:
    """Everything the model reads besides the instruction, as JSON text."""
    datasets = [
        {
            "dataset": descriptor.dataset,
            "description": descriptor.description,
            "capabilities": [
                {
                    "capability": capability.name,
                    "description": capability.description,
                    "examples": list(capability.examples),
                    "parameters": [
                        {
                            "name": parameter.name,
                            "type": parameter.type.value,
                            "repeated": parameter.repeated,
                            "required": parameter.required,
                            "values": list(parameter.values),
                            "description": parameter.description,
                        }
                        for parameter in capability.parameters
                    ],
                    **_periods(capability),
                }
                for capability in descriptor.capabilities
            ],
        }
        for descriptor in descriptors
    ]
    return json.dumps({"datasets": datasets, "question": question}, ensure_ascii=False)


def _periods(capability: DatasetCapability) -> dict[str, Any]:
    """Periods may be given by their names, in the forms that code reads."""
    if not capability.periods:
        return {}
    named = [{"name": period.name, "instead_of": [period.from_, period.to]} for period in capability.periods]
    return {"periods": named, "periods_are_written": WRITTEN}


def _instruction(context: ReadonlyContext) -> str:
    # A function, so that ADK does not read session state into braces.
    return _INSTRUCTION


def _only(text: str) -> Callable[[CallbackContext, LlmRequest], LlmResponse | None]:
    def before_model(callback_context: CallbackContext, llm_request: LlmRequest) -> LlmResponse | None:
        llm_request.contents = [types.Content(role="user", parts=[types.Part(text=text)])]
        return None

    return before_model


def _into(proposed: Proposed) -> Callable[[CallbackContext, LlmResponse], LlmResponse | None]:
    def after_model(callback_context: CallbackContext, llm_response: LlmResponse) -> LlmResponse | None:
        parts = (llm_response.content.parts or []) if llm_response.content else []
        if not llm_response.partial:
            proposed.write("".join(part.text for part in parts if part.text and not part.thought))
        return LlmResponse(
            content=types.Content(role="model", parts=[types.Part(text="proposed")]), partial=llm_response.partial
        )

    return after_model


def _no_answer(callback_context: CallbackContext, llm_request: LlmRequest, error: Exception) -> LlmResponse | None:
    return LlmResponse(content=types.Content(role="model", parts=[types.Part(text="no proposal")]))
