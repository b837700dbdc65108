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
    Text(_DOOR, "tools by the name of what another dataset has", "for view in shown if view.dataset == dataset for", "for view in shown for"),
    Text(_DOOR, "a span of the SDK", "        server.middleware.clear()  # its spans would hold the text of errors\n", ""),
    Text(_DOOR, "a listing for another person", "                grants=grants,\n                on_behalf_of=caller.person,\n", "                grants=grants,\n"),
    Text(_DOOR, "a call for another person", "            client=caller.agent,\n            on_behalf_of=caller.person,\n            operation=Operation(MCP_METHOD", "            client=caller.agent,\n            operation=Operation(MCP_METHOD"),
    Text(_DOOR, "a tool that is another one", "            tool=params.name,\n", ""),
    Text(_DOOR, "a tool by the name of its capability", "capability = name if tool is None else tool.capability.name", "capability = name"),
    Text(_DOOR, "a tool of what is not served", " if tool.capability.name in served.capabilities]", "]"),
    Text(_DOOR, "another method than POST", 'if scope["method"] != "POST":', "if False:"),
    Text(_DOOR, "a listing around a call", "if found.decision.reason is Reason.GRANT_OPERATION_MISMATCH:", "if False:"),
    Text(_DOOR, "a leaf for A2A", "operation=Operation(MCP_METHOD, call_hash=sha256_hex(call))", 'operation=Operation("SendMessage", call_hash=sha256_hex(call))'),
    Text(_DOOR, "arguments that have no form", '            return b""\n', "            raise\n"),
    Text(_RESULT, "a refusal that is no error", '"content": [_said(answer)], "isError": True', '"content": [_said(answer)], "isError": False'),
    Text(_RESULT, "a result without its proof", "        meta[MCP_PROVENANCE] = dict(answer.envelope)\n", "        pass\n"),
    Text(_RESULT, "a result by the text of another", 'return _text(document.body.decode("utf-8"))', 'return _text(str(document.row_count))'),
    Text(_RESULT, "a refusal without its reason", "MCP_DECISION: answer.decision.public(), MCP_TASK: task_id}", "MCP_TASK: task_id}"),
    Text(_RESULT, "a refusal that says nothing of trying again", "        meta[MCP_ERROR] = outward.told(answer.retry_after_s)\n", "        pass\n"),
    Text(_RESULT, "a call that waits without its task", '        meta[MCP_REVIEW] = dict(answer.review)\n', "        pass\n"),
    Text(_RESULT, "a half call without what is missing", '        meta[MCP_PROPOSAL] = dict(answer.proposal)\n', "        pass\n"),
    Text(_RESULT, "a refusal without its receipt", '        meta[MCP_RECEIPT] = answer.receipt.to_json()\n', "        pass\n"),
    Text(_RESULT, "a stored result without its digest", '            "sha256": document.digest,\n', ""),
    Text(_RESULT, "where a result came from", "        meta[MCP_CACHE] = {\n", "        meta[MCP_TASK + MCP_CACHE] = {\n"),
    Text(_RESULT, "how old a stale result is", '{"age_s": round(answer.age_s, 3)}', "{}"),
    Text(_TOOLS, "a dataset that is not served behind MCP", "return descriptor.endpoints.get(MCP_ENDPOINT) == mcp_path(descriptor.dataset)", "return MCP_ENDPOINT in descriptor.endpoints"),
    Text(_TOOLS, "a capability that is no tool", "for c in descriptor.capabilities if c.mcp_tool_name is not None)", "for c in descriptor.capabilities)"),
    Text(_TOOLS, "a dataset without the door", "    if not served_by_mcp(descriptor):\n        return {}\n", ""),
    Text(_TOOLS, "an argument that is not the call's", '[parameter.name for parameter in listed if parameter.required],\n        "additionalProperties": False,', '[parameter.name for parameter in listed if parameter.required],\n        "additionalProperties": True,'),
    Text(_TOOLS, "an argument that is required", "[parameter.name for parameter in listed if parameter.required]", "[]"),
    Text(_TOOLS, "a field that is no field", '[field.name for field in listed],\n        "additionalProperties": False,', '[field.name for field in listed],\n        "additionalProperties": True,'),
    Text(_TOOLS, "a text of any form", 'schema["pattern"] = f"^(?:{parameter.pattern})$"', "pass"),
    Text(_TOOLS, "a pattern of which a part is enough", 'f"^(?:{parameter.pattern})$"', "parameter.pattern"),
    Text(_TOOLS, "values that are not listed", '            schema["enum"] = list(parameter.values)\n', "            pass\n"),
    Text(_TOOLS, "a NULL that is no value", 'schema["enum"] = [*parameter.values, None]', 'schema["enum"] = list(parameter.values)'),
    Text(_TOOLS, "numbers beyond their bounds", "            schema[name] = bound\n", "            pass\n"),
    Text(_TOOLS, "an array of any length", '"items": item, "maxItems": parameter.max_items}', '"items": item}'),
    Text(_TOOLS, "a text of any length", '        schema["maxLength"] = parameter.max_length\n        if parameter.pattern', "        if parameter.pattern"),
    Text(_TOOLS, "a tool that writes and says that it reads", "self.capability.effect in _READS", "True"),
    Text(_TOOL, "the grant in a listing", "for name, value in sent.headers.items() if name != GRANT_HEADER}", "for name, value in sent.headers.items()}"),
    Text(_CALL, "a list of tools that is no list of objects", " or not all(isinstance(tool, dict) for tool in tools)", ""),
    Text(_DOORS, "a task that goes on at another door", "capability.target == MCP and not only_a2a else", "capability.target == MCP else"),
    Text(_DOORS, "a tool that nobody prefers", "offered and capability.target == MCP and", "offered and"),
    Text(_DOORS, "a leaf of a message for a tool", "return Operation(MCP_METHOD, call_hash=planned.call.call_hash)", "return None"),
)  # fmt: skip
