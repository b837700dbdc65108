"""The ADK agent folder's entry: what ``adk web`` and ``adk run remote_agent`` find here.

The governed agent is built per admitted call (``executor.py``) behind the A2A door that
``dataset-agent serve`` opens. A development session has no execution grant, so this agent
has no tool and answers every message the way the door would: no grant, no call, no row.
"""

from __future__ import annotations

from google.adk.apps import App
from google.adk.workflow import START, Workflow

from contract.verdict import Reason
from remote_agent.plugin import DatasetPolicyPlugin, blocked


def refuse() -> dict[str, object]:
    """The structural refusal of a message that carries no grant."""
    return blocked(
        Reason.NO_ACTIVE_GRANT, "ask through A2A with an execution grant: dataset-agent ask, or adk run root_agent"
    )


root_agent = Workflow(name="remote_agent", edges=[(START, refuse)])
app = App(name="remote_agent", root_agent=root_agent, plugins=[DatasetPolicyPlugin()])
