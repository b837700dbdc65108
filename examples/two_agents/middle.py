"""The agent in the middle, honest and not: what it may derive of what it was given, and what it may not.

Everything here is signed by the purification agent's real key and sent under its real
assertion. What it is given is real too: the root token of an asking that was just answered.
"""

from __future__ import annotations

import base64
import copy
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import httpx

from contract.call import Call, Operation, encode_call
from contract.canonical import unb64url
from contract.extension import DECISION_KEY, EXTENSION_URI, GRANT_HEADER
from contract.ids import new_id
from contract.settings import Settings
from contract.signing import Signer
from examples.two_agents.homes import BATCHES, CHROMATOGRAPHY, PURIFICATION, RUNS, Homes
from grants import jose
from grants.claims import GRANT_TYP, write
from grants.client import client_assertion
from grants.derive import derive, header_value
from grants.key_store import KeyName
from grants.signers import open_signer
from grants.trust import TrustedAgent, load_trust

_AGGREGATE: Final = "aggregate"
_SEARCH: Final = "search"


@dataclass(frozen=True, slots=True)
class Try:
    """One thing the middle agent signs and sends, and the answer that is right."""

    what: str
    edit: Callable[[dict[str, Any]], None]
    reason: str


def _detail(**members: Any) -> Callable[[dict[str, Any]], None]:
    return lambda claims: claims["authorization_details"][0].update(members)


def _claim(**members: Any) -> Callable[[dict[str, Any]], None]:
    return lambda claims: claims.update(members)


def _later(claims: dict[str, Any]) -> None:
    claims |= {name: claims[name] + 1 for name in ("iat", "nbf", "exp")}


TRIES: Final = (
    Try("a capability more", _detail(actions=[_AGGREGATE, _SEARCH]), "GRANT_WIDENED"),
    Try("another dataset", _detail(identifier="clinical-private"), "GRANT_WIDENED"),
    Try("another revision", _detail(revision="s3-etag-000000"), "GRANT_WIDENED"),
    Try("the row constraint dropped", _detail(constraints={}), "GRANT_WIDENED"),
    Try(
        "the row constraint loosened",
        _detail(constraints={"chromatography_run.site": {"one_of": ["Basel", "Dublin", "Singapore"]}}),
        "GRANT_WIDENED",
    ),
    Try("a higher sensitivity", _detail(max_sensitivity="restricted"), "GRANT_WIDENED"),
    Try("a third agent", _detail(locations=[CHROMATOGRAPHY, "urn:dataset-agent:third"]), "GRANT_WIDENED"),
    Try("a deeper delegation", _claim(del_max_depth=3), "GRANT_WIDENED"),
    Try("a longer life", _later, "GRANT_LIFETIME_EXCEEDED"),
    Try("another person", _claim(sub="u-ana-01"), "GRANT_CHAIN_BROKEN"),
    Try("another transaction", _claim(txn="txn-of-its-own"), "GRANT_CHAIN_BROKEN"),
    Try("another sender", _claim(act={"sub": "urn:dataset-agent:root"}), "GRANT_CHAIN_BROKEN"),
)


@dataclass(frozen=True, slots=True)
class Middle:
    """The purification agent's key, and a chain that the root agent really began."""

    homes: Homes
    leaf: tuple[str, ...]
    call: Call

    @classmethod
    def given(cls, homes: Homes, root_token: str, asked: Call) -> Middle:
        """What the root agent sent for ``asked``, derived once more: tokens of the real one are kept nowhere."""
        operation = Operation("SendMessage", call_hash=asked.call_hash)
        holder = open_signer(homes.root, KeyName.ROOT)
        audience = _pinned(homes.root, PURIFICATION)
        leaf = derive((root_token,), holder, audience=audience, operation=operation, now=time.time())
        search = encode_call(RUNS, _SEARCH, {"query": asked.arguments["batch_id"]})
        return cls(homes, leaf, Call.parse(search))

    @property
    def key(self) -> Signer:
        return open_signer(self.homes.purification, KeyName.REMOTE)

    def honest(self) -> tuple[str, ...]:
        """What the purification agent passes on: its own dataset left out, and no deeper than this."""
        held = [scope for scope in _scopes(self.leaf) if scope["identifier"] != BATCHES]
        audience = _pinned(self.homes.purification, CHROMATOGRAPHY)
        operation = Operation("SendMessage", call_hash=self.call.call_hash)
        whole = derive(self.leaf, self.key, audience=audience, operation=operation, now=time.time(), max_depth=2)
        return self.signed(whole, lambda claims: claims.update(authorization_details=held))

    def signed(self, chain: Sequence[str], edit: Callable[[dict[str, Any]], None]) -> tuple[str, ...]:
        """The chain with its last token edited, and signed again as it then stands."""
        claims = copy.deepcopy(claims_of(chain[-1]))
        edit(claims)
        return (*chain[:-1], jose.sign(write(claims), self.key, typ=GRANT_TYP))

    def own_root(self, chain: Sequence[str]) -> tuple[str, ...]:
        """The chain under a root token that the middle agent signed itself."""
        key = self.key
        return (
            jose.sign(write(claims_of(chain[0])), key, typ=GRANT_TYP, kid=key.public_key.thumbprint),
            *chain[1:],
        )

    def send(self, chain: Sequence[str]) -> dict[str, Any]:
        """The chromatography agent's decision."""
        settings = self.homes.chromatography
        bearer = client_assertion(self.key, agent_id=PURIFICATION, audience=CHROMATOGRAPHY, now=time.time())
        headers = {
            "A2A-Version": "1.0",
            "A2A-Extensions": EXTENSION_URI,
            "Authorization": f"Bearer {bearer}",
            GRANT_HEADER: header_value(chain),
        }
        part = {"raw": base64.b64encode(self.call.raw).decode(), "mediaType": "application/json"}
        message = {"messageId": new_id("msg"), "role": "ROLE_USER", "parts": [part]}
        body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
        answer = httpx.post(f"{settings.url}/", json=body, headers=headers, timeout=30, trust_env=False).json()
        return dict(answer["result"]["task"]["metadata"][DECISION_KEY])


def claims_of(token: str) -> dict[str, Any]:
    """The claims of a token, unverified."""
    return dict(json.loads(unb64url(token.split(".")[1])))


def _scopes(chain: Sequence[str]) -> list[Mapping[str, Any]]:
    return list(claims_of(chain[-1])["authorization_details"])


def _pinned(settings: Settings, agent_id: str) -> TrustedAgent:
    return load_trust(settings.trust_path).agents[agent_id]
