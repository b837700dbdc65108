"""DSSE envelopes: signed bytes, so that nothing needs canonical form to verify.

https://github.com/secure-systems-lab/dsse, protocol version 1.0.2.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

from contract.canonical import InvalidJson, parse_json, sha256_hex
from contract.signing import PublicKey, Signer
from evidence.limits import MAX_PAYLOAD_BYTES

PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"
MAX_SIGNATURES: Final = 8
_KID: Final = re.compile(r"[A-Za-z0-9_-]{43}")


class InvalidProvenance(ValueError):
    """Provenance that does not hold. ``check`` names the check that failed, the message says how."""

    def __init__(self, check: str, message: str) -> None:
        super().__init__(message)
        self.check = check


def pae(payload_type: str, payload: bytes) -> bytes:
    """The pre-authentication encoding: what is signed."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def sign_envelope(statement: Mapping[str, Any], signer: Signer) -> dict[str, Any]:
    """An envelope over the JSON of ``statement``, signed once.

    ``keyid`` is the thumbprint of the key: a hint for people, never read by ``open_envelope``.
    """
    payload = orjson.dumps(statement, option=orjson.OPT_SORT_KEYS)
    return _envelope(payload, signer.sign(pae(PAYLOAD_TYPE, payload)), signer.public_key)


def bare_envelope(envelope: Any, key: PublicKey) -> dict[str, Any]:
    """Of an envelope only what ``key`` can vouch for: the payload and one signature, in one form.

    Other members, which nobody signed, and other signatures are left out, so that nothing of
    them is stored or sent on. Of several signatures the one by ``key`` is kept; a single one
    is *not* verified here. Raises as ``open_envelope``.
    """
    payload, signatures = _parts(envelope)
    signed = pae(PAYLOAD_TYPE, payload)
    for signature in signatures:
        if len(signatures) == 1 or key.verifies(signature, signed):
            return _envelope(payload, signature, key)
    raise InvalidProvenance("signature", "the envelope is not signed by the expected key")


def _envelope(payload: bytes, signature: bytes, key: PublicKey) -> dict[str, Any]:
    return {
        "payloadType": PAYLOAD_TYPE,
        "payload": base64.b64encode(payload).decode("ascii"),
        "signatures": [{"keyid": key.thumbprint, "sig": base64.b64encode(signature).decode("ascii")}],
    }


def open_envelope(envelope: Any, key: PublicKey) -> dict[str, Any]:
    """The statement, where one of the signatures is by ``key`` (the one the caller already trusts).

    Raises ``InvalidProvenance``: ``envelope`` for its shape, ``signature`` where ``key``
    signed nothing here, ``payload`` where what it signed is not strict JSON.
    """
    payload, signatures = _parts(envelope)
    signed = pae(PAYLOAD_TYPE, payload)
    if not any(key.verifies(signature, signed) for signature in signatures):
        raise InvalidProvenance("signature", "the envelope is not signed by the expected key")
    return read_payload(payload)


def read_payload(payload: bytes) -> dict[str, Any]:
    """The object of a payload, as every verifier reads it. Raises ``InvalidProvenance`` (``payload``)."""
    try:
        statement = parse_json(payload, limit=MAX_PAYLOAD_BYTES)
    except InvalidJson as error:
        raise InvalidProvenance("payload", f"the signed payload is not acceptable: {error}") from error
    if not isinstance(statement, dict):
        raise InvalidProvenance("payload", "the signed payload is not an object")
    return statement


def signing_key(envelope: Any, keys: Sequence[PublicKey]) -> PublicKey:
    """The first of ``keys`` that signed the envelope. Raises as ``open_envelope``.

    The envelope's own ``keyid`` only says how to word that none did.
    """
    payload, signatures = _parts(envelope)
    signed = pae(PAYLOAD_TYPE, payload)
    for key in keys:
        if any(key.verifies(signature, signed) for signature in signatures):
            return key
    named = [str(kid) for kid in (signature.get("keyid") for signature in envelope["signatures"]) if _is_kid(kid)]
    if set(named) & {key.thumbprint for key in keys}:
        raise InvalidProvenance("signature", "the envelope was changed after the key that it names signed it")
    kid = f"kid {named[0]}" if named else "no kid named"
    raise InvalidProvenance("signature", f"the envelope is signed by a key that is not trusted here ({kid})")


def payload_of(envelope: Any) -> bytes:
    """The payload bytes, *unverified*: for digests only. Raises ``InvalidProvenance``."""
    return _parts(envelope)[0]


def upstream_digest(envelope: Mapping[str, Any]) -> str:
    """What the ledger row of an agent that got an answer records of its envelope. Raises ``InvalidProvenance``."""
    return sha256_hex(payload_of(dict(envelope)))


def _parts(envelope: Any) -> tuple[bytes, list[bytes]]:
    if not isinstance(envelope, dict):
        raise InvalidProvenance("envelope", "the envelope is not an object")
    if envelope.get("payloadType") != PAYLOAD_TYPE:
        raise InvalidProvenance("envelope", f"the envelope's payloadType is not {PAYLOAD_TYPE}")
    signatures = envelope.get("signatures")
    if not isinstance(signatures, list) or not 1 <= len(signatures) <= MAX_SIGNATURES:
        raise InvalidProvenance("envelope", f"the envelope has no signature, or more than {MAX_SIGNATURES}")
    payload = _unbase64(envelope.get("payload"), limit=MAX_PAYLOAD_BYTES)
    return payload, [_signature(signature) for signature in signatures]


def _is_kid(value: Any) -> bool:
    return isinstance(value, str) and _KID.fullmatch(value) is not None


def _signature(entry: Any) -> bytes:
    if not isinstance(entry, dict):
        raise InvalidProvenance("envelope", "a signature of the envelope is not an object")
    return _unbase64(entry.get("sig"), limit=1024)


def _unbase64(text: Any, *, limit: int) -> bytes:
    """Strict base64 of either alphabet, as the specification asks of a verifier."""
    if not isinstance(text, str) or len(text) > limit * 4 // 3 + 4:
        raise InvalidProvenance("envelope", "a member of the envelope is not base64 text of an acceptable size")
    standard = text.replace("-", "+").replace("_", "/")
    try:
        data = base64.b64decode(standard.encode("ascii"), validate=True)
    except (UnicodeEncodeError, binascii.Error) as error:
        raise InvalidProvenance("envelope", "a member of the envelope is not base64") from error
    if base64.b64encode(data).decode("ascii") != standard:
        raise InvalidProvenance("envelope", "base64 in the envelope is not canonical")
    return data
