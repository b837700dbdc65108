"""The strict reader reads exactly what a reader without a short way would, and base64url has one spelling."""

from __future__ import annotations

import base64
import binascii
import json
from datetime import date
from decimal import Decimal
from enum import StrEnum
from typing import Any, NoReturn

import pytest
import rfc8785
from hypothesis import example, given, settings
from hypothesis import strategies as st

from contract.canonical import InvalidJson, b64url, canonical_json, parse_json, unb64url

LIMIT = 10_000

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([0, -1, 2**53, 2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 10**40]),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)
PIECES = st.sampled_from(
    [
        *(b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\", b" ", b"\n", b"0", b"1", b"-", b".", b"e", b"E+", b"a"),
        *(b"null", b"true", b"false", b"NaN", b"Infinity", b"1e999", b"-0", b"-0.0", b"0.10", b"1E5", b"18446744073709551616"),
        *(b'"a"', b'"a":1', b'"\\u0061"', b'"\\ud800"', b'"\\ud83d\\ude00"', b'"\\/"', b"\xc3\xa9", b"\xed\xa0\x80", b"\xff", b"\x00", b"\x7f"),
    ]
)  # fmt: skip


def read_slowly(data: bytes) -> Any:
    """The same rules by the standard library alone; ``InvalidJson`` where they do not hold."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({name for name, _ in pairs}) != len(pairs):
            raise InvalidJson
        return dict(pairs)

    def never(_: str) -> NoReturn:
        raise InvalidJson

    def finite(text: str) -> float:
        if float(text) in (float("inf"), float("-inf")):
            raise InvalidJson
        return float(text)

    try:
        value = json.loads(data.decode(), object_pairs_hook=once, parse_constant=never, parse_float=finite)
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise InvalidJson from error
    return value


def outcome(read: Any, data: bytes) -> str:
    """What was read with the types of everything in it, or that nothing was."""
    try:
        return repr(read(data))
    except InvalidJson:
        return "refused"


def strictly(data: bytes) -> Any:
    return parse_json(data, limit=LIMIT, max_depth=LIMIT)


@settings(max_examples=250, deadline=None)
@given(
    value=VALUES,
    separators=st.sampled_from([(",", ":"), (", ", ": ")]),
    escaped=st.booleans(),
    indent=st.sampled_from([None, None, 1]),
)
def test_a_document_is_read_alike_however_it_is_written(
    value: Any, separators: tuple[str, str], escaped: bool, indent: int | None
) -> None:
    data = json.dumps(value, separators=separators, ensure_ascii=escaped, indent=indent).encode(errors="surrogatepass")
    assert outcome(strictly, data) == outcome(read_slowly, data)


@settings(max_examples=400, deadline=None)
@given(pieces=st.lists(PIECES, max_size=14))
@example([b"[", b"18446744073709551616", b"]"])
@example([b"[", b"-0", b"]"])
@example([b"[", b"1e999", b"]"])
@example([b"{", b'"a":1', b",", b'"a":1', b"}"])
@example([b"{", b'"a":1', b",", b'"\\u0061"', b":", b"1", b"}"])
@example([b"\xef\xbb\xbf", b"1"])
def test_any_bytes_are_read_or_refused_alike(pieces: list[bytes]) -> None:
    data = b"".join(pieces)
    assert outcome(strictly, data) == outcome(read_slowly, data)


@settings(max_examples=250, deadline=None)
@given(value=VALUES, data=st.data())
def test_a_document_with_a_changed_byte_is_read_or_refused_alike(value: Any, data: st.DataObject) -> None:
    text = bytearray(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode(errors="surrogatepass"))
    text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.integers(0, 255))
    assert outcome(strictly, bytes(text)) == outcome(read_slowly, bytes(text))


@pytest.mark.parametrize(
    "data",
    [
        b'{"a":1,"a":1}',
        b'{"a":1,"b":{"c":1,"c":2}}',
        b'{"a":1,"\\u0061":2}',
        b'[{"a":1},{"a":1,"a":1}]',
        b'{"":1,"":1}',
    ],
)
def test_a_member_that_is_there_twice_is_refused_at_every_depth(data: bytes) -> None:
    with pytest.raises(InvalidJson, match="duplicate"):
        parse_json(data, limit=LIMIT)


def test_a_plainly_written_document_is_bounded_in_size_and_depth_too() -> None:
    deepest = b"[" * 32 + b"]" * 32
    parse_json(deepest, limit=64)
    with pytest.raises(InvalidJson, match="larger"):
        parse_json(deepest, limit=63)
    with pytest.raises(InvalidJson, match="deeper"):
        parse_json(b"[" + deepest + b"]", limit=LIMIT)
    with pytest.raises(InvalidJson, match="deeper"):
        parse_json(b'{"a":' * 33 + b"1" + b"}" * 33, limit=LIMIT)
    parse_json(b'["' + b"[{" * 100 + b'"]', limit=LIMIT)
    parse_json(b"[" + b",".join([b"[]"] * 100) + b"]", limit=LIMIT)


@pytest.mark.parametrize("depth", [255, 1_000, 1_025, 100_000])
def test_depth_that_no_reader_survives_is_refused_or_read_and_never_a_crash(depth: int) -> None:
    data = b"[" * depth + b"]" * depth
    try:
        value = parse_json(data, limit=len(data), max_depth=len(data))
    except InvalidJson:
        return
    for _ in range(depth - 1):
        (value,) = value
    assert value == []


def spelled_once(text: str) -> bytes:
    """Strict base64url by writing back what was read."""
    data = base64.b64decode(text.encode("ascii") + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
    if base64.urlsafe_b64encode(data).rstrip(b"=").decode() != text:
        raise ValueError
    return data


@settings(max_examples=400, deadline=None)
@given(text=st.text(alphabet="AQgwBZ09-_+/=\n .é\x00", max_size=12))
def test_base64url_is_read_in_one_spelling_only(text: str) -> None:
    try:
        expected = spelled_once(text)
    except (ValueError, binascii.Error):
        with pytest.raises(ValueError):
            unb64url(text)
    else:
        assert unb64url(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "AAA+",
        "AAA/",
        "AAAA=",
        "AAAA====",
        "AA==",
        "AA=",
        "AAA=",
        "A",
        "AB",
        "AAB",
        "AAAA\n",
        " AAAA",
        "AA AA",
        "AA\u00e9A",
    ],
)
def test_no_other_spelling_of_base64url_is_read(text: str) -> None:
    with pytest.raises(ValueError):
        unb64url(text)


@given(data=st.binary(max_size=200))
def test_base64url_is_the_standard_librarys_without_padding(data: bytes) -> None:
    assert b64url(data) == base64.urlsafe_b64encode(data).rstrip(b"=").decode()
    assert unb64url(b64url(data)) == data


@settings(max_examples=250, deadline=None)
@given(value=VALUES)
@example({"b": 1, "a": {"\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\U0001f600": 5, "\x80": 6, "\xf6": 7}})
@example({"text": "".join(map(chr, range(0x300)))})
@example([2**53 - 1, 1 - 2**53, 0, True, None, 1e16, 0.1, -0.0])
@example([2**53])
@example([-(2**53)])
@example(["\ud800"])
@example({"\ud800": 1})
@example((1, ("a",)))
def test_canonical_json_is_what_the_reference_library_writes(value: Any) -> None:
    try:
        expected = rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, UnicodeEncodeError):
        with pytest.raises(InvalidJson):
            canonical_json(value)
    else:
        assert canonical_json(value) == expected


class Word(StrEnum):
    ONE = "one"


@pytest.mark.parametrize("value", [{"b": Word.ONE, Word.ONE: 1}, {"a": [Word.ONE]}, Word.ONE])
def test_words_of_an_enumeration_are_written_as_text(value: Any) -> None:
    assert canonical_json(value) == rfc8785.dumps(value)


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), Decimal(1), {1: 2}, {"a": b"x"}, {"a": {1, 2}}, date(2026, 1, 1)]
)
def test_what_json_cannot_carry_is_refused(value: Any) -> None:
    for wrapped in (value, [value], {"a": value}):
        with pytest.raises(InvalidJson):
            canonical_json(wrapped)


def test_a_value_nested_without_end_is_refused() -> None:
    nest: list[Any] = []
    for _ in range(5_000):
        nest = [nest]
    with pytest.raises(InvalidJson):
        canonical_json(nest)
