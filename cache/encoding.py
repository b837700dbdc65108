"""An injective encoding of plain values: what goes into every HMAC of this package.

Each value carries a type tag and its length, so no two different values share bytes,
whatever delimiters they contain: ``"1"`` is not ``1``, ``None`` is not an empty list,
``["ab", "c"]`` is not ``["a", "bc"]``.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final

MAX_DEPTH: Final = 32


class NotEncodable(TypeError):
    """A value of a type that has no place in a cache key."""


def encode(value: Any) -> bytes:
    """The bytes of JSON-like values, ``bytes`` and sets of text or integers.

    The order of mapping members and of set items carries no meaning; the order of a list
    does. ``1``, ``1.0`` and ``True`` differ. Raises ``NotEncodable`` for any other type
    (``Decimal`` and dates travel as canonical text) and for nesting beyond ``MAX_DEPTH``.
    """
    out: list[bytes] = []
    _append(value, out.append, MAX_DEPTH)
    return b"".join(out)


def _append(value: Any, put: Callable[[bytes], None], depth: int) -> None:
    if value is None:
        put(b"n")
    elif value is True or value is False:
        put(b"t" if value else b"f")
    elif isinstance(value, str):
        data = value.encode("utf-8", "surrogatepass")
        put(b"s%d:" % len(data))
        put(data)
    elif isinstance(value, int):
        put(b"i%d;" % value)
    elif isinstance(value, float):
        put(b"d" + struct.pack(">d", value))
    elif isinstance(value, bytes):
        put(b"b%d:" % len(value))
        put(value)
    else:
        _append_container(value, put, depth - 1)


def _append_container(value: Any, put: Callable[[bytes], None], depth: int) -> None:
    if depth < 0:
        raise NotEncodable(f"values are nested deeper than {MAX_DEPTH}")
    if isinstance(value, (list, tuple)):
        put(b"l%d:" % len(value))
        for item in value:
            _append(item, put, depth)
    elif isinstance(value, (set, frozenset)):
        put(b"e%d:" % len(value))
        for data in sorted(encode(item) for item in value):
            put(data)
    elif isinstance(value, Mapping):
        if not all(isinstance(name, str) for name in value):
            raise NotEncodable("a mapping's names must be text")
        put(b"m%d:" % len(value))
        for name in sorted(value):
            _append(name, put, depth)
            _append(value[name], put, depth)
    else:
        raise NotEncodable(f"a {type(value).__name__} cannot be part of a cache key")
