"""Small descriptors, principals and policy folders for tests of the control plane."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from contract.principal import AttributeValue, Principal
from contract.scope import Obligations, Sensitivity
from control_plane.admission import AdmissionRequest
from control_plane.descriptor import DatasetDescriptor, Effect
from control_plane.manifest import DatasetManifest
from control_plane.policy import Outcome, PolicyAnswer, PolicyRequest, PolicySet, load_policies

ISSUER = "https://issuer.dataset-agent.example"
VERSION = "2026.09.01"
NOW = 1_790_000_000.0
DATASETS = Path(__file__).resolve().parents[2] / "datasets"

SCHEMA = """
entity Principal = {
  tenant: String, principal_class: String, clearance: String,
  attributes: { site: String, sites: Set<String>, level: Long },
};
entity Dataset;
type Request = { entitled: Bool, effect: String, sensitivity: String, tenant: String };
action read, compare, count appliesTo { principal: [Principal], resource: [Dataset], context: Request };
"""


def raw_capability(name: str = "read", **changes: Any) -> dict[str, Any]:
    return {
        "name": name,
        "description": f"{name} the rows",
        "effect": "read",
        "tool_name": name,
        "results": [{"name": "id", "type": "STRING"}],
    } | changes


def raw_descriptor(**changes: Any) -> dict[str, Any]:
    return {
        "dataset": "plants",
        "description": "Plants of a garden.",
        "tenant": "acme",
        "version": "1.0",
        "revision": "r1",
        "schema_version": "1",
        "as_of": "2026-09-01T00:00:00Z",
        "freshness": {"maximum_age_s": 3600},
        "provenance": {"system": "test", "source": "test"},
        "capabilities": [raw_capability()],
    } | changes


def raw_manifest(**changes: Any) -> dict[str, Any]:
    table = {"name": "plants", "file": "plants.parquet", "columns": [{"name": "id", "type": "STRING"}]}
    capabilities = [raw_capability(template="read.sql")]
    return raw_descriptor(capabilities=capabilities, tables=[table]) | changes


def make_descriptor(*capabilities: dict[str, Any], **changes: Any) -> DatasetDescriptor:
    chosen = list(capabilities) or [raw_capability()]
    return DatasetDescriptor.model_validate(raw_descriptor(capabilities=chosen, **changes))


def make_manifest(**changes: Any) -> DatasetManifest:
    return DatasetManifest.model_validate(raw_manifest(**changes))


def make_principal(
    *,
    subject: str = "u-1",
    tenant: str = "acme",
    principal_class: str = "gardener",
    clearance: Sensitivity = Sensitivity.INTERNAL,
    entitlements: Mapping[str, frozenset[str]] | None = None,
    attributes: Mapping[str, AttributeValue] | None = None,
) -> Principal:
    held = {"plants": frozenset({"read"})} if entitlements is None else dict(entitlements)
    return Principal(
        issuer=ISSUER,
        subject=subject,
        tenant=tenant,
        name=subject,
        principal_class=principal_class,
        clearance=clearance,
        entitlements=MappingProxyType(held),
        attributes=MappingProxyType(dict(attributes or {})),
    )


def make_request(**changes: Any) -> AdmissionRequest:
    values: dict[str, Any] = {
        "principal": make_principal(),
        "dataset": "plants",
        "capability": "read",
        "descriptor": make_descriptor(),
        "policy_version": VERSION,
        "now": NOW,
        "decision_id": "dec-1",
    }
    return AdmissionRequest(**(values | changes))


def make_question(**changes: Any) -> PolicyRequest:
    values: dict[str, Any] = {
        "principal": make_principal(),
        "dataset": "plants",
        "capability": "read",
        "effect": Effect.READ,
        "sensitivity": Sensitivity.INTERNAL,
        "tenant": "acme",
    }
    return PolicyRequest(**(values | changes))


def permit(policy_id: str = "P-1", obligations: Obligations | None = None) -> PolicyAnswer:
    return PolicyAnswer(Outcome.PERMIT, policy_id, VERSION, obligations or Obligations())


def write_policies(folder: Path, *texts: str, schema: str = SCHEMA, version: str = VERSION) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "schema.cedarschema").write_text(schema, encoding="utf-8")
    (folder / "version").write_text(version + "\n", encoding="utf-8")
    for number, text in enumerate(texts):
        (folder / f"p{number}.cedar").write_text(text, encoding="utf-8")
    return folder


def make_policies(folder: Path, *texts: str) -> PolicySet:
    return load_policies(write_policies(folder, *texts))
