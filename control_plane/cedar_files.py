"""Cedar policy files on disk, read once into values: ids, obligations and what each policy reads.

A folder holds ``*.cedar``, one ``*.cedarschema`` and a file ``version``. Everything that
would be skipped silently at evaluation is refused here: a policy without ``@id``, an id
used twice, an unknown annotation, an expression the schema does not type.
"""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import cedarpy

from contract.canonical import sha256_hex
from contract.errors import Category, Component, DatasetAgentError
from contract.files import read_bounded
from contract.ids import is_name_of_record
from contract.scope import ScopeError
from control_plane.cedar_text import Statement, line_of, statements
from control_plane.obligations import ObligationTemplate, parse_annotations

MAX_POLICY_BYTES: Final = 1_000_000
_POLICY_ID: Final = re.compile(r"[A-Z][A-Z0-9]*(-[A-Z0-9]+)+")
_VERSION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
_OBLIGING: Final = frozenset({"rows", "columns", "mask", "stale"})
_ANNOTATIONS: Final = frozenset({"id", "description"}) | _OBLIGING
RULE_PREFIX: Final = "AD-POL-"
_ACTION: Final = re.compile(r' (?:in context )?for Action::"[^"]*"')
_FOLLOWS: Final = "unable to find an applicable action"
_UNKNOWN_ACTION: Final = re.compile(r'unrecognized action `Action::"([^"`]{1,256})"`')
MAX_FAULTS: Final = 3


@dataclass(frozen=True, slots=True)
class Policy:
    """One policy. ``dataset`` is set where its scope names one dataset (``resource == Dataset::"…"``).

    ``reads`` are the directory attributes its conditions read (``principal.attributes.…``).
    ``document`` is its Cedar JSON form.
    """

    policy_id: str
    effect: Literal["permit", "forbid"]
    description: str
    file: str
    line: int | None
    dataset: str | None
    reads: frozenset[str]
    obligations: ObligationTemplate
    document: Mapping[str, Any]

    @property
    def place(self) -> str:
        return self.file if self.line is None else f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class PolicyFiles:
    """What a folder held: policies in file order, the stated version and a digest of it all."""

    version: str
    digest: str
    policies: tuple[Policy, ...]


def examine_policies(
    folder: Path, *, version: str | None = None, within: str = ""
) -> tuple[PolicyFiles | None, tuple[PolicyFault, ...]]:
    """The policies of one set, or everything that is wrong with them.

    ``version`` is its version where no file of it says so, ``within`` stands before the names of its files.
    """
    faults: list[PolicyFault] = []
    if version is None:
        try:
            version = read_version(folder, within=within)
        except PolicyFault as fault:
            faults.append(fault)
    schema, schema_text = _schema(folder, within, faults)
    policies: dict[str, Policy] = {}
    texts = [schema_text]
    files = sorted(folder.glob("*.cedar"))
    if not files:
        faults.append(PolicyFault(within, "the folder holds no .cedar file"))
    for path in files:
        name = f"{within}{path.name}"
        text = _read(path, name, faults)
        texts.append(text)
        for policy in _parse(name, text, schema, faults):
            if policy.policy_id in policies:
                first = policies[policy.policy_id].place
                problem = f'@id("{policy.policy_id}") is already used in {first}'
                faults.append(PolicyFault(name, problem, policy.line))
            policies[policy.policy_id] = policy
    if faults or version is None:
        return None, tuple(faults)
    digest = sha256_hex("\x00".join([version, *texts]).encode())
    return PolicyFiles(version=version, digest=digest, policies=tuple(policies.values())), ()


def as_one(faults: Sequence[PolicyFault]) -> PolicyFault:
    """The first fault, and with it those of the same file that typing found."""
    first = faults[0]
    beside = [fault for fault in faults if first.typed and fault.typed and fault.file == first.file][1:]
    if not beside:
        return first
    others = [
        fault.problem if fault.line is None else f"line {fault.line}: {fault.problem}"
        for fault in beside[: MAX_FAULTS - 1]
    ]
    more = [f"and {len(beside) + 1 - MAX_FAULTS} more"] if len(beside) + 1 > MAX_FAULTS else []
    return PolicyFault(first.file, "; ".join([first.problem, *others, *more]), first.line)


class PolicyFault(DatasetAgentError):
    """What is wrong in a file of the policies' folder, "" for the folder; ``typed`` where it is the schema that says so."""

    def __init__(self, file: str, problem: str, line: int | None = None, *, typed: bool = False) -> None:
        place = file if line is None else f"{file}:{line}"
        message = f"{f'policies/{place}'.rstrip('/')}: {problem}"
        super().__init__(Component.CONTROL_PLANE, Category.CONFIGURATION, "control_plane.policy.invalid", message)
        self.file, self.line, self.problem, self.typed = file, line, problem, typed


def _parse(file: str, text: str, schema: cedarpy.Schema | None, faults: list[PolicyFault]) -> Iterator[Policy]:
    """The policies of one file, typed where there is a schema."""
    try:
        parsed = json.loads(cedarpy.policies_to_json_str(text))
    except ValueError as error:
        faults.append(PolicyFault(file, _one_line(error), _unparsed_line(text)))
        return
    if parsed.get("templates"):
        template = line_of("`?principal`", text) or line_of("`?resource`", text)
        known = "policy templates (?principal, ?resource) are not accepted; write each policy out"
        faults.append(PolicyFault(file, known, template))
        return
    static: Mapping[str, Mapping[str, Any]] = parsed["staticPolicies"]
    written = _written(text, static)
    for name, document in static.items():
        try:
            yield _policy(file, document, written[name].line if name in written else None)
        except PolicyFault as fault:
            faults.append(fault)
    if schema is not None:
        result = cedarpy.validate_policies(text, schema)
        if not result.validation_passed:
            faults.extend(_untyped(file, result, written))


def _written(text: str, static: Mapping[str, Any]) -> Mapping[str, Statement]:
    """The statement of each of Cedar's own names ``policy0``, ``policy1``, … ; none where they do not agree."""
    found = statements(text)
    names = [f"policy{number}" for number in range(len(found))]
    return dict(zip(names, found, strict=True)) if set(names) == set(static) else {}


def _unparsed_line(text: str) -> int | None:
    """The line of the first statement that is no policy by itself."""
    for statement in statements(text):
        try:
            cedarpy.policies_to_json_str(statement.text)
        except ValueError as error:
            return line_of(str(error), statement.text, first=statement.line) or statement.line
    return None


def _untyped(file: str, result: cedarpy.ValidationResult, written: Mapping[str, Statement]) -> Iterator[PolicyFault]:
    """The faults that typing found, each with its line and under its policy's ``@id``."""
    told: dict[str, int | None] = {}
    undeclared = set()
    for problem in result.errors:
        name = result.id_annotations_by_policy_id.get(problem.policy_id, "a policy without @id")
        text = _one_line(problem.error).removeprefix(f"for policy `{problem.policy_id}`, ")
        statement = written.get(problem.policy_id)
        line = None
        if statement is not None:
            line = line_of(text, statement.text, first=statement.line) or statement.line
        if action := _UNKNOWN_ACTION.search(text):
            undeclared.add(name)
            text = f"{text[: action.end()]}: add {action[1]} to the actions of the .cedarschema, or correct the name"
        told[f"{name}: {_ACTION.sub('', text)}"] = line
    # Cedar gives them in no order; that no action fits follows from a fault that is told better.
    for text, line in sorted(told.items(), key=lambda item: (_FOLLOWS in item[0], item[1] or 0, item[0])):
        if not (_FOLLOWS in text and text.partition(": ")[0] in undeclared):
            yield PolicyFault(file, text, line, typed=True)


def _policy(file: str, document: Mapping[str, Any], line: int | None) -> Policy:
    annotations: Mapping[str, Any] = document.get("annotations", {})
    policy_id = annotations.get("id") or ""
    if not _POLICY_ID.fullmatch(policy_id) or not is_name_of_record(policy_id):
        raise PolicyFault(file, 'every policy needs an id such as @id("BPD-DATA-014")', line)
    if policy_id.startswith(RULE_PREFIX):
        raise PolicyFault(file, f'@id("{policy_id}"): ids starting {RULE_PREFIX} belong to the admission rules', line)
    unknown = sorted(set(annotations) - _ANNOTATIONS)
    if unknown:
        known = f"{policy_id}: unknown annotation @{unknown[0]}; known: {_listed(_ANNOTATIONS)}"
        raise PolicyFault(file, known, line)
    if document["effect"] == "forbid" and _OBLIGING & set(annotations):
        raise PolicyFault(file, f"{policy_id}: a forbid carries no @rows, @columns, @mask or @stale", line)
    try:
        obligations = parse_annotations(annotations)
    except ScopeError as error:
        raise PolicyFault(file, f"{policy_id}: {error}", line) from error
    return Policy(
        policy_id=policy_id,
        effect=document["effect"],
        description=annotations.get("description") or "",
        file=file,
        line=line,
        dataset=_dataset(document["resource"]),
        reads=frozenset(_attributes_read(document["conditions"])),
        obligations=obligations,
        document=document,
    )


def _dataset(resource: Mapping[str, Any]) -> str | None:
    entity = resource.get("entity")
    if resource.get("op") == "==" and isinstance(entity, dict) and entity.get("type") == "Dataset":
        return str(entity["id"])
    return None


def _attributes_read(node: Any) -> Iterator[str]:
    """Names ``x`` of every ``principal.attributes.x`` in a condition's JSON."""
    if isinstance(node, list):
        for item in node:
            yield from _attributes_read(item)
    elif isinstance(node, dict):
        access = node.get(".")
        if isinstance(access, dict) and _is_attributes(access.get("left")):
            yield str(access["attr"])
        for item in node.values():
            yield from _attributes_read(item)


def _is_attributes(node: Any) -> bool:
    access = node.get(".") if isinstance(node, dict) else None
    return isinstance(access, dict) and access.get("attr") == "attributes" and access["left"] == {"Var": "principal"}


def read_version(folder: Path, name: str = "version", *, within: str = "") -> str:
    """The version that a file of the folder names. Raises ``PolicyFault``."""
    faults: list[PolicyFault] = []
    version = _read(folder / name, f"{within}{name}", faults).strip()
    if faults:
        raise faults[0]
    if not _VERSION.fullmatch(version) or not is_name_of_record(version):
        raise PolicyFault(f"{within}{name}", "must hold one version, for example 2026.09.01")
    return version


def _schema(folder: Path, within: str, faults: list[PolicyFault]) -> tuple[cedarpy.Schema | None, str]:
    """The schema, where it can be used, and its text."""
    found = sorted(folder.glob("*.cedarschema"))
    if len(found) != 1:
        faults.append(PolicyFault(within, f"the folder needs exactly one .cedarschema file, found {len(found)}"))
        return None, ""
    before, name = len(faults), f"{within}{found[0].name}"
    text = _read(found[0], name, faults)
    if len(faults) > before:
        return None, text
    try:
        return cedarpy.Schema.from_str(text), text
    except ValueError as error:
        faults.append(PolicyFault(name, _one_line(error), line_of(str(error), text)))
        return None, text


def _read(path: Path, name: str, faults: list[PolicyFault]) -> str:
    """The text of a file, empty where it cannot be read."""
    try:
        return read_bounded(path, MAX_POLICY_BYTES).decode("utf-8")
    except OSError as error:
        too_large = error.errno == errno.EFBIG
        why = f"is larger than {MAX_POLICY_BYTES} bytes" if too_large else f"cannot be read: {error.strerror}"
        faults.append(PolicyFault(name, why))
    except UnicodeDecodeError:
        faults.append(PolicyFault(name, "is not UTF-8"))
    return ""


def _listed(names: frozenset[str]) -> str:
    return ", ".join(f"@{name}" for name in sorted(names))


def _one_line(error: object) -> str:
    return " ".join(str(error).split())[:400]
