"""Who speaks, at the boundary of ADK and A2A: ``user``, ``model`` and ``tool`` there, ROLE_USER and ROLE_AGENT here."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from a2a.types.a2a_pb2 import Role

USER: Final = "user"
MODEL: Final = "model"
_TO_A2A: Final[Mapping[str, Role]] = MappingProxyType(
    # What a tool says is said by the agent that called it: A2A knows no tool.
    {USER: Role.ROLE_USER, MODEL: Role.ROLE_AGENT, "tool": Role.ROLE_AGENT}
)
_TO_ADK: Final[Mapping[int, str]] = MappingProxyType({Role.ROLE_USER: USER, Role.ROLE_AGENT: MODEL})


def a2a_role(role: str | None) -> Role:
    """The role of A2A. Raises ``ValueError`` for one that ADK does not have: whoever speaks is never guessed."""
    found = _TO_A2A.get(role or "")
    if found is None:
        raise ValueError("the role is none of user, model and tool")
    return found


def adk_role(role: int) -> str:
    """The role of ADK. Raises ``ValueError`` for an unspecified or unknown one."""
    found = _TO_ADK.get(role)
    if found is None:
        raise ValueError("the role is neither ROLE_USER nor ROLE_AGENT")
    return found
