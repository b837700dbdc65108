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


@pytest.mark.parametrize("name", ["public_url", "root_url", "url", "oidc_issuer"])
@pytest.mark.parametrize(
    "url",
    [
        "",
        "data.example",
        "//data.example",
        " https://data.example",
        "https://dåta.example",
        "https://data.example/?t=1",
        "https://data.example/#x",
        "https://u@data.example",
        "https://evil.example[::1]/",
        "https://data.example:bad",
        "ftp://data.example",
    ],
)
def test_an_address_that_is_none_is_refused_where_it_is_read(name: str, url: str) -> None:
    given = {"oidc_audience": "root"} if name == "oidc_issuer" else {}
    assert list(problems(**given, **{name: url})) == [name]


def test_whatever_is_not_certainly_for_development_is_production_also_where_nobody_checked_it() -> None:
    for url in ("https://dåta.example", "https://data.example/?t=1", "nonsense"):
        unchecked = Settings().model_copy(update={"public_url": url})
        assert unchecked.production == ("DATASET_AGENT_PUBLIC_URL",)
        assert not unchecked.development_issuer


@pytest.mark.parametrize(
    "url",
    [
        "redis://h?foo=1",
        "redis://h?decode_responses=False",
        "redis://h?socket_timeout=99",
        "redis://h?retry_on_error=1",
        "redis://h?db=x",
        "redis://h?ssl_ca_certs=/ca.pem",
        "redis://h?x",
        "redis://h?&",
        "redis://h#x",
    ],
)
def test_an_address_of_a_store_says_where_it_is_and_not_how_it_is_talked_to(url: str) -> None:
    assert list(problems(state_url=url, cache_url=url)) == ["state_url", "cache_url"]


def test_an_address_of_a_store_may_name_its_account_and_its_certificates() -> None:
    for url in ("redis://u:p@h:6379/3", "rediss://h?db=3&ssl_ca_certs=/ca.pem", "unix:///run/v.sock?password=p&db=1"):
        assert Settings(state_url=url).state_url == url


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, ()),
        ({"host": "0.0.0.0"}, ()),
        ({"state_url": "rediss://state.example"}, ()),
        ({"url": "https://agent.example"}, ()),
        ({"public_url": "http://remote-agent:8801", "private_network": True}, ()),
        ({"public_url": "http://remote-agent:8801"}, ("DATASET_AGENT_PUBLIC_URL",)),
        ({"public_url": "https://remote-agent:8801", "private_network": True}, ("DATASET_AGENT_PUBLIC_URL",)),
        ({"public_url": "https://xn--dta-ula.example"}, ("DATASET_AGENT_PUBLIC_URL",)),
        ({"public_url": "https://localhost:8801"}, ()),
        ({"root_url": "https://127.0.0.1:8800"}, ()),
        (SET, ("DATASET_AGENT_OIDC_ISSUER",)),
        ({"public_url": "https://agent.example"}, ("DATASET_AGENT_PUBLIC_URL",)),
        ({"root_url": "https://root.example"}, ("DATASET_AGENT_ROOT_URL",)),
        (SET | {"root_url": "https://r.example"}, ("DATASET_AGENT_OIDC_ISSUER", "DATASET_AGENT_ROOT_URL")),
    ],
)
def test_a_provider_or_an_address_that_is_not_for_development_is_production(
    given: dict[str, Any], says: tuple[str, ...]
) -> None:
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
