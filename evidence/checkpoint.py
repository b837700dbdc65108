"""Signed checkpoints of the ledger's tree, and the receipt a caller takes away."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Self

from pydantic import Field, ValidationError

from contract.canonical import b64url, canonical_json, unb64url
from contract.schema import Strict
from contract.signing import PublicKey, Signer
from evidence.merkle import verify_inclusion

_Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
_Time = Annotated[str, Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z$")]


class InvalidReceipt(ValueError):
    """A receipt or checkpoint that is not well formed."""


class _CheckpointJson(Strict):
    origin: Annotated[str, Field(min_length=1, max_length=200)]
    size: Annotated[int, Field(ge=0, le=2**53 - 1)]
    root: _Hash
    time: _Time
    signature: Annotated[str, Field(min_length=86, max_length=86)]


class _ReceiptJson(Strict):
    index: Annotated[int, Field(ge=0, le=2**53 - 1)]
    leaf_hash: _Hash
    checkpoint: _CheckpointJson
    inclusion: Annotated[tuple[_Hash, ...], Field(strict=False, max_length=64)]
    opening: _Hash


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """ "The tree called ``origin`` had this root when it had ``size`` leaves", signed with Ed25519.

    What is signed is the canonical JSON (RFC 8785) of ``origin``, ``size``, ``root`` (hex)
    and ``time`` (RFC 3339 UTC, microseconds).
    """

    origin: str
    size: int
    root: bytes
    time: str
    signature: bytes

    @classmethod
    def sign(cls, signer: Signer, *, origin: str, size: int, root: bytes, time: str) -> Checkpoint:
        return cls(origin, size, root, time, signer.sign(_signed(origin, size, root, time)))

    def verifies(self, keys: tuple[PublicKey, ...]) -> bool:
        """Whether one of ``keys`` (now trusted, or retired) signed it."""
        return self.signed_by(keys) is not None

    def signed_by(self, keys: Sequence[PublicKey]) -> PublicKey | None:
        """Which of ``keys`` signed it; a checkpoint does not name its key."""
        signed = _signed(self.origin, self.size, self.root, self.time)
        return next((key for key in keys if key.verifies(self.signature, signed)), None)

    def to_json(self) -> dict[str, Any]:
        return {
            "origin": self.origin,
            "size": self.size,
            "root": self.root.hex(),
            "time": self.time,
            "signature": b64url(self.signature),
        }

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """Raises ``InvalidReceipt``."""
        try:
            return cls._of(_CheckpointJson.model_validate(value))
        except (ValidationError, ValueError) as error:
            raise InvalidReceipt("the checkpoint is not well formed") from error

    @classmethod
    def _of(cls, raw: _CheckpointJson) -> Self:
        return cls(raw.origin, raw.size, bytes.fromhex(raw.root), raw.time, unb64url(raw.signature))


@dataclass(frozen=True, slots=True)
class Receipt:
    """Proof that a row is in the ledger, and the opening of that row's commitments.

    ``inclusion`` is the RFC 9162 path from ``leaf_hash`` at ``index`` to the checkpoint's
    root. Hand it to the caller whose request the row records, and to nobody else.
    """

    index: int
    leaf_hash: bytes
    checkpoint: Checkpoint
    inclusion: tuple[bytes, ...]
    opening: bytes

    def holds(self, keys: tuple[PublicKey, ...]) -> bool:
        """Whether the checkpoint is signed by one of ``keys`` and the leaf is in its tree."""
        checkpoint = self.checkpoint
        return checkpoint.verifies(keys) and verify_inclusion(
            self.leaf_hash, self.index, checkpoint.size, self.inclusion, checkpoint.root
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "index": self.index,
            "leaf_hash": self.leaf_hash.hex(),
            "checkpoint": self.checkpoint.to_json(),
            "inclusion": [sibling.hex() for sibling in self.inclusion],
            "opening": self.opening.hex(),
        }

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """Raises ``InvalidReceipt``."""
        try:
            raw = _ReceiptJson.model_validate(value)
            return cls(
                index=raw.index,
                leaf_hash=bytes.fromhex(raw.leaf_hash),
                checkpoint=Checkpoint._of(raw.checkpoint),
                inclusion=tuple(bytes.fromhex(sibling) for sibling in raw.inclusion),
                opening=bytes.fromhex(raw.opening),
            )
        except (ValidationError, ValueError) as error:
            raise InvalidReceipt("the receipt is not well formed") from error


def by_a_stranger(keys: Sequence[PublicKey]) -> str:
    """How to say that none of ``keys`` signed: that is no forgery yet, the right key may be missing here."""
    return f"signed by a key that is not trusted here (trusted: {', '.join(f'kid {key.thumbprint}' for key in keys)})"


def _signed(origin: str, size: int, root: bytes, time: str) -> bytes:
    return canonical_json({"origin": origin, "root": root.hex(), "size": size, "time": time})
