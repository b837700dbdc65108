"""What a chain says, for people: every claim decoded and explained, and what each link took away.

Nothing here is verified by reading it. Only where a trust file is given is the chain put
before ``grants.verify``, and only its acceptance is reported as verified.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Final, Literal

from contract.call import Operation
from contract.canonical import InvalidJson, parse_json
from contract.grant import VerifiedGrant
from contract.scope import Scope, ScopeError, widening
from contract.verdict import VERDICTS, NotGranted
from grants import jose
from grants.claim_words import Explained, Kind, explained
from grants.claims import ChildClaims, GrantClaims, InvalidClaims, RootClaims, read
from grants.trust import Trust
from grants.verify import verify

MAX_INSPECTED: Final = 64 * 1024
NOT_READ: Final = "replay and revocation are not read here"


@dataclass(frozen=True, slots=True)
class TokenView:
    """One token as it reads. ``fault`` says why it would not even be read as its kind."""

    kind: Kind
    header: Mapping[str, Any] | None
    claims: Any
    bytes: int
    fault: str | None
    explained: tuple[Explained, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "bytes": self.bytes,
            "header": None if self.header is None else dict(self.header),
            "claims": self.claims,
            "explained": [claim.to_json() for claim in self.explained],
            "fault": self.fault,
        }


@dataclass(frozen=True, slots=True)
class Step:
    """A link of the chain: who passed it to whom, what it took away, and what it would widen.

    ``narrowed`` is everything that was taken away: ``token`` of the token itself, ``datasets``
    of each dataset.
    """

    sender: str
    receiver: str
    narrowed: tuple[str, ...]
    widened: tuple[str, ...]
    token: tuple[str, ...] = ()
    datasets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            "from": self.sender,
            "to": self.receiver,
            "narrowed": list(self.narrowed),
            "widened": list(self.widened),
            "token": list(self.token),
            "datasets": {name: list(taken) for name, taken in self.datasets.items()},
        }


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why the chain would not be accepted now."""

    verdict: str
    reason: str
    message: str

    @classmethod
    def of(cls, stop: NotGranted) -> Refusal:
        return cls(VERDICTS[stop.reason].value, stop.reason.value, stop.message)

    def to_json(self) -> dict[str, str]:
        return {"verdict": self.verdict, "reason": self.reason, "message": self.message}


@dataclass(frozen=True, slots=True)
class Inspection:
    """``signatures`` is ``verified`` only where ``grants.verify`` accepted the whole chain.

    ``judged_as`` is the request it was judged for; what the caller left open is taken from
    the leaf itself, so that what is wrong with the chain comes out and not what is missing
    from the question. ``None``: it was not judged. ``grant`` is there where it was accepted,
    so that a memory can be asked about it. ``not_checked`` says what was not looked at.
    """

    tokens: tuple[TokenView, ...]
    steps: tuple[Step, ...]
    signatures: Literal["verified", "not verified"]
    judged_as: Mapping[str, Any] | None
    refusal: Refusal | None
    grant: VerifiedGrant | None = field(default=None, repr=False)
    not_checked: str | None = NOT_READ

    def remembered(self, refusal: NotGranted | None, *, not_checked: str | None) -> Inspection:
        """With what a memory says of spends and revocations; a refusal by the chain itself stands."""
        told = self.refusal or (None if refusal is None else Refusal.of(refusal))
        return replace(self, refusal=told, not_checked=not_checked)

    def to_json(self) -> dict[str, Any]:
        return {
            "signatures": self.signatures,
            "judged_as": None if self.judged_as is None else dict(self.judged_as),
            "refusal": None if self.refusal is None else self.refusal.to_json(),
            "not_checked": self.not_checked,
            "tokens": [token.to_json() for token in self.tokens],
            "steps": [step.to_json() for step in self.steps],
        }


def explain(
    header: str,
    *,
    now: float,
    trust: Trust | None = None,
    audience: str | None = None,
    client: str | None = None,
    operation: Operation | None = None,
) -> Inspection:
    """Decode a chain and, where ``trust`` is given, say why it would be refused at ``now``.

    Never raises for what the text holds.
    """
    text = header.strip()
    decoded = [_decode(token, now, root=n == 0) for n, token in enumerate(text[:MAX_INSPECTED].split(","))]
    tokens = tuple(view for view, _ in decoded) if text else ()
    claims = [typed for _, typed in decoded]
    steps = tuple(_step(above, below) for above, below in pairwise(claims) if above is not None and below is not None)
    if trust is None:
        return Inspection(tokens, steps, "not verified", None, None)
    leaf = claims[-1]
    audience = audience or (leaf.aud if leaf else "")
    client = client or (leaf.act.sub if leaf else "")
    operation = operation or (leaf.op.value() if leaf else Operation("SendMessage", negotiate=True))
    judged_as = {"audience": audience, "client": client, "operation": operation.to_json(), "now": now}
    try:
        grant = verify(text, trust=trust, audience=audience, client=client, operation=operation, now=now)
    except NotGranted as stop:
        return Inspection(tokens, steps, "not verified", judged_as, Refusal.of(stop))
    return Inspection(tokens, steps, "verified", judged_as, None, grant)


def _decode(token: str, now: float, *, root: bool) -> tuple[TokenView, GrantClaims | None]:
    """A token as it reads, and its claims where they are what its kind demands."""
    kind: Kind = "root" if root else "derived"
    try:
        compact = jose.split(token)
    except jose.MalformedToken as error:
        return TokenView(kind, None, None, len(token), str(error)), None
    try:
        raw = parse_json(compact.payload, limit=jose.MAX_TOKEN_BYTES)
    except InvalidJson as error:
        return TokenView(kind, compact.header, None, len(token), str(error)), None
    view = TokenView(kind, compact.header, raw, len(token), None, explained(raw, kind, now=now))
    try:
        claims: GrantClaims = read(RootClaims if root else ChildClaims, compact.payload)
        claims.scopes  # noqa: B018 - raises where it does not read
    except (InvalidClaims, ScopeError) as error:
        return replace(view, fault=str(error)), None
    return view, claims


def _step(above: GrantClaims, below: GrantClaims) -> Step:
    token: list[str] = []
    widened: list[str] = []
    for longer, words in (
        (below.exp - above.exp, _lives(below.exp - above.exp)),
        (below.del_max_depth - above.del_max_depth, _passed_on(below.del_max_depth - above.del_max_depth)),
    ):
        if longer:
            (widened if longer > 0 else token).append(words)
    kept = {scope.dataset: scope for scope in below.scopes}
    taken = {
        scope.dataset: tuple(_taken(scope, kept[scope.dataset])) if scope.dataset in kept else (_LEFT_OUT,)
        for scope in above.scopes
    }
    narrowed = list(token)
    for dataset, members in taken.items():
        narrowed += [f"{dataset} {_LEFT_OUT}"] if members == (_LEFT_OUT,) else members
    member = widening(above.scopes, below.scopes)
    if member is not None:
        widened.append(member)
    return Step(above.aud, below.aud, tuple(narrowed), tuple(widened), tuple(token), taken)


_LEFT_OUT: Final = "left out"


def _lives(longer: int) -> str:
    return f"lives {abs(longer)} s {'longer' if longer > 0 else 'shorter'}"


def _passed_on(more: int) -> str:
    return f"may be passed on {abs(more)} {'time' if abs(more) == 1 else 'times'} {'more' if more > 0 else 'less'}"


def _taken(above: Scope, below: Scope) -> list[str]:
    taken = [
        *_lost("actions", above.actions, below.actions),
        *_lost("locations", above.locations, below.locations),
    ]
    if below.max_sensitivity is not above.max_sensitivity and below.max_sensitivity.within(above.max_sensitivity):
        taken.append(f"max_sensitivity from {above.max_sensitivity} to {below.max_sensitivity}")
    if above.columns is None and below.columns is not None:
        taken.append(f"columns to {', '.join(sorted(below.columns)) or 'none'}")
    elif above.columns is not None and below.columns is not None:
        taken += _lost("columns", above.columns, below.columns)
    taken += [
        f"constraints on {column}"
        for column, constraint in sorted(below.constraints.items())
        if above.constraints.get(column) != constraint
    ]
    return taken


def _lost(member: str, above: frozenset[str], below: frozenset[str]) -> Sequence[str]:
    return [f"{member} without {', '.join(sorted(above - below))}"] if above - below else []
