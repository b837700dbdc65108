"""Envelopes: what is signed, and what is refused."""

from __future__ import annotations

import base64
import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evidence.dsse import (
    PAYLOAD_TYPE,
    InvalidProvenance,
    bare_envelope,
    open_envelope,
    pae,
    payload_of,
    sign_envelope,
    signing_key,
)
from tests.evidence.evidence_builders import SeedSigner

STATEMENT = {"_type": "x", "text": "Grüße", "n": 1}
ENVELOPE = sign_envelope(STATEMENT, SeedSigner())


def test_the_specification_s_example_of_pre_authentication_encoding() -> None:
    assert pae("http://example.com/HelloWorld", b"hello world") == (
        b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    )


def test_an_envelope_opens_with_the_key_that_signed_it() -> None:
    assert open_envelope(ENVELOPE, SeedSigner().public_key) == STATEMENT


def test_another_key_does_not_open_it_whatever_the_keyid_says() -> None:
    forged = sign_envelope(STATEMENT, SeedSigner(2))
    forged["signatures"][0]["keyid"] = SeedSigner(1).public_key.thumbprint
    with pytest.raises(InvalidProvenance) as caught:
        open_envelope(forged, SeedSigner(1).public_key)
    assert caught.value.check == "signature"


@pytest.mark.parametrize("keyid", ["", "someone-else", None, 7])
def test_the_keyid_plays_no_part(keyid: object) -> None:
    envelope = copy.deepcopy(ENVELOPE)
    envelope["signatures"][0]["keyid"] = keyid
    assert open_envelope(envelope, SeedSigner().public_key) == STATEMENT


def test_one_good_signature_among_several_is_enough() -> None:
    envelope = copy.deepcopy(ENVELOPE)
    envelope["signatures"].insert(0, {"keyid": "x", "sig": base64.b64encode(bytes(64)).decode()})
    assert open_envelope(envelope, SeedSigner().public_key) == STATEMENT


def test_both_base64_alphabets_are_read() -> None:
    envelope = copy.deepcopy(ENVELOPE)
    envelope["payload"] = envelope["payload"].replace("+", "-").replace("/", "_")
    assert open_envelope(envelope, SeedSigner().public_key) == STATEMENT


MALFORMED: dict[str, dict[str, Any]] = {
    "another type": {"payloadType": "application/json"},
    "no type": {"payloadType": None},
    "no payload": {"payload": None},
    "a payload with more filling": {"payload": ENVELOPE["payload"] + "="},
    "a payload behind a blank": {"payload": " " + ENVELOPE["payload"]},
    "a payload of other letters": {"payload": "\u00e9"},
    "no signature": {"signatures": []},
    "an object of signatures": {"signatures": {}},
    "signatures that are none": {"signatures": None},
    "signatures that are a number": {"signatures": 7},
    "a signature that is a text": {"signatures": ["x"]},
    "a signature without one": {"signatures": [{"keyid": "x"}]},
    "a signature that is a number": {"signatures": [{"sig": 5}]},
    "a long signature": {"signatures": [{"sig": "A" * 1_400}]},
    "many signatures": {"signatures": ENVELOPE["signatures"] * 9},
}


@pytest.mark.parametrize("change", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_envelope_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidProvenance) as caught:
        open_envelope({**ENVELOPE, **change}, SeedSigner().public_key)
    assert caught.value.check == "envelope"


@pytest.mark.parametrize("envelope", [None, [], "text", 3])
def test_what_is_no_object_is_no_envelope(envelope: object) -> None:
    with pytest.raises(InvalidProvenance):
        open_envelope(envelope, SeedSigner().public_key)


def test_who_trusts_several_keys_is_told_which_of_them_signed_or_why_none_did() -> None:
    trusted = [SeedSigner(number).public_key for number in (3, 1)]
    assert signing_key(ENVELOPE, trusted) == SeedSigner().public_key
    changed = ENVELOPE | {"payload": sign_envelope({**STATEMENT, "more": 1}, SeedSigner(2))["payload"]}
    unnamed = sign_envelope(STATEMENT, SeedSigner(2))
    unnamed["signatures"][0]["keyid"] = "somebody"
    for envelope, said in (
        (changed, "was changed after the key that it names signed it"),
        (sign_envelope(STATEMENT, SeedSigner(2)), f"not trusted here (kid {SeedSigner(2).public_key.thumbprint})"),
        (unnamed, "not trusted here (no kid named)"),
    ):
        with pytest.raises(InvalidProvenance) as caught:
            signing_key(envelope, trusted)
        assert caught.value.check == "signature"
        assert said in str(caught.value)


def test_the_payload_type_is_signed_too() -> None:
    signer = SeedSigner()
    payload = payload_of(ENVELOPE)
    foreign = base64.b64encode(signer.sign(pae("application/other", payload))).decode()
    with pytest.raises(InvalidProvenance):
        open_envelope({**ENVELOPE, "signatures": [{"sig": foreign}]}, signer.public_key)


@pytest.mark.parametrize("payload", [b'{"a":1,"a":2}', b"[1]", b"\xff", b'{"a":NaN}'])
def test_a_signed_payload_that_is_no_strict_object_is_refused(payload: bytes) -> None:
    signer = SeedSigner()
    envelope = {
        "payloadType": PAYLOAD_TYPE,
        "payload": base64.b64encode(payload).decode(),
        "signatures": [{"sig": base64.b64encode(signer.sign(pae(PAYLOAD_TYPE, payload))).decode()}],
    }
    with pytest.raises(InvalidProvenance) as caught:
        open_envelope(envelope, signer.public_key)
    assert caught.value.check == "payload"


@settings(deadline=None)
@given(st.integers(0, len(payload_of(ENVELOPE)) - 1), st.integers(1, 255))
def test_no_byte_of_the_payload_can_change(at: int, flip: int) -> None:
    payload = bytearray(payload_of(ENVELOPE))
    payload[at] ^= flip
    with pytest.raises(InvalidProvenance):
        open_envelope({**ENVELOPE, "payload": base64.b64encode(payload).decode()}, SeedSigner().public_key)


def test_of_an_envelope_only_what_the_key_vouches_for_is_kept() -> None:
    key = SeedSigner().public_key
    stranger = sign_envelope(STATEMENT, SeedSigner(2))["signatures"]
    noisy = ENVELOPE | {"x": 10**30, "signatures": [*stranger, ENVELOPE["signatures"][0] | {"x": [[[1]]]}, *stranger]}
    assert bare_envelope(noisy, key) == ENVELOPE
    assert bare_envelope(bare_envelope(noisy, key), key) == ENVELOPE


def test_the_key_s_own_name_and_the_one_alphabet_are_kept_whatever_was_sent() -> None:
    sent = copy.deepcopy(ENVELOPE)
    sent["payload"] = sent["payload"].replace("+", "-").replace("/", "_")
    sent["signatures"][0]["keyid"] = "\u202e" * 500
    assert bare_envelope(sent, SeedSigner().public_key) == ENVELOPE


def test_of_several_signatures_none_by_the_key_nothing_is_kept() -> None:
    with pytest.raises(InvalidProvenance) as caught:
        bare_envelope(ENVELOPE | {"signatures": ENVELOPE["signatures"] * 2}, SeedSigner(2).public_key)
    assert caught.value.check == "signature"
