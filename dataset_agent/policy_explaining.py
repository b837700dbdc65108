"""``policy explain``: why a principal would get a verdict for a call, and what would change it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Annotated, Any, Final

import typer

from contract.settings import Settings
from contract.verdict import VERDICTS, NotGranted, Reason, Verdict
from control_plane.admission import AdmissionRequest, EvaluatorFailure
from control_plane.manifest import CapabilityManifest, DatasetManifest
from control_plane.policy_explain import Effect, Explanation, explain_call
from dataset_agent.arguments import read_arguments
from dataset_agent.configuration import load_settings
from dataset_agent.console import EXIT_OF, AsJson, note, print_json, progress
from dataset_agent.dataset_warnings import unmet
from dataset_agent.policy_display import show_explanation
from dataset_agent.policy_testing import EvaluatorUrl
from dataset_agent.policy_world import PolicyWorld, asking, open_policy_world, server_of
from grants.trust import load_trust
from queries.bind import bind
from queries.template import Template, TemplateError
from remote_agent.world import template_of

_NAMED: Final = 20


@dataclass(frozen=True, slots=True)
class After:
    """What is looked at once a call is admitted: its arguments, and what policies demand against its template."""

    step: str
    reason: Reason | None
    told: str


def explain(
    capability: Annotated[str, typer.Argument(help="The capability that would be called.")],
    as_: Annotated[str, typer.Option("--as", help="For whom: a name of principals.yaml.")],
    dataset: Annotated[str, typer.Option(help="The dataset that would be asked.")],
    arg: Annotated[
        list[str] | None, typer.Option(help="name=value, typed as declared; name:=JSON. Repeatable.")
    ] = None,
    policy_version: Annotated[
        list[str] | None, typer.Option(help="Under this version of the policies; repeatable; all: under every one.")
    ] = None,
    evaluator: EvaluatorUrl = None,
    max_age: Annotated[float | None, typer.Option(min=0, help="Accept data of at most so many seconds.")] = None,
    revision: Annotated[str | None, typer.Option(help="The dataset's revision that the caller relies on.")] = None,
    schema_version: Annotated[str | None, typer.Option(help="The schema version that the caller expects.")] = None,
    stated_version: Annotated[
        str | None, typer.Option(help="The policy version that the caller's grant states, against trust.toml.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say why a principal would get its verdict for a call: rule by rule, policy by policy. Nothing runs."""
    settings = load_settings()
    versions = policy_version or []
    if evaluator and versions:
        raise typer.BadParameter("a policy server decides by its own version: leave --policy-version out")
    stated: dict[str, Any] = {"max_age_s": max_age, "stated_revision": revision, "schema_version": schema_version}
    if stated_version is not None:
        stated |= {"stated_policy_version": stated_version, "accepted_policy_versions": _accepted(settings)}
    with progress("explaining"):
        world = open_policy_world(settings, versions, server_of(settings, versions, evaluator))
        request = replace(world.request(as_, dataset, capability, world.in_force, time.time()), **stated)
        explained = asyncio.run(_explained(world, request))
    after = [_after(world, request, one, arg) for one in explained]
    if as_json:
        shown = [_json(world, one, later) for one, later in zip(explained, after, strict=True)]
        print_json({"principal": as_, "dataset": dataset, "capability": capability, "explanations": shown})
    else:
        _say_names(world, request, as_)
        for one, later in zip(explained, after, strict=True):
            show_explanation(one, [_line(step) for step in later])
        if len(explained) > 1:
            _say_versions(explained)
    raise typer.Exit(EXIT_OF[_verdict(explained[0], after[0])])


def _accepted(settings: Settings) -> frozenset[str] | None:
    return load_trust(settings.trust_path).policy_versions if settings.trust_path.exists() else None


async def _explained(world: PolicyWorld, request: AdmissionRequest) -> list[Explanation]:
    async with asking(world) as ask:
        if world.url is not None:
            return [await explain_call(request, ask, None, known=world.sets[0], classes=world.classes)]
        return [
            await explain_call(replace(request, policy_version=one.version), ask, one, classes=world.classes)
            for one in world.sets
        ]


def _after(
    world: PolicyWorld, request: AdmissionRequest, one: Explanation, pairs: Sequence[str] | None
) -> tuple[After, ...]:
    """What a dataset agent looks at after admission, as far as it needs no running service."""
    manifest = world.registry.datasets.get(request.dataset)
    capability = (
        next((item for item in manifest.capabilities if item.name == request.capability), None) if manifest else None
    )
    if manifest is None or capability is None or one.decision.verdict is not Verdict.GRANTED:
        return ()
    template = _template(world, manifest, capability)
    if template is None:
        return ()
    found = [After("obligations", _reason(why), why) for why in unmet(template, one.decision.obligations)]
    if pairs is not None:
        found.append(_arguments(template, capability, pairs))
    return tuple(found)


def _reason(why: str) -> Reason:
    return Reason.COLUMN_NOT_PERMITTED if why.startswith("@columns") else Reason.GRANT_CONSTRAINT_UNKNOWN


def _template(world: PolicyWorld, manifest: DatasetManifest, capability: CapabilityManifest) -> Template | None:
    if not capability.template:
        return None
    try:
        return template_of(capability, manifest, world.registry.path(manifest.dataset))
    except TemplateError:
        return None


def _arguments(template: Template, capability: CapabilityManifest, pairs: Sequence[str]) -> After:
    """Arguments decide nothing here: no rule and no policy reads them. They may still stop the call."""
    declared = {parameter.name: parameter for parameter in capability.parameters}
    try:
        bind(template, read_arguments(pairs, declared))
    except NotGranted as stop:
        return After("arguments", stop.reason, stop.message)
    return After("arguments", None, "hold; no rule and no policy reads them")


def _line(step: After) -> str:
    stopped = "" if step.reason is None else f"{VERDICTS[step.reason].value} {step.reason.value}: "
    return f"After admission, {step.step}: {stopped}{step.told}"


def _verdict(one: Explanation, after: Sequence[After]) -> Verdict:
    stopped = next((step.reason for step in after if step.reason is not None), None)
    return one.decision.verdict if stopped is None else VERDICTS[stopped]


def _json(world: PolicyWorld, one: Explanation, after: Sequence[After]) -> dict[str, Any]:
    answer = one.answer
    return {
        "verdict": _verdict(one, after).value,
        "decision": one.decision.public(),
        "in_force": one.decision.policy_version == world.in_force if world.url is None else True,
        "evaluator": "in process" if world.url is None else "policy server",
        "rules": [
            {
                "number": rule.number,
                "rule": rule.rule,
                "policy_id": rule.policy_id,
                "status": rule.status,
                "rationale": rule.rationale,
                "reads": rule.reads,
            }
            for rule in one.rules
        ],
        "asked": None if one.asked is None else one.asked.to_json(),
        "answer": {"failed": answer.reason.value}
        if isinstance(answer, EvaluatorFailure)
        else None
        if answer is None
        else answer.to_json(),
        "policies": [policy.to_json() for policy in one.policies],
        "obligations": one.decision.obligations.to_json(),
        "after_admission": [
            {"step": step.step, "reason": step.reason.value if step.reason else None, "told": step.told}
            for step in after
        ],
        "would_change": [_effect_json(effect) for effect in one.effects],
        "would_grant_together": [_effect_json(effect) for effect in one.ways],
        "tried": one.tried,
    }


def _effect_json(effect: Effect) -> dict[str, Any]:
    decision = effect.decision
    told: Mapping[str, Any] = {
        "changed": list(effect.changed),
        "of_person": effect.of_person,
        "verdict": decision.verdict.value,
        "reason": decision.reason.value,
        "policy_id": decision.policy_id,
        "obligations": decision.obligations.to_json(),
    }
    return dict(told)


def _say_names(world: PolicyWorld, request: AdmissionRequest, principal: str) -> None:
    """A name that nobody has is decided about like any other; it may also be misspelt."""
    capabilities = [item.name for item in getattr(request.descriptor, "capabilities", ())]
    for kind, name, known in (
        ("principal", principal, list(world.directory.by_name)),
        ("dataset", request.dataset, list(world.registry.datasets)),
        ("capability", request.capability, capabilities),
    ):
        if known and name not in known:
            close = get_close_matches(name, known, n=1)
            note(f"there is no {kind} {name}; {f'did you mean {close[0]}?' if close else f'known: {_first(known)}'}")


def _first(names: Sequence[str]) -> str:
    return ", ".join(sorted(names)[:_NAMED]) + (" …" if len(names) > _NAMED else "")


def _say_versions(explained: Sequence[Explanation]) -> None:
    outcomes = {one.decision.policy_version: one.decision for one in explained}
    first, *others = [(one.reason, one.policy_id, one.obligations) for one in outcomes.values()]
    alike = all(other == first for other in others)
    told = ", ".join(
        f"{name} {one.verdict.value} ({one.policy_id or one.reason.value})" for name, one in outcomes.items()
    )
    note(f"the versions decide {'alike' if alike else 'differently'}: {told}")
