"""The curve of Ed25519 in whole numbers (RFC 8032, section 5.1), to make keys and signatures that no signer makes.

Slow, not constant in time and independent of what it tests.
"""

from __future__ import annotations

import hashlib

Point = tuple[int, int]

P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
_D = -121665 * pow(121666, -1, P) % P
ZERO: Point = (0, 1)


def add(left: Point, right: Point) -> Point:
    (x1, y1), (x2, y2) = left, right
    product = _D * x1 * x2 * y1 * y2 % P
    return (x1 * y2 + x2 * y1) * pow(1 + product, -1, P) % P, (y1 * y2 + x1 * x2) * pow(1 - product, -1, P) % P


def times(factor: int, point: Point) -> Point:
    total = ZERO
    while factor:
        if factor & 1:
            total = add(total, point)
        point, factor = add(point, point), factor >> 1
    return total


def encode(point: Point) -> bytes:
    x, y = point
    return (y | (x & 1) << 255).to_bytes(32, "little")


def at(y: int) -> Point | None:
    """The point with this ``y`` and an even ``x``; ``None`` where the curve has none."""
    square = (y * y - 1) * pow(_D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * pow(2, (P - 1) // 4, P) % P
    if (x * x - square) % P:
        return None
    return (P - x if x & 1 else x), y


def _of_order_eight() -> Point:
    for y in range(2, 100):
        found = at(y)
        point = ZERO if found is None else times(ORDER, found)
        if times(4, point) != ZERO:
            return point
    raise ValueError("no point of order 8 was found")


_BASE = at(4 * pow(5, -1, P) % P)
BASE: Point = ZERO if _BASE is None else _BASE
TORSION: Point = _of_order_eight()
SMALL: tuple[Point, ...] = tuple(times(factor, TORSION) for factor in range(8))
"""The eight points of small order, zero first."""

NOT_CANONICAL: tuple[bytes, ...] = (
    *((y | sign << 255).to_bytes(32, "little") for y in range(P, 2**255) if at(y - P) for sign in (0, 1)),
    # zero, and the point of order two, with the sign of an x that is not there
    *((y | 1 << 255).to_bytes(32, "little") for y in (1, P - 1)),
)
"""Every encoding of a point that is not its own: ``y`` not reduced, or a sign where ``x`` is 0."""


def sign(secret: int, nonce: int, message: bytes, *, key: Point, shift: Point = ZERO) -> bytes:
    """A signature by ``secret`` under the public ``key``, its R moved by ``shift``."""
    r = encode(add(times(nonce, BASE), shift))
    challenge = int.from_bytes(hashlib.sha512(r + encode(key) + message).digest(), "little") % ORDER
    return r + ((nonce + challenge * secret) % ORDER).to_bytes(32, "little")
