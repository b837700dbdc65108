"""What is recorded as granted can be sealed, and whatever is sealed is read by everyone above."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import orjson
import pytest

from contract.authority import Authority
from contract.canonical import InvalidJson, parse_json, sha256_hex
from contract.verdict import NotGranted, Reason
from evidence.checkpoint import Checkpoint, Receipt
from evidence.dsse import InvalidProvenance, payload_of, sign_envelope
from evidence.limits import (
    MAX_LEVELS,
    MAX_OWN_BYTES,
    MAX_PAYLOAD_BYTES,
    RECEIPT_BYTES,
    envelope_bytes,
    payload_bytes,
)
from evidence.predicate import Upstream
from evidence.statement import Draft, draft, upstream_of
from evidence.tree import own_bytes, verify_tree, walk
from tests.authority_builder import make_authority
from tests.evidence.evidence_builders import draft_members
from tests.evidence.provenance_trees import (
    KEYS,
    ROOT,
    Node,
    agent_id,
    drafted_relay,
    grown,
    opened,
    receipt_by,
    signer_of,
    unverified,
)

FULL = MAX_OWN_BYTES - RECEIPT_BYTES


def asked(place: int, columns: int = 1) -> Authority:
    """The authority of the agent at a place of a chain, 1 being the one that the root agent asks."""
    return make_authority(
        client=ROOT if place == 1 else agent_id(place - 1),
        leaf_jti=f"jti-{place}",
        leaf_digest=sha256_hex(str(place).encode()),
        between=tuple(f"jti-{number}" for number in range(1, place)),
        columns=[f"t{number:05}.{'c' * 60}" for number in range(columns)],
    )


def drafted(place: int, upstream: tuple[Upstream, ...] = (), size: int = FULL) -> Draft:
    """A draft whose own part, its receipt aside, has ``size`` bytes."""

    def made(columns: int, source: str) -> Draft:
        return draft(
            asked(place, columns), **draft_members(agent_id=agent_id(place), upstream=upstream, sources=[source])
        )

    base, step = own(made(1, "s")), own(made(2, "s")) - own(made(1, "s"))
    columns, rest = divmod(size - base, step)
    return made(1 + columns, "s" * (1 + rest))


def own(made: Draft) -> int:
    return own_bytes(unverified(sign_envelope(made.body, signer_of(ROOT))))


def sealed(place: int, made: Draft) -> tuple[dict[str, Any], Upstream]:
    name = agent_id(place)
    envelope = made.seal(receipt_by(name), signer_of(name))
    return envelope, upstream_of(unverified(envelope), envelope, f"task-{place}")


def reason_of(make: Any) -> Reason | None:
    try:
        make()
    except NotGranted as stop:
        return stop.reason
    return None


def test_the_deepest_tree_of_the_largest_statements_is_read_at_every_level() -> None:
    upstream: tuple[Upstream, ...] = ()
    for place in (3, 2, 1):
        made = drafted(place, upstream)
        assert own(made) == FULL
        envelope, stated = sealed(place, made)
        limit = envelope_bytes(MAX_LEVELS - place)
        assert len(json.dumps(envelope)) <= limit
        assert len(payload_of(envelope)) > limit // 2, "the limit is not far above what is needed"
        upstream = (stated,)
    # The root agent says of it what the first agent said, a few ids aside.
    lower = sealed(1, drafted(1, (sealed(2, drafted(2, (sealed(3, drafted(3))[1],)))[1],), FULL - 600))[0]
    whole = drafted_relay(lower).seal(receipt_by(ROOT), signer_of(ROOT))
    assert len(json.dumps(whole)) <= envelope_bytes(MAX_LEVELS)
    assert [branch.statement.predicate.agent.id for _, branch in walk(verify_tree(unverified(whole), KEYS))] == [
        agent_id(1),
        agent_id(2),
        agent_id(3),
    ]


def test_a_statement_that_says_more_than_is_read_is_not_drafted() -> None:
    assert reason_of(lambda: drafted(1, size=FULL)) is None
    assert reason_of(lambda: drafted(1, size=FULL + 1)) is Reason.EVIDENCE_UNAVAILABLE


def test_the_room_that_is_left_is_enough_for_any_receipt() -> None:
    largest = Receipt(
        2**53 - 1,
        bytes(32),
        Checkpoint("\x01" * 200, 2**53 - 1, bytes(32), "2027-01-15T08:00:00.000000Z", bytes(64)),
        (bytes(32),) * 64,
        bytes(32),
    )
    assert len(orjson.dumps(largest.to_json())) <= RECEIPT_BYTES


@pytest.mark.parametrize("place", [1, 2])
def test_what_another_agent_gave_is_carried_only_where_all_above_read_it(place: int) -> None:
    """The last level's own limit is smaller than what the agent above may carry; padded, it is not."""

    def padded(more: int) -> Upstream:
        statement = drafted(place + 1).statement(receipt_by(agent_id(place + 1)))
        size = len(orjson.dumps(statement))
        room = (envelope_bytes(MAX_LEVELS - place - 1) - 512) // 4 * 3 - size
        raw = orjson.dumps(statement) + b" " * (room + more)
        return upstream_of(unverified(envelope_over(raw, place + 1)), envelope_over(raw, place + 1), None)

    assert reason_of(lambda: drafted(place, (padded(0),), 4_000)) is None
    assert reason_of(lambda: drafted(place, (padded(1),), 4_000)) is Reason.REMOTE_PROVENANCE_INVALID


def envelope_over(payload: bytes, place: int) -> dict[str, Any]:
    """Any payload in the form of an envelope; its signature is of no account to who drafts."""
    shell = sign_envelope({}, signer_of(agent_id(place)))
    return shell | {"payload": base64.b64encode(payload).decode()}


def test_an_agent_at_the_end_of_the_longest_chain_carries_nobody() -> None:
    small = sealed(4, drafted(4, size=4_000))[1]
    assert reason_of(lambda: drafted(3, (small,), 4_000)) is Reason.REMOTE_PROVENANCE_INVALID


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("root_jti", "jti-of-another-root-token"),
        ("txn", "txn-2"),
        ("issuer", "https://another-issuer.example"),
        ("trace_id", "f" * 32),
    ],
)
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_a_root_agent_drafts_no_tree_that_a_verifier_would_refuse(member: str, value: str, depth: int) -> None:
    foreign = Node(2, thread=((member, value),))
    tree = (foreign, Node(0, (foreign,)), Node(0, (Node(1, (foreign,)),)))[depth]
    # The root agent copies the grant of what it relays, so there only another trace is not its own.
    copied = depth == 0 and member != "trace_id"
    assert reason_of(lambda: drafted_relay(grown(tree))) is (None if copied else Reason.REMOTE_PROVENANCE_INVALID)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("execution", "tool_origin"), "A2A"),
        (("grant", "client"), "urn:dataset-agent:somebody"),
        (("ledger",), {}),
        (("invocation", "trace_id"), "f" * 32),
        (("sealed_at",), "9999-12-31T23:59:59.999999Z"),
    ],
)
def test_a_dataset_agent_drafts_none_either(path: tuple[str, ...], value: Any) -> None:
    def changed(statement: dict[str, Any]) -> None:
        place = statement["predicate"]
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = value

    def made(change: Any) -> Draft:
        lower = grown(Node(2), client=agent_id(1), path="2", change=change)
        stated = upstream_of(unverified(lower), lower, "task-2")
        authority = make_authority(leaf_jti="jti-1", txn="txn-1")
        return draft(authority, **draft_members(agent_id=agent_id(1), upstream=[stated]))

    assert reason_of(lambda: made(None)) is None
    assert reason_of(lambda: made(changed)) is Reason.REMOTE_PROVENANCE_INVALID


@pytest.mark.parametrize("extra", [10**30, [[[[[1]]]]], "z" * 200_000])
def test_what_nobody_signed_is_not_drafted_with(extra: Any) -> None:
    lower = grown(Node(2), client=agent_id(1), path="2") | {"x": extra}
    stated = upstream_of(unverified(lower), lower, "task-2")
    authority = make_authority(leaf_jti="jti-1", txn="txn-1")
    assert (
        reason_of(lambda: draft(authority, **draft_members(agent_id=agent_id(1), upstream=[stated])))
        is Reason.REMOTE_PROVENANCE_INVALID
    )
    assert reason_of(lambda: drafted_relay(lower)) is Reason.REMOTE_PROVENANCE_INVALID
    assert "x" not in opened(grown(Node(2)))


def test_a_statement_with_all_it_may_have_is_seven_levels_deep() -> None:
    whole = grown(Node(0, (Node(1, (Node(2),)),)))
    assert parse_json(payload_of(whole), limit=MAX_PAYLOAD_BYTES, max_depth=7)
    with pytest.raises(InvalidJson):
        parse_json(payload_of(whole), limit=MAX_PAYLOAD_BYTES, max_depth=6)


def test_the_documented_limits_are_those_that_hold() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "extension.md").read_text(encoding="utf-8")
    found = re.findall(r"^\| ([1-4]) \| .* \| ([0-9,]+) bytes \| ([0-9,]+) bytes \|$", text, re.M)
    assert [(int(level), *(int(size.replace(",", "")) for size in sizes)) for level, *sizes in found] == [
        (level, payload_bytes(MAX_LEVELS + 1 - level), envelope_bytes(MAX_LEVELS + 1 - level))
        for level in range(1, MAX_LEVELS + 1)
    ]


@pytest.mark.parametrize(("member", "value"), [("result_digest", "0" * 64), ("agent_id", agent_id(5))])
def test_what_the_agent_below_states_of_others_is_judged_too(member: str, value: str) -> None:
    def misstated(statement: dict[str, Any]) -> None:
        statement["predicate"]["upstream"][0][member] = value

    tree = Node(0, (Node(1),))
    assert reason_of(lambda: drafted_relay(grown(tree))) is None
    assert reason_of(lambda: drafted_relay(grown(tree, change=misstated))) is Reason.REMOTE_PROVENANCE_INVALID


def test_nobody_reads_more_of_what_an_agent_itself_says() -> None:
    def with_sources(count: int) -> Any:
        def change(statement: dict[str, Any]) -> None:
            statement["predicate"]["dataset"]["sources"] = ["s" * 500] * count

        return change

    def checked(count: int) -> str | None:
        try:
            verify_tree(unverified(grown(Node(0), change=with_sources(count))), KEYS)
        except InvalidProvenance as error:
            return error.check
        return None

    assert (checked(100), checked(130)) == (None, "size")
