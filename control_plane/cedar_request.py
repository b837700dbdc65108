"""One question in the form that Cedar takes: who, what, on which dataset, and the context."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import cedarpy

from contract.principal import Principal

if TYPE_CHECKING:
    from control_plane.policy import PolicyRequest


def policy_set(documents: Mapping[str, Mapping[str, Any]]) -> cedarpy.PolicySet:
    """Policies in Cedar's JSON form by the names that its answers will use."""
    parsed = {"templates": {}, "staticPolicies": dict(documents), "templateLinks": []}
    return cedarpy.PolicySet.from_json_str(json.dumps(parsed))


def entities(principals: Iterable[Principal]) -> cedarpy.Entities:
    """What policies may read of people. Raises ``ValueError`` for a value that Cedar cannot hold."""
    return cedarpy.Entities.from_json_str(json.dumps([_entity(principal) for principal in principals]))


def cedar_request(request: PolicyRequest) -> dict[str, Any]:
    """As dictionaries: names as text would cost a parse each time."""
    return {
        "principal": _uid(request.principal),
        "action": {"type": "Action", "id": request.capability},
        "resource": {"type": "Dataset", "id": request.dataset},
        "context": {
            "entitled": request.entitled,
            "effect": request.effect.value,
            "sensitivity": request.sensitivity.value,
            "tenant": request.tenant,
        },
    }


def _uid(principal: Principal) -> dict[str, str]:
    return {"type": "Principal", "id": f"{principal.issuer}#{principal.subject}"}


def _entity(principal: Principal) -> dict[str, Any]:
    attributes = {
        "tenant": principal.tenant,
        "principal_class": principal.principal_class,
        "clearance": principal.clearance.value,
        "attributes": principal.attributes_json(),
    }
    return {"uid": _uid(principal), "attrs": attributes, "parents": []}
