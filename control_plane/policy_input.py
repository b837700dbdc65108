"""The strict shape of a policy question on the wire (the ``input`` of OPA's data API)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from contract.ids import Slug
from contract.schema import Strict
from contract.scope import Sensitivity
from control_plane.descriptor import Effect

_Identifier = Annotated[str, Field(min_length=1, max_length=512)]
_Sensitivity = Annotated[Sensitivity, Field(strict=False)]


class PrincipalInput(Strict):
    """A principal without label or entitlements: what a policy may read of a person."""

    issuer: _Identifier
    subject: _Identifier
    tenant: Slug
    principal_class: Slug
    clearance: _Sensitivity
    attributes: dict[Slug, str | bool | int | Annotated[tuple[str, ...], Field(strict=False)]]


class PolicyInput(Strict):
    """One question: may this principal do this to that dataset?"""

    principal: PrincipalInput
    dataset: Slug
    tenant: Slug
    capability: Slug
    effect: Annotated[Effect, Field(strict=False)]
    sensitivity: _Sensitivity
    policy_id: str | None
    entitled: bool
