"""Signs whatever it is given, well formed or not: what the vectors are made with. It knows nothing of the product."""

from __future__ import annotations

import base64
import copy
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

NOW: Final = 1_800_000_000
ISSUER: Final = "https://issuer.example"
OTHER_ISSUER: Final = "https://other-issuer.example"
ROOT: Final = "urn:example:root"
FIRST: Final = "urn:example:purification"
SECOND: Final = "urn:example:chromatography"
THIRD: Final = "urn:example:clinical"
CALL: Final = {"method": "SendMessage", "call_hash": "ab" * 32}
URI: Final = "urn:ietf:params:oauth:jwk-thumbprint:sha-256:"

Claims = dict[str, Any]
Edit = Callable[[Claims], object]


def b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def private(name: str) -> Ed25519PrivateKey:
    """A key that everybody can make: it is good for these vectors only."""
    return Ed25519PrivateKey.from_private_bytes(hashlib.sha256(f"execution-grant vectors: {name}".encode()).digest())


def x_of(name: str) -> str:
    return b64(private(name).public_key().public_bytes_raw())


def jwk(name: str) -> dict[str, str]:
    return {"kty": "OKP", "crv": "Ed25519", "x": x_of(name)}


def thumbprint(x: str) -> str:
    return b64(hashlib.sha256(f'{{"crv":"Ed25519","kty":"OKP","x":"{x}"}}'.encode()).digest())


def sign(claims: Claims | bytes, key: str, header: Mapping[str, Any] | bytes) -> str:
    """A compact JWS of ``claims`` (bytes are taken as they are) by the key of that name."""
    head = header if isinstance(header, bytes) else json.dumps(header, separators=(",", ":")).encode()
    body = (
        claims if isinstance(claims, bytes) else json.dumps(claims, separators=(",", ":"), ensure_ascii=False).encode()
    )
    signed = f"{b64(head)}.{b64(body)}"
    return f"{signed}.{b64(private(key).sign(signed.encode()))}"


def detail(**changes: Any) -> dict[str, Any]:
    plain = {
        "type": "dataset-access:v1",
        "locations": [FIRST],
        "identifier": "purification-batches",
        "dataset_version": "2026.09.01",
        "revision": "rev-1",
        "actions": ["compare_batches", "search"],
        "max_sensitivity": "internal",
        "columns": ["batches.batch_id", "batches.site", "batches.yield"],
        "constraints": {"batches.site": {"one_of": ["basel", "visp"]}, "batches.year": {"min": 2020, "max": "2026.5"}},
    }
    return {name: value for name, value in {**plain, **changes}.items() if value is not None}


def upstream_detail(**changes: Any) -> dict[str, Any]:
    plain = {
        "locations": [SECOND],
        "identifier": "chromatography-results",
        "actions": ["peaks"],
        "columns": None,
        "constraints": None,
    }
    return detail(**{**plain, **changes})


def root_claims() -> Claims:
    return {
        "iss": ISSUER,
        "sub": "u-eng-01",
        "aud": ROOT,
        "act": {"sub": ISSUER},
        "iat": NOW - 10,
        "nbf": NOW - 10,
        "exp": NOW + 290,
        "jti": "root-1",
        "txn": "txn-1",
        "cnf": {"jwk": jwk(ROOT)},
        "del_depth": 0,
        "del_max_depth": 3,
        "authorization_details": [detail()],
        "op": {"method": "delegate"},
        "tctx": {"tenant": "acme", "principal_class": "engineer", "policy_version": "p-1"},
        "rctx": {"trace_id": "0123456789abcdef0123456789abcdef", "session_id": "s-1"},
    }


@dataclass
class Forge:
    """A chain whose claims, headers, signers and text may be changed before it is sent.

    ``hops`` are the receivers, in order. Edits are by place in the chain, 0 being the root token; ``None``
    in ``edits`` is every child.
    """

    hops: tuple[str, ...] = (FIRST,)
    edits: Mapping[int, Edit] = field(default_factory=dict)
    headers: Mapping[int, Callable[[dict[str, Any]], Any]] = field(default_factory=dict)
    signers: Mapping[int, str] = field(default_factory=dict)
    payloads: Mapping[int, Callable[[bytes], bytes]] = field(default_factory=dict)

    def tokens(self) -> list[str]:
        claims = root_claims()
        self._edit(0, claims)
        tokens = [
            self._token(
                0, claims, ISSUER, {"alg": "Ed25519", "typ": "execution-grant+jwt", "kid": thumbprint(x_of(ISSUER))}
            )
        ]
        holder = ROOT
        for place, hop in enumerate(self.hops, start=1):
            claims = self._child(claims, tokens[-1], hop, holder, place)
            self._edit(place, claims)
            tokens.append(self._token(place, claims, holder, {"alg": "Ed25519", "typ": "execution-grant+jwt"}))
            holder = hop
        return tokens

    def header(self) -> str:
        return ",".join(self.tokens())

    @staticmethod
    def _child(parent: Claims, token: str, hop: str, holder: str, place: int) -> Claims:
        parent = {**root_claims(), **parent}  # where an edit took something out of the parent
        child = copy.deepcopy(parent)
        child.update(
            iss=URI + thumbprint(x_of(holder)),
            aud=hop,
            act={"sub": parent["aud"]},
            iat=NOW,
            nbf=NOW,
            exp=NOW + 60,
            jti=f"leaf-{place}",
            cnf={"jwk": jwk(hop)},
            del_depth=place,
            par_hash=b64(hashlib.sha256(token.rpartition(".")[0].encode()).digest()),
            op=dict(CALL),
            rctx={"trace_id": parent["rctx"]["trace_id"]},
        )
        return child

    def _edit(self, place: int, claims: Claims) -> None:
        if place in self.edits:
            self.edits[place](claims)

    def _token(self, place: int, claims: Claims, signer: str, header: dict[str, Any]) -> str:
        head: Any = self.headers[place](header) if place in self.headers else header
        body: Claims | bytes = claims
        if place in self.payloads:
            body = self.payloads[place](json.dumps(claims, separators=(",", ":"), ensure_ascii=False).encode())
        return sign(body, self.signers.get(place, signer), head)
