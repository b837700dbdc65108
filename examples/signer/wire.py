"""What goes over the socket: one request and one reply a connection.

Request: one byte (``K`` for the public key, ``S`` for a signature), four bytes of length, the
message. Reply: one byte (``+``), then 32 bytes of key or 64 of signature; anything else, or
nothing, is a refusal.
"""

from __future__ import annotations

from typing import Final

KEY: Final = b"K"
SIGN: Final = b"S"
DONE: Final = b"+"
SIZES: Final = {KEY: 32, SIGN: 64}
MAX_MESSAGE: Final = 2 * 2**20


def request(kind: bytes, message: bytes) -> bytes:
    """Raises ``ValueError`` for a message that the other side would not read."""
    if len(message) > MAX_MESSAGE:
        raise ValueError(f"a message has at most {MAX_MESSAGE} bytes")
    return kind + len(message).to_bytes(4, "big") + message
