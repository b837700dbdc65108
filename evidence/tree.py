"""The provenance tree: what each agent signed about the answers that its own rests on.

A statement either *relays* an answer (same grant, same bytes, the root agent does that) or
was *completed* from answers that its agent asked for itself, each under a leaf of its own.
Whoever holds the pinned keys verifies every branch, with nothing running.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from contract.signing import PublicKey
from evidence.dsse import InvalidProvenance, open_envelope, signing_key
from evidence.predicate import Statement, Upstream
from evidence.provenance import read_statement, receipt_of

MAX_LEVELS: Final = 4
"""The root agent's statement and those of the three agents that a chain of four tokens reaches."""

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
    stated agent signed it, the digest stated of its result, its ledger receipt; that it was
    given under the same root token, issuer, transaction and trace, to the agent above it;
    that one leaf names one result. A relayed one says the same as the statement above.

    *Not* checked: whether an agent that names no upstream asked others all the same; only
    who knows what the capability delegates can tell.

    Raises ``InvalidProvenance``. Its ``check`` is as of ``verify_provenance``, or ``upstream``
    (a branch too many or none, an agent without a key), ``client``, ``issuer``, ``root_jti``,
    ``txn``, ``trace_id``, or ``relay``.
    """
    return _branches(statement, keys, {statement.predicate.grant.leaf_digest}, 1)


def walk(branches: Sequence[Branch], level: int = 1) -> Iterator[tuple[int, Branch]]:
    """Every branch with its level below the statement that was verified, each before what it rests on."""
    for branch in branches:
        yield level, branch
        yield from walk(branch.branches, level + 1)


def _branches(above: Statement, keys: Keys, leaves: set[str], level: int) -> tuple[Branch, ...]:
    """``leaves`` are the digests of the leaves that name a result in the tree so far."""
    told = above.predicate
    if (told.execution.tool_origin == "A2A") is not bool(told.upstream):
        raise InvalidProvenance(
            "upstream", f"the provenance of {told.agent.id} does not carry what its result rests on"
        )
    if told.upstream and level >= MAX_LEVELS:
        raise InvalidProvenance("upstream", f"the provenance is more than {MAX_LEVELS} agents deep")
    return tuple(_branch(above, stated, keys, leaves, level + 1) for stated in told.upstream)


def _branch(above: Statement, stated: Upstream, keys: Keys, leaves: set[str], level: int) -> Branch:
    known = tuple(keys.get(stated.agent_id, ()))
    if not known:
        raise InvalidProvenance("upstream", f"no key is trusted here for {stated.agent_id}, whose answer it rests on")
    key = signing_key(stated.envelope, known)
    statement = read_statement(open_envelope(stated.envelope, key))
    if statement.predicate.agent.id != stated.agent_id:
        raise InvalidProvenance("agent_id", "the provenance names another agent id")
    if statement.result_digest != stated.result_digest:
        raise InvalidProvenance("digest", f"{stated.agent_id} gave another result than is stated")
    if not receipt_of(statement).holds(known):
        raise InvalidProvenance("ledger", f"the ledger receipt of {stated.agent_id} does not hold")
    _check_thread(above, statement)
    _check_leaf(above, statement, leaves)
    return Branch(statement, key, stated.task_id, _branches(statement, keys, leaves, level))


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


def _check_leaf(above: Statement, below: Statement, leaves: set[str]) -> None:
    upper, lower = above.predicate, below.predicate
    if lower.grant.jti == upper.grant.jti or upper.grant.client == upper.agent.id:
        _check_relay(above, below)
    elif lower.grant.leaf_digest in leaves:
        raise InvalidProvenance("upstream", "one leaf names two results")
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
