"""Faults in what decides: the rules, the policies' answer, what is remembered of both, each as a text that is replaced."""

from __future__ import annotations

from typing import Final

from mutants.text import Text

_POLICY: Final = "control_plane/policy.py"
_RULES: Final = "control_plane/admission_rules.py"
_ADMISSION: Final = "control_plane/admission.py"
_MEMO: Final = "control_plane/admission_memo.py"
_EVALUATOR: Final = "control_plane/evaluator.py"

_ANSWERED: Final = (
    Text(_POLICY, "a forbid that failed and was skipped", "        if errors:\n", "        if errors and not reasons:\n"),
    Text(_POLICY, "errors beside an Allow", "        if errors:\n", "        if errors and result.decision is cedarpy.Decision.Deny:\n"),
    Text(_POLICY, "policies of one dataset", "self._slices.get(request.dataset, self._general)", "self._general"),
    Text(_POLICY, "obligations of the other permits", "reduce(Obligations.meet, bound)", "bound[0]"),
    Text(_POLICY, "an error beside a missing attribute", "if len(lacking) == len(errors):", "if lacking:"),
    Text(_POLICY, "the capability's own policy", "request.policy_id if request.policy_id in reasons else reasons[0]", "reasons[0]"),
)  # fmt: skip

_NAMED: Final = (
    ("PRINCIPAL", "_principal"),
    ("REGISTERED", "_registered"),
    ("VALID", "_valid"),
    ("PROHIBITED", "_prohibited"),
    ("CAPABILITY", "_capability"),
    ("REVISION", "_revision"),
    ("POLICY_VERSION", "_policy_version"),
    ("SCHEMA", "_schema"),
    ("CLEARANCE", "_clearance"),
    ("EFFECT", "_effect"),
    ("FRESHNESS", "_freshness"),
    ("RETENTION", "_retention"),
    ("REVIEW", "_review"),
)
_JUDGED: Final = (
    *(Text(_RULES, f"the rule {rule}", f"    ({rule}, {judge}),\n", "") for rule, judge in _NAMED),
    Text(_RULES, "a descriptor of another dataset", " or request.descriptor.dataset != request.dataset", ""),
    Text(_RULES, "another policy than the capability's", "if case.capability.policy_id not in (None, answer.policy_id):", "if False:"),
    Text(_RULES, "a dataset of another tenant", "if case.principal.tenant != case.descriptor.tenant:", "if False:"),
    Text(_RULES, "a forbid", "if answer.outcome is Outcome.FORBID:", "if False:"),
    Text(_RULES, "an answer that permits nothing", "if answer.outcome is not Outcome.PERMIT:", "if False:"),
    Text(_RULES, "an attribute that is missing", "if answer.outcome is Outcome.MISSING_ATTRIBUTE:", "if False:"),
    Text(_RULES, "a policy's name on what is unknown", "if VERDICTS[reason] is Verdict.INDETERMINATE:", "if False:"),
    Text(_RULES, "one of two ages", "return all(age <= limit", "return any(age <= limit"),
    Text(_RULES, "an effect that is not held", "isinstance(held, tuple) and effect.value in held", "isinstance(held, tuple)"),
    Text(_RULES, "a retention that nothing is said of", ".get(kind, -1) < needed", ".get(kind, needed) < needed"),
    Text(_RULES, "a review elsewhere that is none", " and case.request.review is Review.OUTSTANDING", " and False"),
    Text(_ADMISSION, "an evaluator with a fault of its own", "    except Exception:\n", "    except ArithmeticError:\n"),
    Text(_ADMISSION, "what a permit is bound to", "        obligations=answer.obligations,\n", ""),
    Text(_ADMISSION, "what is granted without a policy's name", "        policy_id=answer.policy_id,\n", "        policy_id=None,\n"),
)  # fmt: skip

_KEY: Final = (
    ("another person", "id(request.principal)"),
    ("another state of the dataset", "id(request.descriptor)"),
    ("another capability", "request.capability"),
    ("another dataset version", "request.stated_dataset_version"),
    ("another revision", "request.stated_revision"),
    ("another policy version that is stated", "request.stated_policy_version"),
    ("other versions that are accepted", "request.accepted_policy_versions"),
    ("another schema", "request.schema_version"),
    ("another review", "request.review"),
)
_REMEMBERED: Final = (
    *(Text(_MEMO, f"a grant of {name}", f"        {member},\n", "") for name, member in _KEY),
    Text(_MEMO, "data that became too old", " or not is_fresh(case_of(request))", ""),
    Text(_MEMO, "another decision's id", "replace(held[1], decision_id=request.decision_id)", "held[1]"),
    Text(_MEMO, "grants without end", "if len(self._held) >= MAX_REMEMBERED:", "if False:"),
    Text(
        _EVALUATOR,
        "a question of another dataset",
        "            request.dataset,\n            request.capability,",
        "            request.capability,",
    ),
    Text(
        _EVALUATOR,
        "a question of another capability",
        "            request.dataset,\n            request.capability,",
        "            request.dataset,",
    ),
    Text(_EVALUATOR, "a policy server that sends on", "follow_redirects=False", "follow_redirects=True"),
    Text(_EVALUATOR, "a policy server behind the environment's proxy", "trust_env=False", "trust_env=True"),
    Text(_EVALUATOR, "a connection that is kept for the next question", '{"Connection": "close"}', "{}"),
    Text(_EVALUATOR, "answers without end", "if len(self._answers) >= MAX_REMEMBERED:", "if False:"),
)
ADMISSION: Final = (*_ANSWERED, *_JUDGED, *_REMEMBERED)
