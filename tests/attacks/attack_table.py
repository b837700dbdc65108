"""The attack table: family, case, how the grant is forged from an honest one, and the reason it is refused with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from contract.call import encode_call
from contract.verdict import Reason
from tests.attacks.attack_edits import (
    PLACES,
    Forging,
    added,
    alone,
    another_issuer,
    as_issuer,
    asked,
    at_another_agent,
    audience,
    beside_it,
    body,
    both,
    bound,
    by_a_thief,
    changed_claim,
    cnf,
    constrained,
    discovery,
    drop,
    everywhere,
    five_tokens,
    for_elsewhere,
    grown_signature,
    headed,
    header,
    hmac_with_the_public_key,
    inside,
    later,
    leaf,
    long,
    nine,
    nonsense,
    not_here,
    only,
    orphan,
    other,
    other_bits,
    other_method,
    outside,
    padded,
    prefix,
    put,
    resigned,
    root,
    segment,
    sent,
    sent_by_another,
    shaped,
    small,
    spliced,
    spliced_middle,
    stolen_key,
    two_halves,
    two_lines,
    unheaded,
    unsigned,
    with_own_location,
    without_asked,
)
from tests.attacks.attack_world import (
    ARGUMENTS,
    CAPABILITY,
    DATASET,
    ELSEWHERE,
    OTHER_ISSUER,
    SECOND,
    STRANGER,
    THIRD,
)


@dataclass(frozen=True)
class Attack:
    family: str
    case: str
    forge: Forging
    reason: Reason

    def __str__(self) -> str:
        return f"{self.family}: {self.case}"


def _cases(family: str, reason: Reason, table: dict[str, Forging]) -> Iterator[Attack]:
    return (Attack(family, case, forge, reason) for case, forge in table.items())


ALGORITHMS: Final = ("none", "NONE", "HS256", "EdDSA", "Ed448", "ES256", "ed25519", "")

ENCODING: Final[dict[str, Forging]] = {
    "padding on a signature": segment(1, 2, lambda text: text + "="),
    "padding on claims": segment(1, 1, lambda text: text + "="),
    "padding on a header": segment(0, 0, lambda text: text + "="),
    "padding that was signed": padded(2, "="),
    "two signs of padding that were signed": padded(1, "=="),
    "padding of a whole group that was signed": padded(0, "="),
    "a group of padding that was signed": padded(0, "===="),
    "other unused bits in a signature": segment(1, 2, other_bits),
    "a blank inside": segment(1, 1, lambda text: text[:9] + " " + text[9:]),
    "a tab inside": segment(1, 1, lambda text: text[:9] + "\t" + text[9:]),
    "standard base64": segment(1, 2, lambda text: "+" + text[1:]),
    "no signature": segment(1, 2, lambda text: ""),
    "a short signature": segment(1, 2, lambda text: text[:-4]),
    "a blank after the comma": header(lambda text: text.replace(",", ", ")),
    "an empty token": header(lambda text: text.replace(",", ",,")),
    "a comma at the end": header(lambda text: text + ","),
    "four segments": header(lambda text: text + ".AAAA"),
    "five segments": header(lambda text: text + ".AAAA.AAAA"),
    "two segments": header(lambda text: text.rpartition(".")[0]),
    "over 7,500 bytes": header(lambda text: text + "A" * 7_500),
    "60,000 bytes": header(lambda text: text + "A" * 60_000),
    "not ASCII": header(lambda text: text.encode() + b"\xe9"),
    "fifty commas": header(lambda text: text.partition(",")[0] + ".," * 2),
}

STRICT_JSON: Final[dict[str, Forging]] = {
    "a duplicate member": body(lambda text: text.replace(b'"sub"', b'"sub": "u-other", "sub"', 1)),
    "a duplicate member inside": body(lambda text: text.replace(b'"tenant"', b'"tenant": "other", "tenant"', 1)),
    "a duplicate member of the root token": body(lambda text: text.replace(b'"sub"', b'"sub": "u-x", "sub"', 1), 0),
    "deep nesting": body(lambda text: text.replace(b'"nbf"', b'"deep": ' + b"[" * 40 + b"]" * 40 + b', "nbf"', 1)),
    "a huge integer": body(lambda text: text.replace(b'"nbf": ', b'"nbf": ' + b"1" * 400, 1)),
    "NaN": body(lambda text: text.replace(b'"nbf": ', b'"nbf": NaN, "x": ', 1)),
    "a lone surrogate": body(lambda text: text.replace(b"u-eng-01", b"u-eng\\ud800", 1)),
    "not UTF-8": body(lambda text: text.replace(b"u-eng-01", b"u-eng-\xff", 1)),
    "cut short": body(lambda text: text[:-1]),
    "a list": body(lambda text: b"[]"),
}

INSTANTS: Final[dict[str, Any]] = {
    "text": "1800000000",
    "a float": 1_800_000_000.0,
    "milliseconds": 1_800_000_000_000,
    "10^40": 10**40,
    "null": None,
    "a list": [],
    "a boolean": True,
    "negative": -1,
}

RAW: Final = {"raw": "e30=", "mediaType": "application/json"}

ATTACKS: Final[tuple[Attack, ...]] = (
    *_cases(
        "no grant",
        Reason.NO_ACTIVE_GRANT,
        {
            "no header": lambda scene: scene.attempt(),
            "an empty header": lambda scene: scene.attempt(""),
            "white space only": lambda scene: scene.attempt("   "),
            "a discovery grant for a call": discovery,
        },
    ),
    *_cases("no grant", Reason.GRANT_MALFORMED, {"the header twice": two_lines, "a header a token": two_halves}),
    *_cases(
        "algorithm",
        Reason.GRANT_ALGORITHM_NOT_ALLOWED,
        {f"{alg or 'empty'} on the {place}": headed(place, alg=alg) for alg in ALGORITHMS for place in PLACES}
        | {f"absent on the {place}": unheaded(place, "alg") for place in PLACES}
        | {f"a number on the {place}": headed(place, alg=1) for place in PLACES}
        | {"HS256 keyed with the public key": hmac_with_the_public_key},
    ),
    *_cases(
        "algorithm",
        Reason.GRANT_MALFORMED,
        {f"none and no signature on the {place}": unsigned(n) for n, place in enumerate(PLACES)},
    ),
    *_cases(
        "header",
        Reason.GRANT_HEADER_INVALID,
        {
            f"{member} on the {place}": headed(place, **{member: value})
            for place in PLACES
            for member, value in {
                "jwk": {"kty": "OKP", "crv": "Ed25519", "x": "A" * 43},
                "jku": "https://evil.example/jwks.json",
                "x5u": "https://evil.example/cert",
                "x5c": ["AAAA"],
                "zip": "DEF",
                "cty": "JWT",
                "crit": ["exp"],
                "unknown": 1,
            }.items()
        }
        | {"kid on a child": headed("leaf", kid="a")},
    ),
    *_cases(
        "kid",
        Reason.GRANT_KEY_UNTRUSTED,
        {
            "path traversal": headed("root", kid="../../etc/passwd"),
            "SQL": headed("root", kid="' OR 1=1 --"),
            "NUL": headed("root", kid="\x00"),
            "unknown": headed("root", kid="A" * 43),
            "empty": headed("root", kid=""),
        },
    ),
    *_cases(
        "kid",
        Reason.GRANT_HEADER_INVALID,
        {
            "a list": headed("root", kid=["a"]),
            "missing": unheaded("root", "kid"),
            "1 kB": headed("root", kid="k" * 1_100),
        },
    ),
    *_cases("kid", Reason.GRANT_MALFORMED, {"5 kB": headed("root", kid="k" * 5_000)}),
    *_cases(
        "kid",
        Reason.GRANT_SIGNATURE_INVALID,
        {
            "another issuer's": lambda scene: scene.with_world(
                root_head={
                    **scene.forge.root_head,
                    "kid": scene.target.signers[OTHER_ISSUER].public_key.thumbprint,
                }
            )
        },
    ),
    *_cases(
        "kid",
        Reason.GRANT_KEY_UNTRUSTED,
        {
            "a holder's": lambda scene: scene.with_world(
                root_head={
                    **scene.forge.root_head,
                    "kid": scene.target.signers[scene.target.root_id].public_key.thumbprint,
                },
                root_signer=scene.target.signers[scene.target.root_id],
            )
        },
    ),
    *_cases(
        "typ",
        Reason.GRANT_HEADER_INVALID,
        {
            f"{typ or 'empty'} on the {place}": headed(place, typ=typ)
            for typ in (
                "JWT",
                "at+jwt",
                "txntoken+jwt",
                "dpop+jwt",
                "EXECUTION-GRANT+JWT",
                "",
                "client-authentication+jwt",
            )
            for place in PLACES
        }
        | {f"absent on the {place}": unheaded(place, "typ") for place in PLACES},
    ),
    *_cases("encoding", Reason.GRANT_MALFORMED, ENCODING),
    *_cases("encoding", Reason.GRANT_CLAIMS_INVALID, STRICT_JSON),
    *_cases(
        "encoding",
        Reason.GRANT_SIGNATURE_INVALID,
        {
            "a signature grown by the group's order": grown_signature,
            "a claim of the root token changed": changed_claim(0),
            "a claim of the leaf changed": changed_claim(1),
        },
    ),
    *_cases(
        "time",
        Reason.GRANT_CLAIMS_INVALID,
        {
            f"{member} of the {place} is {name}": (root if place == "root" else leaf)(put(**{member: value}))
            for place in PLACES
            for member in ("exp", "iat", "nbf")
            for name, value in INSTANTS.items()
        }
        | {
            f"{member} of the {place} is missing": (root if place == "root" else leaf)(drop(member))
            for place in PLACES
            for member in ("exp", "iat", "nbf")
        }
        | {"nbf before iat": later("leaf", nbf=-3), "exp before nbf": later("leaf", exp=-1)},
    ),
    *_cases(
        "time",
        Reason.GRANT_NOT_YET_VALID,
        {
            "nbf of the root token ahead": later("root", nbf=30),
            "iat of the root token ahead": later("root", iat=30, nbf=30),
            "nbf of the leaf ahead": later("leaf", nbf=30),
            "iat of the leaf ahead": later("leaf", iat=30, nbf=30),
        },
    ),
    *_cases(
        "time",
        Reason.GRANT_EXPIRED,
        {
            "an expired leaf": later("leaf", iat=-40, nbf=-40, exp=-10),
            "an expired root token": later("both", iat=-50, nbf=-50, exp=-10),
        },
    ),
    *_cases(
        "time",
        Reason.GRANT_LIFETIME_EXCEEDED,
        {
            "a root token of 301 seconds": later("root", exp=301),
            "a leaf of 61 seconds": later("leaf", exp=61),
            "a child that outlives its parent": lambda scene: scene.attempt(
                ",".join(
                    scene.forge.chain(edit_root=put(exp=int(scene.now) + 20), edit_leaf=put(exp=int(scene.now) + 21))
                )
            ),
        },
    ),
    *_cases(
        "audience",
        Reason.GRANT_CLAIMS_INVALID,
        {"a list": audience(lambda scene: [scene.target.remote_id]), "empty": audience(lambda scene: "")},
    ),
    *_cases(
        "audience",
        Reason.GRANT_AUDIENCE_MISMATCH,
        {
            "a prefix": audience(lambda scene: scene.target.remote_id[:-1]),
            "longer": audience(lambda scene: scene.target.remote_id + "x"),
            "upper case": audience(lambda scene: scene.target.remote_id.upper()),
            "another agent, this one's key": audience(lambda scene: SECOND),
            "a grant for another agent": at_another_agent,
            "no detail may be served here": leaf(not_here),
            "only the other agent's detail": leaf(without_asked),
        },
    ),
    *_cases("audience", Reason.GRANT_CLIENT_MISMATCH, {"sent by another agent": sent_by_another}),
    *_cases(
        "identity",
        Reason.GRANT_TENANT_UNKNOWN,
        {"a tenant the issuer may not speak for": both(everywhere)},
    ),
    *_cases(
        "identity",
        Reason.GRANT_CHAIN_BROKEN,
        {
            "tenant swapped in the leaf": leaf(inside("tctx", tenant="other")),
            "subject swapped in the leaf": leaf(put(sub="u-ext-01")),
            "subject in upper case in the leaf": leaf(put(sub="U-ENG-01")),
            "subject with a blank in the leaf": leaf(put(sub="u-eng-01 ")),
            "class swapped in the leaf": leaf(inside("tctx", principal_class="clinical-reviewer")),
        },
    ),
    *_cases(
        "identity",
        Reason.GRANT_CLAIMS_INVALID,
        {
            "empty": both(put(sub="")),
            "normal form D": both(put(sub="u-e\u0301ng")),
            "normal form D in the leaf": leaf(put(sub="u-e\u0301ng")),
            "a zero-width character": both(put(sub="u-eng\u200b-01")),
            "a list": both(put(sub=["u-eng-01"])),
            "600 characters": both(put(sub="u-" + "x" * 600)),
        },
    ),
    *_cases(
        "identity",
        Reason.UNKNOWN_PRINCIPAL,
        {
            "a subject in other case": both(put(sub="u-ENG-01")),
            "a subject nobody knows": both(put(sub="u-nobody")),
            "a subject in normal form C that nobody knows": both(put(sub="u-\u00e9ng")),
        },
    ),
    *_cases(
        "identity",
        Reason.GRANT_ISSUER_UNTRUSTED,
        {
            "a subject outside the issuer's names": both(put(sub="x-eng-01")),
            "a prefix of the issuer's names": both(put(sub="U-eng-01")),
            "another issuer's key": another_issuer(),
            "another issuer speaks for this one's people": another_issuer(as_issuer()),
            "an issuer's URL that is not the key's": root(
                put(iss="https://evil.example", act={"sub": "https://evil.example"})
            ),
        },
    ),
    *_cases(
        "identity",
        Reason.GRANT_TENANT_UNKNOWN,
        {"another issuer speaks for this one's tenant": another_issuer(as_issuer(sub="x-eng-01"))},
    ),
    *_cases(
        "identity",
        Reason.GRANT_KEY_UNTRUSTED,
        {
            "a stranger's key for the root agent": stolen_key,
            "a stranger's key for this agent": lambda scene: scene.edited(leaf=put(cnf=cnf(scene, STRANGER))),
        },
    ),
    *_cases(
        "identity",
        Reason.UNKNOWN_POLICY_VERSION,
        {"a policy version that is not listed": both(inside("tctx", policy_version="1999"))},
    ),
    *_cases(
        "narrowing",
        Reason.GRANT_WIDENED,
        {
            "capability": leaf(asked(actions=[CAPABILITY, "detect_outliers", "search"])),
            "another capability": leaf(asked(actions=["detect_outliers"])),
            "column": leaf(asked(columns=["batch_record.batch_id", "batch_record.notes"])),
            "columns dropped": leaf(only("columns")),
            "row constraint": leaf(constrained(one_of=["Dublin", "Singapore", "Basel"])),
            "row constraint of another kind": leaf(constrained(prefix="D")),
            "row constraint inverted": leaf(constrained(not_one_of=["Basel", "Durham"])),
            "constraint dropped": leaf(only("constraints")),
            "constraints empty": leaf(asked(constraints={})),
            "constraint moved to another column": leaf(
                asked(constraints={"batch_record.product": {"one_of": ["Dublin"]}})
            ),
            "dataset": leaf(asked(identifier="clinical-private")),
            "version": leaf(asked(dataset_version="2099.01.01")),
            "revision": leaf(asked(revision="s3-etag-other")),
            "sensitivity": leaf(asked(max_sensitivity="restricted")),
            "location": lambda scene: scene.edited(
                leaf=asked(locations=[scene.target.remote_id, SECOND, THIRD, "urn:dataset-agent:fourth"])
            ),
            "delegation depth": root(put(del_max_depth=1)),
            "a scope of a dataset added": leaf(added({"identifier": "clinical-private"})),
            "a scope to a discovery grant": root(put(authorization_details=[])),
            "the other detail's capability": leaf(other(actions=["aggregate", "search"])),
            "the other detail's location": leaf(other(locations=[SECOND, THIRD])),
            "the other detail's sensitivity": leaf(other(max_sensitivity="restricted")),
            "rights moved between details": leaf(beside_it),
            "this agent put beside the other's detail": with_own_location,
            "a call on a dataset for another agent": for_elsewhere,
        },
    ),
    *_cases("narrowing", Reason.GRANT_CHAIN_BROKEN, {"policy": leaf(inside("tctx", policy_version="2099"))}),
    *_cases(
        "narrowing",
        Reason.GRANT_CLAIMS_INVALID,
        {
            "two details of one dataset": leaf(added({})),
            "two details of one dataset in the root token": small(both(added({}))),
            "nine details": leaf(nine),
            "nine details in the root token": root(nine),
            "a capability twice": leaf(asked(actions=[CAPABILITY, CAPABILITY])),
            "an unknown member": leaf(asked(extra=1)),
            "columns null": leaf(asked(columns=None)),
            "constraints null": leaf(asked(constraints=None)),
        },
    ),
    *_cases(
        "narrowing",
        Reason.GRANT_CONSTRAINT_UNKNOWN,
        {
            "unknown type": leaf(asked(type="dataset-access:v2")),
            "unknown type in the other detail": leaf(other(type="anything")),
            "unknown constraint": leaf(constrained(regex=".*")),
            "unknown constraint beside a known one": leaf(constrained(one_of=["Dublin"], sql="1=1")),
            "an empty constraint": leaf(constrained()),
            "a bound that has no order": leaf(constrained(one_of=["Dublin"], max="zurich")),
            "a fraction": leaf(constrained(one_of=[1.5])),
            "a constraint on no column": leaf(asked(constraints={"site": {"one_of": ["Dublin"]}})),
            "a bound on text": leaf(constrained(one_of=["Dublin"], max="9")),
            "a column that is not there": leaf(
                asked(constraints={"batch_record.site": {"one_of": ["Dublin"]}, "batch_record.Site": {"one_of": ["x"]}})
            ),
        },
    ),
    *_cases(
        "narrowing",
        Reason.UNKNOWN_DATASET_REVISION,
        {
            "a revision that is not current": both(asked(revision="s3-etag-older")),
            "a version that is not current": both(asked(dataset_version="2020.01.01")),
        },
    ),
    *_cases("chain", Reason.GRANT_CHAIN_BROKEN, {"a root token alone": alone, "splice": spliced}),
    *_cases(
        "chain",
        Reason.GRANT_CHAIN_BROKEN,
        {
            "forged act": leaf(put(act={"sub": SECOND})),
            "act in upper case": leaf(put(act={"sub": "URN:DATASET-AGENT:ROOT"})),
            "another parent": leaf(put(par_hash="A" * 43)),
            "iss of another key": lambda scene: scene.edited(
                leaf=put(iss=scene.target.signers[SECOND].public_key.thumbprint_uri)
            ),
            "the issuer's URL in a child": lambda scene: scene.edited(leaf=put(iss=scene.target.settings.issuer_url)),
            "another transaction": leaf(put(txn="txn-other")),
            "another trace": leaf(inside("rctx", trace_id="u" * 32)),
            "another decision": leaf(inside("tctx", decision_id="dec-other")),
            "a depth skipped": leaf(put(del_depth=2)),
            "a child before its parent": later("leaf", iat=-20, nbf=-20, exp=30),
            "another transaction in the middle": resigned({1: put(txn="txn-other"), 2: put(txn="txn-other")}),
            "another sender in the middle": resigned({2: put(act={"sub": THIRD})}),
            "another person at the end": resigned({3: put(sub="u-ext-01")}, SECOND, THIRD),
        },
    ),
    *_cases(
        "chain",
        Reason.GRANT_SIGNATURE_INVALID,
        {
            "wrong signer of the root token": lambda scene: scene.with_world(
                root_signer=scene.target.signers[STRANGER]
            ),
            "wrong signer of the leaf": lambda scene: scene.with_world(leaf_signer=scene.target.signers[STRANGER]),
            "the issuer signs the leaf": lambda scene: scene.with_world(leaf_signer=scene.target.issuer),
            "this agent signs the leaf": lambda scene: scene.with_world(
                leaf_signer=scene.target.signers[scene.target.remote_id]
            ),
            "a token left out": long(lambda _, chain: ",".join((chain[0], chain[2]))),
            "reordered": long(lambda _, chain: ",".join((chain[0], chain[2], chain[1]))),
            "a stranger's child": long(by_a_thief),
        },
    ),
    *_cases("chain", Reason.GRANT_CHAIN_BROKEN, {"splice in the middle": long(spliced_middle)}),
    *_cases(
        "chain",
        Reason.GRANT_HEADER_INVALID,
        {"orphan leaf": orphan, "a leaf first": long(lambda _, chain: ",".join((chain[1], chain[0], chain[2])))},
    ),
    *_cases(
        "chain",
        Reason.GRANT_AUDIENCE_MISMATCH,
        {"prefix": prefix},
    ),
    *_cases(
        "chain",
        Reason.GRANT_TOO_DEEP,
        {
            "five tokens": long(five_tokens, SECOND, THIRD),
            "a hundred tokens": header(lambda text: text + ",a" * 100),
            "further than the root token allows": both(put(del_max_depth=0)),
            "further than a middle agent allowed": resigned({1: put(del_max_depth=1), 2: put(del_max_depth=1)}),
        },
    ),
    *_cases(
        "chain",
        Reason.GRANT_WIDENED,
        {
            "widened by a middle agent": resigned({1: asked(actions=["search"])}),
            "widened back by the last": resigned({1: constrained(one_of=["Dublin"])}),
            "a dataset taken up again": resigned({1: lambda claims: claims["authorization_details"].pop(0)}),
            "depth taken back": resigned({1: put(del_max_depth=2), 2: put(del_max_depth=3)}, SECOND),
            "widened at the fourth token": resigned(
                {1: asked(max_sensitivity="public"), 2: asked(max_sensitivity="public")}, SECOND, THIRD
            ),
        },
    ),
    *_cases(
        "operation",
        Reason.GRANT_OPERATION_MISMATCH,
        {
            "other arguments": sent(encode_call(DATASET, CAPABILITY, {"batch_id": "B003"})),
            "one blank more": sent(encode_call(DATASET, CAPABILITY, ARGUMENTS) + b" "),
            "another template": sent(encode_call(DATASET, "search", {"query": "a"})),
            "another capability": sent(encode_call(DATASET, "compare_batches", {"batch_a": "B001", "batch_b": "B002"})),
            "another dataset": sent(encode_call(ELSEWHERE, "search", {"query": "a"})),
            "another method": bound(other_method),
            "an empty part": shaped({"raw": "", "mediaType": "application/json"}),
            "a task": bound(lambda scene: {"method": scene.door.method, "task": "task-1"}),
            "a negotiation": bound(lambda scene: {"method": scene.door.method, "negotiate": True}),
            "discovery": bound(lambda scene: {"method": "discover"}),
            "delegation": bound(lambda scene: {"method": "delegate"}),
            "a data part": shaped({"data": {"dataset": DATASET}}),
            "two parts": shaped(RAW, RAW),
            "another media type": shaped(RAW | {"mediaType": "text/plain"}),
        },
    ),
    *_cases(
        "operation",
        Reason.GRANT_CLAIMS_INVALID,
        {
            "the hash in upper case": bound(lambda scene: scene.operation.to_json() | {"call_hash": "A" * 64}),
            "no hash": bound(lambda scene: {"method": scene.door.method}),
            "a hash and a task": bound(lambda scene: scene.operation.to_json() | {"task": "task-1"}),
            "a root token for one call": root(put(op={"method": "SendMessage", "call_hash": "c" * 64})),
        },
    ),
    *_cases(
        "operation",
        Reason.GRANT_WIDENED,
        {
            "a capability outside the scope": outside(DATASET, "detect_outliers", {"metric": "recovery"}),
            "a capability that is not there": outside(DATASET, "raw_sql", {"sql": "SELECT 1"}),
            "a dataset outside the scope": outside("clinical-private", "search", {"query": "a"}),
        },
    ),
    *_cases(
        "operation",
        Reason.CALL_MALFORMED,
        {
            "no call at all": lambda scene: nonsense(scene, b"[]"),
            "a member more": lambda scene: nonsense(scene, b'{"dataset":"a","capability":"b","arguments":{},"sql":""}'),
        },
    ),
    *_cases(
        "operation",
        Reason.ARGUMENTS_INVALID,
        {"an argument outside its pattern": outside(DATASET, CAPABILITY, {"batch_id": "B001' OR 1=1"})},
    ),
)
