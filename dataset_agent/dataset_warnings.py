"""What serving takes and nobody can have meant: calls that nobody may make, names that lead nowhere."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

from contract.principal import Principal
from contract.scope import Obligations
from contract.verdict import NotGranted
from control_plane.descriptor import APPROVE, Effect
from control_plane.interpret import interpret
from control_plane.manifest import CapabilityManifest, DatasetManifest
from control_plane.policy import Outcome, PolicyRequest, PolicySet
from control_plane.principals import Directory
from control_plane.registry import Examined
from dataset_agent.folder_fault import FolderFault
from queries.template import Template


def warnings_of(
    found: Sequence[Examined],
    policies: PolicySet | None,
    directory: Directory | None,
    templates: Mapping[tuple[str, str], Template],
) -> Iterator[FolderFault]:
    """Of the datasets that can be read, with the policies and the people there are.

    ``templates`` are those that could be loaded, by dataset and capability.
    """
    manifests = {item.manifest.dataset: item.manifest for item in found if item.manifest is not None}
    whole = len(manifests) == len(found)
    if directory is not None:
        yield from _entitlements(manifests, directory, whole=whole)
    for item in found:
        if item.manifest is None:
            continue
        if policies is not None and directory is not None:
            yield from _stale(item, item.manifest, policies, directory)
        for number, capability in enumerate(item.manifest.capabilities):
            yield from _examples(item, item.manifest, number, capability)
            line, place = item.document.where(("capabilities", number))
            if policies is not None and capability.policy_id and capability.policy_id not in policies.policies:
                message = f"names {capability.policy_id}, which no policy has as its @id; it can never be the one that decides"
                yield FolderFault(item.file, message, line, place)
            if directory is not None and capability.requires_review:
                for message in _approval(item.manifest, capability, policies, directory):
                    yield FolderFault(item.file, message, line, place)
            if policies is not None and directory is not None:
                template = templates.get((item.manifest.dataset, capability.name))
                for message in _reach(item.manifest, capability, policies, directory, template):
                    yield FolderFault(item.file, message, line, place)


def _examples(
    item: Examined, manifest: DatasetManifest, number: int, capability: CapabilityManifest
) -> Iterator[FolderFault]:
    """Questions that are published as the capability's and are not read as its own, where all of the dataset may be asked."""
    for place, example in enumerate(capability.examples):
        try:
            read = interpret(example, [manifest], now=time.time())
        except NotGranted:  # it is empty, or endless
            read = None
        if read is None or read.capability != capability.name:
            told = "nothing, or as two alike" if read is None else read.capability
            message = f"is read as {told}: ask in more of its keywords, or add the words asked to them"
            yield FolderFault(item.file, message, *item.document.where(("capabilities", number, "examples", place)))


def _approval(
    manifest: DatasetManifest, capability: CapabilityManifest, policies: PolicySet | None, directory: Directory
) -> Iterator[str]:
    """Why nobody could approve a call, as ``control_plane.approving`` decides."""
    entitled = [
        person
        for person in directory.by_name.values()
        if person.tenant == manifest.tenant and person.holds(manifest.dataset, APPROVE)
    ]
    if not entitled:
        yield f"needs a person's approval, and nobody is entitled to {APPROVE} on {manifest.dataset}"
        return
    cleared = [person for person in entitled if capability.sensitivity.within(person.clearance)]
    if not cleared:
        yield f"needs a person's approval, and nobody who is entitled to {APPROVE} is cleared for it"
    elif policies is not None and not any(_permits(policies, manifest, capability, person) for person in cleared):
        yield (
            f"needs a person's approval, and no policy permits {APPROVE} to anybody who is entitled to it: "
            f'permit Action::"{APPROVE}" in policies/, and name it in the .cedarschema'
        )


def _permits(policies: PolicySet, manifest: DatasetManifest, capability: CapabilityManifest, person: Principal) -> bool:
    asked = capability.model_copy(update={"name": APPROVE, "effect": Effect.READ, "policy_id": None})
    return policies.evaluate(_request(manifest, asked, person)).outcome is Outcome.PERMIT


def _stale(
    item: Examined, manifest: DatasetManifest, policies: PolicySet, directory: Directory
) -> Iterator[FolderFault]:
    """A publisher's ``stale_s`` that no policy takes up, for nobody."""
    if manifest.freshness.stale_s is None:
        return
    for capability in manifest.capabilities:
        for person in directory.by_name.values():
            answer = policies.evaluate(_request(manifest, capability, person))
            if answer.outcome is Outcome.PERMIT and answer.obligations.stale_s:
                return
    message = "is of no effect: no policy that permits one of its capabilities to anybody here has @stale"
    yield FolderFault(item.file, message, *item.document.where(("freshness", "stale_s")))


def _entitlements(
    manifests: Mapping[str, DatasetManifest], directory: Directory, *, whole: bool
) -> Iterator[FolderFault]:
    for person in directory.by_name.values():
        for dataset, names in sorted(person.entitlements.items()):
            manifest = manifests.get(dataset)
            if manifest is None and whole:
                yield FolderFault(
                    "principals.yaml", f"{person.name} is entitled to {dataset}, which is no dataset here"
                )
            for name in sorted(names - {APPROVE}) if manifest is not None else ():
                if manifest is not None and manifest.capability(name) is None:
                    message = f"{person.name} is entitled to {name}, which is no capability of {dataset}"
                    yield FolderFault("principals.yaml", message)


def _reach(
    manifest: DatasetManifest,
    capability: CapabilityManifest,
    policies: PolicySet,
    directory: Directory,
    template: Template | None,
) -> Iterator[str]:
    """Whether anybody may make the call, and what keeps the others from it that are entitled to it."""
    entitled = [person for person in directory.by_name.values() if person.holds(manifest.dataset, capability.name)]
    if not entitled:
        yield "nobody is entitled to it: name it in principals.yaml, or take it away"
        return
    answers = {person.name: policies.evaluate(_request(manifest, capability, person)) for person in entitled}
    if all(answer.outcome is Outcome.NONE for answer in answers.values()):
        yield "no policy permits it to anybody who is entitled to it: write one in policies/"
    for person in entitled:
        answer = answers[person.name]
        if answer.outcome is Outcome.MISSING_ATTRIBUTE:
            yield f"{person.name} is entitled to it and lacks {', '.join(answer.attributes)}, which a policy reads"
        if answer.outcome is Outcome.PERMIT and capability.policy_id not in (None, answer.policy_id):
            yield (
                f"{person.name} is entitled to it and refused: {answer.policy_id} permits it, and its policy_id is "
                f"{capability.policy_id}, which does not; permit it there, or take policy_id out"
            )
        elif answer.outcome is Outcome.PERMIT and template is not None:
            for why in unmet(template, answer.obligations):
                yield f"{person.name} is entitled to it and refused by the obligations of {answer.policy_id}: {why}"
        if person.tenant != manifest.tenant:
            yield f"{person.name} is entitled to it and of the tenant {person.tenant}, not {manifest.tenant}"
        if not capability.sensitivity.within(person.clearance):
            yield f"{person.name} is entitled to it and cleared for {person.clearance.value} only"


def unmet(template: Template, obligations: Obligations) -> Iterator[str]:
    """Why no call could be governed by what a policy demands, as ``queries.govern`` refuses it."""
    for name in sorted({name.partition(".")[0] for name in obligations.rows} - template.tables_read):
        yield f"@rows names {name}, which its template does not read; permit it in a policy of its own"
    columns = {f"{table.name}.{column.name}": column for table in template.tables for column in table.columns}
    bound = {column.attribute for name, column in columns.items() if name in obligations.rows} - {None}
    for name, column in columns.items():
        read = name.partition(".")[0] in template.tables_read
        if read and column.attribute in bound and name not in obligations.rows:
            yield f"@rows leaves {name} open, a column of the attribute {column.attribute}; constrain it too"
    if obligations.columns is not None and (hidden := sorted(template.columns_read - obligations.columns)):
        yield f"@columns leaves out {', '.join(hidden)}, which its template reads"


def _request(manifest: DatasetManifest, capability: CapabilityManifest, person: Principal) -> PolicyRequest:
    return PolicyRequest(
        principal=person,
        dataset=manifest.dataset,
        capability=capability.name,
        effect=capability.effect,
        sensitivity=capability.sensitivity,
        tenant=manifest.tenant,
        policy_id=capability.policy_id,
    )
