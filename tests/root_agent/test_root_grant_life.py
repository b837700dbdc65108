"""A grant does not outlive the identity token that says for whom it is."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.verdict import NotGranted, Reason, Verdict
from control_plane.identity import SKEW_S, issue_identity
from control_plane.oidc import OidcVerifier
from root_agent.entry import RootAgent
from root_agent.identity import RequestContext
from tests.control_plane.oidc_world import token as provider_token
from tests.root_agent.root_world import ISSUER, QUESTION, ROOT_ID, RootWorld
from tests.root_agent.test_root_oidc import Provider, use

MOST = 300


@given(st.floats(0, 2**40), st.floats(-400, 400), st.integers(1, MOST))
def test_it_ends_with_the_token_or_before_or_is_none(now: float, left: float, most: int) -> None:
    person, first = RequestContext("i", "s", until=now + left), math.floor(now)
    if now + left < first + 1:
        with pytest.raises(NotGranted) as stop:
            person.grant_life(most, now)
        assert stop.value.reason is Reason.GRANT_EXPIRED
        return
    life = person.grant_life(most, now)
    assert 1 <= life <= most and first + life <= now + left
    assert life == most or first + life + 1 > now + left


def test_whom_no_token_names_is_granted_as_long_as_may_be() -> None:
    assert RequestContext("i", "s").grant_life(MOST, 1_800_000_000.5) == MOST


def identity(world: RootWorld, ttl: int) -> str:
    principal = world.service.world.directory.named("process_engineer")
    assert principal is not None
    return issue_identity(
        world.identity, issuer_url=ISSUER, subject=principal.subject, audience=ROOT_ID, now=world.clock(), ttl=ttl
    )


async def ends(world: RootWorld, token: str) -> float:
    """When the root token ends that a dataset agent is shown for an asking with this identity token."""
    root = RootAgent(world.service)
    try:
        assert (await root.ask(token, question=QUESTION)).verdict is Verdict.GRANTED
    finally:
        await root.close()
    return world.grant(world.remote.arrived[-1]).root_expires_at


@pytest.mark.parametrize(("ttl", "life"), [(20, 20 + SKEW_S), (3_600, MOST)])
async def test_a_development_token_bounds_the_grant(world: RootWorld, ttl: int, life: int) -> None:
    issued = math.floor(world.clock())
    assert await ends(world, identity(world, ttl)) == issued + life


@pytest.mark.parametrize(
    ("exp", "max_age_s", "life"), [(30, 7_200, 30 + SKEW_S), (3_600, 60, 60 + SKEW_S), (3_600, 7_200, MOST)]
)
async def test_a_providers_token_does_by_its_end_and_by_the_age_it_may_have(
    world: RootWorld, exp: int, max_age_s: int, life: int
) -> None:
    use(world, Provider(), max_age_s=max_age_s)
    assert isinstance(world.service.identity_provider, OidcVerifier)
    issued = math.floor(world.clock())
    token = provider_token(now=issued, iat=issued, exp=issued + exp)
    assert await ends(world, token) == issued + life


async def test_what_ended_while_it_was_asked_mints_nothing_and_is_recorded(world: RootWorld) -> None:
    root = RootAgent(world.service)
    try:
        person = await world.service.person(identity(world, 20))
        world.clock.now += 20 + SKEW_S
        answer = await root.ask_for(person, question=QUESTION)
    finally:
        await root.close()
    assert (answer.verdict, answer.decision.reason) == (Verdict.REFUSED, Reason.GRANT_EXPIRED)
    assert answer.asking.plan is None and world.remote.arrived == [] and world.ran == 0
    assert world.service.ledger.size == 1
