"""Rubbish by families: text that never was a grant, and good ones spoiled. Seeded, so that a run can be repeated."""

from __future__ import annotations

import base64
import json
import random
import string
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

SIZE: Final = 64 * 1024
ALPHABET: Final = string.ascii_letters + string.digits + "-_"


def _of(text: str, size: int = SIZE) -> str:
    return (text * (size // len(text) + 1))[:size]


def _segment(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _token(header: bytes, payload: bytes = b"{}", signature: str = "A" * 86) -> str:
    return f"{_segment(header)}.{_segment(payload)}.{signature}"


GOOD_HEADER: Final = b'{"alg":"Ed25519","typ":"execution-grant+jwt","kid":"%s"}'


def families(size: int = SIZE) -> Mapping[str, str]:
    """One text of about ``size`` characters for each way of being rubbish."""
    rng = random.Random("rubbish")
    deep = b"[" * (size // 2) + b"]" * (size // 2)
    kid = rng.choices(ALPHABET.encode(), k=size)
    return {
        "letters": "".join(rng.choices(ALPHABET, k=size)),
        "one letter": _of("A", size),
        "dots": _of(".", size),
        "commas": _of(",", size),
        "dots and commas": _of(".,", size),
        "tiny tokens": _of("a.b.c,", size),
        "blanks": _of(" ", size),
        "equals signs": _of("=", size),
        "not ASCII": _of("\u00e9", size),
        "beyond the plane": _of("\U0001f9ea", size),
        "surrogates": _of("\ud800", size),
        "NUL": _of("\x00", size),
        "any character": "".join(chr(rng.randrange(0x110000)) for _ in range(size)),
        "a deep header": _token(deep),
        "a deep payload": _token(GOOD_HEADER % b"k", deep),
        "a long kid": _token(GOOD_HEADER % bytes(kid)),
        "a huge integer": _token(b'{"alg":' + b"9" * size + b"}"),
        "many members": _token(b"{" + b",".join(b'"m%d":1' % n for n in range(size // 8)) + b"}"),
        "escapes": _token(b'"' + b'\\"' * (size // 2)),
        "a long signature": _token(GOOD_HEADER % b"k", signature=_of("A", size)),
    }


def fitting(limit: int = 7_500) -> Mapping[str, str]:
    """The same within the size that is looked at, where every later check can be reached."""
    small = families(limit * 3 // 4 - 200)
    header = b"[" * 500 + b"]" * 500
    more = {
        "a deep header that fits": _token(header),
        "a header of escapes": _token(b'"' + b'\\"' * 500),
        "a header of members": _token(b"{" + b",".join(b'"m%d":1' % n for n in range(110)) + b"}"),
        "a header of digits": _token(b'{"alg":' + b"9" * 1_000 + b"}"),
        "a header that is not UTF-8": _token(b"\xff" * 700),
        "no such key": _token(GOOD_HEADER % b"k", b"x" * 4_000),
        "four tokens": ",".join([_token(GOOD_HEADER % b"k", b"x" * 1_000)] * 4),
    }
    return {name: text[:limit] for name, text in {**small, **more}.items()}


def odd_bodies(size: int = SIZE) -> Mapping[str, bytes]:
    """Bodies that are dear to look at for a reader that goes back."""
    return {
        "a string without an end": (b'"' + b'\\"' * size)[:size],
        "strings": b'""' * (size // 2),
        "broken escapes": (b'"\\\n' * size)[:size],
        "opening brackets": b"[" * size,
        "closing brackets": b"[" * 33 + b"]" * (size - 33),
        "flat brackets": b"[" + b"[]," * (size // 3),
        "blanks": b"[]" * 33 + b" " * (size - 66),
        "numbers almost too long": ((b"1" * 400 + b" ") * size)[:size],
        "surrogate pairs": (b"\\ud83e\\uddea" * size)[:size],
        "lone surrogates": (b"\\ud83e " * size)[:size],
        "backslashes": b"\\" * size,
        "not UTF-8": b"\xff" * size,
        "NUL": b"\x00" * size,
        "commas": b"," * size,
    }


def odd_payloads(size: int = 5_300) -> Mapping[str, bytes]:
    """Claims that are dear to read, small enough for one token."""
    members = b",".join(b'"m%d":1' % n for n in range(size // 10))
    return {
        "rubbish": b"x" * size,
        "deep": b"[" * (size // 2) + b"]" * (size // 2),
        "brackets": b"[" + b"[]," * (size // 4) + b"[]]",
        "members": b"{" + members + b"}",
        "a member again and again": b"{" + b",".join([b'"m":1'] * (size // 6)) + b"}",
        "numbers": b"[" + b"1," * (size // 2 - 2) + b"1]",
        "a huge integer": b'{"iat":' + b"9" * 4_000 + b"}",
        "a string without an end": b'{"iss":"' + b'\\"' * (size // 2 - 10),
        "escapes": b'{"iss":"' + b"\\u00e9" * (size // 6 - 5) + b'"}',
        "not ASCII": b'{"iss":"' + "\u0301".encode() * (size // 2 - 10) + b'"}',
        "details": b'{"authorization_details":[' + b",".join([b"{}"] * (size // 3 - 20)) + b"]}",
        "a large set": b'{"authorization_details":[{"constraints":{"a.b":{"one_of":['
        + b",".join(b"%d" % n for n in range(size // 6))
        + b"]}}}]}",
    }


# good ones spoiled

Spoil = Callable[[random.Random, str], str]


def _flip(rng: random.Random, text: str) -> str:
    place = rng.randrange(len(text))
    return text[:place] + chr(ord(text[place]) ^ (1 << rng.randrange(7))) + text[place + 1 :]


def _cut(rng: random.Random, text: str) -> str:
    return text[: rng.randrange(len(text))]


def _beheaded(rng: random.Random, text: str) -> str:
    return text[rng.randrange(1, len(text)) :]


def _doubled(rng: random.Random, text: str) -> str:
    start, end = sorted(rng.sample(range(len(text) + 1), 2))
    return text[:end] + text[start:]


def _holed(rng: random.Random, text: str) -> str:
    start, end = sorted(rng.sample(range(len(text) + 1), 2))
    return text[:start] + text[end:]


def _inserted(rng: random.Random, text: str) -> str:
    place = rng.randrange(len(text) + 1)
    return (
        text[:place]
        + rng.choice((".", ",", "=", " ", "\t", "\n", "\x00", "\u00e9", "\ud800", "A", "..", ",,"))
        + text[place:]
    )


def _swapped(rng: random.Random, text: str) -> str:
    parts = text.replace(",", ".").split(".")
    if len(parts) < 2:
        return text
    left, right = rng.sample(range(len(parts)), 2)
    parts[left], parts[right] = parts[right], parts[left]
    return ",".join(".".join(parts[n : n + 3]) for n in range(0, len(parts), 3))


def _other_case(rng: random.Random, text: str) -> str:
    place = rng.choice([n for n, char in enumerate(text) if char.isalpha()])
    return text[:place] + text[place].swapcase() + text[place + 1 :]


SPOILS: Final[tuple[Spoil, ...]] = (
    _flip,
    _flip,
    _cut,
    _beheaded,
    _doubled,
    _holed,
    _inserted,
    _swapped,
    _other_case,
)


def spoiled(rng: random.Random, good: str, count: int) -> Iterator[str]:
    """``count`` texts that differ from ``good``."""
    made = 0
    while made < count:
        text = rng.choice(SPOILS)(rng, good)
        if rng.random() < 0.2:
            text = rng.choice(SPOILS)(rng, text) if len(text) > 2 and any(map(str.isalpha, text)) else text
        if text != good:
            made += 1
            yield text


# claims that a key signed and nobody should understand


def odd_value(rng: random.Random, depth: int = 3) -> Any:
    kind = rng.randrange(12 if depth else 10)
    if kind == 10:
        return [odd_value(rng, depth - 1) for _ in range(rng.randint(0, 4))]
    if kind == 11:
        return {"".join(rng.choices("abkty.", k=3)): odd_value(rng, depth - 1) for _ in range(rng.randint(0, 4))}
    text = "".join(chr(rng.choice((0, 9, 32, 65, 0xE9, 0x301, 0x202E, 0x1F9EA))) for _ in range(rng.randint(0, 9)))
    return (None, True, -1, 0, 2**53, 10**30, 1.5, text, "", "x" * 600)[kind]


def odd_claims(rng: random.Random, good: Mapping[str, Any]) -> Any:
    """Good claims with members replaced, dropped or added, at any depth."""
    if rng.random() < 0.03:
        return odd_value(rng)
    made = json.loads(json.dumps(good))
    for _ in range(rng.randint(1, 3)):
        place = made
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            if not keys:
                break
            key = rng.choice(keys)
            if isinstance(place[key], (dict, list)) and rng.random() < 0.7:
                place = place[key]
                continue
            if isinstance(place, dict) and rng.random() < 0.3:
                place.pop(key) if rng.random() < 0.6 else place.update({"odd": odd_value(rng)})
            else:
                place[key] = odd_value(rng)
            break
    return made
