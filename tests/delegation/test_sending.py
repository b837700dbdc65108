"""What leaves for another agent is the call of its scope, for an agent of its scope; else nothing leaves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from contract.call import Call, encode_call
from contract.verdict import NotGranted, Reason
from delegation.sending import Plan, Sent, send_with_leaf
from grants.trust import TrustedAgent
from tests.grants.grants_world import NOW, REMOTE, ROOT, SIGNERS, THIRD, agent, make_root, make_scope

SCOPE = make_scope(locations=frozenset({REMOTE}))
CALL = Call.parse(encode_call(SCOPE.dataset, "compare_recovery", {}))
PLAN = Plan(CALL, REMOTE, SCOPE, (make_root(SCOPE),))


def sent(plan: Plan, audience: TrustedAgent | None) -> Sent:
    return send_with_leaf(
        plan, SIGNERS[ROOT], client=ROOT, audience=audience, now=NOW, ttl=60, headers=lambda to, grant: {to: grant}
    )


def refused(plan: Plan, audience: TrustedAgent | None, said: str) -> Reason:
    with pytest.raises(NotGranted, match=said) as stop:
        sent(plan, audience)
    return stop.value.reason


def test_the_call_of_a_grant_is_sent_to_its_agent() -> None:
    assert list(sent(PLAN, agent(REMOTE)).headers) == [REMOTE]


@pytest.mark.parametrize(
    "call", [replace(CALL, dataset="another-dataset"), replace(CALL, capability="another_capability")]
)
def test_another_call_than_that_of_the_scope_is_not_sent(call: Call) -> None:
    assert refused(replace(PLAN, call=call), agent(REMOTE), "not a call of its grant") is Reason.GRANT_WIDENED


def test_nothing_is_sent_to_an_agent_that_is_not_known_or_not_meant() -> None:
    said = "the plan names an agent the grant does not"
    assert refused(PLAN, None, said) is Reason.GRANT_AUDIENCE_MISMATCH
    assert refused(PLAN, agent(THIRD), said) is Reason.GRANT_AUDIENCE_MISMATCH
    assert refused(replace(PLAN, agent_id=THIRD), agent(THIRD), said) is Reason.GRANT_AUDIENCE_MISMATCH
