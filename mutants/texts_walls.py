"""Faults in the walls before tools, agents and models, and in what is told of what is hidden: each as a text that is replaced."""

from __future__ import annotations

from typing import Final

from mutants.text import Text

_REMOTE: Final = "remote_agent/plugin.py"
_ROOT: Final = "root_agent/plugin.py"
_ASK: Final = "root_agent/ask.py"
_VEIL: Final = "root_agent/veil.py"
_DECISIONS: Final = "root_agent/decisions.py"
_THEIRS: Final = "self._by_name.get(((person.issuer, person.subject), decision_id))"
_NO_GRANT: Final = "if admitted is None:\n            return blocked("
_ROOT_TOOL: Final = "if type(tool) is not McpTool:"

WALLS: Final = (
    Text(_REMOTE, "the plugin, which lets every tool run", _NO_GRANT, "if True:\n            return None\n            blocked("),
    Text(_REMOTE, "a tool that stands for no capability", "if not isinstance(tool, RegisteredTool):", "if False:"),
    Text(_REMOTE, "a tool that has the admitted one's name", "if tool is not admitted.target:", "if False:"),
    Text(_REMOTE, "a tool in another session", "if tool_context.session.id != admitted.session_id:", "if False:"),
    Text(_REMOTE, "a tool over another revision than was admitted", "if not admitted.stands():", "if False:"),
    Text("remote_agent/executor.py", "the revision that is served", " or self.revision(authority.dataset) == authority.revision", " or True"),
    Text("remote_agent/executor.py", "why the admitted call was blocked", "admitted.blocked[0] if admitted.blocked else why", "why"),
    Text(_REMOTE, "arguments beside the bound ones", "if tool_args:", "if False:"),
    Text(_REMOTE, "an agent that nobody admitted", "admitted_in(exchange, callback_context.session.id) is not None:", "True:"),
    Text(_REMOTE, "an agent that is no delegate", "if exchange is not None and ", "if exchange is None or "),
    Text(_REMOTE, "a model that is asked", 'return LlmResponse(error_code="GuardrailBlocked"', 'return None and LlmResponse(error_code="GuardrailBlocked"'),
    Text(_REMOTE, "an error that becomes a result", 'a failure into a result."""\n        return None', 'a failure into a result."""\n        return {"status": "executed"}'),
    Text(_REMOTE, "another target than was admitted", " or admitted.target is not target", ""),
    Text(_REMOTE, "another session than was admitted", " or admitted.session_id != session_id", ""),
    Text(_ROOT, "a run that no door began", "return None if problem is None else _said(problem)", "return None"),
    Text(_ROOT, "an agent that is not of the path", "if type(agent) is not Delegate:\n            return", "if type(agent) is not Delegate:\n            return None and"),
    Text(_ROOT, "a subclass of the delegate", "type(agent) is not Delegate", "not isinstance(agent, Delegate)"),
    Text(_ROOT, "an exchange that nobody admitted", "if agent.exchange is not ADMITTED.get():", "if False:"),
    Text(_ROOT, "a tool for an exchange that nobody admitted", "if tool.exchange is not ADMITTED.get():", "if False:"),
    Text(_ROOT, "an exchange of an asking that was not granted", "exchange if verdict is Verdict.GRANTED else None", "exchange"),
    Text(_ROOT, "arguments beside the bound ones", "if tool_args:", "if False:"),
    Text(_ROOT, "a model that gets tools", "if llm_request.tools_dict or (llm_request.config and llm_request.config.tools):", "if False:"),
    Text(_ROOT, "a tool that is not of the path", _ROOT_TOOL, "if False:"),
    Text(_ROOT, "an error that becomes a result", 'a failure into a result."""\n        return None', 'a failure into a result."""\n        return {"status": "executed"}'),
    Text("root_agent/propose.py", "an intent agent that executes code", "agent.code_executor, ", ""),
    Text("root_agent/propose.py", "an intent agent that writes state", "agent.output_key, ", ""),
    Text("root_agent/propose.py", "what a model wrote, in an event", 'parts=[types.Part(text="proposed")]', "parts=parts"),
    Text("root_agent/answer_view.py", "another agent's words in a session", 'return "the dataset agent says so" if theirs else decision.rationale', "return decision.rationale"),
    Text(_ASK, "a plan of another call than was admitted", "if planned.call.raw != bytes_of(target.call, planned.tool):", "if False:"),
    Text(_ASK, "a plan of what was not admitted", " or asking.verdict is not Verdict.GRANTED:", ":"),
    Text(_ASK, "a result that is older than was asked for", "if max_age_s is not None and ", "if False and "),
    Text(_ASK, "a grant that outlives who asks", "ttl=life,", "ttl=service.root_ttl,"),
    Text("root_agent/identity.py", "a grant that rests on a token that ended", "math.floor(min(self.until, now + most))", "math.floor(now + most)"),
    Text("root_agent/results_relay.py", "who fetches, by a token of now", "answer = replace(answer, asking=replace(answer.asking, person=person))", "pass"),
    Text(_DECISIONS, "a decision about somebody else", _THEIRS, "next((found for (_, name), found in self._by_name.items() if name == decision_id), None)"),
    Text(_DECISIONS, "whose decisions are forgotten", "self._forget(next(iter(theirs)))", "self._forget(next(iter(self._kept)))"),
    Text("root_agent/catalogue.py", "agents that are away, of whom nobody says so", "if not offered and problems:", "if False:"),
    Text(_VEIL, "a dataset that is there", "if veiled:", "if False:"),
    Text(_VEIL, "what a hidden dataset takes", "return (asking if asking.target is None else replace(asking, target=said)), decision", "return asking, decision"),
    Text(_VEIL, "the bounds of a hidden period", "Target(asking.wanted.call or call, None, None)", "Target(call, None, None)"),
    Text(_VEIL, "who was asked for a hidden dataset", "replace(ended, target=target, unavailable=())", "replace(ended, target=target)"),
    Text(_VEIL, "what a hidden capability takes", "    return shown, decision", "    return asking, decision"),
    Text(_VEIL, "a capability that is there", "if veiled and decision.reason not in _OF_ANY_NAME:", "if False:"),
    Text(_VEIL, "the node that recorded it", "node if step in _RECORDED else step", "step"),
    Text(_VEIL, "a person who may use it", "return not entitled and not any(", "return not any("),
)  # fmt: skip
