"""Every claim of a token in words, for people who look at one. Nothing is believed by being explained."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from contract.signing import InvalidKey, PublicKey
from grants.claims import MAX_CHAIN

Kind = Literal["root", "derived"]

_NEVER: Final = ", recorded and never trusted"
_COMMON: Final = {
    "sub": "the person on whose behalf is asked",
    "aud": "the agent that this token is for; only with the key below may it be passed on",
    "iat": "issued",
    "nbf": "valid from",
    "exp": "valid until",
    "jti": "the id of this token; dataset-agent grant revoke --grant takes it",
    "txn": "the transaction, the same in every token; dataset-agent grant revoke --txn takes it",
    "cnf.jwk": "the key of the agent that this token is for, which signs the next token",
    "del_depth": "tokens above this one",
    "del_max_depth": f"down to which depth it may be passed on; a chain has at most {MAX_CHAIN} tokens",
    "authorization_details.type": "the kind of authorization; the only one there is",
    "authorization_details.locations": "agents that may answer",
    "authorization_details.identifier": "the dataset",
    "authorization_details.dataset_version": "its version",
    "authorization_details.revision": "the state of its data; a later one needs a fresh grant",
    "authorization_details.actions": "capabilities that may be called",
    "authorization_details.max_sensitivity": "nothing more sensitive may be read",
    "authorization_details.columns": "no other column may be read (absent: every one)",
    "authorization_details.constraints": "only rows that fulfil this may be read",
    "op.call_hash": "SHA-256 of the call, exactly as it is sent; no other call may be made with it",
    "op.task": "the one task that may be looked at",
    "op.negotiate": "to find out what to call; it never releases rows",
    "tctx.tenant": "the person's tenant; the issuer may speak for it only where it is pinned so",
    "tctx.principal_class": f"the class of the person{_NEVER}",
    "tctx.intent": f"what the issuer admitted it for{_NEVER}",
    "tctx.policy_id": f"the issuer's policy that granted{_NEVER}; dataset-agent grant revoke --policy takes id@version",
    "tctx.policy_version": f"the version of its policies{_NEVER}; a receiver may accept some versions only",
    "tctx.decision_id": f"the issuer's decision, in its evidence{_NEVER}",
    "rctx": f"joins the traces of both sides{_NEVER}",
}
_ROOT: Final = {
    "iss": "the issuer that admitted the person",
    "act.sub": "who passed it on: the issuer itself",
    "op.method": "to be delegated; a root token is no call",
}
_DERIVED: Final = {
    "iss": "the key that signed it: the one that the token above names",
    "act.sub": "who passed it on: the agent that the token above is for",
    "par_hash": "it stands on exactly the token above, by its hash",
    "op.method": "the one operation it is good for",
}
_TIMES: Final = frozenset({"iat", "nbf", "exp"})
_INDEX: Final = re.compile(r"\.\d+(?=\.|$)")


@dataclass(frozen=True, slots=True)
class Explained:
    """One claim by its path, as it stands there, and what it means."""

    claim: str
    value: Any
    meaning: str

    def to_json(self) -> dict[str, Any]:
        return {"claim": self.claim, "value": self.value, "meaning": self.meaning}


def explained(claims: Any, kind: Kind, *, now: float) -> tuple[Explained, ...]:
    """The claims of one token, whatever it holds; a claim that is none of ours is called unknown."""
    if not isinstance(claims, Mapping):
        return ()
    return tuple(Explained(path, value, _meaning(path, value, kind, now)) for path, value in _members(claims))


def _members(claims: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Claims and their members, each by its path: ``cnf.jwk``, ``authorization_details.0.actions``."""
    for name, value in claims.items():
        path = f"{prefix}{name}"
        inner = dict(enumerate(value)) if isinstance(value, list) and any(isinstance(v, dict) for v in value) else value
        if isinstance(inner, Mapping) and inner and path != "cnf.jwk":
            yield from _members({str(key): member for key, member in inner.items()}, f"{path}.")
        else:
            yield path, value


def _meaning(path: str, value: Any, kind: Kind, now: float) -> str:
    place = _INDEX.sub("", path)
    words = (_ROOT if kind == "root" else _DERIVED) | _COMMON
    found = words.get(place) or next((words[head] for head in _heads(place) if head in words), None)
    if found is None:
        return "unknown to this profile, which refuses what it does not know"
    return f"{found}{_detail(place, value, now)}"


def _heads(place: str) -> Iterator[str]:
    """``a.b.c`` -> ``a.b``, ``a``."""
    while "." in place:
        place = place.rpartition(".")[0]
        yield place


def _detail(place: str, value: Any, now: float) -> str:
    if place in _TIMES and type(value) is int:
        return f", {_distance(value - now)}"
    if place == "cnf.jwk":
        try:
            return f"; its kid is {PublicKey.from_jwk(value).thumbprint}"
        except InvalidKey:
            return "; it is none that this profile takes"
    return ""


def _distance(seconds: float) -> str:
    if abs(seconds) < 1:
        return "now"
    size = f"{abs(seconds):,.0f} s"
    return f"in {size}" if seconds > 0 else f"{size} ago"
