"""A card is believed only where its signature is the pinned key's and its addresses are safe."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from a2a.types.a2a_pb2 import AgentCard, AgentCardSignature
from fastapi import Request
from fastapi.responses import Response
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.struct_pb2 import Struct

from contract.canonical import b64url, canonical_json
from contract.extension import EXTENSION_URI
from contract.settings import Settings
from contract.verdict import NotGranted, Reason
from control_plane.descriptor import DatasetDescriptor
from control_plane.registry import InvalidDataset
from delegation.cards import CardBook
from delegation.credentials import Assertions
from delegation.http import UnsafeAddress, checked_url, open_http, same_origin
from grants.trust import TrustedAgent
from remote_agent.card import card_payload
from tests.root_agent.scripted_remote import AGENT_ID, AgentServer, ScriptedRemote, TestSigner, shipped, signed

NOW = 1_800_000_000.0


@pytest.fixture
async def remote(agent_server: AgentServer) -> ScriptedRemote:
    return agent_server.serve([shipped("purification-batches")])


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    client = open_http(Settings(call_timeout=2.0, max_result_bytes=2**20))
    yield client
    await client.aclose()


@pytest.fixture
def book(http: httpx.AsyncClient) -> CardBook:
    return CardBook(http, Assertions(TestSigner(), "urn:dataset-agent:root"), private_network=False, ttl=60)


def pinned(remote: ScriptedRemote) -> TrustedAgent:
    return TrustedAgent(AGENT_ID, remote.url, remote.signer.public_key)


async def refusal(book: CardBook, remote: ScriptedRemote) -> NotGranted:
    with pytest.raises(NotGranted) as stop:
        await book.card(pinned(remote), remote.url, NOW)
    return stop.value


async def test_a_descriptor_crosses_the_card_without_loss(book: CardBook, remote: ScriptedRemote) -> None:
    (offer,) = (await book.card(pinned(remote), remote.url, NOW)).offers
    assert offer.descriptor == shipped("purification-batches")


async def test_what_the_public_card_hides_is_offered_by_the_extended_one_only(
    book: CardBook, remote: ScriptedRemote
) -> None:
    remote.publish(restricted=[shipped("clinical-private")])
    offers = (await book.card(pinned(remote), remote.url, NOW)).offers
    assert {offer.dataset: offer.public is not None for offer in offers} == {
        "purification-batches": True,
        "clinical-private": False,
    }


async def test_a_card_is_kept_for_its_time_and_then_fetched_again(book: CardBook, remote: ScriptedRemote) -> None:
    for now in (NOW, NOW + 59, NOW + 60):
        await book.card(pinned(remote), remote.url, now)
    assert remote.card_requests == 2


async def test_a_forgotten_card_is_fetched_again(book: CardBook, remote: ScriptedRemote) -> None:
    await book.card(pinned(remote), remote.url, NOW)
    book.forget(AGENT_ID)
    await book.card(pinned(remote), remote.url, NOW)
    assert remote.card_requests == 2


async def test_a_card_signed_by_another_key_is_invalid(book: CardBook, remote: ScriptedRemote) -> None:
    remote.card = signed(remote.unsigned(remote.descriptors), TestSigner())
    assert (await refusal(book, remote)).reason is Reason.REMOTE_CARD_INVALID


async def test_a_jku_of_the_forger_is_ignored(book: CardBook, remote: ScriptedRemote) -> None:
    forger = TestSigner()
    remote.card = signed(
        remote.unsigned(remote.descriptors), forger, kid=remote.signer.public_key.thumbprint, jku=f"{remote.url}/jwks"
    )
    assert (await refusal(book, remote)).reason is Reason.REMOTE_CARD_INVALID


async def test_a_card_without_a_signature_is_invalid(book: CardBook, remote: ScriptedRemote) -> None:
    remote.card = remote.unsigned(remote.descriptors)
    assert (await refusal(book, remote)).reason is Reason.REMOTE_CARD_INVALID


async def test_a_card_changed_after_it_was_signed_is_invalid(book: CardBook, remote: ScriptedRemote) -> None:
    assert remote.card is not None
    remote.card.description = "Answers anything."
    assert (await refusal(book, remote)).reason is Reason.REMOTE_CARD_INVALID


async def test_an_extended_card_is_verified_like_the_public_one(book: CardBook, remote: ScriptedRemote) -> None:
    remote.extended = signed(remote.unsigned(remote.descriptors), TestSigner())
    assert (await refusal(book, remote)).reason is Reason.REMOTE_CARD_INVALID


def resigned(remote: ScriptedRemote, card: AgentCard) -> None:
    remote.card = remote.extended = signed(card, remote.signer)


async def test_a_card_that_names_another_agent_is_invalid(book: CardBook, remote: ScriptedRemote) -> None:
    resigned(remote, remote.unsigned(remote.descriptors, agent_id="urn:other"))
    assert "another agent" in (await refusal(book, remote)).message


async def test_a_card_that_does_not_require_the_extension_is_invalid(book: CardBook, remote: ScriptedRemote) -> None:
    card = remote.unsigned(remote.descriptors)
    card.capabilities.extensions[0].required = False
    resigned(remote, card)
    assert "require" in (await refusal(book, remote)).message


async def test_a_card_without_the_extension_is_invalid(book: CardBook, remote: ScriptedRemote) -> None:
    card = remote.unsigned(remote.descriptors)
    card.capabilities.extensions[0].uri = EXTENSION_URI + "0"
    resigned(remote, card)
    assert "declare" in (await refusal(book, remote)).message


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/", "http://localhost.evil.example/", "https://evil.example/"])
async def test_a_card_that_points_to_another_origin_is_invalid(
    book: CardBook, remote: ScriptedRemote, url: str
) -> None:
    card = remote.unsigned(remote.descriptors)
    card.supported_interfaces[0].url = url
    resigned(remote, card)
    assert (await refusal(book, remote)).reason is Reason.REMOTE_CARD_INVALID


async def test_a_card_without_json_rpc_is_invalid(book: CardBook, remote: ScriptedRemote) -> None:
    card = remote.unsigned(remote.descriptors)
    card.supported_interfaces[0].protocol_version = "0.3.0"
    resigned(remote, card)
    assert "JSON-RPC" in (await refusal(book, remote)).message


async def test_a_descriptor_that_cannot_be_read_is_offered_as_invalid_beside_the_others(
    book: CardBook, remote: ScriptedRemote
) -> None:
    card = remote.unsigned(remote.descriptors)
    broken = {"dataset": "broken", "description": "no version"}
    params = {"agent_id": AGENT_ID, "descriptors": [remote.descriptors[0].to_json(), broken]}
    card.capabilities.extensions[0].params.CopyFrom(ParseDict(params, Struct()))
    resigned(remote, card)
    offers = (await book.card(pinned(remote), remote.url, NOW)).offers
    assert [type(offer.descriptor) for offer in offers] == [DatasetDescriptor, InvalidDataset]


async def test_a_dataset_that_is_listed_twice_spoils_the_card(book: CardBook, remote: ScriptedRemote) -> None:
    resigned(remote, remote.unsigned(remote.descriptors * 2))
    assert "twice" in (await refusal(book, remote)).message


async def test_a_card_whose_pattern_could_take_long_to_match_is_invalid_for_that_dataset_alone(
    book: CardBook, remote: ScriptedRemote
) -> None:
    card = remote.unsigned(remote.descriptors)
    hostile = shipped("chromatography-results").to_json()
    slow = {"name": "id", "type": "STRING", "description": "an id", "pattern": "(?:A|A)?" * 20 + "X"}
    hostile["capabilities"][0]["parameters"] = [slow]
    params = {"agent_id": AGENT_ID, "descriptors": [remote.descriptors[0].to_json(), hostile]}
    card.capabilities.extensions[0].params.CopyFrom(ParseDict(params, Struct()))
    resigned(remote, card)
    offers = (await book.card(pinned(remote), remote.url, NOW)).offers
    assert [type(offer.descriptor) for offer in offers] == [DatasetDescriptor, InvalidDataset]


async def test_a_descriptor_that_breaks_its_validator_is_invalid_and_no_fault(
    book: CardBook, remote: ScriptedRemote
) -> None:
    card = remote.unsigned(remote.descriptors)
    broken = shipped("chromatography-results").to_json() | {"as_of": "0001-01-01T00:00:00+23:00"}
    params = {"agent_id": AGENT_ID, "descriptors": [broken]}
    card.capabilities.extensions[0].params.CopyFrom(ParseDict(params, Struct()))
    resigned(remote, card)
    (offer,) = (await book.card(pinned(remote), remote.url, NOW)).offers
    assert isinstance(offer.descriptor, InvalidDataset)


@pytest.mark.parametrize("number", [b"1e999", b"NaN", b"-Infinity", b"9" * 400, b"9" * 5_000])
@pytest.mark.parametrize("extended", [False, True])
async def test_a_card_with_a_number_that_is_none_is_invalid_and_no_fault(
    book: CardBook, remote: ScriptedRemote, number: bytes, extended: bool
) -> None:
    spoiled = json.dumps(MessageToDict(remote.card)).encode().replace(b'"params": {', b'"params": {"n": %b, ' % number)

    async def reply(_: Request) -> Response:
        return Response(b'{"jsonrpc": "2.0", "id": "1", "result": %b}' % spoiled, media_type="application/json")

    if extended:
        remote.raw_reply = reply
    else:
        remote.raw_card = Response(spoiled, media_type="application/json")
    assert (await refusal(book, remote)).reason is Reason.REMOTE_CARD_INVALID


async def test_the_extended_card_is_asked_for_with_the_roots_own_assertion(
    http: httpx.AsyncClient, remote: ScriptedRemote
) -> None:
    seen: list[str] = []

    async def note(request: httpx.Request) -> None:
        seen.append(request.headers.get("authorization", ""))

    http.event_hooks = {"request": [note]}
    book = CardBook(http, Assertions(TestSigner(), "urn:dataset-agent:root"), private_network=False, ttl=60)
    await book.card(pinned(remote), remote.url, NOW)
    assert [line[:7] for line in seen] == ["", "Bearer "]


def answering(remote: ScriptedRemote, status: int) -> None:
    async def reply(_: Request) -> Response:
        return Response(status_code=status)

    remote.raw_reply = reply


async def test_an_agent_that_does_not_know_its_reader_is_read_from_its_public_card(
    book: CardBook, remote: ScriptedRemote
) -> None:
    remote.publish(restricted=[shipped("clinical-private")])
    answering(remote, 401)
    (offer,) = (await book.card(pinned(remote), remote.url, NOW)).offers
    assert (offer.dataset, offer.direct) == ("purification-batches", False)


async def test_a_public_card_is_verified_for_a_stranger_too(book: CardBook, remote: ScriptedRemote) -> None:
    answering(remote, 401)
    remote.card = signed(remote.unsigned(remote.descriptors), TestSigner())
    assert (await refusal(book, remote)).reason is Reason.REMOTE_CARD_INVALID


@pytest.mark.parametrize("status", [400, 403, 404, 500])
async def test_an_extended_card_that_is_not_handed_out_for_another_reason_is_invalid(
    book: CardBook, remote: ScriptedRemote, status: int
) -> None:
    answering(remote, status)
    stop = await refusal(book, remote)
    assert stop.reason is Reason.REMOTE_CARD_INVALID
    assert "not handed out" in stop.message


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (404, Reason.REMOTE_CARD_INVALID),
        (500, Reason.REMOTE_CARD_INVALID),
        (429, Reason.REMOTE_UNAVAILABLE),
        (503, Reason.REMOTE_UNAVAILABLE),
    ],
)
async def test_an_address_that_hands_out_no_public_card_is_told_from_one_that_cannot_now(
    book: CardBook, remote: ScriptedRemote, status: int, reason: Reason
) -> None:
    remote.raw_card = Response(status_code=status)
    stop = await refusal(book, remote)
    assert stop.reason is reason
    assert f"HTTP {status}" in stop.message


@pytest.mark.parametrize("status", [429, 503])
async def test_an_agent_that_says_it_cannot_now_is_unavailable_and_may_be_asked_later(
    book: CardBook, remote: ScriptedRemote, status: int
) -> None:
    answering(remote, status)
    stop = await refusal(book, remote)
    assert stop.reason is Reason.REMOTE_UNAVAILABLE
    assert f"HTTP {status}" in stop.message
    assert ("limit" in stop.message, "its signer may be away" in stop.message) == (status == 429, status == 503)


async def test_only_an_agent_that_hands_out_its_extended_card_can_be_asked_directly_whatever_its_public_card_says(
    book: CardBook, remote: ScriptedRemote
) -> None:
    (known,) = (await book.card(pinned(remote), remote.url, NOW)).offers
    card = remote.unsigned(remote.descriptors)
    card.capabilities.extended_agent_card = False
    resigned(remote, card)
    (plain,) = (await book.card(pinned(remote), remote.url, NOW + 60)).offers
    assert (known.direct, plain.direct, remote.card_requests) == (True, False, 1)


@pytest.mark.parametrize(
    "header", [{"alg": "none"}, {"alg": "Ed25519"}, {"kid": 7}, {"kid": "another"}, {"crit": ["b64"], "b64": True}]
)
async def test_a_card_is_signed_as_the_extension_says_and_in_no_other_way(
    book: CardBook, remote: ScriptedRemote, header: dict[str, Any]
) -> None:
    public = remote.unsigned(remote.descriptors)
    protected = {"alg": "EdDSA", "kid": remote.signer.public_key.thumbprint, "typ": "JOSE"} | header
    sign(public, remote, protected)
    remote.card = public
    assert "no signature" in (await refusal(book, remote)).message


async def test_a_signature_of_another_beside_the_pinned_one_does_no_harm(
    book: CardBook, remote: ScriptedRemote
) -> None:
    card = signed(signed(remote.unsigned(remote.descriptors), TestSigner()), remote.signer)
    remote.card = remote.extended = card
    assert len((await book.card(pinned(remote), remote.url, NOW)).offers) == 1


def sign(card: AgentCard, remote: ScriptedRemote, protected: dict[str, Any]) -> None:
    header = b64url(canonical_json(protected))
    signature = remote.signer.sign(f"{header}.{b64url(card_payload(card))}".encode())
    card.signatures.append(AgentCardSignature(protected=header, signature=b64url(signature)))


async def test_every_card_can_be_forgotten_at_once(book: CardBook, remote: ScriptedRemote) -> None:
    await book.card(pinned(remote), remote.url, NOW)
    book.forget_all()
    await book.card(pinned(remote), remote.url, NOW)
    assert remote.card_requests == 2


async def test_an_agent_that_is_not_there_is_unreachable(book: CardBook, remote: ScriptedRemote) -> None:
    with pytest.raises(NotGranted) as stop:
        await book.card(pinned(remote), "http://127.0.0.1:9", NOW)
    assert stop.value.reason is Reason.REMOTE_UNREACHABLE


async def test_a_card_answered_with_a_redirect_is_invalid(book: CardBook, remote: ScriptedRemote) -> None:
    remote.raw_card = Response(status_code=302, headers={"Location": "http://127.0.0.1:9/"})
    assert "HTTP 302" in (await refusal(book, remote)).message


async def test_a_card_of_many_megabytes_is_not_read(book: CardBook, remote: ScriptedRemote) -> None:
    remote.raw_card = Response(content=b" " * 5 * 2**20, media_type="application/json")
    assert "over 4194304 bytes" in (await refusal(book, remote)).message


async def test_a_compressed_card_is_not_inflated(book: CardBook, remote: ScriptedRemote) -> None:
    remote.raw_card = Response(content=b"x", headers={"Content-Encoding": "gzip"})
    assert (await refusal(book, remote)).reason is Reason.REMOTE_CARD_INVALID


async def test_a_card_that_is_no_json_is_invalid(book: CardBook, remote: ScriptedRemote) -> None:
    remote.raw_card = Response(content=b"<html>", media_type="text/html")
    assert (await refusal(book, remote)).reason is Reason.REMOTE_CARD_INVALID


async def test_an_assertion_is_reused_while_it_is_fresh_and_not_longer() -> None:
    assertions = Assertions(TestSigner(), "urn:dataset-agent:root")
    first, second, third = (assertions.bearer(AGENT_ID, NOW + later) for later in (0, 29, 30))
    assert first == second != third


@pytest.mark.parametrize(
    "url", ["https://agent.example", "http://127.0.0.1:8801", "http://localhost:1", "http://[::1]:2"]
)
def test_https_and_loopback_are_safe_addresses(url: str) -> None:
    assert checked_url(url + "/", private_network=False) == url


@pytest.mark.parametrize(
    "url",
    [
        "http://remote-agent:8801",
        "http://10.0.0.7",
        "ftp://127.0.0.1",
        "https://user:pass@agent.example",
        "https://agent.example?x=1",
        "https://agent.example:port",
        "agent.example",
        "http://localhost.evil.example",
    ],
)
def test_other_addresses_are_refused(url: str) -> None:
    with pytest.raises(UnsafeAddress):
        checked_url(url, private_network=False)


def test_a_private_network_may_be_allowed_by_setting() -> None:
    assert checked_url("http://remote-agent:8801", private_network=True) == "http://remote-agent:8801"


def test_an_origin_is_scheme_host_and_port() -> None:
    same = same_origin("https://a.example", "https://A.example:443/rpc")
    assert same and not same_origin("http://127.0.0.1:1", "http://127.0.0.1:2")
