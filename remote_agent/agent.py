"""The ADK agent folder's entry: what ``adk web`` and ``adk run remote_agent`` find here.

The governed agent is built per admitted call (``executor.py``) behind the A2A door that
``dataset-agent serve`` opens. A development session has no execution grant, so this agent
has no tool and answers every message the way the door would: no grant, no call, no row.
"""

from __future__ import annotations

from google.adk.apps import App
from google.adk.events.event import Event
from google.adk.workflow import START, Workflow
from google.genai import types

from contract.verdict import Reason
from delegation.tool_errors import blocked
from remote_agent.plugin import DatasetPolicyPlugin

_HINT = "ask through A2A with an execution grant: dataset-agent ask, or adk run root_agent"


def refuse() -> Event:
    """The structural refusal of a message that carries no grant."""
    words = types.Part(text=f"REFUSED {Reason.NO_ACTIVE_GRANT}: {_HINT}")
    return Event(output=blocked(Reason.NO_ACTIVE_GRANT, _HINT), content=types.Content(role="model", parts=[words]))


root_agent = Workflow(name="remote_agent", edges=[(START, refuse)])
app = App(name="remote_agent", root_agent=root_agent, plugins=[DatasetPolicyPlugin()])
