"""Whatever arrives, it is refused by a reason and never by accident, and it costs no more than its form earns."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from contract.canonical import parse_json
from contract.errors import Category, DatasetAgentError
from contract.extension import MAX_GRANT_HEADER_BYTES
from contract.grant import VerifiedGrant
from contract.signing import PublicKey
from contract.verdict import NotGranted, Reason
from grants.claims import ChildClaims, InvalidClaims, read
from grants.client import Client, authenticate_client, client_assertion
from grants.jwks import PublishedKeys
from tests.grants.grants_world import (
    CHILD_HEADER,
    ISSUER,
    NOW,
    REMOTE,
    ROOT,
    SECOND,
    SIGNERS,
    TRUST,
    Forge,
    accept,
    claims_of,
    forge,
    make_chain,
    par_hash,
    root_header,
)
from tests.grants.rubbish import families, fitting, odd_claims, odd_value, spoiled

GOOD = ",".join(make_chain(None, SECOND, REMOTE))
ASSERTION = client_assertion(SIGNERS[ROOT], agent_id=ROOT, audience=REMOTE, now=NOW)
TEXT = st.text(max_size=300) | st.text(st.sampled_from(".,=-_AZaz09 \u00e9\ud800\x00"), max_size=300)


def refusal(header: str | None) -> Reason | None:
    """The reason, or ``None`` where it is accepted. Whatever else is raised fails the test."""
    try:
        grant = accept(header, client=SECOND)
    except NotGranted as stop:
        return stop.reason
    assert isinstance(grant, VerifiedGrant)
    return None


def rejection(token: str | None) -> str | None:
    """The code of an UNAUTHENTICATED fault, or ``None`` where the client is known."""
    try:
        known = authenticate_client(token, trust=TRUST, audience=REMOTE, now=NOW)
    except DatasetAgentError as error:
        if error.category is not Category.UNAUTHENTICATED:
            raise
        return error.code
    assert isinstance(known, Client)
    return None


@dataclass
class Work:
    """What was done to judge: signatures checked, and claims read as JSON."""

    signatures: int = 0
    held: int = 0
    read: list[int] = field(default_factory=list)


@contextmanager
def counted() -> Iterator[Work]:
    """Counting doubles around the real thing."""
    work = Work()
    verifies = PublicKey.verifies

    def verify(self: PublicKey, signature: bytes, message: bytes) -> bool:
        work.signatures += 1
        holds = verifies(self, signature, message)
        work.held += holds
        return holds

    def parse(payload: bytes, **limits: Any) -> Any:
        work.read.append(len(payload))
        return parse_json(payload, **limits)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PublicKey, "verifies", verify)
        patch.setattr("grants.claims.parse_json", parse)
        yield work


def test_the_grant_and_the_assertion_that_are_spoiled_here_are_good() -> None:
    assert refusal(GOOD) is None
    assert rejection(ASSERTION) is None


@given(TEXT)
def test_any_text_is_refused_by_a_reason(text: str) -> None:
    assert refusal(text) is not None
    assert rejection(text) is not None


@given(st.binary(max_size=400))
def test_any_bytes_of_a_header_line_are_refused_by_a_reason(line: bytes) -> None:
    assert refusal(line.decode("latin-1")) is not None
    assert rejection(line.decode("latin-1")) is not None


@pytest.mark.parametrize("seed", range(4))
def test_no_other_text_of_a_good_grant_is_accepted(seed: int) -> None:
    for text in spoiled(random.Random(f"grant {seed}"), GOOD, 1_500):
        assert refusal(text) is not None


def test_no_other_text_of_a_good_assertion_is_accepted() -> None:
    for text in spoiled(random.Random("assertion"), ASSERTION, 3_000):
        assert rejection(text) is not None


@pytest.mark.parametrize("make", [families, fitting], ids=["64 KiB", "what fits"])
def test_rubbish_is_refused_without_one_signature_checked_or_one_claim_read(make: Any) -> None:
    for name, text in make().items():
        with counted() as work:
            assert refusal(text) is not None, name
            assert rejection(text) is not None, name
        assert (work.signatures, work.read) == (0, []), name


def test_64_kib_are_refused_by_their_size_alone() -> None:
    for text in families().values():
        assert len(text) > MAX_GRANT_HEADER_BYTES
        assert refusal(text) is Reason.GRANT_MALFORMED


def test_a_spoiled_grant_costs_at_most_one_signature_that_does_not_hold() -> None:
    """And nothing is read as claims that no key has signed."""
    for text in spoiled(random.Random("work"), GOOD, 1_500):
        with counted() as work:
            assert refusal(text) is not None
        assert work.signatures - work.held <= 1
        assert work.held <= 3
        assert len(work.read) <= work.held
        assert sum(work.read) <= MAX_GRANT_HEADER_BYTES


@pytest.mark.parametrize("place", ["root", "leaf"])
def test_claims_that_their_key_signed_are_refused_by_a_reason_however_odd(place: str) -> None:
    rng = random.Random(f"odd {place}")
    world = Forge()
    for _ in range(1_500):
        first = forge(odd_claims(rng, world.root) if place == "root" else world.root, SIGNERS[ISSUER], root_header())
        leaf = {**world.leaf, "par_hash": par_hash(first)}
        second = forge(odd_claims(rng, leaf) if place == "leaf" else leaf, SIGNERS[ROOT], CHILD_HEADER)
        try:
            accept(f"{first},{second}")
        except NotGranted as stop:
            assert stop.reason.name.startswith(("GRANT_", "NO_ACTIVE_GRANT", "UNKNOWN_POLICY_VERSION"))  # noqa: PT017


def test_odd_claims_of_an_assertion_are_refused_by_a_code() -> None:
    rng = random.Random("odd assertion")
    good = claims_of(ASSERTION)
    head = {"alg": "Ed25519", "typ": "client-authentication+jwt", "kid": SIGNERS[ROOT].public_key.thumbprint}
    codes = {rejection(forge(odd_claims(rng, good), SIGNERS[ROOT], head)) for _ in range(1_500)}
    assert codes >= {"grants.client.claims", "grants.client.lifetime"}


def test_odd_headers_are_refused_by_a_reason() -> None:
    rng = random.Random("odd header")
    for _ in range(1_500):
        head = odd_claims(rng, root_header()) if rng.random() < 0.7 else odd_value(rng)
        token = forge(claims_of(GOOD.split(",")[0]), SIGNERS[ISSUER], json.dumps(head).encode())
        assert refusal(f"{token},{GOOD.partition(',')[2]}") is not None or head == root_header()
        assert rejection(token) is not None


@pytest.mark.parametrize(
    "raw", [b"\xff", b"", b"{", b"\xef\xbb\xbf{}", b"[" * 900, b'{"alg":"' + b"\\ud800" * 100 + b'"}']
)
def test_a_header_of_any_bytes_is_refused_by_a_reason(raw: bytes) -> None:
    token = forge(claims_of(GOOD.split(",")[0]), SIGNERS[ISSUER], raw)
    assert refusal(token) in (Reason.GRANT_HEADER_INVALID, Reason.GRANT_MALFORMED)


@pytest.mark.parametrize("member", ["details", "locations", "actions", "columns"])
def test_a_list_of_faults_is_read_to_the_first(member: str) -> None:
    """A thousand faults would be a thousand errors to collect, for one sentence."""
    claims = claims_of(GOOD.split(",")[1])
    if member == "details":
        claims["authorization_details"] = [{}] * 1_300
    else:
        claims["authorization_details"][0][member] = [""] * 1_300
    with pytest.raises(InvalidClaims) as stop:
        read(ChildClaims, json.dumps(claims, separators=(",", ":")).encode())
    assert isinstance(stop.value.__cause__, ValidationError)
    assert stop.value.__cause__.error_count() <= 10


async def test_no_text_makes_looking_for_published_keys_fail() -> None:
    """An issuer publishes; whatever names a key, its key set is read at most once."""
    asked: list[str] = []

    async def fetch(url: str) -> bytes:
        asked.append(url)
        return b'{"keys": []}'

    trust = replace(TRUST, issuers={ISSUER: replace(TRUST.issuers[ISSUER], jwks_url="https://issuer.example/jwks")})
    keys = PublishedKeys(fetch)
    for text in (*families().values(), *fitting().values(), *spoiled(random.Random("keys"), GOOD, 500), None, ""):
        assert (await keys.complete(trust, text, now=NOW)).issuers.keys() == trust.issuers.keys()
    assert len(asked) <= 1
