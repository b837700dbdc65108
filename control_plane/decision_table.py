"""Every way admission can end, as a table for people: ``docs/decision-table.md`` is written from here.

``python -m control_plane.decision_table --write docs/decision-table.md`` renews the page; tests hold
each line to what the rules do and read.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from contract.verdict import VERDICTS, Reason, Verdict
from control_plane.admission_rules import (
    CAPABILITY,
    CLEARANCE,
    EFFECT,
    ENTITLEMENT,
    FRESHNESS,
    POLICY_VERSION,
    PRINCIPAL,
    PROHIBITED,
    REGISTERED,
    RETENTION,
    REVIEW,
    REVISION,
    RULES,
    SCHEMA,
    VALID,
    Rule,
)

#: What each rule looks at. ``answer`` is what the policies said; ``case.capability`` is the descriptor's own.
READS: Final[dict[str, tuple[str, ...]]] = {
    PRINCIPAL.name: ("principal",),
    REGISTERED.name: ("descriptor", "descriptor.dataset", "dataset"),
    VALID.name: ("descriptor",),
    PROHIBITED.name: ("descriptor.prohibited", "capability"),
    CAPABILITY.name: ("descriptor.capabilities", "capability"),
    REVISION.name: ("stated_revision", "descriptor.revision", "stated_dataset_version", "descriptor.version"),
    POLICY_VERSION.name: ("stated_policy_version", "accepted_policy_versions"),
    SCHEMA.name: ("schema_version", "descriptor.schema_version"),
    ENTITLEMENT.name: ("answer", "principal.tenant", "descriptor.tenant", "capability.policy_id"),
    CLEARANCE.name: ("capability.sensitivity", "principal.clearance"),
    EFFECT.name: ("capability.effect", "principal.attributes"),
    FRESHNESS.name: ("max_age_s", "capability.freshness_requirement_s", "descriptor.as_of", "now"),
    RETENTION.name: ("capability.retention_requirement", "descriptor.retention"),
    REVIEW.name: ("capability.requires_review", "review"),
}


@dataclass(frozen=True, slots=True)
class Line:
    """One way to end: at ``rule``, where ``when`` holds. ``decider`` stands for a policy's own ``@id``."""

    rule: Rule
    when: str
    reason: Reason
    change: str
    decider: str | None = None

    @property
    def policy_id(self) -> str | None:
        """As a decision names it: none on INDETERMINATE, a rule's own where no policy is the decider."""
        if VERDICTS[self.reason] is Verdict.INDETERMINATE:
            return None
        return self.decider or self.rule.policy_id


FORBID: Final = "the forbid's `@id`"
PERMIT: Final = "the permit's `@id`"

LINES: Final = (
    Line(PRINCIPAL, "the directory knows nobody of this identity", Reason.UNKNOWN_PRINCIPAL,
         "an entry in `principals.yaml`"),
    Line(REGISTERED, "no dataset of this name is registered", Reason.MISSING_DESCRIPTOR,
         "a dataset of this name, or its right name in the call"),
    Line(VALID, "the dataset is there and its descriptor cannot be used", Reason.DESCRIPTOR_INVALID,
         "what `datasets validate` names, put right"),
    Line(PROHIBITED, "the descriptor prohibits it for everyone", Reason.PROHIBITED_OPERATION,
         "`prohibited` in the descriptor; no policy and no person can"),
    Line(CAPABILITY, "the dataset has no such capability", Reason.UNREGISTERED_CAPABILITY,
         "a capability of this name, or its right name in the call"),
    Line(REVISION, "the sender relies on another revision or version than the current one",
         Reason.UNKNOWN_DATASET_REVISION, "the card, fetched again"),
    Line(POLICY_VERSION, "the sender relies on a policy version that `trust.toml` does not list",
         Reason.UNKNOWN_POLICY_VERSION, "`policy_versions` in `trust.toml`, or the sender's policies"),
    Line(SCHEMA, "the sender expects another schema version", Reason.SCHEMA_VERSION_MISMATCH,
         "the schema of the card, read again"),
    Line(ENTITLEMENT, "the evaluator gave no answer within its budget", Reason.EVALUATOR_TIMEOUT,
         "a faster evaluator, or a larger `DATASET_AGENT_POLICY_BUDGET`"),
    Line(ENTITLEMENT, "the evaluator was not reached, or its answer is undefined or no decision",
         Reason.EVALUATOR_UNAVAILABLE, "the policy server, started or put right"),
    Line(ENTITLEMENT, "a condition or an obligation reads an attribute that the principal lacks",
         Reason.MISSING_PRINCIPAL_ATTRIBUTE, "the attribute in `principals.yaml`"),
    Line(ENTITLEMENT, "a `forbid` matches", Reason.INSUFFICIENT_PRIVILEGE,
         "what the forbid's conditions read", FORBID),
    Line(ENTITLEMENT, "the principal is of another tenant than the dataset", Reason.INSUFFICIENT_PRIVILEGE,
         "the tenant; no policy can"),
    Line(ENTITLEMENT, "no policy matches", Reason.INSUFFICIENT_PRIVILEGE,
         "what a permit's scope and conditions read: often the entitlement"),
    Line(ENTITLEMENT, "a policy failed while it was evaluated, or permits cannot be met together",
         Reason.EVALUATOR_UNAVAILABLE, "the policy, or the type of an attribute"),
    Line(ENTITLEMENT, "policies permit it, and the capability's governing one is not among them",
         Reason.INSUFFICIENT_PRIVILEGE, "the governing policy, or the capability's `policy_id`"),
    Line(CLEARANCE, "the capability is more sensitive than the principal's clearance",
         Reason.CLASSIFICATION_EXCEEDS_CLEARANCE, "the clearance; no entitlement can"),
    Line(EFFECT, "it writes or reaches outside, and `effects` of the principal does not list that",
         Reason.EFFECT_NOT_PERMITTED, "the attribute `effects`"),
    Line(FRESHNESS, "the data are older than the request or the capability allows",
         Reason.FRESHNESS_UNSATISFIABLE, "newer data, or a larger age that is accepted"),
    Line(RETENTION, "the descriptor cannot show the retention that the capability requires",
         Reason.INSUFFICIENT_RETENTION, "`retention` in the descriptor"),
    Line(REVIEW, "a person must approve the capability first", Reason.REVIEW_REQUIRED,
         "an approval of this very call ([review.md](review.md)), or `requires_review` in the descriptor"),
    Line(REVIEW, "every rule holds and policies permit it", Reason.PRINCIPAL_AUTHORIZED,
         "any of the facts above", PERMIT),
)  # fmt: skip
"""In the order in which they are looked at: the first that holds is the decision."""

_HEAD: Final = """\
# Decision table

<!-- Written by `python -m control_plane.decision_table --write docs/decision-table.md` from
control_plane/decision_table.py: edit that, not this. -->

Every way in which admission can end, in the order in which it is looked at: the first line that holds is the decision. Both
sides decide by it, the root agent before a grant is minted and the dataset agent again. `dataset-agent policy explain` walks it
for one call, `dataset-agent policy test` for a table of them ([command.md](command.md#policy-explain-capability)); the reasons
are in [reasons.md](reasons.md#admission).

A decision names the policy that made it: the rule's own id (`AD-POL-…`), or the `@id` of the Cedar policy. An INDETERMINATE
one names none, because none decided. Where several forbids match, the first by name is told; where several permits do, the
capability's `policy_id`, else the first by name.

| rule | when | verdict | reason | policy | what would change it |
| --- | --- | --- | --- | --- | --- |
"""
_READS_HEAD: Final = """
## What a rule reads

Nothing else: no argument of the call, no row, no name of a person, no clock but the time that the request brings.

| rule | it is checked that | reads |
| --- | --- | --- |
"""
_FOOT: Final = """
`principal` is this side's own entry of the person, `descriptor` its own description of the dataset and `capability` that
description's capability; `stated_…`, `schema_version` and `max_age_s` are what the asking side says. `review` is whether the dataset
agent holds an approval of this very call, used or about to be; the root agent leaves that to the dataset agent. `answer` is what the
policies said of the principal (without its label), the dataset, its tenant, the capability, its effect and sensitivity, its
governing policy, and whether the directory lists it for the principal ([opa.md](opa.md)).
"""


def number_of(rule: Rule) -> int:
    """The place of a rule in the fixed order, from 1."""
    return RULES.index(rule) + 1


def page() -> str:
    """The whole page, in Markdown."""
    lines = "".join(f"| {' | '.join(cells)} |\n" for cells in _cells())
    reads = "".join(
        f"| {number_of(rule)} | {rule.name} | {', '.join(f'`{name}`' for name in READS[rule.name])} |\n"
        for rule in RULES
    )
    return f"{_HEAD}{lines}{_READS_HEAD}{reads}{_FOOT}"


def _cells() -> Iterator[tuple[str, ...]]:
    for line in LINES:
        granted = line.reason is Reason.PRINCIPAL_AUTHORIZED
        number = "–" if granted else str(number_of(line.rule))
        verdict = VERDICTS[line.reason].value
        yield number, line.when, verdict, f"`{line.reason.value}`", line.policy_id or "–", line.change


def main(arguments: Sequence[str]) -> int:
    """Write the page to the file that ``--write`` names, else to standard output."""
    if arguments and (arguments[0] != "--write" or len(arguments) != 2):
        sys.stderr.write("use: python -m control_plane.decision_table [--write FILE]\n")
        return 2
    if arguments:
        Path(arguments[1]).write_text(page(), encoding="utf-8")
    else:
        sys.stdout.write(page())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
