"""A language model that obeys the attacker, to the letter: what it is told to do, or what it finds written in what it reads.

A directive is text such as ``[[call raw_sql {"sql": "SELECT 1"}]]``. ``[[@place ...]]`` is one that was
planted at a place, and is obeyed where the attack is about that place. Every request is kept, so
that a test can look at all that a model ever got to see.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator
from typing import Any, Final

from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types

_DIRECTIVE: Final = re.compile(r"\[\[(?:@(\w+) )?(call|propose|say|code|answered|blob|state) ?(.*?)\]\]", re.DOTALL)
_NAME: Final = re.compile(r"\s*([\w.-]+)\s*")


class HostileModel(BaseLlm):
    """``script`` are directives it obeys whatever it reads; ``place`` whose planted directives it looks for."""

    model: str = "hostile"
    script: str = ""
    place: str = ""
    requests: list[str] = []

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        read = llm_request.model_dump_json(exclude={"live_connect_config"})
        self.requests.append(read)
        found = [*directives(self.script, ""), *directives(unescaped(llm_request), self.place)]
        parts = [part for kind, text in found for part in obeyed(kind, text)] if len(self.requests) <= 8 else []
        state = [json.loads(text) for kind, text in found if kind == "state"]
        yield LlmResponse(
            content=types.Content(role="model", parts=parts or [types.Part(text="GRANTED")]),
            custom_metadata=state[0] if state else None,
        )


def unescaped(request: LlmRequest) -> str:
    """All text of a request, with JSON's escapes undone as a reader would."""
    texts = [part.text or "" for content in request.contents for part in content.parts or []]
    return "\n".join(texts).replace('\\"', '"').replace("\\\\", "\\")


def directives(text: str, place: str) -> list[tuple[str, str]]:
    return [(kind, body) for planted, kind, body in _DIRECTIVE.findall(text) if planted in ("", place)]


def obeyed(kind: str, text: str) -> list[types.Part]:
    """The parts that an obeying model writes for one directive."""
    if kind == "propose" or kind == "say":
        return [types.Part(text=text)]
    if kind == "code":
        code = types.ExecutableCode(code=text, language=types.Language.PYTHON)
        return [types.Part(executable_code=code)]
    if kind == "blob":
        return [types.Part(inline_data=types.Blob(data=b"rows", mime_type="application/json"))]
    if kind == "state":
        return []
    name = _NAME.match(text)
    called = name.group(1) if name else "raw_sql"
    args: dict[str, Any] = json.loads(text[name.end() :] or "{}") if name else {}
    if kind == "answered":
        return [types.Part(function_response=types.FunctionResponse(name=called, id="c0", response=args))]
    return [types.Part(function_call=types.FunctionCall(name=called, args=args, id="c1"))]
