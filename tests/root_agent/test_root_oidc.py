"""People by an identity provider: who they are in the directory, and what their claims may add."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import httpx
import pytest

from contract.errors import Category, DatasetAgentError
from contract.principal import Principal
from contract.provider import IdentityProvider
from contract.published import Unreadable
from contract.verdict import Reason, Verdict
from control_plane.evaluator import Evaluator
from control_plane.oidc import OidcVerifier
from control_plane.policy import Outcome, PolicyAnswer, PolicyRequest
from control_plane.principals import Directory
from root_agent.app import build_app
from root_agent.asking import Answer
from root_agent.entry import ask
from tests.control_plane.oidc_world import AUDIENCE, ISSUER, NOW, SUBJECT, jwks, token
from tests.root_agent.root_world import ISSUER as GRANT_ISSUER
from tests.root_agent.root_world import QUESTION, RootWorld, shipped_world


class Provider:
    """A key set that is there or not."""

    def __init__(self) -> None:
        self.up = True

    async def fetch(self, url: str) -> bytes:
        if not self.up:
            raise Unreadable("down")
        return jwks("rsa", "ec")


class BySite:
    """Policies that permit the north, refuse the rest and cannot do without knowing."""

    async def evaluate(self, request: PolicyRequest) -> PolicyAnswer:
        site = request.principal.attributes.get("site")
        if site is None:
            return PolicyAnswer(Outcome.MISSING_ATTRIBUTE, None, "2026.1", attributes=("site",))
        permitted = site == "north"
        return PolicyAnswer(
            Outcome.PERMIT if permitted else Outcome.NONE, "BPD-DATA-014" if permitted else None, "2026.1"
        )

    def version(self) -> str:
        return "2026.1"


@pytest.fixture
def provider() -> Provider:
    return Provider()


@pytest.fixture
async def root(world: RootWorld, provider: Provider) -> RootWorld:
    """The world with a provider in front, where the process engineer signs in."""
    use(world, provider)
    return world


def use(world: RootWorld, provider: Provider, **settings: Any) -> None:
    set_ = IdentityProvider(ISSUER, AUDIENCE, jwks_url="https://idp.example/keys", **settings)
    world.service.identity_provider = OidcVerifier(set_, provider.fetch)
    world.service.world = shipped_world(directory=directory())


def directory(**attributes: Any) -> Directory:
    """The shipped people; the process engineer signs in, and has ``attributes``."""
    shipped = shipped_world().directory.by_name.values()
    people = tuple(_with(person, attributes) if person.name == "process_engineer" else person for person in shipped)
    engineer = next(person for person in people if person.name == "process_engineer")
    return Directory.of(GRANT_ISSUER, people, {(ISSUER, SUBJECT): engineer})


def _with(person: Principal, attributes: dict[str, Any]) -> Principal:
    return replace(person, attributes=MappingProxyType(attributes))


@pytest.fixture
async def client(root: RootWorld) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=build_app(root.service, max_body_bytes=10_000), raise_app_exceptions=True)
    async with httpx.AsyncClient(transport=transport, base_url="http://root") as opened:
        yield opened


async def post(client: httpx.AsyncClient, sent: str) -> httpx.Response:
    return await client.post("/ask", json={"question": QUESTION}, headers={"Authorization": f"Bearer {sent}"})


@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
async def test_a_person_of_the_directory_is_answered(client: httpx.AsyncClient, algorithm: str) -> None:
    answer = await post(client, token(algorithm=algorithm))
    assert (answer.status_code, answer.json()["verdict"]) == (200, "GRANTED")


async def test_the_grant_names_the_directorys_person_and_not_the_providers(root: RootWorld) -> None:
    await ask(root.service, token(), question=QUESTION)
    grant = root.grant(root.remote.arrived[0])
    assert (grant.issuer, grant.subject) == (GRANT_ISSUER, "u-eng-01")


async def test_both_ways_of_signing_in_are_one_person_in_evidence(root: RootWorld) -> None:
    answer = await ask(root.service, token(), question=QUESTION)
    assert (answer.asking.person.issuer, answer.asking.person.subject) == (GRANT_ISSUER, "u-eng-01")
    assert [row.cells["issuer"] for row in root.service.ledger.rows()] == [GRANT_ISSUER]


async def test_a_verified_person_nobody_knows_is_recorded_under_the_tokens_names(root: RootWorld) -> None:
    answer = await ask(root.service, token(sub="somebody-else"), question=QUESTION)
    assert answer.decision.reason is Reason.UNKNOWN_PRINCIPAL
    assert [row.cells["issuer"] for row in root.service.ledger.rows()] == [ISSUER]
    assert root.remote.arrived == []


@pytest.mark.parametrize("subject", ["u-eng-01", "process_engineer", "admin"])
async def test_a_providers_subject_is_nobodys_subject_here(root: RootWorld, subject: str) -> None:
    answer = await ask(root.service, token(sub=subject, name="process_engineer"), question=QUESTION)
    assert answer.decision.reason is Reason.UNKNOWN_PRINCIPAL


async def test_a_principal_of_another_issuer_is_not_minted_for(root: RootWorld) -> None:
    shipped = tuple(shipped_world().directory.by_name.values())
    foreign = replace(shipped[0], issuer=ISSUER, subject=SUBJECT)
    root.service.world = shipped_world(directory=Directory.of(GRANT_ISSUER, (foreign, *shipped[1:])))
    answer = await ask(root.service, token(), question=QUESTION)
    assert answer.decision.reason is Reason.UNKNOWN_PRINCIPAL
    assert root.remote.arrived == []


async def test_a_development_token_is_no_identity_beside_a_provider(client: httpx.AsyncClient, root: RootWorld) -> None:
    refused = await post(client, root.token("process_engineer"))
    assert (refused.status_code, refused.json()["code"]) == (401, "control_plane.oidc.algorithm")


async def test_no_development_person_is_there_beside_a_provider(root: RootWorld) -> None:
    root.service.development_principal = "process_engineer"
    assert root.service.development_person() is None


# claims


async def with_site(
    world: RootWorld, provider: Provider, evaluator: Evaluator | None, sent: str, **held: Any
) -> Answer:
    use(world, provider, attributes={"site": "site"})
    world.service.world = shipped_world(evaluator, directory(**held))
    return await ask(world.service, sent, question=QUESTION)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"site": "north"}, Reason.PRINCIPAL_AUTHORIZED),
        ({"site": "south"}, Reason.INSUFFICIENT_PRIVILEGE),
        ({"site": None}, Reason.MISSING_PRINCIPAL_ATTRIBUTE),
        ({}, Reason.MISSING_PRINCIPAL_ATTRIBUTE),
    ],
)
async def test_a_policy_of_the_root_reads_a_mapped_claim(
    world: RootWorld, provider: Provider, said: dict[str, Any], reason: Reason
) -> None:
    answer = await with_site(world, provider, BySite(), token(**said))
    assert answer.decision.reason is reason


async def test_a_claim_that_contradicts_the_directory_stops_the_call_and_is_recorded(
    world: RootWorld, provider: Provider
) -> None:
    answer = await with_site(world, provider, BySite(), token(site="north"), site="south")
    assert (answer.verdict, answer.decision.reason) == (Verdict.INDETERMINATE, Reason.PRINCIPAL_ATTRIBUTE_CONFLICT)
    assert [row.cells["reason"] for row in world.service.ledger.rows()] == ["PRINCIPAL_ATTRIBUTE_CONFLICT"]
    assert world.remote.arrived == []


async def test_a_claim_that_agrees_with_the_directory_is_answered(world: RootWorld, provider: Provider) -> None:
    assert (await with_site(world, provider, BySite(), token(site="north"), site="north")).verdict is Verdict.GRANTED


async def test_claims_that_sound_like_authority_are_none(world: RootWorld, provider: Provider) -> None:
    said = {"tenant": "other", "clearance": "restricted", "entitlements": {"clinical-private": ["search"]}}
    answer = await with_site(world, provider, None, token(**said, effects=["write"], principal_class="admin"))
    assert answer.verdict is Verdict.GRANTED
    principal = answer.asking.principal
    assert principal == world.service.world.directory.named("process_engineer")


# the provider is away


async def test_a_provider_that_is_down_is_503_and_nothing_is_recorded(
    client: httpx.AsyncClient, root: RootWorld, provider: Provider
) -> None:
    provider.up = False
    unavailable = await post(client, token())
    assert unavailable.status_code == 503
    assert unavailable.headers["retry-after"] == "30"
    assert unavailable.headers["content-type"] == "application/problem+json"
    assert unavailable.json()["code"] == "control_plane.oidc.unavailable"
    assert "www-authenticate" not in unavailable.headers
    assert root.service.ledger.size == 0 and root.remote.arrived == []


async def test_without_keys_it_is_not_ready_until_they_are_read(
    client: httpx.AsyncClient, root: RootWorld, provider: Provider
) -> None:
    provider.up = False
    assert (await client.get("/readyz")).status_code == 503
    provider.up = True
    root.clock.now = NOW + 30
    await client.get("/readyz")
    await asyncio.sleep(0)
    assert (await client.get("/readyz")).status_code == 200


async def test_a_person_in_process_is_verified_too(root: RootWorld) -> None:
    with pytest.raises(DatasetAgentError) as fault:
        await ask(root.service, token(aud="other"), question=QUESTION)
    assert fault.value.category is Category.UNAUTHENTICATED
