"""Several versions of a policy set beside one another, one of them in force, each read whole or not at all.

A folder of policies is one set (``version``, ``*.cedar``, one ``*.cedarschema``), or it holds sets by
the names of their versions and a file ``current`` that names the one in force::

    policies/current             2026.10.01
    policies/2026.09.01/         *.cedar, one *.cedarschema
    policies/2026.10.01/

Decisions are made under the one in force, whatever version a caller states; the others can be
explained and tested. So a new set is put beside the old one and ``current`` is replaced last.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from contract.ids import is_version
from control_plane.cedar_files import PolicyFault, PolicyFiles, as_one, examine_policies, read_version

CURRENT: Final = "current"
MAX_VERSIONS: Final = 64
_ATTEMPTS: Final = 5


@dataclass(frozen=True, slots=True)
class PolicyFolder:
    """Where the sets of a folder are. ``current`` is the version in force; ``folders`` has it too."""

    current: str
    folders: Mapping[str, Path]

    def prefix(self, version: str, folder: Path) -> str:
        """What stands before the files of a version, as they are named in faults."""
        return "" if self.folders[version] == folder else f"{version}/"


def find_versions(folder: Path) -> PolicyFolder:
    """The versions of a folder of policies. Raises a CONFIGURATION fault that names the file."""
    if not (folder / CURRENT).exists():
        if not (folder / "version").exists() and (held := _folders(folder)):
            raise PolicyFault(CURRENT, f"is missing: it names the version in force, one of {', '.join(held)}")
        version = read_version(folder)
        return PolicyFolder(version, MappingProxyType({version: folder}))
    if next(folder.glob("*.cedar"), None) is not None or (folder / "version").exists():
        raise PolicyFault(CURRENT, "stands beside policies of no version: keep one set here, or each in its folder")
    folders = _folders(folder)
    current = read_version(folder, CURRENT)
    if current not in folders:
        raise PolicyFault(
            CURRENT, f"names {current}, and there is no such folder: {', '.join(folders) or 'there is none'}"
        )
    if len(folders) > MAX_VERSIONS:
        raise PolicyFault("", f"holds more than {MAX_VERSIONS} versions: remove those that nobody asks about")
    for name, path in folders.items():
        if (path / "version").exists() and (stated := read_version(path, within=f"{name}/")) != name:
            raise PolicyFault(f"{name}/version", f"says {stated}: the folder's name is the version, remove the file")
    return PolicyFolder(current, MappingProxyType(folders))


def read_policies(folder: Path, version: str | None = None) -> PolicyFiles:
    """The set in force, or the one of ``version``. Raises a CONFIGURATION fault; a set is never half read.

    Files that change while they are read are read again; a set that never stands still is a fault.
    """
    for _ in range(_ATTEMPTS):
        before = _stamps(folder)
        found, faults = _examine(folder, version)
        if _stamps(folder) == before:
            if found is None:
                raise as_one(faults)
            return found
    raise PolicyFault("", "its files change while they are read: reload when they are whole")


def _examine(folder: Path, version: str | None) -> tuple[PolicyFiles | None, tuple[PolicyFault, ...]]:
    try:
        found = find_versions(folder)
        wanted = found.current if version is None else version
        if wanted not in found.folders:
            raise PolicyFault("", f"there is no version {wanted}: {', '.join(found.folders)}")
    except PolicyFault as fault:
        return None, (fault,)
    return examine_version(folder, found, wanted)


def examine_version(
    folder: Path, found: PolicyFolder, version: str
) -> tuple[PolicyFiles | None, tuple[PolicyFault, ...]]:
    """One set of a folder, or everything that is wrong with it."""
    within = found.prefix(version, folder)
    return examine_policies(found.folders[version], version=version if within else None, within=within)


def _folders(folder: Path) -> dict[str, Path]:
    try:
        children = sorted(child for child in folder.iterdir() if child.is_dir() and is_version(child.name))
    except OSError:
        return {}
    return {child.name: child for child in children}


def _stamps(folder: Path) -> tuple[tuple[str, int, int, int], ...]:
    """Of every file of the folder and of its versions what changes with its content."""
    found = []
    for path in sorted((*folder.glob("*"), *folder.glob("*/*"))):
        try:
            held = path.stat()
        except OSError:
            continue
        found.append((str(path), held.st_size, held.st_mtime_ns, held.st_ino))
    return tuple(found)
