"""How large a statement and its envelope may be: small enough that whoever carries it on is read too.

An envelope holds its statement in base64, and a statement holds the envelopes it rests on, so each
level grows what is below it by a third. Sealing and reading go by the same numbers: what one
agent may seal, every agent above it and every verifier takes in.
"""

from __future__ import annotations

from typing import Final

MAX_LEVELS: Final = 4
"""The root agent's statement and those of the three agents that a chain of four tokens reaches."""

MAX_OWN_BYTES: Final = 64 * 1024
"""A statement as compact JSON, receipt included, without the envelopes it carries."""

RECEIPT_BYTES: Final = 6 * 1024
"""Room for the receipt, which a statement gets after its row is written."""

WRAPPING_BYTES: Final = 512
"""What an envelope has beside its payload: names, the type, one signature."""


def payload_bytes(levels: int) -> int:
    """The largest statement with at most ``levels`` levels of statements in it, its own counted."""
    return MAX_OWN_BYTES + (envelope_bytes(levels - 1) if levels > 1 else 0)


def envelope_bytes(levels: int) -> int:
    """The largest envelope of such a statement."""
    return sealed_bytes(payload_bytes(levels))


def sealed_bytes(payload: int) -> int:
    """The size of an envelope over a payload of that many bytes."""
    return (payload + 2) // 3 * 4 + WRAPPING_BYTES


MAX_PAYLOAD_BYTES: Final = payload_bytes(MAX_LEVELS)
