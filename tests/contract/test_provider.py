"""An identity provider's settings: read strictly, and said wrong in one line that names the variable."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from contract import provider
from contract.settings import Settings

ISSUER = "https://idp.example/realms/acme"
SET = {"oidc_issuer": ISSUER, "oidc_audience": "root"}


def problems(**given: Any) -> dict[str, str]:
    with pytest.raises(ValidationError) as fault:
        Settings(**given)
    return {str(problem["loc"][0]): problem["msg"] for problem in fault.value.errors()}


def test_without_an_issuer_there_is_no_provider() -> None:
    assert Settings().identity_provider is None


def test_an_issuer_and_an_audience_are_enough() -> None:
    found = Settings(**SET).identity_provider
    assert found == provider.IdentityProvider(ISSUER, "root")
    assert found is not None and found.algorithms == {"RS256", "ES256"} and found.types == {"jwt"}


def test_every_setting_reaches_the_provider() -> None:
    found = Settings(
        **SET,
        oidc_jwks_url="https://keys.example/k?p=1",
        oidc_ca_file="/ca.pem",
        oidc_algorithms="EdDSA  PS256",
        oidc_types="at+JWT absent",
        oidc_leeway=0,
        oidc_max_age=60,
        oidc_subject_claim="oid",
        oidc_required='{"azp": "portal", "tid": ["a", "b"], "email_verified": true, "level": [1, 2]}',
        oidc_attributes='{"site": "https://acme.example/site", "roles": "/realm_access/roles"}',
    ).identity_provider
    assert found is not None
    assert (found.jwks_url, str(found.authorities)) == ("https://keys.example/k?p=1", "/ca.pem")
    assert (found.algorithms, found.types) == ({"EdDSA", "PS256"}, {"at+jwt", "absent"})
    assert (found.leeway_s, found.max_age_s, found.subject_claim) == (0, 60, "oid")
    assert found.required == {"azp": ("portal",), "tid": ("a", "b"), "email_verified": (True,), "level": (1, 2)}
    assert found.attributes == {"site": "https://acme.example/site", "roles": "/realm_access/roles"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("oidc_issuer", url) for url in ("", "idp", "http://idp.example", ISSUER + "?a=b", ISSUER + "#a", " " + ISSUER)],
        *[("oidc_issuer", url) for url in ("https://u:p@idp.example", "https://idp.example:x", "https://" + "a" * 600)],
        *[("oidc_audience", text) for text in ("", "a b", "a\nb", "a" * 513)],
        *[("oidc_jwks_url", url) for url in ("", "keys", "http://idp.example/keys", "https://idp.example/#")],
        *[("oidc_algorithms", text) for text in ("", "none", "RS256 none", "HS256", "RS256 HS256", "rs256", "RS512")],
        *[("oidc_algorithms", text) for text in ("RS256,ES256", "RS256 RS256", "ES256K", "*")],
        *[("oidc_types", text) for text in ("", "logout+jwt", "execution-grant+jwt", "JWT jwt", "application/jwt")],
        *[("oidc_leeway", seconds) for seconds in (-1, 61, "x")],
        *[("oidc_max_age", seconds) for seconds in (59, 86_401)],
        *[("oidc_subject_claim", text) for text in ("", "email", "preferred_username", "upn", "name", "aud", "/email")],
        *[("oidc_required", text) for text in ("", "azp=portal", "[]", "{}", '{"a": {}}', '{"a": []}', '{"a": null}')],
        *[("oidc_required", text) for text in ('{"a": 1.5}', '{"a": "x", "a": "y"}', '{"iss": "x"}', '{"": "x"}')],
        *[("oidc_required", text) for text in ('{"a": ["x", null]}', '{"aud": ["a", "b"]}', '{"exp": 1}', '{"a": NaN}')],
        *[("oidc_attributes", text) for text in ("", "[]", "{}", '{"Site": "x"}', '{"site": 7}', '{"site": ""}')],
        *[("oidc_attributes", f'{{"{name}": "x"}}') for name in sorted(provider.RESERVED_ATTRIBUTES)],
        ("oidc_attributes", '{"a": "x", "a": "y"}'),
        *[("oidc_attributes", text) for text in ('["x"]', "7", '{"site": "/"}', '{"site": "a\\nb"}', '{"site": "%s"}' % ("a" * 129))],
        ("oidc_attributes", "{" + ",".join(f'"a{n}": "x"' for n in range(17)) + "}"),
    ],
)  # fmt: skip
def test_a_value_that_could_let_somebody_in_is_refused_by_the_name_of_its_setting(name: str, value: Any) -> None:
    assert list(problems(**(SET | {name: value}))) == [name]


@pytest.mark.parametrize("url", ["http://127.0.0.1:9000", "http://[::1]:9000/realm", "http://localhost/x"])
def test_a_provider_on_loopback_may_speak_http(url: str) -> None:
    assert Settings(oidc_issuer=url, oidc_audience="root").identity_provider


def test_an_issuer_needs_its_audience() -> None:
    assert problems(oidc_issuer=ISSUER) == {"oidc_audience": "it is needed with DATASET_AGENT_OIDC_ISSUER"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("oidc_audience", "root"),
        ("oidc_jwks_url", "https://idp.example/keys"),
        ("oidc_ca_file", "/ca.pem"),
        ("oidc_required", '{"azp": "portal"}'),
        ("oidc_attributes", '{"site": "site"}'),
    ],
)
def test_a_setting_that_would_say_nothing_is_refused(name: str, value: str) -> None:
    assert problems(**{name: value}) == {name: "it says nothing without DATASET_AGENT_OIDC_ISSUER"}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, ()),
        ({"host": "0.0.0.0"}, ()),
        ({"state_url": "rediss://state.example"}, ()),
        ({"url": "https://agent.example"}, ()),
        ({"public_url": "http://remote-agent:8801", "private_network": True}, ()),
        ({"public_url": "https://localhost:8801"}, ()),
        ({"root_url": "https://127.0.0.1:8800"}, ()),
        (SET, ("DATASET_AGENT_OIDC_ISSUER",)),
        ({"public_url": "https://agent.example"}, ("DATASET_AGENT_PUBLIC_URL",)),
        ({"root_url": "https://root.example"}, ("DATASET_AGENT_ROOT_URL",)),
        (SET | {"root_url": "https://r.example"}, ("DATASET_AGENT_OIDC_ISSUER", "DATASET_AGENT_ROOT_URL")),
    ],
)
def test_a_provider_or_a_public_https_address_is_production(given: dict[str, Any], says: tuple[str, ...]) -> None:
    assert Settings(**given).production == says


@pytest.mark.parametrize(
    ("given", "on"),
    [
        ({}, True),
        ({"dev_issuer": True}, True),
        ({"dev_issuer": False}, False),
        (SET, False),
        ({"root_url": "https://root.example"}, False),
    ],
)
def test_the_development_issuer_is_on_unless_it_is_told_or_this_is_production(given: dict[str, Any], on: bool) -> None:
    assert Settings(**given).development_issuer is on
