"""Where the private halves of one role's key are: the one that signs, the next one, and those it replaced.

``agent.jwk`` signs, ``agent.next.jwk`` is staged, ``agent.KID.jwk`` was replaced and is kept
until it is retired, because grants under way name it. ``history.json`` beside them says when
each was made, published and replaced; it holds no secret, but it is nobody else's business.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from contract.canonical import InvalidJson, parse_json
from contract.settings import Settings
from grants.key_files import FileSigner, key_fault, make_store, read_private, replace_private

_HISTORY: Final = "history.json"
_MAX_KEYS: Final = 256


class KeyName(StrEnum):
    """A key that is rotated by itself. The development issuer has two: grants, and people's identity tokens."""

    ISSUER = "issuer"
    IDENTITY = "identity"
    ROOT = "root"
    REMOTE = "remote"


_STEM: Final = {
    KeyName.ISSUER: "grant",
    KeyName.IDENTITY: "identity",
    KeyName.ROOT: "holder",
    KeyName.REMOTE: "agent",
}


@dataclass(frozen=True, slots=True)
class Dates:
    """POSIX seconds of what happened to a key; ``None`` where it did not, or is not known.

    ``published_at`` and ``replaced_at`` are of the last time that it was. ``switching_at`` is
    there while a switch to it is not finished.
    """

    created_at: int | None = None
    published_at: int | None = None
    replaced_at: int | None = None
    switching_at: int | None = None


@dataclass(frozen=True, slots=True)
class KeyStore:
    """The files of one key."""

    folder: Path
    stem: str

    @classmethod
    def of(cls, settings: Settings, name: KeyName) -> KeyStore:
        folders = {KeyName.ROOT: settings.root_dir, KeyName.REMOTE: settings.remote_dir}
        return cls(folders.get(name, settings.issuer_dir), _STEM[name])

    @property
    def current(self) -> Path:
        return self.folder / f"{self.stem}.jwk"

    @property
    def staged(self) -> Path:
        return self.folder / f"{self.stem}.next.jwk"

    def replaced(self) -> Iterator[Path]:
        """The files of replaced keys, in no meaningful order."""
        return (path for path in sorted(self.folder.glob(f"{self.stem}.*.jwk")) if path != self.staged)

    def others(self) -> Iterator[Path]:
        """Every private half that is here and does not sign."""
        if self.staged.exists():
            yield self.staged
        yield from self.replaced()

    def kids(self) -> frozenset[str]:
        """Of which private halves are here, but do not sign."""
        return frozenset(FileSigner.load(path).public_key.thumbprint for path in self.others())

    def replaced_file(self, kid: str) -> Path:
        return self.folder / f"{self.stem}.{kid}.jwk"

    def switch(self) -> None:
        """The staged key signs from now on; there is never a moment without a key that signs."""
        if self.current.exists():
            self.set_aside()
        os.replace(self.staged, self.current)

    def set_aside(self) -> None:
        """Keep the present private half under its replaced name."""
        kept = self.replaced_file(FileSigner.load(self.current).public_key.thumbprint)
        kept.unlink(missing_ok=True)
        os.link(self.current, kept)

    def begin_with(self, signer: FileSigner) -> None:
        """``signer`` is the one private half of this key from now on."""
        signer.store(self.current)
        self._forget_others()

    def forget(self) -> None:
        """Remove every private half of this key."""
        self.current.unlink(missing_ok=True)
        self._forget_others()

    def _forget_others(self) -> None:
        for path in self.others():
            path.unlink(missing_ok=True)

    def dates(self, kid: str) -> Dates:
        return self._history().get(kid, Dates())

    def note(self, kid: str, **dates: int | None) -> None:
        """Write down when something happened to a key. Call it under the lock of the trust file."""
        make_store(self.folder)
        history = self._history()
        history[kid] = replace(history.pop(kid, Dates()), **dates)
        newest = list(history.items())[-_MAX_KEYS:]
        told = json.dumps({kid: _public(dates) for kid, dates in newest}, indent=1)
        replace_private(self.folder / _HISTORY, told.encode() + b"\n")

    def _history(self) -> dict[str, Dates]:
        path = self.folder / _HISTORY
        if not path.exists():
            return {}
        try:
            held = parse_json(read_private(path, limit=_MAX_KEYS * 512), limit=_MAX_KEYS * 512)
            return {str(kid): _dates(entry) for kid, entry in held.items()}
        except (InvalidJson, AttributeError, TypeError) as error:
            raise key_fault("history", f"{path} does not read; restore it or remove it") from error


def _public(dates: Dates) -> dict[str, int]:
    told = {field.name: getattr(dates, field.name) for field in fields(dates)}
    return {name: instant for name, instant in told.items() if instant is not None}


def _dates(entry: Mapping[str, Any]) -> Dates:
    known = {name: value for name, value in entry.items() if type(value) is int}
    return Dates(**{field.name: known.get(field.name) for field in fields(Dates)})
