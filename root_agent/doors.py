"""By which of a dataset agent's doors an admitted call goes: as whoever asks says, else as its publisher prefers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from contract.call import RESULT_MEDIA_TYPE, Call, Operation
from contract.canonical import InvalidJson, canonical_json
from contract.errors import Category, Component, DatasetAgentError
from contract.mcp import MCP_METHOD
from contract.verdict import NotGranted, Reason
from control_plane.descriptor import DatasetCapability, DatasetDescriptor
from control_plane.tools import tools_of
from delegation.sending import STREAM_METHOD, Plan

if TYPE_CHECKING:
    from root_agent.asking import Asking
    from root_agent.wanted import TypedCall

A2A: Final = "a2a"
MCP: Final = "mcp"


def read_via(value: object, *, only_a2a: bool) -> str | None:
    """The door that whoever asks names, if any. Raises INVALID_INPUT."""
    if value not in (None, A2A, MCP):
        raise _invalid("a dataset agent is asked via a2a or mcp: name one of them, or leave via out")
    if value == MCP and only_a2a:
        raise _invalid("a task is completed, and Arrow is sent, over A2A only: leave via out")
    return None if value is None else str(value)


def tool_for(asking: Asking, descriptor: DatasetDescriptor, capability: DatasetCapability) -> str | None:
    """The MCP tool to call; ``None`` where the call goes over A2A.

    What only A2A has, a task to go on with and Arrow, goes there where nothing else was said. Raises
    UNREGISTERED_CAPABILITY where MCP was said, and no card offers it.
    """
    wanted = asking.wanted
    if wanted.via == A2A:
        return None
    offered = capability.mcp_tool_name in tools_of(descriptor)
    if wanted.via == MCP:
        if not offered:
            no_tool = f"{descriptor.dataset} offers {capability.name} as no MCP tool: ask it via a2a"
            raise NotGranted(Reason.UNREGISTERED_CAPABILITY, no_tool)
        return capability.mcp_tool_name
    only_a2a = bool(asking.continued) or wanted.media_type != RESULT_MEDIA_TYPE
    return capability.mcp_tool_name if offered and capability.target == MCP and not only_a2a else None


def bytes_of(call: TypedCall, tool: str | None) -> bytes:
    """What is hashed into the leaf: the part as it is sent, or of a tool call the RFC 8785 form.

    Raises CALL_MALFORMED for arguments that have none.
    """
    if tool is None:
        return call.encode()
    try:
        members = {"dataset": call.dataset, "capability": call.capability, "arguments": dict(call.arguments)}
        return canonical_json(members)
    except InvalidJson as error:
        raise NotGranted(
            Reason.CALL_MALFORMED, "the call has no canonical form: write long integers as text"
        ) from error


def planned_call(call: TypedCall, tool: str | None) -> Call:
    """Raises as ``bytes_of`` and ``Call.parse``."""
    return Call.parse(bytes_of(call, tool))


def operation_of(planned: Plan, *, followed: bool) -> Operation | None:
    """What the leaf is bound to: a tool call, a message whose events are followed, or a plain one (``None``)."""
    if planned.tool is not None:
        return Operation(MCP_METHOD, call_hash=planned.call.call_hash)
    return Operation(STREAM_METHOD, call_hash=planned.call.call_hash) if followed else None


def _invalid(message: str) -> DatasetAgentError:
    return DatasetAgentError(Component.ROOT_AGENT, Category.INVALID_INPUT, "root_agent.ask.via", message)
