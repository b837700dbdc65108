"""A second receiver: rules 1 to 10 of docs/extension.md, written from that document alone.

It imports nothing of the product. Where it and the product disagree about a vector, one of the two or the document is wrong.
"""

import base64
import datetime
import hashlib
import json
import re
import unicodedata
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from typing import Any, NoReturn

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

Json = dict[str, Any]
Check = Callable[[Any], bool]
SAFE, SKEW, INFINITY = 2**53 - 1, 5, float("inf")
SENSITIVITIES = ("public", "internal", "confidential", "restricted")


class Refused(Exception):
    """The first rule that fails; its text is the reason."""


def need(holds: bool, reason: str) -> None:
    if not holds:
        raise Refused(reason)


# --- Forms: bytes and JSON. What is not of its form is a ValueError.


def to_base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def from_base64url(text: str) -> bytes:
    data = base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True)
    if to_base64url(data) != text:
        raise ValueError
    return data


def strict_json(data: bytes) -> Any:
    def members(pairs: list[tuple[str, Any]]) -> Json:
        return dict(pairs) if len(dict(pairs)) == len(pairs) else refuse("")

    def refuse(_: str) -> NoReturn:
        raise ValueError

    def walk(value: Any, level: int) -> None:
        if isinstance(value, dict | list):
            if level == 32:
                raise ValueError
            for inner in [*value, *value.values()] if isinstance(value, dict) else value:
                walk(inner, level + 1)
        elif isinstance(value, str):
            value.encode()  # a lone surrogate has no UTF-8
        elif isinstance(value, int | float) and abs(float(value)) == INFINITY:
            raise ValueError

    try:
        value = json.loads(data.decode(), object_pairs_hook=members, parse_constant=refuse)
        walk(value, 0)
    except (RecursionError, OverflowError) as bad:
        raise ValueError from bad
    return value


# --- Forms: points of edwards25519 (RFC 8032, section 5.1)

P, D = 2**255 - 19, -121665 * pow(121666, -1, 2**255 - 19)
ORDER, NEUTRAL = 2**252 + 27742317777372353535851937790883648493, (0, 1)


def times(n: int, point: tuple[int, int]) -> tuple[int, int]:
    def add(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
        k = D * a[0] * b[0] * a[1] * b[1]
        return (a[0] * b[1] + b[0] * a[1]) * pow(1 + k, -1, P) % P, (a[1] * b[1] + a[0] * b[0]) * pow(1 - k, -1, P) % P

    total = NEUTRAL
    for bit in f"{n:b}":
        total = add(total, total)
        total = add(total, point) if bit == "1" else total
    return total


def to_point(encoded: bytes) -> tuple[int, int]:
    sign, y = divmod(int.from_bytes(encoded, "little"), 2**255)
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    x = x if x * x % P == square else x * pow(2, (P - 1) // 4, P) % P
    if len(encoded) != 32 or y >= P or x * x % P != square or (x == 0 and sign):
        raise ValueError
    return (x if x % 2 == sign else P - x), y


@lru_cache
def is_key(x: str) -> bool:
    point = to_point(from_base64url(x))
    return point != NEUTRAL and times(ORDER, point) == NEUTRAL


def signed(x: str, signature: bytes, message: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(from_base64url(x)).verify(signature, message)
        return times(8, to_point(signature[:32])) != NEUTRAL
    except (InvalidSignature, ValueError):
        return False


# --- Forms: JSON values


def nfc(v: Any) -> bool:
    inner = [*v, *v.values()] if isinstance(v, dict) else v if isinstance(v, list) else []
    return unicodedata.is_normalized("NFC", v) if isinstance(v, str) else all(map(nfc, inner))


def text(most: int) -> Check:
    bad = {"Cc", "Cf", "Zl", "Zp"}
    return lambda v: isinstance(v, str) and 1 <= len(v) <= most and not bad & set(map(unicodedata.category, v))


def like(form: str) -> Check:
    return lambda v: isinstance(v, str) and re.fullmatch(form, v) is not None


def integer(low: int, high: int) -> Check:
    return lambda v: type(v) is int and low <= v <= high


def several(least: int, most: int, item: Check, different: bool = True) -> Check:
    def check(v: Any) -> bool:
        right = isinstance(v, list) and least <= len(v) <= most and all(map(item, v))
        return right and (not different or len(set(v)) == len(v))

    return check


def record(required: dict[str, Check], optional: dict[str, Check] | None = None) -> Check:
    every = required | (optional or {})

    def check(v: Any) -> bool:
        right = isinstance(v, dict) and required.keys() <= v.keys() <= every.keys()
        return right and all(every[name](v[name]) for name in v)

    return check


def is_public_key(v: Any) -> bool:
    members = {"kty": like("OKP"), "crv": like("Ed25519"), "x": like("[A-Za-z0-9_-]{43}")}
    try:
        return record(members)(v) and is_key(v["x"])
    except ValueError:
        return False


def is_column(v: Any) -> bool:
    side = r"[^.\x00-\x20\x7f-\x9f\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+"  # no White_Space, no Cc
    return like(rf"{side}\.{side}")(v) and len(v) <= 256


def is_operation(v: Any) -> bool:
    choice = {"call_hash": like("[0-9a-f]{64}"), "task": identifier, "negotiate": lambda value: value is True}
    right = record({"method": like("[A-Za-z]{1,64}")}, choice)(v)
    return right and len(v) == (1 if v["method"] in ("discover", "delegate") else 2)


def bound(v: Any) -> tuple[str, Any] | None:
    """The kind of a bound, and what orders it among its kind."""
    if integer(-SAFE, SAFE)(v) or like(r"-?[0-9]{1,38}(\.[0-9]{1,38})?")(v):
        return "number", Decimal(v)
    try:
        if like("[0-9]{4}-[0-9]{2}-[0-9]{2}")(v):
            return "date", datetime.date.fromisoformat(v)
        if like(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z")(v):
            return "moment", datetime.datetime.fromisoformat(v)
    except ValueError:
        pass
    return None


def is_bound(v: Any) -> bool:
    return bound(v) is not None


identifier, note, instant, slug = text(512), text(256), integer(0, 10**11 - 1), like("[a-z][a-z0-9_-]{0,63}")
scalars = several(0, 1_000, lambda v: isinstance(v, str) or integer(-SAFE, SAFE)(v), different=False)
CONSTRAINT = {"one_of": scalars, "not_one_of": scalars, "max": is_bound, "min": is_bound, "prefix": like("(?s:.+)")}
DETAIL = {
    "type": note,
    "locations": several(1, 16, identifier),
    "identifier": slug,
    "dataset_version": like("[A-Za-z0-9][A-Za-z0-9._+-]{0,63}"),
    "revision": identifier,
    "actions": several(1, 64, slug),
    "max_sensitivity": like("|".join(SENSITIVITIES)),
}
NARROWING: dict[str, Check] = {
    "columns": several(0, 1_000, is_column),
    "constraints": lambda v: isinstance(v, dict) and len(v) <= 100,
}
CLAIMS: dict[str, Check] = {
    **dict.fromkeys(("iss", "sub", "aud"), identifier),
    **dict.fromkeys(("iat", "nbf", "exp"), instant),
    **dict.fromkeys(("jti", "txn"), note),
    "act": record({"sub": identifier}),
    "cnf": record({"jwk": is_public_key}),
    "del_max_depth": integer(0, 3),
    "authorization_details": several(0, 8, record(DETAIL, NARROWING), different=False),
    "op": is_operation,
    "tctx": record(
        {"tenant": identifier, "principal_class": note},
        dict.fromkeys(("intent", "policy_id", "policy_version", "decision_id"), note),
    ),
    "rctx": record({"trace_id": note}, dict.fromkeys(("session_id", "invocation_id", "request_id"), identifier)),
}
ROOT = record(CLAIMS | {"del_depth": integer(0, 0)})
CHILD = record(CLAIMS | {"del_depth": integer(1, 3), "par_hash": like("[A-Za-z0-9_-]{43}")})


# --- Narrower


def covers(parent: Json, child: Json) -> bool:
    constraints = child.get("constraints", {})
    return (
        all(parent[name] == child[name] for name in ("identifier", "dataset_version", "revision"))
        and all(set(child[name]) <= set(parent[name]) for name in ("locations", "actions"))
        and SENSITIVITIES.index(child["max_sensitivity"]) <= SENSITIVITIES.index(parent["max_sensitivity"])
        and ("columns" not in parent or ("columns" in child and set(child["columns"]) <= set(parent["columns"])))
        and all(n in constraints and tighter(c, constraints[n]) for n, c in parent.get("constraints", {}).items())
    )


def tighter(parent: Json, child: Json) -> bool:
    def member(name: str, a: Any, b: Any) -> bool:
        if name in ("one_of", "not_one_of"):
            return set(b) <= set(a) if name == "one_of" else set(b) >= set(a)
        if name == "prefix":
            return str(b).startswith(a)
        low, high = (bound(b), bound(a)) if name == "max" else (bound(a), bound(b))
        return low is not None and high is not None and low[0] == high[0] and bool(low[1] <= high[1])

    return all(name in child and member(name, value, child[name]) for name, value in parent.items())


# --- Processing rules


def thumbprint(jwk: Json) -> str:
    return to_base64url(hashlib.sha256(f'{{"crv":"Ed25519","kty":"OKP","x":"{jwk["x"]}"}}'.encode()).digest())


def signing_input(token: str) -> bytes:
    return token.rpartition(".")[0].encode()


def parsed(data: bytes, reason: str) -> Any:
    try:
        return strict_json(data)
    except ValueError:
        raise Refused(reason) from None


def opened(token: str, keys: dict[str, Json], parent: Json | None) -> tuple[Json, str]:
    """Rule 2 for the root token, rule 3 for a child: the claims, and the `kid` of a root token."""
    try:
        header_bytes, payload, signature = map(from_base64url, token.split("."))
    except ValueError:
        raise Refused("GRANT_MALFORMED") from None
    need(bool(header_bytes and payload) and len(signature) == 64 and len(token) <= 7_500, "GRANT_MALFORMED")
    header = parsed(header_bytes, "GRANT_HEADER_INVALID")
    need(isinstance(header, dict) and len(header_bytes) <= 1_024, "GRANT_HEADER_INVALID")
    need(header.get("alg") == "Ed25519", "GRANT_ALGORITHM_NOT_ALLOWED")
    need(header.keys() == {"alg", "typ"} | (set() if parent else {"kid"}), "GRANT_HEADER_INVALID")
    kid = header.get("kid", "")
    need(header["typ"] == "execution-grant+jwt" and isinstance(kid, str), "GRANT_HEADER_INVALID")
    need(parent is not None or kid in keys, "GRANT_KEY_UNTRUSTED")
    key = parent["cnf"]["jwk"] if parent else keys[kid]
    need(signed(key["x"], signature, signing_input(token)), "GRANT_SIGNATURE_INVALID")
    claims = parsed(payload, "GRANT_CLAIMS_INVALID")
    need((CHILD if parent else ROOT)(claims) and nfc(claims), "GRANT_CLAIMS_INVALID")
    need(claims["iat"] <= claims["nbf"] < claims["exp"], "GRANT_CLAIMS_INVALID")
    details = claims["authorization_details"]
    need(len({detail["identifier"] for detail in details}) == len(details), "GRANT_CLAIMS_INVALID")
    begins = claims["act"]["sub"] == claims["iss"] and claims["op"]["method"] == "delegate"
    need(parent is not None or begins, "GRANT_CLAIMS_INVALID")
    need(all(detail["type"] == "dataset-access:v1" for detail in details), "GRANT_CONSTRAINT_UNKNOWN")
    constraints = [item for detail in details for item in detail.get("constraints", {}).items()]
    known = record({}, CONSTRAINT)
    need(all(is_column(name) and known(c) and c for name, c in constraints), "GRANT_CONSTRAINT_UNKNOWN")
    return claims, kid


def check_times(chain: list[Json], now: float) -> None:
    for claims in chain:
        longest = 60 if claims["del_depth"] else 300
        need(claims["exp"] - claims["iat"] <= longest, "GRANT_LIFETIME_EXCEEDED")
        need(claims["nbf"] <= now + SKEW, "GRANT_NOT_YET_VALID")
        need(now < claims["exp"] + SKEW, "GRANT_EXPIRED")
    need(
        all(child["exp"] <= parent["exp"] for parent, child in zip(chain, chain[1:], strict=False)),
        "GRANT_LIFETIME_EXCEEDED",
    )


def check_link(parent: Json, parent_token: str, child: Json) -> None:
    follows = {
        "par_hash": to_base64url(hashlib.sha256(signing_input(parent_token)).digest()),
        "iss": "urn:ietf:params:oauth:jwk-thumbprint:sha-256:" + thumbprint(parent["cnf"]["jwk"]),
        "act": {"sub": parent["aud"]},
        "del_depth": parent["del_depth"] + 1,
        **{name: parent[name] for name in ("sub", "txn", "tctx")},
    }
    need(all(child[name] == value for name, value in follows.items()), "GRANT_CHAIN_BROKEN")
    need(child["rctx"]["trace_id"] == parent["rctx"]["trace_id"], "GRANT_CHAIN_BROKEN")
    need(child["iat"] >= parent["iat"] - SKEW, "GRANT_CHAIN_BROKEN")
    need(child["del_max_depth"] <= parent["del_max_depth"], "GRANT_WIDENED")
    need(child["del_depth"] <= child["del_max_depth"], "GRANT_TOO_DEEP")
    given = {detail["identifier"]: detail for detail in parent["authorization_details"]}
    need(bool(child["authorization_details"]) or not given, "GRANT_WIDENED")
    for detail in child["authorization_details"]:
        need(detail["identifier"] in given and covers(given[detail["identifier"]], detail), "GRANT_WIDENED")


def accepted(trust: Json, headers: list[str], received: Json) -> Json:
    need(headers not in ([], [""]), "NO_ACTIVE_GRANT")  # rule 1
    need(len(headers) == 1 and headers[0].isascii() and len(headers[0]) <= 7_500, "GRANT_MALFORMED")
    tokens = headers[0].split(",")
    need(len(tokens) <= 4, "GRANT_TOO_DEEP")

    issuers, agents, me = trust["issuers"], trust["agents"], received["audience"]
    keys = {thumbprint(key): key for issuer in issuers.values() for key in issuer["keys"]}
    root, kid = opened(tokens[0], keys, None)  # rule 2
    need(len(tokens) > 1, "GRANT_CHAIN_BROKEN")  # rule 3
    chain = [root]
    for token in tokens[1:]:
        chain.append(opened(token, {}, chain[-1])[0])
    leaf, details = chain[-1], chain[-1]["authorization_details"]
    check_times(chain, received["now"])  # rule 4

    issuer = issuers.get(root["iss"], {"keys": [], "subject_prefix": ""})  # rule 5
    speaks = kid in map(thumbprint, issuer["keys"]) and root["sub"].startswith(issuer["subject_prefix"])
    need(speaks, "GRANT_ISSUER_UNTRUSTED")
    need(root["tctx"]["tenant"] in issuer["tenants"], "GRANT_TENANT_UNKNOWN")
    for parent, parent_token, child in zip(chain, tokens, chain[1:], strict=False):  # rule 6
        check_link(parent, parent_token, child)

    served = not details or any(me in detail["locations"] for detail in details)  # rule 7
    need(leaf["aud"] == me and served, "GRANT_AUDIENCE_MISMATCH")
    need(leaf["act"]["sub"] == received["client"], "GRANT_CLIENT_MISMATCH")
    need(me in agents, "GRANT_KEY_UNTRUSTED")  # rule 8
    for claims in (claims for claims in chain if claims["aud"] in agents):
        pinned = [key["x"] for key in agents[claims["aud"]]["keys"]]
        need(claims["cnf"]["jwk"]["x"] in pinned, "GRANT_KEY_UNTRUSTED")

    operation = leaf["op"]  # rule 9
    need(operation == received["operation"], "GRANT_OPERATION_MISMATCH")
    need(bool(details) or not operation.keys() & {"call_hash", "task"}, "NO_ACTIVE_GRANT")
    versions, version = trust["policy_versions"], leaf["tctx"].get("policy_version")  # rule 10
    need(versions is None or version is None or version in versions, "UNKNOWN_POLICY_VERSION")
    return {
        "subject": leaf["sub"],
        "client": received["client"],
        "txn": leaf["txn"],
        "leaf_jti": leaf["jti"],
        "leaf_digest": hashlib.sha256(signing_input(tokens[-1])).hexdigest(),
        "details": details,
    }


def verify(trust: Json, headers: list[str], received: Json) -> Json:
    """What a vector expects: the one reason of a refusal, or what was accepted."""
    try:
        return accepted(trust, headers, received)
    except Refused as refusal:
        return {"reason": str(refusal)}
