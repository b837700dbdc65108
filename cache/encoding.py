"""An injective encoding of plain values: what goes into every HMAC of this package.

Each value carries a type tag and its length, so no two different values share bytes,
whatever delimiters they contain: ``"1"`` is not ``1``, ``None`` is not an empty list,
``["ab", "c"]`` is not ``["a", "bc"]``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

MAX_DEPTH: Final = 32


class NotEncodable(TypeError):
    """A value of a type that has no place in a cache key."""


def encode(value: Any) -> bytes:
    """The bytes of JSON-like values, ``bytes`` and sets of such values.

    The order of mapping members and of set items carries no meaning; the order of a list
    does. ``1``, ``1.0`` and ``True`` differ. Raises ``NotEncodable`` for any other type
    (``Decimal`` and dates travel as canonical text) and for nesting beyond ``MAX_DEPTH``.
    """
    return _text(value, MAX_DEPTH).encode("utf-8", "surrogatepass")


def begin_list(count: int, *texts: str) -> str:
    """The encoding of a list of ``count`` items as far as its first ones, which are ``texts``."""
    return f"l{count}:{''.join([_text(text, MAX_DEPTH) for text in texts])}"


def encode_last(begun: str, value: Any) -> bytes:
    """``encode`` of the list that ``begun`` begins and whose last item ``value`` is. Raises as ``encode``."""
    return (begun + _text(value, MAX_DEPTH - 1)).encode("utf-8", "surrogatepass")


def _text(value: Any, depth: int) -> str:
    if isinstance(value, str):
        # An enumeration's member is its text, however its class prints it.
        text = str.__str__(value)
        return f"s{len(text)}:{text}"
    if value is None:
        return "n"
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(value, int):
        return f"i{value:d};"
    if isinstance(value, float):
        return f"d{struct.pack('>d', value).hex()}"
    if isinstance(value, bytes):
        return f"b{len(value)}:{value.hex()}"
    return _container(value, depth - 1)


def _container(value: Any, depth: int) -> str:
    if depth < 0:
        raise NotEncodable(f"values are nested deeper than {MAX_DEPTH}")
    if type(value) is MappingProxyType:  # as arguments come
        return f"m{len(value)}:{''.join(_members(value, depth))}"
    if isinstance(value, (list, tuple)):
        return f"l{len(value)}:{''.join(_items(value, depth))}"
    if isinstance(value, (set, frozenset)):
        return f"e{len(value)}:{''.join(sorted(_items(value, depth)))}"
    if isinstance(value, (dict, Mapping)):
        return f"m{len(value)}:{''.join(_members(value, depth))}"
    raise NotEncodable(f"a {type(value).__name__} cannot be part of a cache key")


def _members(value: Mapping[Any, Any], depth: int) -> list[str]:
    for name in value:
        if not isinstance(name, str):
            raise NotEncodable("a mapping's names must be text")
    return _items([part for name in sorted(value) for part in (name, value[name])], depth)


def _items(values: Iterable[Any], depth: int) -> list[str]:
    # Most items are plain text, and a call for each would be half of the whole cost.
    return [f"s{len(item)}:{item}" if type(item) is str else _text(item, depth) for item in values]
