"""Policies and people of a new dataset: in a folder of its own, or beside those that are there."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from contract.canonical import sha256_hex
from contract.errors import Category, Component, DatasetAgentError
from contract.ids import is_version
from control_plane.cedar_versions import CURRENT
from control_plane.policy import load_policies
from control_plane.principals import load_directory
from dataset_agent.scaffold_text import (
    SCHEMA_HEAD,
    NewDataset,
    action_text,
    policy_text,
    principal_text,
    principals_head,
)

_COMMENT: Final = re.compile(r"//[^\n]*")
_ACTION: Final = re.compile(r"\baction\s+((?:\"[^\"]*\"|[\w]+)(?:\s*,\s*(?:\"[^\"]*\"|[\w]+))*)")
_ITEM: Final = re.compile(r"^( *)- ", re.MULTILINE)


def new_policies(dataset: NewDataset, staging: Path, issuer: str, people: Sequence[str]) -> list[str]:
    """A set of policies and a directory. The first of ``people`` is entitled to everything, the others to nothing."""
    policies = staging / "policies"
    policies.mkdir()
    names = [capability.name for capability in dataset.capabilities]
    _write(policies / "schema.cedarschema", SCHEMA_HEAD + action_text(names))
    _write(policies / "version", "1\n")
    _write(policies / f"{dataset.name}.cedar", policy_text(dataset))
    held = [principal_text(people[0], dataset.tenant, {dataset.name: names})]
    held += [principal_text(name, dataset.tenant, {}) for name in people[1:]]
    _write(staging / "principals.yaml", principals_head(issuer) + "".join(held))
    return ["policies", "principals.yaml"]


def add_to_policies(dataset: NewDataset, folder: Path, staging: Path, person: str) -> list[str]:
    """Copies of the policies and the directory of ``folder`` with what the dataset needs, in ``staging``.

    Returns the files that are new or changed. Raises ``DatasetAgentError`` where those that are
    there are broken, or written so that nothing can be added by a program.
    """
    if (folder / "policies" / CURRENT).exists():
        raise _by_hand("(several versions are there)")
    before, known = load_policies(folder / "policies"), load_directory(folder / "principals.yaml")
    if taken := next((name for name in dataset.policy_ids.values() if name in before.policies), None):
        raise _fault(f"a policy {taken} is there: give the new dataset another --name")
    if known.named(person) is not None:
        raise _fault(f"a principal {person} is there: give the new dataset another --name")
    shutil.copytree(folder / "policies", staging / "policies")
    changed = [*_extend_policies(dataset, staging / "policies"), "principals.yaml"]
    names = [capability.name for capability in dataset.capabilities]
    text = (folder / "principals.yaml").read_text(encoding="utf-8")
    _write(
        staging / "principals.yaml", _with_person(text, principal_text(person, dataset.tenant, {dataset.name: names}))
    )
    try:
        added, people = load_policies(staging / "policies"), load_directory(staging / "principals.yaml")
    except DatasetAgentError as error:
        raise _by_hand(f"({error.message})") from error
    if not before.policies.keys() < added.policies.keys() or set(people.by_name) != {*known.by_name, person}:
        raise _by_hand("")
    return changed


def _extend_policies(dataset: NewDataset, policies: Path) -> list[str]:
    schema = next(policies.glob("*.cedarschema"))
    text = schema.read_text(encoding="utf-8")
    declared = {
        name.strip().strip('"') for found in _ACTION.findall(_COMMENT.sub("", text)) for name in found.split(",")
    }
    file = policies / f"{dataset.name}.cedar"
    if file.exists():
        raise _fault(f"policies/{file.name} is there: give the new dataset another --name")
    new = [capability.name for capability in dataset.capabilities if capability.name not in declared]
    changed = [f"policies/{file.name}", "policies/version"]
    if new:
        _write(schema, f"{text.rstrip()}\n\n{action_text(new)}")
        changed.insert(0, f"policies/{schema.name}")
    _write(file, policy_text(dataset))
    version = (policies / "version").read_text(encoding="utf-8").strip()
    _write(policies / "version", f"{_next_version(version, dataset.name)}\n")
    return changed


def _next_version(version: str, name: str) -> str:
    """The set is another one now, and decisions name it."""
    longer = f"{version}+{name}"
    return longer if is_version(longer) else f"{version[:40]}+{sha256_hex(longer.encode())[:12]}"


def _with_person(text: str, person: str) -> str:
    """The file with one more principal at its end, indented like the others."""
    indents = _ITEM.findall(text)
    indent = indents[-1] if indents else "  "
    lines = person.splitlines(keepends=True)
    return text.rstrip("\n") + "\n" + "".join(f"{indent}{line[2:]}" for line in lines)


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _by_hand(why: str) -> DatasetAgentError:
    return _fault(
        f"the policies or principals there are written so that nothing can be added by a program {why}".rstrip()
        + ": make the dataset in a folder of its own, and copy its parts"
    )


def _fault(message: str) -> DatasetAgentError:
    return DatasetAgentError(Component.COMMAND, Category.INVALID_INPUT, "command.datasets.init", message)
