"""One canonical JSON (RFC 8785) and one strict reader for everything that is signed or hashed."""

from __future__ import annotations

import binascii
import hashlib
import json
import re
from math import isinf
from typing import Any, NoReturn

import orjson
import rfc8785

MAX_DEPTH = 32
_LONG = 400
_LONG_NUMBER = re.compile(rb"(?<![0-9])[0-9]{%d}" % (_LONG + 1))
_PAIR = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
# One pass over any bytes: nothing is given back, and a string without an end is one to the end.
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_STEP = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_NO_BRACKET = bytes(set(range(256)) - set(_STEP))
# Keys sorted, and no integer beyond 2**53-1.
_CANONICAL = orjson.OPT_SORT_KEYS | orjson.OPT_STRICT_INTEGER
_TO_URL = bytes.maketrans(b"+/", b"-_")


class InvalidJson(ValueError):
    """Bytes that are not strict JSON within the limits asked for."""


def canonical_json(value: Any) -> bytes:
    """RFC 8785 bytes of a JSON value.

    Raises ``InvalidJson`` for what JCS cannot carry without loss: integers beyond
    2**53-1, NaN and infinities, ``Decimal``, dates. Encode those as text first.
    """
    try:
        if _is_plain(value):
            return orjson.dumps(value, option=_CANONICAL)
    except (orjson.JSONEncodeError, RecursionError):
        pass  # the reference library says what is wrong with it
    try:
        return rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, RecursionError, UnicodeEncodeError) as error:
        raise InvalidJson(str(error)) from error


def json_to_keep(value: Any) -> bytes:
    """JSON that stays in memory, in as many bytes as it has.

    orjson gives the end of its buffer back after it has written, and the next buffer does not fit into that: ten
    thousand texts of 8 kB that are kept as they come take four times their size.
    """
    return bytes(memoryview(orjson.dumps(value)))


def _is_plain(value: Any) -> bool:
    """Whether ``orjson`` writes a value as RFC 8785 says: no floats, and names that sort alike in every encoding."""
    kind = type(value)
    if kind is dict:
        return all(type(name) is str and name.isascii() and _is_plain(member) for name, member in value.items())
    if kind is list or kind is tuple:
        return all(_is_plain(item) for item in value)
    return kind is str or kind is int or kind is bool or value is None


def sha256_hex(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def digest(tag: str, value: Any) -> str:
    """Hex SHA-256 of a domain tag and the canonical JSON of ``value``."""
    return sha256_hex(tag.encode() + b"\x00" + canonical_json(value))


def parse_json(data: bytes, *, limit: int, max_depth: int = MAX_DEPTH) -> Any:
    """Strict RFC 8259 JSON: UTF-8, no duplicate members, no NaN, no 1e999, bounded size and depth.

    ``limit`` is in bytes. Raises ``InvalidJson``; the message never quotes the input.
    """
    if len(data) > limit:
        raise InvalidJson(f"JSON is larger than {limit} bytes")
    if data.count(b"[") + data.count(b"{") > max_depth:
        _check_depth(_STRING.sub(b"", data), max_depth)
    try:
        value = orjson.loads(data)
        # What a value is written as names no member twice and spells nothing in a second way,
        # so bytes that are exactly that are strict. Any others are read by the slower reader.
        if orjson.dumps(value) == data:
            return value
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        pass
    return _parse_strictly(data)


def check_shape(data: bytes, *, max_values: int, max_depth: int = MAX_DEPTH) -> None:
    """Bound what parsing ``data`` as JSON may cost, without parsing it.

    Raises ``InvalidJson`` for bytes that are not UTF-8 without NUL (another encoding would be
    read by some parsers), for lone surrogates and numbers of over ``_LONG`` digits (which some
    parsers read and no writer writes), for more than about ``max_values`` values and for
    nesting deeper than ``max_depth``. What is inside strings does not count.
    """
    if b"\x00" in data:
        raise InvalidJson("JSON is not UTF-8")
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidJson("JSON is not UTF-8") from error
    if b"\\u" in data and _SURROGATE.search(_PAIR.sub(b"", data.replace(b"\\\\", b""))):
        raise InvalidJson("JSON text holds a lone surrogate")
    if _has_little(data, max_values, max_depth):
        return
    bare = _STRING.sub(b"", data)
    if _LONG_NUMBER.search(bare):
        raise InvalidJson(f"JSON has a number of over {_LONG} digits")
    if bare.count(b",") + bare.count(b"{") + bare.count(b"[") > max_values:
        raise InvalidJson(f"JSON has more than {max_values} values")
    _check_depth(bare, max_depth)


def _has_little(data: bytes, max_values: int, max_depth: int) -> bool:
    """Whether ``data`` keeps within the bounds with all that its strings hold, as most bodies do."""
    opened = data.count(b"[") + data.count(b"{")
    digits = len(data) - len(data.translate(None, b"0123456789"))
    return opened <= max_depth and opened + data.count(b",") <= max_values and digits <= _LONG


def b64url(data: bytes) -> str:
    """Base64url without padding (RFC 7515, section 2)."""
    return binascii.b2a_base64(data, newline=False).translate(_TO_URL, b"=").decode("ascii")


def unb64url(text: str) -> bytes:
    """The bytes of strict base64url: no padding, no white space, canonical trailing bits.

    Raises ``ValueError``.
    """
    if "+" in text or "/" in text or "=" in text:
        raise ValueError("not base64url")
    padding = b"=" * (-len(text) % 4)
    try:
        standard = text.encode("ascii").replace(b"-", b"+").replace(b"_", b"/") + padding
        data = binascii.a2b_base64(standard, strict_mode=True)
    except (UnicodeEncodeError, binascii.Error) as error:
        raise ValueError("not base64url") from error
    # Only in the last characters can one value be spelled in two ways.
    tail = len(data) % 3
    if tail and b64url(data[-tail:]) != text[-tail - 1 :]:
        raise ValueError("base64url is not canonical")
    return data


def _parse_strictly(data: bytes) -> Any:
    try:
        text = data.decode("utf-8")
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_constant, parse_float=_finite)
    except InvalidJson:
        raise
    except UnicodeDecodeError as error:
        raise InvalidJson("JSON is not UTF-8") from error
    except (ValueError, RecursionError) as error:
        raise InvalidJson("not valid JSON") from error
    # UTF-8 carries no lone surrogate; only an escape can write one.
    if "\\u" in text:
        _check_unicode(value)
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise InvalidJson("JSON object has a duplicate member")
    return members


def _constant(name: str) -> NoReturn:
    raise InvalidJson("JSON has no NaN or Infinity")


def _finite(text: str) -> float:
    """Some readers take a number beyond a double for infinity, others refuse it."""
    number = float(text)
    if isinf(number):
        raise InvalidJson("JSON holds a number beyond a double")
    return number


def _check_depth(bare: bytes, max_depth: int) -> None:
    """``bare`` is JSON without its strings. What a bracket hides that closes nothing, no parser reads."""
    depth = 0
    for bracket in bare.translate(None, _NO_BRACKET):
        depth += _STEP[bracket]
        if depth > max_depth:
            raise InvalidJson(f"JSON is nested deeper than {max_depth}")


def _check_unicode(value: Any) -> None:
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            if not item.isascii() and any("\ud800" <= char <= "\udfff" for char in item):
                raise InvalidJson("JSON text holds a lone surrogate")
        elif isinstance(item, list):
            stack.extend(item)
        elif isinstance(item, dict):
            stack.extend(item)
            stack.extend(item.values())
