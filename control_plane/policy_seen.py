"""Whether policies were edited and their version was not: then two sets have one name in all evidence."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from contract.canonical import InvalidJson, parse_json, sha256_hex
from contract.files import read_bounded
from control_plane.policy import PolicySet

SEEN_FILE: Final = "policies.json"
_MAX_SEEN: Final = 256
_MAX_BYTES: Final = 64 * 1024


def told_apart(policies: PolicySet, folder: Path, home: Path, *, remember: bool = False) -> str | None:
    """That other policies of this folder were in force in this home under the same version; ``None`` where none were.

    The first digest of each version is remembered where ``remember`` is set: by who puts policies
    in force. A memory that cannot be read or written tells nothing, and an edit is taken over all
    the same: one that takes a right away must not wait for a number.
    """
    place = home / SEEN_FILE
    seen = _seen(place)
    name = f"{policies.version} {sha256_hex(str(folder.resolve()).encode())[:16]}"
    first = seen.get(name)
    if first is None:
        if remember:
            _remember(place, {**seen, name: policies.digest})
        return None
    if first == policies.digest:
        return None
    return (
        f"the policies were edited and are still version {policies.version}: they are in force, and decisions, grants"
        " and evidence cannot tell them from those before; change the version with them"
    )


def _seen(place: Path) -> dict[str, str]:
    try:
        held = parse_json(read_bounded(place, _MAX_BYTES), limit=_MAX_BYTES)
    except (OSError, InvalidJson):
        return {}
    if not isinstance(held, dict):
        return {}
    return {name: digest for name, digest in held.items() if isinstance(digest, str)}


def _remember(place: Path, seen: Mapping[str, str]) -> None:
    kept = dict(list(seen.items())[-_MAX_SEEN:])
    beside = place.with_name(f"{place.name}.{os.getpid()}")
    try:
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="utf-8") as file:
            json.dump(kept, file)
        beside.replace(place)
    except OSError:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
