"""Who asks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from contract.scope import Sensitivity

AttributeValue = str | int | bool | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Principal:
    """A person as *this* service's own directory knows them; never as a message claims.

    ``issuer`` and ``subject`` together are the identity. ``entitlements`` maps a dataset
    to the capabilities held. ``attributes`` are what policies may read; an attribute the
    directory lacks is absent, never defaulted.
    """

    issuer: str
    subject: str
    tenant: str
    name: str
    principal_class: str
    clearance: Sensitivity
    entitlements: Mapping[str, frozenset[str]] = field(default_factory=lambda: MappingProxyType({}))
    attributes: Mapping[str, AttributeValue] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def key(self) -> tuple[str, str]:
        return self.issuer, self.subject

    def holds(self, dataset: str, capability: str) -> bool:
        return capability in self.entitlements.get(dataset, frozenset())

    def attributes_json(self) -> dict[str, Any]:
        return {
            name: list(value) if isinstance(value, tuple) else value for name, value in sorted(self.attributes.items())
        }
