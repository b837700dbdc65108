"""A provider over the wire: found, remembered, rotated, silent, and never believed beyond what it is."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from contract.errors import Category, DatasetAgentError
from contract.provider import IdentityProvider
from contract.published import FLOOR, LIFE, STALE, Unreadable
from control_plane.oidc import OidcVerifier, discovered
from tests.contract.loopback_server import LoopbackServer, loopback, reply
from tests.control_plane.oidc_world import AUDIENCE, ISSUER, NOW, SUBJECT, jwk, jwks, token

KEYS_URL = "https://idp.example/keys"
DISCOVERY = f"{ISSUER}/.well-known/openid-configuration"


class Provider:
    """What stands at the provider's addresses; what is not there does not answer."""

    def __init__(self) -> None:
        self.at = {DISCOVERY: json.dumps({"issuer": ISSUER, "jwks_uri": KEYS_URL}).encode(), KEYS_URL: jwks("rsa")}
        self.asked: list[str] = []

    async def fetch(self, url: str) -> bytes:
        self.asked.append(url)
        if url not in self.at:
            raise Unreadable("down")
        return self.at[url]

    def publish(self, *entries: Any) -> None:
        self.at[KEYS_URL] = jwks(*entries)

    def verifier(self, jwks_url: str | None = KEYS_URL) -> OidcVerifier:
        return OidcVerifier(IdentityProvider(ISSUER, AUDIENCE, jwks_url=jwks_url), self.fetch)


async def end_of(verifier: OidcVerifier, sent: str, now: float) -> str:
    try:
        return (await verifier.verify(sent, now)).subject
    except DatasetAgentError as fault:
        return fault.code.removeprefix("control_plane.oidc.")


def at(now: float, **changes: Any) -> str:
    return token(now=now, **changes)


async def test_the_discovery_document_says_where_the_keys_are() -> None:
    provider = Provider()
    assert await end_of(provider.verifier(None), token(), NOW) == SUBJECT
    assert provider.asked == [DISCOVERY, KEYS_URL]


async def test_with_a_key_set_configured_nothing_is_discovered() -> None:
    provider = Provider()
    assert await end_of(provider.verifier(), token(), NOW) == SUBJECT
    assert provider.asked == [KEYS_URL]


def test_an_issuer_that_ends_with_a_slash_is_asked_without_two() -> None:
    asked: list[str] = []

    async def fetch(url: str) -> bytes:
        asked.append(url)
        raise Unreadable("enough")

    asyncio.run(OidcVerifier(IdentityProvider("https://idp.example/", AUDIENCE), fetch).warm(NOW))
    assert asked == ["https://idp.example/.well-known/openid-configuration"]


@pytest.mark.parametrize(
    "document",
    [
        {"issuer": ISSUER + "/", "jwks_uri": KEYS_URL},
        {"issuer": "https://evil.example", "jwks_uri": KEYS_URL},
        {"jwks_uri": KEYS_URL},
        {"issuer": [ISSUER], "jwks_uri": KEYS_URL},
        {"issuer": ISSUER},
        {"issuer": ISSUER, "jwks_uri": [KEYS_URL]},
        {"issuer": ISSUER, "jwks_uri": "/keys"},
        {"issuer": ISSUER, "jwks_uri": "http://idp.example/keys"},
        {"issuer": ISSUER, "jwks_uri": "https://idp.example:8443/keys"},
        {"issuer": ISSUER, "jwks_uri": "https://evil.example/keys"},
        {"issuer": ISSUER, "jwks_uri": "https://idp.example@evil.example/keys"},
        {"issuer": ISSUER, "jwks_uri": "http://127.0.0.1/keys"},
        {"issuer": ISSUER, "jwks_uri": "http://169.254.169.254/keys"},
        {"issuer": ISSUER, "jwks_uri": "file:///etc/passwd"},
        [],
    ],
)
async def test_a_discovery_document_that_says_anything_else_is_not_believed(document: Any) -> None:
    data = json.dumps(document).encode()
    with pytest.raises(Unreadable):
        discovered(data, ISSUER)
    provider = Provider()
    provider.at[DISCOVERY] = data
    assert await end_of(provider.verifier(None), token(), NOW) == "unavailable"
    assert provider.asked == [DISCOVERY]


def test_a_key_set_at_the_issuers_own_origin_may_have_a_query() -> None:
    url = "https://IDP.example:443/keys?p=b2c_1"
    assert discovered(json.dumps({"issuer": ISSUER, "jwks_uri": url}).encode(), ISSUER) == url


async def test_a_provider_that_is_down_at_the_start_is_503_with_the_time_to_come_back() -> None:
    provider = Provider()
    del provider.at[KEYS_URL]
    verifier = provider.verifier()
    for later, wait in ((0.0, FLOOR), (10.0, FLOOR - 10), (FLOOR - 0.5, 1.0)):
        with pytest.raises(DatasetAgentError) as fault:
            await verifier.verify(at(NOW), NOW + later)
        assert (fault.value.category, fault.value.retry_after) == (Category.UNAVAILABLE, wait)
        assert await end_of(verifier, at(NOW, header={"kid": ...}), NOW + later) == "unavailable"
    assert provider.asked == [KEYS_URL]
    provider.publish("rsa")
    assert await end_of(verifier, token(), NOW + FLOOR) == SUBJECT


async def test_a_provider_that_goes_down_later_leaves_its_known_keys_for_an_hour() -> None:
    provider = Provider()
    verifier = provider.verifier()
    await verifier.verify(token(), NOW)
    del provider.at[KEYS_URL]
    late = NOW + STALE - 1
    assert await end_of(verifier, at(late), late) == SUBJECT
    await asyncio.sleep(0)
    assert await end_of(verifier, at(late, signed_by="rsa2"), late) == "unavailable"
    assert await end_of(verifier, at(late, header={"kid": ...}), late) == SUBJECT
    assert await end_of(verifier, at(NOW + STALE), NOW + STALE) == "unavailable"


async def test_a_set_that_turned_into_rubbish_is_as_one_that_is_down() -> None:
    provider = Provider()
    verifier = provider.verifier()
    await verifier.verify(token(), NOW)
    provider.at[KEYS_URL] = b"<html>"
    assert await end_of(verifier, at(NOW + LIFE, signed_by="rsa2"), NOW + LIFE) == "unavailable"
    assert await end_of(verifier, at(NOW + LIFE), NOW + LIFE) == SUBJECT


async def test_a_key_that_comes_is_learned_and_one_that_goes_is_forgotten() -> None:
    provider = Provider()
    verifier = provider.verifier()
    assert await end_of(verifier, token(), NOW) == SUBJECT
    provider.publish("rsa2")
    assert await end_of(verifier, token(signed_by="rsa2"), NOW + FLOOR) == SUBJECT
    assert await end_of(verifier, token(), NOW + FLOOR) == "key"
    assert provider.asked == [KEYS_URL] * 2


async def test_an_unknown_kid_is_looked_for_no_more_often_than_the_floor() -> None:
    provider = Provider()
    verifier = provider.verifier()
    for second in range(int(FLOOR)):
        assert await end_of(verifier, token(header={"kid": f"k{second}"}), NOW + second) == "key"
    assert provider.asked == [KEYS_URL]


async def test_many_people_at_once_are_verified_by_one_attempt() -> None:
    provider = Provider()
    verifier = provider.verifier()
    assert await asyncio.gather(*(end_of(verifier, token(), NOW) for _ in range(30))) == [SUBJECT] * 30
    assert provider.asked == [KEYS_URL]


async def test_what_is_no_token_asks_nobody() -> None:
    provider = Provider()
    for sent in ("", "a.b.c", token(header={"alg": "none"}), token(header={"typ": "at+jwt"}), "x" * 20_000):
        await end_of(provider.verifier(), sent, NOW)
    assert provider.asked == []


async def test_readiness_waits_for_nothing_and_looks_when_it_is_time() -> None:
    provider = Provider()
    verifier = provider.verifier()
    assert not verifier.available(NOW)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert verifier.available(NOW)
    del provider.at[KEYS_URL]
    assert verifier.available(NOW + STALE - 1)
    await asyncio.sleep(0)
    assert not verifier.available(NOW + STALE)


async def test_warming_says_whether_keys_are_there() -> None:
    provider = Provider()
    assert await provider.verifier().warm(NOW)
    del provider.at[KEYS_URL]
    assert not await provider.verifier().warm(NOW)


async def test_a_probe_says_why_keys_cannot_be_read() -> None:
    provider = Provider()
    await provider.verifier(None).probe()
    provider.publish("p384", "ed")
    with pytest.raises(DatasetAgentError, match="DATASET_AGENT_OIDC_ALGORITHMS"):
        await provider.verifier().probe()
    provider.at[DISCOVERY] = json.dumps({"issuer": ISSUER, "jwks_uri": "https://other.example"}).encode()
    with pytest.raises(DatasetAgentError, match="DATASET_AGENT_OIDC_JWKS_URL"):
        await provider.verifier(None).probe()


async def test_closing_ends_what_is_under_way() -> None:
    async def never(_: str) -> bytes:
        await asyncio.Event().wait()
        raise AssertionError

    verifier = OidcVerifier(IdentityProvider(ISSUER, AUDIENCE), never)
    assert not verifier.available(NOW)
    await verifier.close()


def test_authorities_that_are_none_are_named_at_the_start(tmp_path: Path) -> None:
    for content in (None, b"", b"no certificate"):
        file = tmp_path / "ca.pem"
        if content is not None:
            file.write_bytes(content)
        with pytest.raises(DatasetAgentError, match="DATASET_AGENT_OIDC_CA_FILE") as fault:
            OidcVerifier(IdentityProvider(ISSUER, AUDIENCE, authorities=file))
        assert fault.value.category is Category.CONFIGURATION


async def test_a_provider_on_loopback_is_found_over_http() -> None:
    async def answer(writer: asyncio.StreamWriter) -> None:
        path = server.requests[-1].split(" ")[1]
        issuer = server.url("/realm")
        documents = {
            "/realm/.well-known/openid-configuration": json.dumps(
                {"issuer": issuer, "jwks_uri": server.url("/keys")}
            ).encode(),
            "/keys": jwks("rsa", jwk("ec")),
        }
        await reply(documents[path])(writer)

    server: LoopbackServer
    async with loopback(answer) as server:
        verifier = OidcVerifier(IdentityProvider(server.url("/realm"), AUDIENCE))
        for algorithm in ("RS256", "ES256"):
            assert (await verifier.verify(token(algorithm=algorithm, iss=server.url("/realm")), NOW)).subject == SUBJECT
    assert len(server.requests) == 2


@pytest.mark.parametrize("age", [LIFE, LIFE + 1, STALE - 1])
async def test_a_key_that_a_provider_withdrew_is_believed_no_longer_than_a_set_lives(age: float) -> None:
    provider = Provider()
    verifier = provider.verifier()
    await verifier.verify(token(), NOW)
    provider.publish("rsa2")
    assert await end_of(verifier, at(NOW + LIFE - 1), NOW + LIFE - 1) == SUBJECT
    assert await end_of(verifier, at(NOW + age), NOW + age) == "key"


async def test_a_token_without_a_kid_waits_too_where_the_set_is_old() -> None:
    provider = Provider()
    verifier = provider.verifier()
    await verifier.verify(token(), NOW)
    provider.publish("rsa2")
    assert await end_of(verifier, at(NOW + LIFE, header={"kid": ...}), NOW + LIFE) == "signature"


async def test_keys_that_are_forgotten_are_read_anew_before_one_is_believed() -> None:
    provider = Provider()
    verifier = provider.verifier()
    await verifier.verify(token(), NOW)
    provider.publish("rsa2")
    verifier.forget()
    assert await end_of(verifier, at(NOW + 1), NOW + 1) == "key"
    verifier.forget()
    del provider.at[KEYS_URL]
    assert await end_of(verifier, at(NOW + 2, signed_by="rsa2"), NOW + 2) == "unavailable"
