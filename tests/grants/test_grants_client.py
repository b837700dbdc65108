"""Which agent is calling."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from contract.errors import Category, DatasetAgentError
from grants.client import authenticate_client, client_assertion
from tests.grants.grants_world import (
    ISSUER,
    NOW,
    REMOTE,
    ROOT,
    SECOND,
    SIGNERS,
    STRANGER,
    TRUST,
    agent,
    claims_of,
    forge,
    make_chain,
    make_trust,
)


def assertion(**changes: Any) -> str:
    members: dict[str, Any] = {"agent_id": ROOT, "audience": REMOTE, "now": NOW}
    return client_assertion(SIGNERS[ROOT], **(members | changes))


def refused(token: str | None, *, now: float = NOW, audience: str = REMOTE, **changes: Any) -> str:
    with pytest.raises(DatasetAgentError) as stop:
        authenticate_client(token, trust=changes.get("trust", TRUST), audience=audience, now=now)
    assert stop.value.category is Category.UNAUTHENTICATED
    assert stop.value.http_status_code() == 401
    return stop.value.code.removeprefix("grants.client.")


def head(**changes: Any) -> dict[str, Any]:
    members = {"alg": "Ed25519", "typ": "client-authentication+jwt", "kid": SIGNERS[ROOT].public_key.thumbprint}
    return {name: value for name, value in (members | changes).items() if value is not None}


def body(**changes: Any) -> dict[str, Any]:
    members = {"iss": ROOT, "sub": ROOT, "aud": REMOTE, "iat": NOW, "exp": NOW + 60, "jti": "j"}
    return {name: value for name, value in (members | changes).items() if value is not None}


def test_an_agent_is_known_by_its_key_as_often_as_its_assertion_lives() -> None:
    token = assertion()
    for later in (-5, 0, 30, 64):
        assert authenticate_client(token, trust=TRUST, audience=REMOTE, now=NOW + later).agent == ROOT


@pytest.mark.parametrize("token", [None, ""])
def test_no_assertion_is_missing(token: str | None) -> None:
    assert refused(token) == "missing"


@pytest.mark.parametrize("token", ["x", "a.b.c", "a.b.c.d", assertion() + "=", "A" * 65_536, "ü.ü.ü"])
def test_what_is_no_token_is_malformed(token: str) -> None:
    assert refused(token) == "malformed"


@pytest.mark.parametrize(
    "header",
    [
        head(alg="none"),
        head(alg="EdDSA"),
        head(typ="JWT"),
        head(typ="execution-grant+jwt"),
        head(kid=None),
        head(jku="x"),
        head(kid=[1]),
    ],
)
def test_the_header_is_exact(header: dict[str, Any]) -> None:
    assert refused(forge(body(), SIGNERS[ROOT], header)) == "header"


def test_an_execution_grant_authenticates_nobody() -> None:
    assert refused(make_chain()[0]) == "header"


def test_an_unknown_key_is_nobody() -> None:
    assert refused(forge(body(), STRANGER, head(kid=STRANGER.public_key.thumbprint))) == "key"


def test_an_issuers_grant_key_is_no_agent() -> None:
    assert refused(forge(body(), SIGNERS[ISSUER], head(kid=SIGNERS[ISSUER].public_key.thumbprint))) == "key"


def test_another_agents_signature_does_not_verify() -> None:
    assert refused(forge(body(), SIGNERS[SECOND], head())) == "signature"


@pytest.mark.parametrize("changes", [{"iss": SECOND}, {"sub": SECOND}, {"iss": SECOND, "sub": SECOND}])
def test_an_agent_speaks_for_itself(changes: dict[str, str]) -> None:
    assert refused(forge(body(**changes), SIGNERS[ROOT], head())) == "subject"


def test_an_assertion_for_another_agent_is_refused_though_it_is_remembered() -> None:
    token = assertion()
    assert authenticate_client(token, trust=TRUST, audience=REMOTE, now=NOW).agent == ROOT
    assert refused(token, audience=SECOND) == "audience"


@pytest.mark.parametrize(
    "changes", [{"exp": None}, {"iat": None}, {"jti": None}, {"exp": "1"}, {"exp": 10**40}, {"aud": [REMOTE]}, {"x": 1}]
)
def test_claims_are_exact(changes: dict[str, Any]) -> None:
    assert refused(forge(body(**changes), SIGNERS[ROOT], head())) == "claims"


@pytest.mark.parametrize(
    ("changes", "now", "code"),
    [
        ({"exp": NOW + 61}, NOW, "lifetime"),
        ({"exp": NOW}, NOW, "lifetime"),
        ({}, NOW - 6, "not_yet_valid"),
        ({}, NOW + 65, "expired"),
    ],
)
def test_an_assertion_lives_a_minute(changes: dict[str, Any], now: float, code: str) -> None:
    assert refused(forge(body(**changes), SIGNERS[ROOT], head()), now=now) == code


def test_an_agent_that_left_the_trust_file_is_nobody_though_it_is_remembered() -> None:
    token = assertion()
    assert authenticate_client(token, trust=TRUST, audience=REMOTE, now=NOW).agent == ROOT
    assert refused(token, trust=make_trust(agents={REMOTE: agent(REMOTE)})) == "key"


def test_an_agent_that_is_only_asked_is_no_client_though_it_was_one_a_moment_ago() -> None:
    token = assertion()
    assert authenticate_client(token, trust=TRUST, audience=REMOTE, now=NOW).agent == ROOT
    only_asked = make_trust(agents={**TRUST.agents, ROOT: replace(agent(ROOT), asks=False)})
    assert refused(token, trust=only_asked) == "asks"


def test_no_assertion_lives_longer_than_a_minute() -> None:
    with pytest.raises(DatasetAgentError, match="60 seconds"):
        assertion(ttl=61)


def test_an_assertion_says_who_and_to_whom() -> None:
    claims = claims_of(assertion())
    assert (claims["iss"], claims["sub"], claims["aud"], claims["exp"] - claims["iat"]) == (ROOT, ROOT, REMOTE, 60)


def test_an_assertion_may_name_the_person_whose_tasks_the_agent_looks_at() -> None:
    person = ("https://issuer.dataset-agent.example", "acme", "u-eng-01")
    token = assertion(person=person)
    client = authenticate_client(token, trust=TRUST, audience=REMOTE, now=NOW)
    assert (client.agent, client.person) == (ROOT, person)


def test_an_assertion_is_as_small_as_any_token() -> None:
    def padded(spaces: int) -> str:
        return forge(json.dumps(body()).encode() + b" " * spaces, SIGNERS[ROOT], head())

    assert authenticate_client(padded(5_000), trust=TRUST, audience=REMOTE, now=NOW).agent == ROOT
    assert refused(padded(6_000)) == "malformed"
