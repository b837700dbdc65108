"""The policy set: Cedar policies parsed once, asked one question at a time.

Evaluation is a pure function of the request and the set. Cedar skips a policy that fails
and may still allow, so errors are looked at before the decision.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import reduce
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Self

import cedarpy

from contract.ids import is_name_of_record, is_slug
from contract.principal import Principal
from contract.scope import Obligations, ScopeError, Sensitivity
from control_plane.cedar_files import RULE_PREFIX, Policy
from control_plane.cedar_people import Known, People
from control_plane.cedar_request import cedar_request, policy_set
from control_plane.cedar_versions import read_policies
from control_plane.descriptor import Effect
from control_plane.manifest import DatasetManifest
from control_plane.obligations import MissingAttribute, parse_obligations
from control_plane.policy_input import PolicyInput

MAX_ATTRIBUTES: Final = 8
_MISSING: Final = re.compile(r"policy `([^`]+)`.*does not have the attribute `([^`]+)`", re.DOTALL)


class Outcome(StrEnum):
    """What a policy set says. Anything but ``permit`` grants nothing."""

    PERMIT = "permit"
    FORBID = "forbid"
    NONE = "none"
    ERROR = "error"
    MISSING_ATTRIBUTE = "missing_attribute"


_NAMED: Final = frozenset({Outcome.PERMIT, Outcome.FORBID})


@dataclass(frozen=True, slots=True)
class PolicyRequest:
    """Everything a policy can read. ``policy_id`` is the capability's own governing policy.

    ``tenant`` is the dataset's.
    """

    principal: Principal
    dataset: str
    capability: str
    effect: Effect
    sensitivity: Sensitivity
    tenant: str
    policy_id: str | None = None

    @property
    def entitled(self) -> bool:
        """Whether the directory lists this capability for this principal."""
        return self.principal.holds(self.dataset, self.capability)

    def to_json(self) -> dict[str, Any]:
        """The ``input`` of the OPA data API. The principal's label is left out: no policy may read it."""
        principal = self.principal
        return {
            "principal": {
                "issuer": principal.issuer,
                "subject": principal.subject,
                "tenant": principal.tenant,
                "principal_class": principal.principal_class,
                "clearance": principal.clearance.value,
                "attributes": principal.attributes_json(),
            },
            "dataset": self.dataset,
            "tenant": self.tenant,
            "capability": self.capability,
            "effect": self.effect.value,
            "sensitivity": self.sensitivity.value,
            "policy_id": self.policy_id,
            "entitled": self.entitled,
        }

    @classmethod
    def from_json(cls, raw: Any) -> Self:
        """Raises ``pydantic.ValidationError``; unknown members are refused."""
        value = PolicyInput.model_validate(raw)
        held = {value.dataset: frozenset({value.capability})} if value.entitled else {}
        person = value.principal
        return cls(
            principal=Principal(
                issuer=person.issuer,
                subject=person.subject,
                tenant=person.tenant,
                name=person.subject,
                principal_class=person.principal_class,
                clearance=person.clearance,
                entitlements=MappingProxyType(held),
                attributes=MappingProxyType(dict(person.attributes)),
            ),
            dataset=value.dataset,
            capability=value.capability,
            effect=value.effect,
            sensitivity=value.sensitivity,
            tenant=value.tenant,
            policy_id=value.policy_id,
        )


@dataclass(frozen=True, slots=True)
class PolicyAnswer:
    """What a policy set answered. A permit and a forbid name the policy; nothing else does.

    ``detail`` is for the operator's eyes: it names policies and attributes, no values.
    ``attributes`` are the names a ``missing_attribute`` is about, and may be told to who asks.
    """

    outcome: Outcome
    policy_id: str | None
    policy_version: str
    obligations: Obligations = field(default_factory=Obligations)
    detail: str = ""
    attributes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if (self.outcome in _NAMED) != bool(self.policy_id):
            raise ValueError("a permit or a forbid names its policy, and nothing else does")
        if not self.policy_version:
            raise ValueError("an answer states its policy version")
        if len(self.attributes) > MAX_ATTRIBUTES or not all(is_slug(name) for name in self.attributes):
            raise ValueError(f"attributes are at most {MAX_ATTRIBUTES} names")

    def to_json(self) -> dict[str, Any]:
        return {
            "outcome": self.outcome.value,
            "policy_id": self.policy_id,
            "policy_version": self.policy_version,
            "obligations": self.obligations.to_json(),
            "detail": self.detail,
        } | ({"attributes": list(self.attributes)} if self.attributes else {})

    @classmethod
    def from_json(cls, raw: Any) -> Self:
        """Raises ``ValueError`` for anything but exactly this shape: unknown is never permission."""
        if not isinstance(raw, dict) or not {"outcome", "policy_id", "policy_version"} <= set(raw):
            raise ValueError("the answer needs outcome, policy_id and policy_version")
        if set(raw) - {"outcome", "policy_id", "policy_version", "obligations", "detail", "attributes"}:
            raise ValueError("the answer holds an unknown member")
        policy_id, version, detail = raw["policy_id"], raw["policy_version"], raw.get("detail", "")
        attributes = raw.get("attributes", [])
        if not (policy_id is None or isinstance(policy_id, str)) or not isinstance(version, str):
            raise ValueError("policy_id and policy_version must be text")
        # Of what no row may name nothing could be recorded: neither who was granted nor who was refused.
        if not all(is_name_of_record(name) for name in (version, policy_id) if name):
            raise ValueError("policy_id and policy_version are printable ASCII without blanks, 200 characters at most")
        if policy_id is not None and policy_id.startswith(RULE_PREFIX):
            raise ValueError(f"ids starting {RULE_PREFIX} belong to the admission rules")
        if not isinstance(attributes, list) or not all(isinstance(name, str) for name in attributes):
            raise ValueError("attributes must be a list of names")
        return cls(
            outcome=Outcome(raw["outcome"]),
            policy_id=policy_id,
            policy_version=version,
            obligations=parse_obligations(raw["obligations"]) if "obligations" in raw else Obligations(),
            detail=detail if isinstance(detail, str) else "",
            attributes=tuple(attributes),
        )


@dataclass(frozen=True, slots=True)
class UnknownColumn:
    """A ``table.column`` of an obligation that no dataset in its reach has; ``dataset`` is ``None`` for one about all."""

    place: str
    policy_id: str
    dataset: str | None
    column: str

    def __str__(self) -> str:
        return f"{self.place}: {self.policy_id}: {self.column} is no column of {self.dataset or 'any dataset'}"


@dataclass(frozen=True, slots=True)
class PolicySet:
    """Policies with their version. Datasets named in a policy's scope have a slice of their own."""

    version: str
    digest: str
    policies: Mapping[str, Policy]
    _general: cedarpy.PolicySet
    _slices: Mapping[str, cedarpy.PolicySet]
    _people: People = field(default_factory=People, compare=False, repr=False)

    @classmethod
    def of(cls, version: str, digest: str, policies: Iterable[Policy]) -> Self:
        by_id = {policy.policy_id: policy for policy in policies}
        general = [policy for policy in by_id.values() if policy.dataset is None]
        datasets = sorted({policy.dataset for policy in by_id.values() if policy.dataset is not None})
        slices = {
            dataset: _cedar([*general, *(policy for policy in by_id.values() if policy.dataset == dataset)])
            for dataset in datasets
        }
        return cls(version, digest, MappingProxyType(by_id), _cedar(general), MappingProxyType(slices))

    def evaluate(self, request: PolicyRequest) -> PolicyAnswer:
        """The set's answer; never raises for anything a request or a policy can hold."""
        try:
            known = self._people.known(request.principal)
            # Without a request schema a missing attribute stays an error that can be told from
            # a bad request; the policies themselves were typed when they were loaded.
            result = cedarpy.is_authorized(
                cedar_request(request, known.name),
                self._slices.get(request.dataset, self._general),
                known.entities,
            )
            told = result.diagnostics
            errors, reasons = told.errors, sorted(told.reasons)
        except (ValueError, KeyError, TypeError) as error:
            return self._answer(Outcome.ERROR, detail=f"the request could not be evaluated: {type(error).__name__}")
        if errors:
            return self._failed(request.principal, errors)
        if result.decision is cedarpy.Decision.Allow and reasons:
            return self._permitted(request, known, reasons)
        if result.decision is not cedarpy.Decision.Deny:
            return self._answer(Outcome.ERROR, detail="the evaluation ended without a decision")
        return self._answer(Outcome.FORBID, reasons[0]) if reasons else self._answer(Outcome.NONE)

    def about(self, dataset: str) -> tuple[Policy, ...]:
        """The policies that are asked about a dataset: those of no dataset by name, and its own."""
        return tuple(policy for policy in self.policies.values() if policy.dataset in (None, dataset))

    def without(self, policy_id: str) -> PolicySet:
        """The set as it would be without one policy, for explanations; it states the same version."""
        kept = [policy for policy in self.policies.values() if policy.policy_id != policy_id]
        return PolicySet.of(self.version, self.digest, kept)

    def problems(self, datasets: Mapping[str, DatasetManifest]) -> tuple[str, ...]:
        """Every ``table.column`` an obligation names that no dataset in its reach has, one line each."""
        return tuple(str(problem) for problem in self.unknown_columns(datasets))

    def unknown_columns(self, datasets: Mapping[str, DatasetManifest]) -> tuple[UnknownColumn, ...]:
        """The same, each with the dataset that its policy is about."""
        return tuple(
            UnknownColumn(policy.place, policy.policy_id, policy.dataset, column)
            for policy in self.policies.values()
            for column in sorted(policy.obligations.mentioned())
            if (policy.dataset is None or policy.dataset in datasets)
            and not any(
                _has_column(manifest, column) for name, manifest in datasets.items() if policy.dataset in (None, name)
            )
        )

    def _permitted(self, request: PolicyRequest, known: Known, reasons: list[str]) -> PolicyAnswer:
        which = (tuple(reasons), request.policy_id)
        answer = known.permit(which)
        if answer is None:
            answer = self._bound(request, reasons)
            known.keep(which, answer)
        return answer

    def _bound(self, request: PolicyRequest, reasons: list[str]) -> PolicyAnswer:
        """The answer of policies that permit, with all their obligations at once as they bind this principal."""
        try:
            bound = [self.policies[reason].obligations.bind(request.principal) for reason in reasons]
            obligations = reduce(Obligations.meet, bound)
        except MissingAttribute as error:
            return self._lacks([str(error)], f"an obligation reads attribute {error}")
        except ScopeError as error:
            return self._answer(Outcome.ERROR, detail=f"obligations cannot be met together: {error}")
        governing = request.policy_id if request.policy_id in reasons else reasons[0]
        return self._answer(Outcome.PERMIT, governing, obligations)

    def _failed(self, principal: Principal, errors: list[str]) -> PolicyAnswer:
        found = [_MISSING.search(error) for error in errors]
        missing = [(match.group(1), match.group(2)) for match in found if match is not None]
        lacking = [
            (f"{policy_id} reads attribute {name}", name)
            for policy_id, name in missing
            if name not in principal.attributes
            and policy_id in self.policies
            and name in self.policies[policy_id].reads
        ]
        if len(lacking) == len(errors):
            return self._lacks([name for _, name in lacking], "; ".join(sorted(text for text, _ in lacking)))
        return self._answer(Outcome.ERROR, detail=f"{len(errors)} policies failed while they were evaluated")

    def _lacks(self, names: Iterable[str], detail: str) -> PolicyAnswer:
        told = tuple(sorted({name for name in names if is_slug(name)}))[:MAX_ATTRIBUTES]
        return replace(self._answer(Outcome.MISSING_ATTRIBUTE, detail=detail), attributes=told)

    def _answer(
        self, outcome: Outcome, policy_id: str | None = None, obligations: Obligations | None = None, detail: str = ""
    ) -> PolicyAnswer:
        return PolicyAnswer(outcome, policy_id, self.version, obligations or Obligations(), detail)


def load_policies(folder: Path, version: str | None = None) -> PolicySet:
    """The set of a folder that is in force, or the one of ``version``. Raises a CONFIGURATION fault."""
    files = read_policies(folder, version)
    return PolicySet.of(files.version, files.digest, files.policies)


def _cedar(policies: list[Policy]) -> cedarpy.PolicySet:
    return policy_set({policy.policy_id: policy.document for policy in policies})


def _has_column(manifest: DatasetManifest, column: str) -> bool:
    table_name, name = column.split(".")
    return any(table.name == table_name and table.column(name) is not None for table in manifest.tables)
