"""Identifiers, canonical JSON, reasons and the values that cannot be made from nothing."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from contract import canonical
from contract.authority import Authority
from contract.call import Call
from contract.canonical import InvalidJson, b64url, canonical_json, check_shape, digest, parse_json, unb64url
from contract.errors import Category, Component, DatasetAgentError
from contract.grant import VerifiedGrant
from contract.ids import AppName, InvalidId, SessionId, UserId
from contract.signing import InvalidKey, PublicKey
from contract.verdict import VERDICTS, Decision, NotGranted, Reason, Verdict

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=4)
    ),
    max_leaves=12,
)


@pytest.mark.parametrize("size", [1, 512])
def test_a_leaf_id_of_one_to_512_bytes_is_kept(size: int) -> None:
    assert UserId("x" * size) == "x" * size


@pytest.mark.parametrize("value", ["", "x" * 513, "a\x00b", "é" * 257])
def test_a_leaf_id_outside_the_rules_is_refused(value: str) -> None:
    with pytest.raises(InvalidId):
        UserId(value)


def test_ids_of_different_layers_are_not_interchangeable() -> None:
    class Address(BaseModel):
        app: AppName
        session: SessionId

    assert Address(app="a", session="tenant:x@y/z").model_dump_json() == '{"app":"a","session":"tenant:x@y/z"}'
    with pytest.raises(ValidationError):
        Address(app="a", session=UserId("u"))


def test_generated_ids_differ() -> None:
    assert len({SessionId.generate() for _ in range(100)}) == 100


@given(JSON)
def test_canonical_json_reads_back_to_the_same_value(value: object) -> None:
    assert parse_json(canonical_json(value), limit=10**6) == value


@given(st.dictionaries(st.text("abc"), st.integers(0, 9), max_size=5))
def test_member_order_never_changes_a_digest(value: dict[str, int]) -> None:
    assert digest("t", value) == digest("t", dict(reversed(list(value.items()))))


def test_a_digest_belongs_to_its_tag() -> None:
    assert digest("a", 1) != digest("b", 1)


@pytest.mark.parametrize(
    "data",
    [
        b'{"a":1,"a":2}',
        b'{"a":{"b":1,"b":1}}',
        b"NaN",
        b"[Infinity]",
        b"[-1e999]",
        b"\xff",
        b"[" * 40 + b"]" * 40,
        b'"\\ud800"',
        b"{",
        b"",
    ],
)
def test_json_that_could_be_read_two_ways_is_not_read(data: bytes) -> None:
    with pytest.raises(InvalidJson):
        parse_json(data, limit=1_000)


def test_the_cost_of_a_body_is_bounded_without_parsing_it() -> None:
    check_shape(json.dumps({"a": [1] * 100}).encode(), max_values=200)
    check_shape(json.dumps({"a": '[{,\\"' * 10_000}).encode(), max_values=10)
    check_shape(json.dumps({"a": "\U0001f9ea", "b": "\\\\ud800", "c": "9" * 5_000}).encode(), max_values=10)
    for hostile in (
        b"[" * 33,
        b"[" + b"0," * 300 + b"0]",
        b"[" + b"{}," * 300 + b"0]",
        '{"Ģ":[[[]]]}'.encode("utf-16-le"),
        b'{"a":"\xff"}',
        b'{"id":"\\ud800"}',
        b'{"id":"\\udc00\\ud800"}',
        b'{"a":' + b"9" * 5_000 + b"}",
    ):
        with pytest.raises(InvalidJson):
            check_shape(hostile, max_values=200)


@given(st.lists(st.sampled_from([b"[", b"]", b"{", b'"', b"\\", b",", b"9" * 150, b"x"]), max_size=12).map(b"".join))
def test_a_body_is_let_through_at_a_glance_only_where_a_closer_look_lets_it_through(body: bytes) -> None:
    def refused() -> bool:
        try:
            check_shape(body, max_values=5, max_depth=3)
        except InvalidJson:
            return True
        return False

    glanced = refused()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(canonical, "_has_little", lambda *_: False)
        assert refused() is glanced


@pytest.mark.parametrize(
    "hostile",
    [
        b'"' + b'\\"' * 131_000,
        (b"1" * 400 + b" ") * 600,
        b"[]" * 33 + b" " * 260_000,
        b'"\\\n' * 80_000,
        b"[" * 33 + b"]" * 260_000,
    ],
    ids=["a string without an end", "numbers almost too long", "blanks", "broken escapes", "closing brackets"],
)
def test_no_body_is_looked_at_twice(hostile: bytes) -> None:
    """256 KiB that a look from every quote or digit would make minutes of."""
    with contextlib.suppress(InvalidJson):
        check_shape(hostile, max_values=2_000)
    with pytest.raises(InvalidJson):
        parse_json(hostile, limit=2**20)


@given(st.recursive(st.sampled_from([1, "[{", '"\\', "x"]), lambda inner: st.lists(inner, max_size=3), max_leaves=30))
def test_depth_is_counted_outside_strings(value: object) -> None:
    deep = json.dumps(value).encode()
    for _ in range(31):
        deep = b"[" + deep + b"]"
    nested = isinstance(value, list) and any(isinstance(item, list) for item in value)
    if nested:
        with pytest.raises(InvalidJson):
            parse_json(deep, limit=10_000)
    else:
        assert parse_json(deep, limit=10_000)


@given(st.binary(max_size=50))
def test_base64url_has_one_spelling(data: bytes) -> None:
    assert unb64url(b64url(data)) == data


@pytest.mark.parametrize("text", ["QQ==", "QR", "Q Q", "QQ\n", "Q", "é"])
def test_another_spelling_of_base64url_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="base64url"):
        unb64url(text)


def test_every_reason_has_exactly_one_verdict_and_one_grants() -> None:
    assert set(VERDICTS) == set(Reason)
    assert [reason for reason, verdict in VERDICTS.items() if verdict is Verdict.GRANTED] == [
        Reason.PRINCIPAL_AUTHORIZED
    ]


def test_an_indeterminate_decision_names_no_policy() -> None:
    with pytest.raises(ValueError, match="names no policy"):
        Decision(Reason.EVALUATOR_TIMEOUT, "AD-POL-005", "1", "late")


def test_a_granting_reason_cannot_stop_a_path() -> None:
    with pytest.raises(ValueError, match="granting"):
        NotGranted(Reason.PRINCIPAL_AUTHORIZED, "no")


def test_authority_and_verified_grants_cannot_be_made_by_hand() -> None:
    with pytest.raises(TypeError):
        Authority(*[None] * 12, proof=object())  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        VerifiedGrant(*[None] * 18, proof=object())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[]",
        b'{"dataset":"d","capability":"c"}',
        b'{"dataset":"d","capability":"c","arguments":{},"sql":"x"}',
        b'{"dataset":"D","capability":"c","arguments":{}}',
        b'{"dataset":"d","capability":"c","arguments":[]}',
        b'{"dataset":"d","dataset":"e","capability":"c","arguments":{}}',
    ],
)
def test_a_call_has_exactly_its_three_members(raw: bytes) -> None:
    with pytest.raises(NotGranted) as stop:
        Call.parse(raw)
    assert stop.value.reason is Reason.CALL_MALFORMED


def test_a_public_key_is_one_ed25519_key_under_its_own_thumbprint() -> None:
    key = PublicKey(b"\x58" + b"\x66" * 31)
    assert PublicKey.from_jwk(key.jwk()) == key
    for change in ({"kid": "x"}, {"d": "x"}, {"crv": "X25519"}, {"alg": "HS256"}, {"x": "AA"}):
        with pytest.raises(InvalidKey):
            PublicKey.from_jwk(key.jwk() | change)


@pytest.mark.parametrize(
    ("category", "status", "retryable"),
    [
        (Category.INVALID_INPUT, 400, False),
        (Category.UNAUTHENTICATED, 401, False),
        (Category.FORBIDDEN, 403, False),
        (Category.NOT_FOUND, 404, False),
        (Category.CONFLICT, 409, False),
        (Category.RATE_LIMITED, 429, True),
        (Category.UNAVAILABLE, 503, True),
        (Category.TIMEOUT, 504, True),
        (Category.CONFIGURATION, 500, False),
        (Category.INTERNAL, 500, False),
    ],
)
def test_a_fault_has_one_http_status_and_says_whether_to_retry(
    category: Category, status: int, retryable: bool
) -> None:
    error = DatasetAgentError(Component.COMMAND, category, "command.test", "do this", details={"n": 1})
    assert (error.http_status_code(), error.is_retryable) == (status, retryable)
    assert error.to_problem_json()["detail"] == "do this"
