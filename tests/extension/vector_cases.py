"""The cases of the vectors: what is sent, and what a receiver must say."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.extension.forge import (
    CALL,
    FIRST,
    ISSUER,
    NOW,
    OTHER_ISSUER,
    ROOT,
    SECOND,
    THIRD,
    URI,
    Edit,
    Forge,
    b64,
    detail,
    jwk,
    thumbprint,
    upstream_detail,
    x_of,
)


@dataclass(frozen=True)
class Case:
    """``reason`` is ``None`` where it must be accepted. ``text`` replaces the header of the forged chain."""

    id: str
    about: str
    reason: str | None
    forge: Forge = field(default_factory=Forge)
    text: tuple[str, ...] | None = None
    received: dict[str, Any] = field(default_factory=dict)


def put(**claims: Any) -> Edit:
    return lambda held: held.update(claims)


def drop(*names: str) -> Edit:
    def edit(held: dict[str, Any]) -> None:
        for name in names:
            del held[name]

    return edit


def leaf(edit: Edit, **kept: Any) -> Forge:
    return Forge(edits={1: edit}, **kept)


def root(edit: Edit, **kept: Any) -> Forge:
    return Forge(edits={0: edit}, **kept)


def details(*held: dict[str, Any]) -> Edit:
    return put(authorization_details=list(held))


def cases() -> Iterator[Case]:
    yield from accepted()
    yield from carriers()
    yield from headers()
    yield from claims()
    yield from times()
    yield from issuers()
    yield from chains()
    yield from widened()
    yield from receivers()


def accepted() -> Iterator[Case]:
    yield Case("accept-call", "a root token and a leaf for the call received", None)
    yield Case("accept-two-hops", "the second agent, asked by the first", None, Forge(hops=(FIRST, SECOND), edits={
        0: details(detail(), upstream_detail()), 2: details(upstream_detail())}),
        received={"audience": SECOND, "client": FIRST})  # fmt: skip
    everywhere = detail(locations=[FIRST, SECOND, THIRD])
    yield Case("accept-four-tokens", "as deep as a grant goes", None, Forge(hops=(FIRST, SECOND, THIRD), edits={
        0: details(everywhere)}), received={"audience": THIRD, "client": SECOND})  # fmt: skip
    yield Case("accept-negotiation", "words instead of a call", None,
        leaf(put(op={"method": "SendMessage", "negotiate": True})),
        received={"operation": {"method": "SendMessage", "negotiate": True}})  # fmt: skip
    yield Case("accept-discovery", "no details: it may be asked what may be asked", None,
        Forge(edits={0: details(), 1: put(op={"method": "discover"})}),
        received={"operation": {"method": "discover"}})  # fmt: skip
    yield Case("accept-result", "the result of a task is fetched", None,
        leaf(put(op={"method": "GetResults", "task": "task-1"})),
        received={"operation": {"method": "GetResults", "task": "task-1"}})  # fmt: skip
    yield Case("accept-details-dropped", "a detail may be dropped", None,
        Forge(edits={0: details(detail(), upstream_detail()), 1: details(detail())}))  # fmt: skip
    narrow = detail(
        actions=["search"],
        max_sensitivity="public",
        columns=["batches.batch_id"],
        constraints={
            "batches.site": {"one_of": ["basel"], "not_one_of": ["lab"]},
            "batches.year": {"min": "2020.5", "max": 2024},
            "batches.lot": {"prefix": "B0"},
        },
    )
    yield Case("accept-narrowed", "every member narrower", None, leaf(details(narrow)))
    yield Case("accept-no-columns", "no column at all is narrower than some", None, leaf(details(detail(columns=[]))))
    yield Case("accept-nothing-allowed", "an empty one_of lets no row through, which is narrower", None,
        leaf(details(detail(constraints={"batches.site": {"one_of": []}, "batches.year": {"min": 2020, "max": "2026.5"}}))))  # fmt: skip
    yield Case("accept-same-moment", "iat equals nbf equals now, and it ends in a second", None,
        leaf(put(iat=NOW, nbf=NOW, exp=NOW + 1)))  # fmt: skip
    yield Case("accept-within-skew", "it ended four seconds ago by this clock", None,
        Forge(edits={0: put(iat=NOW - 60, nbf=NOW - 60, exp=NOW - 4), 1: put(iat=NOW - 60, nbf=NOW - 60, exp=NOW - 4)}))  # fmt: skip
    yield Case("accept-unknown-middle", "an agent in the middle that the receiver does not know", None,
        Forge(hops=("urn:example:unknown", FIRST)), received={"client": "urn:example:unknown"})  # fmt: skip
    yield Case("accept-no-policy-version", "a record without a policy version rests on none", None,
        root(put(tctx={"tenant": "acme", "principal_class": "engineer"})))  # fmt: skip


def carriers() -> Iterator[Case]:
    good = Forge().header()
    tokens = Forge().tokens()
    yield Case("no-header", "nothing was sent", "NO_ACTIVE_GRANT", text=())
    yield Case("empty-header", "an empty line", "NO_ACTIVE_GRANT", text=("",))
    yield Case("two-lines", "two header lines", "GRANT_MALFORMED", text=(good, good))
    yield Case("too-large", "7,501 bytes", "GRANT_MALFORMED", text=(good + "A" * (7_501 - len(good)),))
    yield Case("not-ascii", "a character outside ASCII", "GRANT_MALFORMED", text=(good + "é",))
    yield Case("space-after-comma", "white space between tokens", "GRANT_MALFORMED", text=(", ".join(tokens),))
    yield Case("five-tokens", "one token too many", "GRANT_TOO_DEEP",
        text=(Forge(hops=(FIRST, SECOND, THIRD), edits={0: details()}).header() + ",e30.e30.AAAA",))  # fmt: skip
    yield Case("root-alone", "a root token proves no possession", "GRANT_CHAIN_BROKEN", text=(tokens[0],))
    yield Case("leaf-alone", "a leaf has no kid", "GRANT_HEADER_INVALID", text=(tokens[1],))
    yield Case("reordered", "leaf first", "GRANT_HEADER_INVALID", text=(",".join(reversed(tokens)),))
    yield Case("trailing-comma", "an empty token at the end", "GRANT_MALFORMED", text=(good + ",",))
    yield Case("two-segments", "a token without a signature", "GRANT_MALFORMED",
        text=(f"{tokens[0].rpartition('.')[0]},{tokens[1]}",))  # fmt: skip
    yield Case(
        "four-segments", "a token with a segment more", "GRANT_MALFORMED", text=(f"{tokens[0]}.AAAA,{tokens[1]}",)
    )
    yield Case("padded", "base64url with padding", "GRANT_MALFORMED", text=(f"{tokens[0]}==,{tokens[1]}",))
    yield Case("unused-bits", "the last character of a signature with unused bits set", "GRANT_MALFORMED",
        text=(f"{tokens[0]},{tokens[1][:-1]}{chr(ord(tokens[1][-1]) + 1)}",))  # fmt: skip
    yield Case("short-signature", "a signature of 63 bytes", "GRANT_MALFORMED", text=(f"{tokens[0]},{tokens[1][:-2]}",))
    yield Case("header-not-an-object", "a protected header that is a list", "GRANT_HEADER_INVALID",
        Forge(headers={0: lambda held: b"[]"}))  # fmt: skip
    yield Case("header-large", "a protected header of 1,025 bytes", "GRANT_HEADER_INVALID",
        Forge(headers={1: lambda held: json.dumps(held).encode().ljust(1_025)}))  # fmt: skip
    yield Case("header-duplicate", "alg twice in a protected header", "GRANT_HEADER_INVALID",
        Forge(headers={1: lambda held: b'{"alg":"none","alg":"Ed25519","typ":"execution-grant+jwt"}'}))  # fmt: skip


def headers() -> Iterator[Case]:
    for name in ("none", "NONE", "HS256", "EdDSA", "Ed448", "ed25519", ""):
        for place in (0, 1):
            yield Case(f"alg-{name or 'empty'}-{place}", f"alg {name!r} in token {place}", "GRANT_ALGORITHM_NOT_ALLOWED",
                Forge(headers={place: lambda held, name=name: {**held, "alg": name}}))  # fmt: skip
    yield Case("alg-missing", "no alg", "GRANT_ALGORITHM_NOT_ALLOWED",
        Forge(headers={1: lambda held: {"typ": held["typ"]}}))  # fmt: skip
    for name in ("JWT", "at+jwt", "txntoken+jwt", "dpop+jwt", "Execution-Grant+JWT", "application/execution-grant+jwt"):
        yield Case(f"typ-{name.lower().replace('/', '-')}", f"typ {name}", "GRANT_HEADER_INVALID",
            Forge(headers={1: lambda held, name=name: {**held, "typ": name}}))  # fmt: skip
    more: dict[str, Any] = {
        "jwk": jwk(ROOT), "jku": "https://attacker.example/jwks", "x5u": "https://attacker.example/x5u",
        "x5c": ["AAAA"], "zip": "DEF", "cty": "JWT", "crit": ["b64"], "note": "x",
    }  # fmt: skip
    for name, value in more.items():
        yield Case(f"header-{name}", f"{name} in a protected header", "GRANT_HEADER_INVALID",
            Forge(headers={1: lambda held, name=name, value=value: {**held, name: value}}))  # fmt: skip
    yield Case("kid-on-child", "a child with a kid", "GRANT_HEADER_INVALID",
        Forge(headers={1: lambda held: {**held, "kid": thumbprint(x_of(ROOT))}}))  # fmt: skip
    yield Case("kid-missing", "a root token without a kid", "GRANT_HEADER_INVALID",
        Forge(headers={0: lambda held: {"alg": held["alg"], "typ": held["typ"]}}))  # fmt: skip
    yield Case("kid-list", "a kid that is a list", "GRANT_HEADER_INVALID",
        Forge(headers={0: lambda held: {**held, "kid": [held["kid"]]}}))  # fmt: skip
    for name, kid in {"path": "../../issuer/grant.jwk", "sql": "' OR 1=1 --", "nul": "a\x00b", "empty": ""}.items():
        yield Case(f"kid-{name}", f"a kid that is {name}", "GRANT_KEY_UNTRUSTED",
            Forge(headers={0: lambda held, kid=kid: {**held, "kid": kid}}))  # fmt: skip
    yield Case("kid-unknown", "a key nobody trusts", "GRANT_KEY_UNTRUSTED", Forge(
        signers={0: "nobody"}, headers={0: lambda held: {**held, "kid": thumbprint(x_of("nobody"))}}))  # fmt: skip
    yield Case("kid-of-an-agent", "an agent's key is no issuer's", "GRANT_KEY_UNTRUSTED", Forge(
        signers={0: ROOT}, headers={0: lambda held: {**held, "kid": thumbprint(x_of(ROOT))}}))  # fmt: skip
    yield Case(
        "root-signature",
        "a root token that another key signed",
        "GRANT_SIGNATURE_INVALID",
        Forge(signers={0: "nobody"}),
    )
    yield Case(
        "leaf-signature", "a leaf that the holder did not sign", "GRANT_SIGNATURE_INVALID", Forge(signers={1: "nobody"})
    )
    yield Case(
        "leaf-by-receiver", "a leaf that its receiver signed", "GRANT_SIGNATURE_INVALID", Forge(signers={1: FIRST})
    )
    yield Case("leaf-by-issuer", "a leaf that the issuer signed", "GRANT_SIGNATURE_INVALID", Forge(signers={1: ISSUER}))


def claims() -> Iterator[Case]:
    for place, names in ((0, tuple(root_names())), (1, (*root_names(), "par_hash"))):
        for name in names:
            yield Case(f"missing-{name}-{place}", f"token {place} without {name}", "GRANT_CLAIMS_INVALID",
                Forge(edits={place: drop(name)}))  # fmt: skip
    yield Case("claim-unknown", "an unknown claim", "GRANT_CLAIMS_INVALID", leaf(put(scope="all")))
    yield Case("claim-null", "a claim that is null", "GRANT_CLAIMS_INVALID", leaf(put(txn=None)))
    yield Case(
        "claims-list",
        "claims that are a list",
        "GRANT_CLAIMS_INVALID",
        Forge(payloads={1: lambda held: b"[" + held + b"]"}),
    )
    yield Case("claims-duplicate", "a member twice", "GRANT_CLAIMS_INVALID",
        Forge(payloads={1: lambda held: held[:-1] + b',"sub":"u-eng-01"}'}))  # fmt: skip
    yield Case("claims-duplicate-nested", "a member twice, inside another", "GRANT_CLAIMS_INVALID",
        Forge(payloads={1: lambda held: held.replace(b'"act":{', b'"act":{"sub":"x",')}))  # fmt: skip
    yield Case("claims-nan", "NaN in the claims", "GRANT_CLAIMS_INVALID",
        Forge(payloads={1: lambda held: held[:-1] + b',"x":NaN}'}))  # fmt: skip
    yield Case("claims-deep", "40 levels", "GRANT_CLAIMS_INVALID",
        Forge(payloads={1: lambda held: held[:-1] + b',"x":' + b"[" * 40 + b"]" * 40 + b"}"}))  # fmt: skip
    yield Case("claims-surrogate", "a lone surrogate", "GRANT_CLAIMS_INVALID",
        Forge(payloads={1: lambda held: held.replace(b"txn-1", b"txn-\\ud800")}))  # fmt: skip
    yield Case("claims-not-utf8", "bytes that are not UTF-8", "GRANT_CLAIMS_INVALID",
        Forge(payloads={1: lambda held: held.replace(b"txn-1", b"txn-\xff")}))  # fmt: skip
    yield Case(
        "subject-not-nfc", "a subject in another normal form", "GRANT_CLAIMS_INVALID", root(put(sub="u-e\u0301"))
    )
    for name, value in {"empty": "", "control": "u-\n", "format": "u-\u200b", "number": 7, "long": "u" * 513}.items():
        yield Case(f"subject-{name}", f"a subject that is {name}", "GRANT_CLAIMS_INVALID", root(put(sub=value)))
    yield Case("audience-list", "aud as a list", "GRANT_CLAIMS_INVALID", leaf(put(aud=[FIRST])))
    for name, value in {
        "text": str(NOW), "float": NOW + 60.5, "whole-float": float(NOW + 60), "huge": 10**40, "negative": -1, "true": True,
        "list": [NOW], "milliseconds": NOW * 1000,
    }.items():  # fmt: skip
        yield Case(f"exp-{name}", f"exp that is {name}", "GRANT_CLAIMS_INVALID", leaf(put(exp=value)))
    yield Case("exp-before-nbf", "exp not after nbf", "GRANT_CLAIMS_INVALID", leaf(put(nbf=NOW, exp=NOW)))
    yield Case("nbf-before-iat", "nbf before iat", "GRANT_CLAIMS_INVALID", leaf(put(nbf=NOW - 1)))
    yield Case(
        "act-more", "act with a history", "GRANT_CLAIMS_INVALID", leaf(put(act={"sub": ROOT, "act": {"sub": "x"}}))
    )
    yield Case(
        "cnf-private",
        "cnf with a private key",
        "GRANT_CLAIMS_INVALID",
        leaf(put(cnf={"jwk": {**jwk(FIRST), "d": "AAAA"}})),
    )
    yield Case("cnf-kid", "cnf by kid", "GRANT_CLAIMS_INVALID", leaf(put(cnf={"kid": thumbprint(x_of(FIRST))})))
    yield Case(
        "cnf-curve",
        "cnf of another curve",
        "GRANT_CLAIMS_INVALID",
        leaf(put(cnf={"jwk": {**jwk(FIRST), "crv": "X25519"}})),
    )
    yield Case(
        "cnf-short",
        "cnf of 31 bytes",
        "GRANT_CLAIMS_INVALID",
        leaf(put(cnf={"jwk": {**jwk(FIRST), "x": b64(bytes(31))}})),
    )
    for name, edit in {
        "tctx": lambda held: held["tctx"].update(intent=None),
        "rctx": lambda held: held["rctx"].update(session_id=None),
        "op": lambda held: held["op"].update(negotiate=None),
        "columns": lambda held: held["authorization_details"][0].update(columns=None),
    }.items():
        yield Case(f"null-{name}", f"an optional member of {name} that is null", "GRANT_CLAIMS_INVALID", leaf(edit))
    for name, depth in {"false": False, "float": 0.0}.items():
        yield Case(
            f"root-depth-{name}", f"a root token at depth {depth}", "GRANT_CLAIMS_INVALID", root(put(del_depth=depth))
        )
    for name, depth in {"zero": 0, "four": 4, "true": True}.items():
        yield Case(
            f"child-depth-{name}", f"a child at depth {depth}", "GRANT_CLAIMS_INVALID", leaf(put(del_depth=depth))
        )
    yield Case("cnf-small-order", "cnf with the neutral point", "GRANT_CLAIMS_INVALID",
        leaf(put(cnf={"jwk": {**jwk(FIRST), "x": b64(b"\x01" + bytes(31))}})))  # fmt: skip
    yield Case("depth-four", "del_max_depth of four", "GRANT_CLAIMS_INVALID", root(put(del_max_depth=4)))
    yield Case("root-depth", "a root token that is not at depth 0", "GRANT_CLAIMS_INVALID", root(put(del_depth=1)))
    yield Case(
        "root-sender", "a root token that its issuer did not send", "GRANT_CLAIMS_INVALID", root(put(act={"sub": ROOT}))
    )
    yield Case("root-operation", "a root token bound to a call", "GRANT_CLAIMS_INVALID", root(put(op=dict(CALL))))
    for name, op in {
        "none": {"method": "SendMessage"}, "two": {**CALL, "negotiate": True}, "false": {"method": "SendMessage", "negotiate": False},
        "upper-hash": {**CALL, "call_hash": "AB" * 32}, "discover-call": {**CALL, "method": "discover"}, "more": {**CALL, "x": 1},
        "method": {**CALL, "method": "Send Message"},
        "one": {"method": "SendMessage", "negotiate": 1},
    }.items():  # fmt: skip
        yield Case(f"op-{name}", f"op of another form: {name}", "GRANT_CLAIMS_INVALID", leaf(put(op=op)))
    yield from detail_claims()


def detail_claims() -> Iterator[Case]:
    for name, held in {
        "nine": [detail(identifier=f"d-{number}", constraints=None, columns=None) for number in range(9)],
        "twice": [detail(), detail()],
        "not-a-list": detail(),
        "member": [{**detail(), "privileges": []}],
        "no-location": [detail(locations=[])],
        "location-twice": [detail(locations=[FIRST, FIRST])],
        "no-action": [detail(actions=[])],
        "action-case": [detail(actions=["Search"])],
        "identifier-case": [detail(identifier="Purification-Batches")],
        "sensitivity": [detail(max_sensitivity="secret")],
        "column": [detail(columns=["batch_id"])],
        "column-twice": [detail(columns=["batches.batch_id", "batches.batch_id"])],
    }.items():
        yield Case(f"details-{name}", f"authorization_details of another form: {name}", "GRANT_CLAIMS_INVALID",
            root(put(authorization_details=held)))  # fmt: skip
    yield Case(
        "details-type",
        "an unknown type of authorization",
        "GRANT_CONSTRAINT_UNKNOWN",
        root(details(detail(type="payment"))),
    )
    yield Case("details-type-form", "an unknown type, and a member that is not of its form", "GRANT_CLAIMS_INVALID",
        root(details(detail(type="payment", revision=""))))  # fmt: skip
    for name, constraint in {
        "unknown": {"regex": ".*"}, "empty": {}, "list": ["basel"], "bool": {"one_of": [True]}, "float": {"max": 1.5},
        "text-bound": {"max": "zebra"}, "null": {"max": None}, "empty-prefix": {"prefix": ""}, "big": {"max": 2**53},
        "set-text": {"one_of": "basel"}, "nested": {"one_of": [["basel"]]}, "short-moment": {"min": "2026-01-31T00:00:00Z"},
        "no-month": {"max": "2026-13-01"}, "no-day": {"max": "2026-02-30"}, "no-year": {"min": "0000-01-01"},
        "hour-24": {"max": "2026-01-31T24:00:00.000000Z"}, "second-60": {"max": "2026-01-31T23:59:60.000000Z"},
    }.items():  # fmt: skip
        yield Case(f"constraint-{name}", f"a constraint outside the vocabulary: {name}", "GRANT_CONSTRAINT_UNKNOWN",
            root(details(detail(constraints={"batches.site": constraint}))))  # fmt: skip
    for name, column in {
        "bare": "site",
        "deep": "a.b.c",
        "left": ".site",
        "right": "batches.",
        "space": "batches.lot no",
        "control": "batches.lot\x1c",
        "long": "batches." + "x" * 249,
    }.items():
        yield Case(f"constraint-column-{name}", "a constraint on what is no column", "GRANT_CONSTRAINT_UNKNOWN",
            root(details(detail(constraints={column: {"max": 1}}))))  # fmt: skip


def root_names() -> tuple[str, ...]:
    return (
        "iss", "sub", "aud", "act", "iat", "nbf", "exp", "jti", "txn", "cnf", "del_depth", "del_max_depth",
        "authorization_details", "op", "tctx", "rctx",
    )  # fmt: skip


def times() -> Iterator[Case]:
    yield Case("root-too-long", "a root token of 301 s", "GRANT_LIFETIME_EXCEEDED", root(put(exp=NOW + 291)))
    yield Case("leaf-too-long", "a leaf of 61 s", "GRANT_LIFETIME_EXCEEDED", leaf(put(exp=NOW + 61)))
    yield Case("leaf-outlives", "a leaf that outlives its parent by a second", "GRANT_LIFETIME_EXCEEDED",
        Forge(edits={0: put(exp=NOW + 30), 1: put(exp=NOW + 31)}))  # fmt: skip
    yield Case("not-yet", "nbf six seconds ahead", "GRANT_NOT_YET_VALID", leaf(put(nbf=NOW + 6, exp=NOW + 30)))
    yield Case(
        "issued-ahead",
        "iat six seconds ahead",
        "GRANT_NOT_YET_VALID",
        leaf(put(iat=NOW + 6, nbf=NOW + 6, exp=NOW + 30)),
    )
    yield Case(
        "leaf-expired", "it ended five seconds ago", "GRANT_EXPIRED", leaf(put(iat=NOW - 60, nbf=NOW - 60, exp=NOW - 5))
    )
    yield Case("root-expired", "the root token ended", "GRANT_EXPIRED", root(put(exp=NOW - 5), hops=(FIRST,)))


def issuers() -> Iterator[Case]:
    yield Case("issuer-of-another-key", "the key of one issuer, the name of another", "GRANT_ISSUER_UNTRUSTED",
        root(put(iss=OTHER_ISSUER, act={"sub": OTHER_ISSUER})))  # fmt: skip
    yield Case("issuer-slash", "the issuer's URL with a slash more", "GRANT_ISSUER_UNTRUSTED",
        root(put(iss=ISSUER + "/", act={"sub": ISSUER + "/"})))  # fmt: skip
    yield Case("subject-prefix", "a subject of another namespace", "GRANT_ISSUER_UNTRUSTED", root(put(sub="o-eng-01")))
    yield Case(
        "subject-case", "the subject's namespace in other case", "GRANT_ISSUER_UNTRUSTED", root(put(sub="U-eng-01"))
    )
    yield Case(
        "tenant",
        "another tenant",
        "GRANT_TENANT_UNKNOWN",
        root(put(tctx={"tenant": "other", "principal_class": "engineer"})),
    )


def chains() -> Iterator[Case]:
    for name, edit in {
        "par-hash": put(par_hash=b64(bytes(32))),
        "iss": put(iss=URI + thumbprint(x_of(FIRST))),
        "iss-url": put(iss=ISSUER),
        "act": put(act={"sub": FIRST}),
        "sub": put(sub="u-eng-02"),
        "txn": put(txn="txn-2"),
        "tctx": put(tctx={"tenant": "acme", "principal_class": "admin", "policy_version": "p-1"}),
        "tctx-dropped": put(tctx={"tenant": "acme", "principal_class": "engineer"}),
        "trace": put(rctx={"trace_id": "f" * 32}),
        "iat": put(iat=NOW - 16, nbf=NOW - 16, exp=NOW + 44),
        "depth-skipped": put(del_depth=2),
    }.items():
        yield Case(
            f"chain-{name}", f"a leaf that does not follow from its parent: {name}", "GRANT_CHAIN_BROKEN", leaf(edit)
        )
    yield Case("chain-splice", "a leaf of another root token", "GRANT_CHAIN_BROKEN",
        text=(f"{root(put(jti='root-2')).tokens()[0]},{Forge().tokens()[1]}",))  # fmt: skip
    yield Case("chain-skipped", "a token in the middle left out", "GRANT_SIGNATURE_INVALID",
        text=(",".join(token for place, token in enumerate(Forge(hops=(FIRST, SECOND)).tokens()) if place != 1),),
        received={"audience": SECOND, "client": FIRST})  # fmt: skip
    yield Case(
        "depth-grows",
        "del_max_depth that grows",
        "GRANT_WIDENED",
        Forge(edits={0: put(del_max_depth=1), 1: put(del_max_depth=2)}),
    )
    yield Case("too-deep", "a leaf deeper than the root token allows", "GRANT_TOO_DEEP", root(put(del_max_depth=0)))
    yield Case("too-deep-hop", "passed on by an agent that may not", "GRANT_TOO_DEEP",
        Forge(hops=(FIRST, SECOND), edits={0: put(del_max_depth=1, authorization_details=[detail(locations=[FIRST, SECOND])])}),
        received={"audience": SECOND, "client": FIRST})  # fmt: skip


def widened() -> Iterator[Case]:
    site = {"one_of": ["basel", "visp"]}
    year = {"min": 2020, "max": "2026.5"}
    for name, changes in {
        "identifier": {"identifier": "clinical-private"},
        "version": {"dataset_version": "2026.10.01"},
        "revision": {"revision": "rev-2"},
        "action": {"actions": ["compare_batches", "search", "export"]},
        "location": {"locations": [FIRST, SECOND]},
        "sensitivity": {"max_sensitivity": "restricted"},
        "column": {"columns": ["batches.batch_id", "batches.operator"]},
        "every-column": {"columns": None},
        "constraints": {"constraints": None},
        "constraint-dropped": {"constraints": {"batches.site": site}},
        "set": {"constraints": {"batches.site": {"one_of": ["basel", "lab"]}, "batches.year": year}},
        "set-type": {"constraints": {"batches.site": {"one_of": ["basel", 1]}, "batches.year": year}},
        "kind": {"constraints": {"batches.site": {"prefix": "basel"}, "batches.year": year}},
        "max": {"constraints": {"batches.site": site, "batches.year": {"min": 2020, "max": "2026.51"}}},
        "min": {"constraints": {"batches.site": site, "batches.year": {"min": "2019.99", "max": 2026}}},
        "min-dropped": {"constraints": {"batches.site": site, "batches.year": {"max": 2026}}},
        "bound-kind": {"constraints": {"batches.site": site, "batches.year": {"min": "2021-01-01", "max": 2026}}},
    }.items():
        yield Case(f"widened-{name}", f"a leaf that widens: {name}", "GRANT_WIDENED", leaf(details(detail(**changes))))
    yield Case(
        "widened-added",
        "a detail more than the parent's",
        "GRANT_WIDENED",
        leaf(details(detail(), upstream_detail(locations=[FIRST]))),
    )
    yield Case("widened-to-discovery", "every detail dropped, to ask what may be asked", "GRANT_WIDENED",
        leaf(put(authorization_details=[], op={"method": "discover"})),
        received={"operation": {"method": "discover"}})  # fmt: skip
    yield Case(
        "widened-from-nothing",
        "details out of none",
        "GRANT_WIDENED",
        Forge(edits={0: details(), 1: details(detail())}),
    )
    yield Case("widened-in-the-middle", "the middle agent widens what it was given", "GRANT_WIDENED",
        Forge(hops=(FIRST, SECOND), edits={0: details(detail(locations=[FIRST, SECOND], actions=["search"])),
            2: details(detail(locations=[FIRST, SECOND]))}),
        received={"audience": SECOND, "client": FIRST})  # fmt: skip
    for name, parent, child in (
        ("excluded", {"not_one_of": ["lab"]}, {"not_one_of": ["basel"]}),
        ("excluded-dropped", {"not_one_of": ["lab"]}, {"one_of": ["basel"]}),
        ("prefix", {"prefix": "B0"}, {"prefix": "B"}),
        ("prefix-case", {"prefix": "B0"}, {"prefix": "b01"}),
        ("date", {"max": "2026-01-31"}, {"max": "2026-02-01"}),
        ("text-number", {"max": "10"}, {"max": "10.0000000000000000000000000000000001"}),
    ):
        yield Case(f"widened-{name}", f"a constraint that is wider: {name}", "GRANT_WIDENED", Forge(edits={
            0: details(detail(constraints={"batches.lot": parent})), 1: details(detail(constraints={"batches.lot": child}))}))  # fmt: skip


def receivers() -> Iterator[Case]:
    for name, audience in {
        "other": SECOND,
        "upper": FIRST.upper(),
        "prefix": FIRST[:-1],
        "longer": FIRST + "x",
    }.items():
        yield Case(
            f"audience-{name}",
            "a leaf for one agent, presented at another",
            "GRANT_AUDIENCE_MISMATCH",
            received={"audience": audience},
        )
    yield Case("audience-truncated", "a chain cut short at the first agent, presented at the second", "GRANT_AUDIENCE_MISMATCH",
        received={"audience": SECOND, "client": FIRST})  # fmt: skip
    yield Case(
        "location", "details that this agent may not serve", "GRANT_AUDIENCE_MISMATCH", root(details(upstream_detail()))
    )
    yield Case(
        "client",
        "sent by another agent than the one that derived it",
        "GRANT_CLIENT_MISMATCH",
        received={"client": SECOND},
    )
    yield Case(
        "holder-key", "a known agent with another key", "GRANT_KEY_UNTRUSTED", leaf(put(cnf={"jwk": jwk("nobody")}))
    )
    yield Case("holder-key-root", "the agent that asks with another key", "GRANT_KEY_UNTRUSTED", Forge(
        edits={0: put(cnf={"jwk": jwk("nobody")}), 1: put(iss=URI + thumbprint(x_of("nobody")))}, signers={1: "nobody"}))  # fmt: skip
    for name, operation in {
        "bytes": {**CALL, "call_hash": "cd" * 32},
        "method": {**CALL, "method": "SendStreamingMessage"},
        "negotiation": {"method": "SendMessage", "negotiate": True},
        "discovery": {"method": "discover"},
    }.items():
        yield Case(
            f"operation-{name}",
            f"another operation was received: {name}",
            "GRANT_OPERATION_MISMATCH",
            received={"operation": operation},
        )
    fetched = {"method": "GetResults", "task": "task-1"}
    for name, operation in {
        "task": {**fetched, "task": "task-2"},
        "task-case": {**fetched, "task": "Task-1"},
        "method": {**fetched, "method": "SubscribeToTask"},
        "call": dict(CALL),
    }.items():
        yield Case(
            f"result-{name}",
            f"a leaf for one result, presented for something else: {name}",
            "GRANT_OPERATION_MISMATCH",
            leaf(put(op=fetched)),
            received={"operation": operation},
        )
    yield Case("call-for-result", "the leaf of a call, presented to fetch its result", "GRANT_OPERATION_MISMATCH",
        received={"operation": fetched})  # fmt: skip
    yield Case("discovery-task", "what a task gave, under a grant without details", "NO_ACTIVE_GRANT",
        Forge(edits={0: details(), 1: put(op={"method": "GetResults", "task": "task-1"})}),
        received={"operation": {"method": "GetResults", "task": "task-1"}})  # fmt: skip
    yield Case("discovery-call", "a call under a grant without details", "NO_ACTIVE_GRANT", root(details()))
    yield Case("policy-version", "a policy version that is not accepted", "UNKNOWN_POLICY_VERSION",
        root(put(tctx={"tenant": "acme", "principal_class": "engineer", "policy_version": "p-0"})))  # fmt: skip
