"""The files of a new dataset as text: commented, so that whoever edits them need not look elsewhere first."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from contract.schema import SqlType
from control_plane.descriptor_schema import SCHEMA_FILE
from dataset_agent.scaffold_capabilities import ScaffoldCapability, type_members
from dataset_agent.scaffold_facts import is_personal
from dataset_agent.scaffold_source import SourceTable

_BARE: Final = re.compile(r"[A-Za-z][A-Za-z0-9_./ -]*[A-Za-z0-9_./]|[A-Za-z]")
_NOT_BARE: Final = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})


@dataclass(frozen=True, slots=True)
class NewDataset:
    """What a new dataset is made of. ``bigquery`` are its options there, where its tables are not files."""

    name: str
    tenant: str
    source: str
    tables: tuple[SourceTable, ...]
    capabilities: tuple[ScaffoldCapability, ...]
    bigquery: Mapping[str, Any] | None = None

    @property
    def policy_ids(self) -> dict[str, str]:
        """The policy of each table: a row constraint on a table governs capabilities that read it, and no other."""
        stem = re.sub(r"[^A-Z0-9]+", "-", self.name.upper()).strip("-")
        return {table.name: f"{stem}-{number:03}" for number, table in enumerate(self.tables, 1)}


def descriptor_text(dataset: NewDataset) -> str:
    """``descriptor.yaml``."""
    head = f"""\
# yaml-language-server: $schema=../{SCHEMA_FILE}
# What is offered of {dataset.name}. Check it after every edit: dataset-agent datasets validate ..
dataset: {dataset.name}
description: {_scalar(f"Rows of {', '.join(table.name for table in dataset.tables)}.")} # say what it is about, in your askers' words
tenant: {dataset.tenant}
version: "1" # of the publication: change it with what is offered
revision: auto # of the data: taken from the source. State one of your own instead, and change it with the data
schema_version: "1" # change it with columns and types
as_of: auto # when the data was last true: taken from the source
freshness: {{maximum_age_s: 31536000, reuse_s: 600}} # how old the data may be; how long a stored result is reused
provenance: {{system: {"bigquery" if dataset.bigquery else "file"}, source: {_scalar(dataset.source)}}} # signed beside every result
policies: {_flow(list(dataset.policy_ids.values()))}
"""
    parts = [head]
    if dataset.bigquery:
        parts.append("bigquery: " + _flow(dataset.bigquery) + " # where jobs run, and what one query may cost\n")
    parts.append("# What templates may read. Nothing of it leaves the service.\ntables:\n")
    parts.extend(_table(table) for table in dataset.tables)
    parts.append(
        "# What may be asked. policy_id is the policy that must permit it; where several may, one for each class\n"
        "# of people, leave it out.\ncapabilities:\n"
    )
    parts.extend(_capability(dataset, capability) for capability in dataset.capabilities)
    return "\n".join(part.rstrip("\n") + "\n" for part in parts)


def _table(table: SourceTable) -> str:
    lines = [f"  - name: {table.name}"]
    for member in ("file", "relation", "bigquery"):
        if value := getattr(table, member):
            lines.append(f"    {member}: {_scalar(value)}")
    lines.append("    columns:")
    for column in table.columns:
        told = {"name": column.name, **type_members(column)}
        if is_personal(column):
            told["sensitivity"] = "confidential"
        comment = f" # {_comment(column.why)}" if column.why else ""
        lines.append(f"      - {_flow(told)}{comment}")
    return "\n".join(lines)


def _capability(dataset: NewDataset, capability: ScaffoldCapability) -> str:
    lines = [
        f"  - name: {capability.name}",
        f"    description: {_scalar(capability.description)}",
        f"    effect: {capability.effect}",
        f"    policy_id: {dataset.policy_ids[capability.table]}",
        f"    tool_name: {capability.name}",
        f"    template: templates/{capability.name}.sql",
        f"    max_rows: {capability.max_rows}",
        "    # The words by which questions find it: write what your askers say.",
        f"    keywords: {_flow(list(dict.fromkeys(capability.keywords)))}",
        "    examples:",
        *(f"      - {_scalar(example)}" for example in capability.examples),
        "    parameters:" if capability.parameters else "    parameters: []",
        *(f"      - {_flow(parameter)}" for parameter in capability.parameters),
        "    results:",
        *(f"      - {_flow(result)}" for result in capability.results),
    ]
    return "\n".join(lines)


def policy_text(dataset: NewDataset) -> str:
    """The Cedar policies, one for each table, with the obligations that people add first as comments."""
    head = f"// Who may ask {dataset.name} what. No match is a refusal (AD-POL-005).\n"
    return "\n".join([head + _policy(dataset, dataset.tables[0]), *(_policy(dataset, t) for t in dataset.tables[1:])])


def _policy(dataset: NewDataset, table: SourceTable) -> str:
    texts = [column for column in table.columns if column.type is SqlType.STRING] or list(table.columns)
    column = f"{table.name}.{texts[0].name}"
    rows = json.dumps(json.dumps({column: {"one_of": {"principal": "held"}}}))
    mask = json.dumps(json.dumps({column: "hash"}))
    actions = ", ".join(f'Action::"{c.name}"' for c in dataset.capabilities if c.table == table.name)
    return f"""\
// To show each person their own rows of {table.name} only, put this before permit, and list `held` among their
// attributes:
//   @rows({rows})
// To hide what a column holds:
//   @mask({mask})
@id("{dataset.policy_ids[table.name]}")
@description("People who are entitled to it read and compute over {table.name}.")
permit (
  principal,
  action in [{actions}],
  resource == Dataset::"{dataset.name}"
)
when {{ context.entitled }};
"""


def action_text(names: Sequence[str]) -> str:
    """What the Cedar schema says of capabilities."""
    return f"""\
action {", ".join(names)} appliesTo {{
  principal: [Principal],
  resource: [Dataset],
  context: Request,
}};
"""


SCHEMA_HEAD: Final = """\
// What policies may read. Every policy is typed against this file when it is loaded.
// An attribute that a condition reads (principal.attributes.region) is declared in `attributes`.
entity Principal = {
  tenant: String,
  principal_class: String,
  clearance: String,
  attributes: {},
};

entity Dataset;

// entitled:    principals.yaml lists this capability for this person
// effect:      read, compute, write or external
// sensitivity: public, internal, confidential or restricted (the capability's)
// tenant:      the dataset's
type Request = {
  entitled: Bool,
  effect: String,
  sensitivity: String,
  tenant: String,
};

// One action for each capability of each dataset.
"""


def principals_head(issuer: str) -> str:
    """The beginning of ``principals.yaml``."""
    return f"""\
# Who this service knows. Identity is (issuer, subject); name is a label for people and for --as.
# entitlements: dataset -> capabilities held. They are data that the policies in policies/ read.
issuer: {_scalar(issuer)}
principals:
"""


def principal_text(name: str, tenant: str, entitlements: Mapping[str, Sequence[str]]) -> str:
    """One person. Without entitlements every question is refused."""
    held = [f"      {dataset}: {_flow(list(names))}" for dataset, names in entitlements.items()]
    lines = [
        f"  - name: {name}",
        f"    subject: u-{name.replace('_', '-')}",
        f"    tenant: {tenant}",
        f"    principal_class: {'analyst' if held else 'guest'}",
        f"    clearance: {'internal' if held else 'public'}",
        *(["    entitlements:", *held] if held else ["    entitlements: {} # none: every question is refused"]),
    ]
    return "\n".join(lines) + "\n"


def _flow(value: Any) -> str:
    """A value on one line of YAML."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name}: {_flow(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_flow(item) for item in value) + "]"
    return _scalar(value)


def _scalar(value: Any) -> str:
    """Bare where it is plain text for every YAML reader, else in quotes."""
    if not isinstance(value, str):
        return json.dumps(value)
    if _BARE.fullmatch(value) and value.lower() not in _NOT_BARE:
        return value
    return json.dumps(value, ensure_ascii=False)


def _comment(text: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in text)
