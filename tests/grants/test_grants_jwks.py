"""Keys that an issuer publishes: learned when needed, remembered when it is silent, never hammered for."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from contract.published import FLOOR, LIFE, STALE, Unreadable
from contract.signing import PublicKey
from contract.verdict import NotGranted, Reason
from grants.derive import header_value
from grants.jwks import PublishedKeys, read_jwks
from grants.trust import Trust
from tests.grants.grants_world import (
    ISSUER,
    NOW,
    OTHER_ISSUER,
    ROOT,
    SIGNERS,
    TRUST,
    Forge,
    accept,
    make_chain,
    make_trust,
    public,
    root_header,
    signer,
)

URL = "https://issuer.example/jwks.json"


def publishing(**changes: Any) -> Trust:
    issuer = replace(TRUST.issuers[ISSUER], keys=(), jwks_url=URL)
    return make_trust(issuers={ISSUER: replace(issuer, **changes), OTHER_ISSUER: TRUST.issuers[OTHER_ISSUER]})


class Publisher:
    """An issuer's door: what it publishes, whether it answers, and how often it was asked."""

    def __init__(self, *keys: PublicKey) -> None:
        self.keys = keys
        self.asked = 0
        self.answers = True
        self.gate: asyncio.Event | None = None

    async def fetch(self, url: str) -> bytes:
        assert url == URL
        self.asked += 1
        if self.gate is not None:
            await self.gate.wait()
        if not self.answers:
            raise Unreadable("down")
        return json.dumps({"keys": [key.jwk() for key in self.keys]}).encode()


CHAIN = header_value(make_chain())


def invented(seed: int) -> str:
    return header_value(Forge(root_signer=signer(seed), root_head=root_header(signer(seed))).chain())


async def reason_of(keys: PublishedKeys, header: str, *, now: float, trust: Trust) -> Reason | None:
    completed = await keys.complete(trust, header, now=now)
    try:
        accept(header, trust=completed)
    except NotGranted as stop:
        return stop.reason
    return None


async def test_a_published_key_is_learned_when_a_grant_names_it_and_read_once() -> None:
    door = Publisher(SIGNERS[ISSUER].public_key)
    keys, trust = PublishedKeys(door.fetch), publishing()
    for later in range(5):
        assert await reason_of(keys, CHAIN, now=NOW + later, trust=trust) is None
    assert door.asked == 1


async def test_trust_without_publishers_is_left_alone() -> None:
    assert await PublishedKeys().complete(TRUST, CHAIN, now=NOW) is TRUST


async def test_many_who_need_a_key_at_once_read_it_once() -> None:
    door = Publisher(SIGNERS[ISSUER].public_key)
    door.gate = asyncio.Event()
    keys, trust = PublishedKeys(door.fetch), publishing()
    waiting = [asyncio.create_task(reason_of(keys, CHAIN, now=NOW, trust=trust)) for _ in range(20)]
    await asyncio.sleep(0)
    door.gate.set()
    assert await asyncio.gather(*waiting) == [None] * 20
    assert door.asked == 1


async def test_an_issuer_that_does_not_answer_is_indeterminate() -> None:
    door = Publisher()
    door.answers = False
    keys, trust = PublishedKeys(door.fetch), publishing()
    assert await reason_of(keys, CHAIN, now=NOW, trust=trust) is Reason.KEYS_UNAVAILABLE


async def test_failed_attempts_count_against_the_floor() -> None:
    door = Publisher(SIGNERS[ISSUER].public_key)
    door.answers = False
    keys, trust = PublishedKeys(door.fetch), publishing()
    for later in (0, 1, FLOOR - 1):
        assert await reason_of(keys, CHAIN, now=NOW + later, trust=trust) is Reason.KEYS_UNAVAILABLE
    assert door.asked == 1
    door.answers = True
    assert await reason_of(keys, CHAIN, now=NOW + FLOOR, trust=trust) is None
    assert door.asked == 2


async def test_invented_keys_do_not_make_this_service_knock() -> None:
    door = Publisher(SIGNERS[ISSUER].public_key)
    keys, trust = PublishedKeys(door.fetch), publishing()
    for seed in range(100, 130):
        assert await reason_of(keys, invented(seed), now=NOW, trust=trust) is Reason.GRANT_KEY_UNTRUSTED
    assert door.asked == 1


async def test_a_new_key_is_learned_once_the_floor_has_passed() -> None:
    door = Publisher(SIGNERS[ISSUER].public_key)
    keys, trust = PublishedKeys(door.fetch), publishing()
    assert await reason_of(keys, CHAIN, now=NOW, trust=trust) is None
    door.keys = (*door.keys, public(100))
    assert await reason_of(keys, invented(100), now=NOW + 1, trust=trust) is Reason.GRANT_KEY_UNTRUSTED
    assert await reason_of(keys, invented(100), now=NOW + FLOOR, trust=trust) is None
    assert door.asked == 2


async def test_a_known_key_never_waits_for_another() -> None:
    door = Publisher(SIGNERS[ISSUER].public_key)
    keys, trust = PublishedKeys(door.fetch), publishing()
    assert await reason_of(keys, CHAIN, now=NOW, trust=trust) is None
    door.gate = asyncio.Event()
    slow = asyncio.create_task(reason_of(keys, invented(100), now=NOW + FLOOR, trust=trust))
    await asyncio.sleep(0)
    assert await reason_of(keys, CHAIN, now=NOW + FLOOR, trust=trust) is None
    assert not slow.done()
    door.gate.set()
    assert await slow is Reason.GRANT_KEY_UNTRUSTED


async def test_a_silent_issuers_keys_are_used_for_an_hour() -> None:
    door = Publisher(SIGNERS[ISSUER].public_key)
    keys, trust = PublishedKeys(door.fetch), publishing()
    assert await reason_of(keys, CHAIN, now=NOW, trust=trust) is None
    door.answers = False
    assert await reason_of(keys, CHAIN, now=NOW + STALE - 1, trust=trust) is None
    await asyncio.sleep(0)
    assert await reason_of(keys, invented(100), now=NOW + STALE - 1, trust=trust) is Reason.KEYS_UNAVAILABLE
    assert await reason_of(keys, CHAIN, now=NOW + STALE + FLOOR, trust=trust) is Reason.KEYS_UNAVAILABLE


async def test_a_withdrawn_key_is_untrusted_once_the_set_is_read_again() -> None:
    door = Publisher(SIGNERS[ISSUER].public_key)
    keys, trust = PublishedKeys(door.fetch), publishing()
    assert await reason_of(keys, CHAIN, now=NOW, trust=trust) is None
    door.keys = (public(100),)
    await keys.complete(trust, None, now=NOW + LIFE)
    assert await reason_of(keys, CHAIN, now=NOW + LIFE, trust=trust) is Reason.GRANT_KEY_UNTRUSTED


@pytest.mark.parametrize("age", [LIFE, LIFE + 1, STALE - 1])
async def test_a_key_that_was_withdrawn_is_believed_no_longer_than_a_set_lives_however_seldom_one_asks(
    age: float,
) -> None:
    door = Publisher(SIGNERS[ISSUER].public_key)
    keys, trust = PublishedKeys(door.fetch), publishing()
    assert await reason_of(keys, CHAIN, now=NOW, trust=trust) is None
    door.keys = (public(100),)
    assert await reason_of(keys, CHAIN, now=NOW + LIFE - 1, trust=trust) is None
    assert await reason_of(keys, CHAIN, now=NOW + age, trust=trust) is Reason.GRANT_KEY_UNTRUSTED
    assert door.asked == 2


async def test_after_a_reload_a_published_key_is_read_anew_before_it_is_believed() -> None:
    door = Publisher(SIGNERS[ISSUER].public_key)
    keys, trust = PublishedKeys(door.fetch), publishing()
    assert await reason_of(keys, CHAIN, now=NOW, trust=trust) is None
    keys.forget()
    assert await reason_of(keys, CHAIN, now=NOW + 1, trust=trust) is None
    assert door.asked == 2
    door.keys = (public(100),)
    keys.forget()
    assert await reason_of(keys, CHAIN, now=NOW + 2, trust=trust) is Reason.GRANT_KEY_UNTRUSTED


async def test_after_a_reload_a_silent_issuers_keys_are_unknown_but_for_the_pinned_ones() -> None:
    door = Publisher(SIGNERS[ISSUER].public_key)
    keys, trust = PublishedKeys(door.fetch), publishing()
    assert await reason_of(keys, CHAIN, now=NOW, trust=trust) is None
    door.answers = False
    keys.forget()
    assert await reason_of(keys, CHAIN, now=NOW + 1, trust=trust) is Reason.KEYS_UNAVAILABLE
    assert await reason_of(keys, CHAIN, now=NOW + 1, trust=publishing(keys=door.keys)) is None


async def test_a_revoked_key_is_untrusted_whoever_publishes_it_and_nobody_is_asked_for_it() -> None:
    door = Publisher(SIGNERS[ISSUER].public_key, public(100))
    keys = PublishedKeys(door.fetch)
    assert await reason_of(keys, CHAIN, now=NOW, trust=publishing()) is None
    trust = replace(publishing(), revoked_keys=frozenset({SIGNERS[ISSUER].public_key.thumbprint}))
    assert await reason_of(keys, CHAIN, now=NOW + 1, trust=trust) is Reason.GRANT_KEY_UNTRUSTED
    door.answers = False
    keys.forget()
    assert await reason_of(keys, CHAIN, now=NOW + 2, trust=trust) is Reason.GRANT_KEY_UNTRUSTED
    assert door.asked == 1
    completed = await keys.complete(trust, invented(100), now=NOW + FLOOR)
    assert SIGNERS[ISSUER].public_key not in completed.issuers[ISSUER].keys


# two issuers

OTHER_URL = "https://other.example/jwks.json"


def both(first: str, published: dict[str, PublicKey], **changes: Any) -> tuple[PublishedKeys, Trust]:
    """Two issuers that publish, ``first`` the first of the trust file, and what each publishes."""
    mine = replace(TRUST.issuers[ISSUER], keys=(), jwks_url=URL, **changes)
    other = replace(TRUST.issuers[OTHER_ISSUER], jwks_url=OTHER_URL)
    issuers = {issuer.url: issuer for issuer in ((mine, other) if first == ISSUER else (other, mine))}

    async def fetch(url: str) -> bytes:
        return json.dumps({"keys": [published[url].jwk()]}).encode()

    return PublishedKeys(fetch), make_trust(issuers=issuers)


FIRST = pytest.mark.parametrize("first", [ISSUER, OTHER_ISSUER])


@FIRST
async def test_nobody_takes_an_issuers_grants_out_of_use_by_publishing_its_key(first: str) -> None:
    key = SIGNERS[ISSUER].public_key
    keys, trust = both(first, {URL: key, OTHER_URL: key})
    assert await reason_of(keys, CHAIN, now=NOW, trust=trust) is None


async def test_a_key_that_one_issuer_publishes_waits_for_no_other() -> None:
    keys, trust = both(ISSUER, {URL: SIGNERS[ISSUER].public_key, OTHER_URL: public(100)})
    assert await reason_of(keys, CHAIN, now=NOW, trust=trust) is None
    silent = asyncio.Event()

    async def never(url: str) -> bytes:
        await silent.wait()
        raise Unreadable("down")

    keys._fetch = never
    keys._published[OTHER_ISSUER, OTHER_URL].forget()
    assert await reason_of(keys, CHAIN, now=NOW + 1, trust=trust) is None
    silent.set()


@FIRST
async def test_who_publishes_anothers_key_lends_it_nothing_of_that_issuers(first: str) -> None:
    keys, trust = both(first, {URL: public(100), OTHER_URL: SIGNERS[ISSUER].public_key})
    assert await reason_of(keys, CHAIN, now=NOW, trust=trust) is Reason.GRANT_ISSUER_UNTRUSTED


@FIRST
async def test_a_pinned_key_has_one_owner_whoever_publishes_it(first: str) -> None:
    pinned = SIGNERS[OTHER_ISSUER]
    keys, trust = both(first, {URL: pinned.public_key, OTHER_URL: pinned.public_key})
    header = header_value(Forge(root_signer=pinned, root_head=root_header(pinned)).chain())
    assert await reason_of(keys, header, now=NOW, trust=trust) is Reason.GRANT_ISSUER_UNTRUSTED


@FIRST
@pytest.mark.parametrize("use", ["identity", "agent"])
async def test_a_key_for_another_use_becomes_no_grant_key_by_being_published(first: str, use: str) -> None:
    key = public(100) if use == "identity" else SIGNERS[ROOT].public_key
    identity = (public(100),) if use == "identity" else ()
    keys, trust = both(first, {URL: SIGNERS[ISSUER].public_key, OTHER_URL: key}, identity_keys=identity)
    completed = await keys.complete(trust, CHAIN, now=NOW)
    assert completed.grant_key(key.thumbprint) is None
    assert completed.grant_key(SIGNERS[ISSUER].public_key.thumbprint) is not None


async def test_a_publisher_does_not_take_a_key_from_its_owner() -> None:
    door = Publisher(SIGNERS[OTHER_ISSUER].public_key, SIGNERS[ROOT].public_key, SIGNERS[ISSUER].public_key)
    completed = await PublishedKeys(door.fetch).complete(publishing(), CHAIN, now=NOW)
    assert completed.issuers[ISSUER].keys == (SIGNERS[ISSUER].public_key,)
    owned = completed.grant_key(SIGNERS[OTHER_ISSUER].public_key.thumbprint)
    assert owned is not None
    assert owned[0].url == OTHER_ISSUER


async def test_pinned_keys_need_no_publisher() -> None:
    door = Publisher()
    door.answers = False
    trust = publishing(keys=(SIGNERS[ISSUER].public_key,))
    assert await reason_of(PublishedKeys(door.fetch), CHAIN, now=NOW, trust=trust) is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b'{"keys": {}}',
        b'{"keys": [], "keys": []}',
        b'{"keys": [' + b"{}," * 16 + b"{}]}",
        b" " * 65_537,
    ],
)
def test_a_key_set_is_read_strictly(data: bytes) -> None:
    with pytest.raises(Unreadable):
        read_jwks(data)


def test_keys_for_other_uses_are_passed_over() -> None:
    good = public(1).jwk()
    entries = [good, good, {**good, "use": "enc"}, {**good, "kid": "x"}, {**good, "d": "x"}, {"kty": "RSA"}, 7]
    assert read_jwks(json.dumps({"keys": entries}).encode()) == (public(1),)


async def test_a_publisher_that_moved_is_read_at_its_new_address() -> None:
    asked: list[str] = []

    async def fetch(url: str) -> bytes:
        asked.append(url)
        return json.dumps({"keys": [SIGNERS[ISSUER].public_key.jwk()]}).encode()

    keys = PublishedKeys(fetch)
    for url in (URL, URL + "2"):
        assert await reason_of(keys, CHAIN, now=NOW, trust=publishing(jwks_url=url)) is None
    assert asked == [URL, URL + "2"]
