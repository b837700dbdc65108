"""Faults in the second door, on both of its sides: each as a text that is replaced."""

from __future__ import annotations

from typing import Final

from mutants.text import Text

_DOOR: Final = "remote_agent/mcp_door.py"
_RESULT: Final = "remote_agent/mcp_result.py"
_TOOL: Final = "delegation/mcp_tool.py"
_CALL: Final = "delegation/mcp.py"
_TOOLS: Final = "control_plane/tools.py"
_DOORS: Final = "root_agent/doors.py"

MCP: Final = (
    Text(_DOOR, "a grant that the SDK sees", 'headers = [pair for pair in scope["headers"] if pair[0] != _GRANT]', 'headers = list(scope["headers"])'),
    Text(_DOOR, "a dataset that is not behind MCP", "served is not None and served_by_mcp(served.descriptor)", "served is not None"),
    Text(_DOOR, "a listing that takes the call's grant", "            get_tool_input_schema=lambda _: None,\n", ""),
    Text(_DOOR, "tools that the person may not call", "tools = [tool for tool in tools if tool.capability.name in may]", "pass"),
    Text(_DOOR, "a listing around a call", "if found.decision.reason is Reason.GRANT_OPERATION_MISMATCH:", "if False:"),
    Text(_DOOR, "a leaf for A2A", "operation=Operation(MCP_METHOD, call_hash=sha256_hex(call))", 'operation=Operation("SendMessage", call_hash=sha256_hex(call))'),
    Text(_DOOR, "arguments that have no form", '            return b""\n', "            raise\n"),
    Text(_RESULT, "a refusal that is no error", '"content": [_said(answer)], "isError": True', '"content": [_said(answer)], "isError": False'),
    Text(_RESULT, "a result without its proof", "        meta[MCP_PROVENANCE] = dict(answer.envelope)\n", "        pass\n"),
    Text(_TOOL, "the grant in a listing", "for name, value in sent.headers.items() if name != GRANT_HEADER}", "for name, value in sent.headers.items()}"),
    Text(_CALL, "a list of tools that is no list of objects", " or not all(isinstance(tool, dict) for tool in tools)", ""),
    Text(_DOORS, "a task that goes on at another door", "capability.target == MCP and not only_a2a else", "capability.target == MCP else"),
    Text(_DOORS, "a tool that nobody prefers", "offered and capability.target == MCP and", "offered and"),
    Text(_DOORS, "a leaf of a message for a tool", "return Operation(MCP_METHOD, call_hash=planned.call.call_hash)", "return None"),
)  # fmt: skip
