"""What a dataset agent proposes instead of rows: a call, and the names, types and allowed values it misses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from contract.call import Call, encode_call
from control_plane.descriptor import DatasetDescriptor
from control_plane.limits import is_limiting
from control_plane.proposals import Missing, Proposal
from remote_agent.outcome import BoundCall


def half_call_json(call: BoundCall) -> dict[str, Any]:
    """An admitted call that misses arguments, as it came."""
    asked = call.call
    return _json(asked.dataset, asked.capability, asked.arguments, map(Missing.of, call.missing))


def proposal_json(proposal: Proposal) -> dict[str, Any]:
    """The call that words seem to ask for."""
    return _json(proposal.dataset, proposal.capability, proposal.arguments, proposal.missing)


def offer_json(
    descriptors: Iterable[DatasetDescriptor], left: Sequence[str] = (), question: str = ""
) -> dict[str, Any]:
    """What could be asked, where the words fit none of it, and the words for which they do not, where it is these alone.

    With these, ``limits`` says whether one of them denies, limits, times or compares what the ``question`` asks.
    """
    told = {"not_understood": list(left), "limits": is_limiting(question, left)} if left else {}
    return {
        **told,
        "capabilities": [
            {
                "dataset": descriptor.dataset,
                "capability": capability.name,
                "description": capability.description,
                "parameters": [parameter.name for parameter in capability.parameters],
            }
            for descriptor in descriptors
            for capability in descriptor.capabilities
        ],
    }


def call_of(proposal: Mapping[str, Any]) -> Call | None:
    """The call of a proposal, which its task remembers; ``None`` where none is proposed."""
    call = proposal.get("call")
    return None if call is None else Call.parse(encode_call(**call))


def _json(dataset: str, capability: str, arguments: Mapping[str, Any], missing: Iterable[Missing]) -> dict[str, Any]:
    return {
        "call": {"dataset": dataset, "capability": capability, "arguments": dict(arguments)},
        "missing": [_missing(item) for item in missing],
    }


def _missing(item: Missing) -> dict[str, Any]:
    told = {
        "name": item.name,
        "type": item.type.value,
        "values": list(item.values),
        "description": item.description,
    }
    return {**told, "repeated": True} if item.repeated else told
