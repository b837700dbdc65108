"""Envelopes of ours, judged by another implementation of DSSE: securesystemslib's."""

from __future__ import annotations

import base64
import copy
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from hypothesis import given
from hypothesis import strategies as st
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import SSlibKey

from contract.signing import PublicKey
from evidence.dsse import InvalidProvenance, open_envelope, pae, sign_envelope
from evidence.statement import draft
from tests.authority_builder import make_authority
from tests.evidence.evidence_builders import SeedSigner, draft_members, make_row, open_ledger

SIGNER = SeedSigner()


def theirs(key: PublicKey) -> SSlibKey:
    return SSlibKey.from_crypto(Ed25519PublicKey.from_public_bytes(key.raw), keyid=key.thumbprint)


def accepted(envelope: dict[str, Any], key: PublicKey) -> bool:
    try:
        return bool(Envelope.from_dict(copy.deepcopy(envelope)).verify([theirs(key)], 1))
    except VerificationError:
        return False


@pytest.fixture
def envelope(tmp_path: Path) -> dict[str, Any]:
    """The provenance of an answer, with the receipt of its row."""
    ledger = open_ledger(tmp_path)
    sealed = draft(make_authority(), **draft_members()).seal(ledger.append(make_row()), SIGNER)
    ledger.close()
    return sealed


def test_the_envelope_of_an_answer_verifies(envelope: dict[str, Any]) -> None:
    assert accepted(envelope, SIGNER.public_key)
    assert not accepted(envelope, SeedSigner(2).public_key)


def test_both_read_the_same_payload(envelope: dict[str, Any]) -> None:
    read = Envelope.from_dict(copy.deepcopy(envelope))
    assert read.payload_type == envelope["payloadType"]
    assert pae(read.payload_type, read.payload) == read.pae()
    assert read.payload == base64.b64decode(envelope["payload"])


@pytest.mark.parametrize("change", ["payload", "signature", "type"])
def test_both_refuse_what_was_changed(envelope: dict[str, Any], change: str) -> None:
    payload = base64.b64decode(envelope["payload"])
    if change == "payload":
        envelope["payload"] = base64.b64encode(payload.replace(b"GRANTED", b"REFUSED")).decode()
    elif change == "type":
        envelope["payloadType"] += "x"
    else:
        envelope["signatures"][0]["sig"] = base64.b64encode(bytes(64)).decode()
    assert not accepted(envelope, SIGNER.public_key)
    with pytest.raises(InvalidProvenance):
        open_envelope(envelope, SIGNER.public_key)


@given(st.dictionaries(st.text(max_size=20), st.text(max_size=40) | st.integers(-(2**53) + 1, 2**53 - 1), max_size=5))
def test_whatever_is_sealed_verifies_there(statement: dict[str, Any]) -> None:
    try:
        sealed = sign_envelope(statement, SIGNER)
    except TypeError:  # lone surrogates are no text
        return
    assert accepted(sealed, SIGNER.public_key)
    assert open_envelope(sealed, SIGNER.public_key) == statement
