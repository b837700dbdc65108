"""Random chains, signed for real: each child narrows its parent by some moves, and a third of them by a move too many.

Names are short, so that eight scopes and several tokens fit into one header.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from contract.canonical import b64url
from contract.extension import MAX_GRANT_HEADER_BYTES
from contract.grant import VerifiedGrant
from grants.trust import Trust, TrustedAgent, TrustedIssuer
from grants.verify import verify
from tests.grants import narrowing_oracle as oracle
from tests.grants.grants_world import CALL, NOW, par_hash, signer

ISSUER: Final = "i"
HOLDERS: Final = ("h", "b", "c", "r")
"""The agent that asks, two between, and the receiver."""
RECEIVER: Final = HOLDERS[-1]
SIGNERS: Final = {name: signer(seed) for seed, name in enumerate((ISSUER, *HOLDERS), start=60)}
JWKS: Final = {name: {"kty": "OKP", "crv": "Ed25519", "x": b64url(by.public_key.raw)} for name, by in SIGNERS.items()}
TRUST: Final = Trust(
    issuers={ISSUER: TrustedIssuer(ISSUER, (SIGNERS[ISSUER].public_key,), (), frozenset({"t"}))},
    agents={name: TrustedAgent(name, "http://127.0.0.1:9", SIGNERS[name].public_key) for name in HOLDERS},
)
HEADS: Final = {
    ISSUER: b64url(
        json.dumps(
            {"alg": "Ed25519", "typ": "execution-grant+jwt", "kid": SIGNERS[ISSUER].public_key.thumbprint}
        ).encode()
    ),
    **dict.fromkeys(HOLDERS, b64url(b'{"alg":"Ed25519","typ":"execution-grant+jwt"}')),
}

ACTIONS: Final = ("a", "b", "c", "d")
LOCATIONS: Final = (RECEIVER, "b", "c", "x")
COLUMNS: Final = oracle.COLUMNS
VALUES: Final[Mapping[str, Sequence[Any]]] = {
    "text": ("a", "ab", "abc", "b", "9", "10", "010", "2024-01-01", "", "\u00e9"),
    "integer": (-1, 0, 8, 9, 10, 11, 100, "9007199254740993", "9", "10"),
    "decimal": ("9", "9.5", "10", "10.0", "10.00", "-0.5", "-0", "0", "100", 9, 10, "010"),
    "float": ("9", "9.5", "10", "10.0", "-0.5", "0.0", 10, 100),
    "day": ("2023-12-31", "2024-01-01", "2024-01-02", "2024-02-29", "2024-02-31", "2024-12-31"),
    "moment": (
        "2023-12-31T23:59:59.999999Z",
        "2024-01-01T00:00:00.000000Z",
        "2024-01-01T12:00:00.000000Z",
        "2024-01-02T00:00:00.000000Z",
    ),
    "boolean": ("true", "false"),
}
FITTING: Final[Mapping[str, Sequence[str]]] = {
    "text": ("one_of", "not_one_of", "prefix"),
    "boolean": ("one_of", "not_one_of"),
    **dict.fromkeys(("integer", "decimal", "float", "day", "moment"), ("one_of", "not_one_of", "max", "min")),
}
BOUND_VALUES: Final = tuple(
    v for kind in ("integer", "decimal", "day", "moment") for v in VALUES[kind] if oracle.is_bound(v)
)

Claims = dict[str, Any]


@dataclass(frozen=True)
class Chain:
    """Plain claims, root first, and the header that carries them."""

    claims: tuple[Claims, ...]
    header: str

    @property
    def links(self) -> Iterator[tuple[Claims, Claims]]:
        return zip(self.claims, self.claims[1:], strict=False)

    @property
    def client(self) -> str:
        return str(self.claims[-1]["act"]["sub"])

    def narrower(self) -> bool:
        """By the profile's form, link by link, to something that the receiver may serve."""
        served = any(RECEIVER in detail["locations"] for detail in self.claims[-1]["authorization_details"])
        return (
            served
            and all(oracle.well_formed(claims) for claims in self.claims)
            and all(oracle.legal(above, below) for above, below in self.links)
        )

    def wider(self) -> list[str]:
        """What some child lets pass that its parent does not; nothing where a token is not in the vocabulary."""
        known = [(above, below) for above, below in self.links if all(map(oracle.well_formed, (above, below)))]
        return [member for above, below in known for member in oracle.wider(above, below)]


def judged(chain: Chain) -> VerifiedGrant:
    """What the code under test says. Raises ``NotGranted``."""
    return verify(chain.header, trust=TRUST, audience=RECEIVER, client=chain.client, operation=CALL, now=float(NOW))


def chains(rng: random.Random, count: int) -> Iterator[Chain]:
    """``count`` chains whose headers fit, several of each root token."""
    made = 0
    while made < count:
        root = _root(rng)
        first = _token(root, ISSUER)
        for _ in range(5):
            chain = _grown(rng, root, first)
            if len(chain.header) <= MAX_GRANT_HEADER_BYTES and made < count:
                made += 1
                yield chain


def _grown(rng: random.Random, root: Claims, first: str) -> Chain:
    claims, tokens = [root], [first]
    hops = rng.choice((1, 2, 2, 3)) if len(root["authorization_details"]) < 6 else 1
    path = ("h", *(("b", "c")[: hops - 1]), RECEIVER)
    spoiled = rng.randrange(hops) if rng.random() < 0.5 else None
    for place, (holder, receiver) in enumerate(zip(path, path[1:], strict=False)):
        child = _child(rng, claims[-1], receiver, wild=place == spoiled)
        child["par_hash"] = par_hash(tokens[-1])
        child["iss"] = SIGNERS[holder].public_key.thumbprint_uri
        claims.append(child)
        tokens.append(_token(child, holder))
    return Chain(tuple(claims), ",".join(tokens))


def _token(claims: Claims, by: str) -> str:
    signing_input = f"{HEADS[by]}.{b64url(json.dumps(claims, separators=(',', ':'), ensure_ascii=False).encode())}"
    return f"{signing_input}.{b64url(SIGNERS[by].sign(signing_input.encode()))}"


def _root(rng: random.Random) -> Claims:
    datasets = rng.sample(range(10), rng.choice((1, 1, 1, 2, 2, 3, 5, 8)))
    return {
        "iss": ISSUER,
        "sub": "s",
        "aud": "h",
        "act": {"sub": ISSUER},
        "iat": NOW,
        "nbf": NOW,
        "exp": NOW + rng.choice((30, 60, 300)),
        "jti": f"j{rng.randrange(10**9)}",
        "txn": "x",
        "cnf": {"jwk": JWKS["h"]},
        "del_depth": 0,
        "del_max_depth": rng.choice((1, 2, *(3,) * 10)),
        "authorization_details": [_detail(rng, f"d{n}", roomy=len(datasets) < 4) for n in sorted(datasets)],
        "op": {"method": "delegate"},
        "tctx": {"tenant": "t", "principal_class": "p"},
        "rctx": {"trace_id": "z"},
    }


def _detail(rng: random.Random, dataset: str, *, roomy: bool) -> Claims:
    detail: Claims = {
        "type": "dataset-access:v1",
        "locations": [RECEIVER, *_some(rng, LOCATIONS[1:], 0)] if rng.random() < 0.9 else ["x"],
        "identifier": dataset,
        "dataset_version": "1",
        "revision": "r",
        "actions": _some(rng, ACTIONS, 1),
        "max_sensitivity": rng.choice(oracle.SENSITIVITIES),
    }
    if roomy and rng.random() < 0.5:
        detail["columns"] = _some(rng, COLUMNS, 0)
    if roomy and rng.random() < 0.8:
        names = rng.sample(list(oracle.TYPES), rng.choice((1, 1, 2, 3)))
        detail["constraints"] = {name: constraint(rng, oracle.TYPES[name]) for name in names}
    return detail


def _some(rng: random.Random, values: Sequence[str], least: int) -> list[str]:
    return sorted(rng.sample(list(values), rng.randint(least, len(values))))


def constraint(rng: random.Random, kind: str) -> Claims:
    """One that fits the type of a column, nine times of ten."""
    kinds = FITTING[kind] if rng.random() < 0.9 else oracle.KINDS
    return {name: _value(rng, name, kind) for name in rng.sample(list(kinds), rng.choice((1, 1, 2)))}


def _value(rng: random.Random, name: str, kind: str) -> Any:
    pool = list(VALUES[kind])
    if name in oracle.SETS:
        return rng.sample(pool, rng.randint(0, min(4, len(pool))))
    if name in oracle.BOUNDS:
        own = [value for value in pool if oracle.is_bound(value)]
        return rng.choice(own if kind not in ("text", "boolean") and rng.random() < 0.9 else BOUND_VALUES)
    return rng.choice(("a", "ab", "abc", "b", "10", "\u00e9"))


# children


def _child(rng: random.Random, parent: Claims, receiver: str, *, wild: bool) -> Claims:
    child = {
        **parent,
        "aud": receiver,
        "act": {"sub": parent["aud"]},
        "exp": min(parent["exp"], NOW + rng.choice((20, 60, 60))),
        "jti": f"j{rng.randrange(10**9)}",
        "cnf": {"jwk": JWKS[receiver]},
        "del_depth": parent["del_depth"] + 1,
        "del_max_depth": max(parent["del_depth"] + 1, parent["del_max_depth"] - rng.choice((1, *(0,) * 9))),
        "authorization_details": [_copy(detail) for detail in parent["authorization_details"]],
        "op": CALL.to_json(),
    }
    if child["del_max_depth"] > parent["del_max_depth"]:
        child["del_max_depth"] = parent["del_max_depth"]
    for detail in child["authorization_details"]:
        for move in rng.sample(NARROWING, rng.choice((0, 1, 1, 2))):
            move(rng, detail)
    details = child["authorization_details"]
    if len(details) > 1 and rng.random() < 0.3:
        child["authorization_details"] = rng.sample(details, rng.randint(1, len(details)))
    if wild:
        rng.choice(WILD_CLAIMS if rng.random() < 0.3 else WILD_DETAIL)(rng, child)
    return child


def _copy(detail: Claims) -> Claims:
    copied = {name: list(value) if isinstance(value, list) else value for name, value in detail.items()}
    if "constraints" in detail:
        copied["constraints"] = {name: dict(row) for name, row in detail["constraints"].items()}
    return copied


def _fewer_actions(rng: random.Random, detail: Claims) -> None:
    detail["actions"] = _some(rng, detail["actions"], 1)


def _fewer_locations(rng: random.Random, detail: Claims) -> None:
    kept = _some(rng, detail["locations"], 1)
    if RECEIVER in detail["locations"] and rng.random() < 0.9:
        kept = sorted({RECEIVER, *kept})
    detail["locations"] = kept


def _fewer_columns(rng: random.Random, detail: Claims) -> None:
    detail["columns"] = _some(rng, detail.get("columns", COLUMNS), 0)


def _less_sensitive(rng: random.Random, detail: Claims) -> None:
    rank = oracle.SENSITIVITIES.index(detail["max_sensitivity"])
    detail["max_sensitivity"] = oracle.SENSITIVITIES[rng.randint(0, rank)]


def _one_constraint_more(rng: random.Random, detail: Claims) -> None:
    rows = detail.setdefault("constraints", {})
    name = rng.choice(list(oracle.TYPES))
    if name not in rows:
        rows[name] = constraint(rng, oracle.TYPES[name])


def _one_constraint_tighter(rng: random.Random, detail: Claims) -> None:
    rows = detail.get("constraints", {})
    known = sorted(name for name, held in rows.items() if oracle.known(held))
    if known:
        name = rng.choice(known)
        rows[name] = _tightened(rng, rows[name], oracle.TYPES[name])


def _tightened(rng: random.Random, held: Claims, kind: str) -> Claims:
    """The same kinds, each as tight or tighter, and perhaps one kind more."""
    made = {name: _tighter_value(rng, name, value, kind) for name, value in held.items()}
    extra = rng.choice(FITTING[kind])
    if extra not in made and rng.random() < 0.3:
        made[extra] = _value(rng, extra, kind)
    return made


def _tighter_value(rng: random.Random, name: str, value: Any, kind: str) -> Any:
    if name == "one_of":
        return rng.sample(value, rng.randint(0, len(value)))
    if name == "not_one_of":
        return [*value, *(item for item in rng.sample(list(VALUES[kind]), 1) if item not in value)]
    if name == "prefix":
        return value + rng.choice(("", "a", "b"))
    return rng.choice([v for v in BOUND_VALUES if oracle.tighter({name: value}, {name: v})])


NARROWING: Final[list[Callable[[random.Random, Claims], None]]] = [
    _fewer_actions,
    _fewer_locations,
    _fewer_columns,
    _less_sensitive,
    _one_constraint_more,
    _one_constraint_tighter,
    _one_constraint_tighter,
]


# moves that mostly widen, and sometimes turn out not to


def _any_detail(move: Callable[[random.Random, Claims], None]) -> Callable[[random.Random, Claims], None]:
    return lambda rng, child: move(rng, rng.choice(child["authorization_details"]))


def _set(member: str, values: Callable[[random.Random], Any]) -> Callable[[random.Random, Claims], None]:
    return lambda rng, target: target.update({member: values(rng)})


def _no_columns_list(rng: random.Random, detail: Claims) -> None:
    detail.pop("columns", None)


def _other_constraint(rng: random.Random, detail: Claims) -> None:
    """One column's constraint replaced, or one kind of it, or dropped."""
    rows = detail.get("constraints")
    if not rows:
        return _one_constraint_more(rng, detail)
    name = rng.choice(sorted(rows))
    how = rng.randrange(4)
    if how == 0:
        del rows[name]
    elif how == 1:
        rows[name] = constraint(rng, oracle.TYPES[name])
    elif how == 2 and len(rows[name]) > 1:
        rows[name].pop(rng.choice(sorted(rows[name])))
    else:
        kind = rng.choice(sorted(rows[name]))
        rows[name][kind] = _value(rng, kind, oracle.TYPES[name])
    return None


def _moved_constraint(rng: random.Random, detail: Claims) -> None:
    rows = detail.get("constraints")
    if rows:
        name = rng.choice(sorted(rows))
        rows.setdefault(rng.choice(list(oracle.TYPES)), rows.pop(name))


def _unknown_constraint(rng: random.Random, detail: Claims) -> None:
    unknown = rng.choice(({}, {"regex": "a"}, {"max": "b"}, {"min": ""}, {"prefix": ""}, {"one_of": [1.5]}))
    detail.setdefault("constraints", {})[rng.choice(list(oracle.TYPES))] = unknown


def _another_dataset(rng: random.Random, child: Claims) -> None:
    held = {detail["identifier"] for detail in child["authorization_details"]}
    fresh = rng.choice([f"d{n}" for n in range(12) if f"d{n}" not in held])
    if rng.random() < 0.5 and len(child["authorization_details"]) < 8:
        child["authorization_details"].append({**_copy(child["authorization_details"][0]), "identifier": fresh})
    else:
        rng.choice(child["authorization_details"])["identifier"] = fresh


def _same_dataset_twice(rng: random.Random, child: Claims) -> None:
    child["authorization_details"].append(_copy(rng.choice(child["authorization_details"])))


WILD_DETAIL: Final[list[Callable[[random.Random, Claims], None]]] = [
    _any_detail(_set("actions", lambda rng: _some(rng, ACTIONS, 1))),
    _any_detail(_set("locations", lambda rng: sorted({RECEIVER, *_some(rng, LOCATIONS, 0)}))),
    _any_detail(_set("columns", lambda rng: _some(rng, COLUMNS, 0))),
    _any_detail(_no_columns_list),
    _any_detail(_set("max_sensitivity", lambda rng: rng.choice(oracle.SENSITIVITIES))),
    _any_detail(_set("dataset_version", lambda rng: rng.choice(("1", "2")))),
    _any_detail(_set("revision", lambda rng: rng.choice(("r", "R")))),
    *[_any_detail(_other_constraint)] * 8,
    _any_detail(_moved_constraint),
    _any_detail(_unknown_constraint),
]
WILD_CLAIMS: Final[list[Callable[[random.Random, Claims], None]]] = [
    _set("exp", lambda rng: NOW + rng.choice((31, 59, 60))),
    _set("del_max_depth", lambda rng: rng.randint(0, 3)),
    _set("del_depth", lambda rng: rng.randint(1, 3)),
    _another_dataset,
    _another_dataset,
    _same_dataset_twice,
    _set("authorization_details", lambda rng: []),
]


# constraints, each beside each


def every_constraint() -> list[dict[str, Any]]:
    """Constraints of one kind and of two, over every value of every type."""
    values = list(dict.fromkeys(value for pool in VALUES.values() for value in pool))
    single: list[dict[str, Any]] = [{name: [value]} for name in oracle.SETS for value in values]
    single += [{name: bound} for name in oracle.BOUNDS for bound in dict.fromkeys(BOUND_VALUES)]
    single += [{"prefix": text} for text in ("a", "ab", "b", "\u00e9", "10", "2024-01")]
    sets: list[dict[str, Any]] = [
        {name: list(items)}
        for name in oracle.SETS
        for items in ((), ("a", "b"), ("a", "ab", "b"), (9, 10), (9, "10"), ("true", "false"), ("10", "10.0"))
    ]
    both: list[dict[str, Any]] = [
        {"min": low, "max": high} for low in (0, "9.5", "2024-01-01") for high in (10, "10.0", "2024-12-31")
    ]
    both += [{"one_of": ["a", "ab"], "prefix": "a"}, {"not_one_of": ["ab"], "prefix": "a"}]
    return single + sets + both
