"""One question in the form that Cedar takes: who, what, on which dataset, and the context."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import cedarpy

from contract.principal import Principal
from contract.scope import Sensitivity
from control_plane.descriptor import Effect

if TYPE_CHECKING:
    from control_plane.policy import PolicyRequest


def policy_set(documents: Mapping[str, Mapping[str, Any]]) -> cedarpy.PolicySet:
    """Policies in Cedar's JSON form by the names that its answers will use."""
    parsed = {"templates": {}, "staticPolicies": dict(documents), "templateLinks": []}
    return cedarpy.PolicySet.from_json_str(json.dumps(parsed))


def entities(principals: Iterable[Principal]) -> cedarpy.Entities:
    """What policies may read of people. Raises ``ValueError`` for a value that Cedar cannot hold."""
    return cedarpy.Entities.from_json_str(json.dumps([_entity(principal) for principal in principals]))


def cedar_request(request: PolicyRequest, principal: Mapping[str, str]) -> dict[str, Any]:
    """Names as dictionaries, the context as text: the other way round each would cost a parse, or a writing, each time.

    ``principal`` is the name of the request's principal, as ``uid`` tells it.
    """
    return {
        "principal": principal,
        "action": {"type": "Action", "id": request.capability},
        "resource": {"type": "Dataset", "id": request.dataset},
        "context": _context(request.entitled, request.effect, request.sensitivity, request.tenant),
    }


@lru_cache(maxsize=1_024)
def _context(entitled: bool, effect: Effect, sensitivity: Sensitivity, tenant: str) -> str:
    """What is there once for each kind of capability of a tenant, and so is written once."""
    told = {"entitled": entitled, "effect": effect.value, "sensitivity": sensitivity.value, "tenant": tenant}
    return json.dumps(told)


def uid(principal: Principal) -> dict[str, str]:
    """A principal's name in Cedar."""
    return {"type": "Principal", "id": f"{principal.issuer}#{principal.subject}"}


def _entity(principal: Principal) -> dict[str, Any]:
    attributes = {
        "tenant": principal.tenant,
        "principal_class": principal.principal_class,
        "clearance": principal.clearance.value,
        "attributes": principal.attributes_json(),
    }
    return {"uid": uid(principal), "attrs": attributes, "parents": []}
