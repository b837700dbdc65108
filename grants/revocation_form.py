"""What a revocation may name: the forms that the values of a grant have (docs/extension.md)."""

from __future__ import annotations

import unicodedata
from typing import Final

from contract.errors import Category
from contract.ids import MAX_ID_BYTES, is_nfc, is_slug, is_version
from contract.signing import THUMBPRINT_URI, is_thumbprint
from grants.details import MAX_NOTE
from grants.state import RevocationKind, fault

_MAX_INSTANT: Final = 2**53


def check_revocation(kind: RevocationKind, value: str, not_before: float) -> str:
    """The value as grants spell it. Raises ``grants.state.value`` for one that could name nothing in any grant."""
    if kind in (RevocationKind.HOLDER, RevocationKind.KEY):
        value = value.removeprefix(THUMBPRINT_URI)
        if not is_thumbprint(value):
            raise _fault(f"a revocation by {kind} names a key's thumbprint")
    elif kind is RevocationKind.DATASET:
        name, _, version = value.rpartition("@")
        if not is_slug(name) or not is_version(version):
            raise _fault(f"a revocation by {kind} names it as id@version, in lower case and as the card does")
    elif kind is RevocationKind.POLICY:
        name, _, version = value.rpartition("@")
        if not _is_text(name, MAX_NOTE) or not _is_text(version, MAX_NOTE):
            raise _fault(f"a revocation by {kind} names it as id@version")
    elif not _is_text(value, MAX_ID_BYTES if kind is RevocationKind.SUBJECT else MAX_NOTE):
        raise _fault(f"a revocation by {kind} needs a printable value, as grants spell it")
    if not 0 <= not_before < _MAX_INSTANT:  # which nothing is that is no number
        raise _fault("a revocation needs an instant in POSIX seconds")
    return value


def _is_text(value: str, longest: int) -> bool:
    """An identifier or a note; whatever it holds beside these may be in a grant, and is revocable."""
    return 1 <= len(value) <= longest and is_nfc(value) and not any(map(_unprintable, value))


def _unprintable(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp")


def _fault(message: str) -> Exception:
    return fault("value", message, Category.INVALID_INPUT)
