"""The provenance tree: what each agent signed about the answers that its own rests on.

A statement either *relays* an answer (same grant, same bytes, the root agent does that) or
was *completed* from answers that its agent asked for itself, each under a leaf of its own.
Whoever holds the pinned keys verifies every branch, with nothing running.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import orjson

from contract.signing import PublicKey
from evidence.dsse import InvalidProvenance, open_envelope, payload_of, read_payload, signing_key
from evidence.limits import MAX_LEVELS, MAX_OWN_BYTES, envelope_bytes, sealed_bytes
from evidence.predicate import Statement, Upstream, is_after
from evidence.provenance import read_statement, receipt_of

Keys = Mapping[str, Sequence[PublicKey]]
"""By agent id the keys its statements may be signed by: of an answer that arrives, none of a retired one."""


@dataclass(frozen=True, slots=True)
class Branch:
    """A verified statement that another rests on, the key that signed it, and what it rests on itself."""

    statement: Statement
    key: PublicKey
    task_id: str | None
    branches: tuple[Branch, ...] = ()


def verify_tree(statement: Statement, keys: Keys) -> tuple[Branch, ...]:
    """The answers that ``statement`` rests on, each verified with its agent's key, down to the last.

    ``statement`` itself is verified already, for its bytes. Checked for each branch: that the
    stated agent signed it, its ledger receipt, and all that ``check_tree`` checks.

    *Not* checked: whether an agent that names no upstream asked others all the same; only
    who knows what the capability delegates can tell.

    Raises ``InvalidProvenance``. Its ``check`` is as of ``verify_provenance`` and of
    ``check_tree``, or ``upstream`` for an agent without a key.
    """
    return _branches(statement, keys, {statement.predicate.grant.leaf_digest}, 1)


def check_tree(statement: Statement, *, level: int = 1) -> None:
    """All of ``verify_tree`` that needs no key: what a statement carries fits it, down to the last.

    Of each: the digest stated of its result; that it was given under the same root token,
    issuer, transaction and trace, to the agent above it, which sealed after it; that one leaf
    names one result, and a relayed one says the same as the statement above; that statements
    and envelopes are no larger than every agent above reads. ``level`` is the place of
    ``statement`` in the whole tree: 1 for the root agent's, 2 for that of the agent it asked.

    Whoever drafts a statement asks this of it before its row is written. Raises
    ``InvalidProvenance``. Its ``check`` is as of ``read_statement``, or ``agent_id``,
    ``digest``, ``upstream`` (a branch too many or none), ``client``, ``issuer``, ``root_jti``,
    ``txn``, ``trace_id``, ``sealed_at``, ``cache``, ``relay`` or ``size``.
    """
    _check(statement, {statement.predicate.grant.leaf_digest}, level)


def own_bytes(statement: Statement) -> int:
    """The size of a statement as compact JSON without the envelopes it carries."""
    without = {"predicate": {"upstream": {"__all__": {"envelope"}}}}
    return len(orjson.dumps(statement.model_dump(mode="json", by_alias=True, exclude=without)))


def walk(branches: Sequence[Branch], level: int = 1) -> Iterator[tuple[int, Branch]]:
    """Every branch with its level below the statement that was verified, each before what it rests on."""
    for branch in branches:
        yield level, branch
        yield from walk(branch.branches, level + 1)


def _branches(above: Statement, keys: Keys, leaves: set[str], level: int) -> tuple[Branch, ...]:
    """``leaves`` are the digests of the leaves that name a result in the tree so far."""
    _check_carries(above, level)
    return tuple(_branch(above, stated, keys, leaves, level + 1) for stated in above.predicate.upstream)


def _branch(above: Statement, stated: Upstream, keys: Keys, leaves: set[str], level: int) -> Branch:
    known = tuple(keys.get(stated.agent_id, ()))
    if not known:
        raise InvalidProvenance("upstream", f"no key is trusted here for {stated.agent_id}, whose answer it rests on")
    key = signing_key(stated.envelope, known)
    statement = read_statement(open_envelope(stated.envelope, key))
    _check_stated(stated, statement)
    if not receipt_of(statement).holds(known):
        raise InvalidProvenance("ledger", f"the ledger receipt of {stated.agent_id} does not hold")
    _check_link(above, statement, leaves)
    return Branch(statement, key, stated.task_id, _branches(statement, keys, leaves, level))


def _check(above: Statement, leaves: set[str], level: int) -> None:
    _check_carries(above, level)
    for stated in above.predicate.upstream:
        below = read_statement(read_payload(payload_of(stated.envelope)))
        _check_stated(stated, below)
        receipt_of(below)
        _check_link(above, below, leaves)
        _check(below, leaves, level + 1)


def _check_carries(above: Statement, level: int) -> None:
    """That it carries what it rests on, where it rests on anything, and no more than is read."""
    told = above.predicate
    if (told.execution.tool_origin == "A2A") is not bool(told.upstream):
        raise InvalidProvenance(
            "upstream", f"the provenance of {told.agent.id} does not carry what its result rests on"
        )
    if told.upstream and level >= MAX_LEVELS:
        raise InvalidProvenance("upstream", f"the provenance is more than {MAX_LEVELS} agents deep")
    if own_bytes(above) > MAX_OWN_BYTES:
        raise InvalidProvenance("size", f"what {told.agent.id} itself says is over {MAX_OWN_BYTES} bytes")
    carried = sum(sealed_bytes(len(payload_of(stated.envelope))) for stated in told.upstream)
    if told.upstream and carried > (limit := envelope_bytes(MAX_LEVELS - level)):
        raise InvalidProvenance("size", f"what {told.agent.id} carries of others is over {limit} bytes")


def _check_stated(stated: Upstream, statement: Statement) -> None:
    if statement.predicate.agent.id != stated.agent_id:
        raise InvalidProvenance("agent_id", "the provenance names another agent id")
    if statement.result_digest != stated.result_digest:
        raise InvalidProvenance("digest", f"{stated.agent_id} gave another result than is stated")


def _check_link(above: Statement, below: Statement, leaves: set[str]) -> None:
    _check_thread(above, below)
    _check_leaf(above, below, leaves)


def _check_thread(above: Statement, below: Statement) -> None:
    """That both were given for one asking, the lower to the agent above it."""
    upper, lower = above.predicate, below.predicate
    pairs = {
        "issuer": (upper.grant.issuer, lower.grant.issuer),
        "root_jti": (upper.grant.root_jti, lower.grant.root_jti),
        "txn": (upper.grant.txn, lower.grant.txn),
        "trace_id": (upper.invocation.trace_id, lower.invocation.trace_id),
        "client": (upper.agent.id, lower.grant.client),
    }
    for name, (wanted, found) in pairs.items():
        if wanted != found:
            raise InvalidProvenance(name, f"{lower.agent.id} answered another {name.replace('_', ' ')}")
    if is_after(lower.sealed_at, upper.sealed_at):
        raise InvalidProvenance("sealed_at", f"{lower.agent.id} signed after {upper.agent.id}, which carries it")


def _check_leaf(above: Statement, below: Statement, leaves: set[str]) -> None:
    upper, lower = above.predicate, below.predicate
    if lower.grant.jti == upper.grant.jti or upper.grant.client == upper.agent.id:
        _check_relay(above, below)
    elif lower.grant.leaf_digest in leaves:
        raise InvalidProvenance("upstream", "one leaf names two results")
    elif upper.cache.used:
        raise InvalidProvenance("cache", f"{upper.agent.id} completed no result that it had stored before")
    leaves.add(lower.grant.leaf_digest)


def _check_relay(above: Statement, below: Statement) -> None:
    """That a statement under the same leaf says of its one upstream nothing but what that says."""
    upper, lower = above.predicate, below.predicate
    same = (
        len(upper.upstream) == 1
        and above.result_digest == below.result_digest
        and all(getattr(upper, name) == getattr(lower, name) for name in _RELAYED)
        and upper.execution == lower.execution.model_copy(update={"tool_origin": "A2A"})
    )
    if not same:
        raise InvalidProvenance("relay", f"{upper.agent.id} relays something else than {lower.agent.id} answered")


_RELAYED: Final = ("grant", "operation", "dataset", "authorization", "cache", "result")
