"""Database files of the shipped datasets: built by the first agent of a test process, lent to those after it.

The name of such a file covers everything that is in it, and building one takes longer than most tests.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

from contract.settings import SHIPPED_DATASETS, Settings
from remote_agent.world import engines_folder


@cache
def _kept() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="database-files-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@cache
def _shipped() -> frozenset[str]:
    return frozenset(path.parent.name for path in SHIPPED_DATASETS.glob("*/descriptor.yaml"))


def lend(settings: Settings) -> None:
    """Copies of what is kept, where the agent of this home would build them."""
    folder = engines_folder(settings)
    for path in _kept().iterdir():
        if (settings.datasets / _dataset(path)).is_dir() and not (folder / path.name).exists():
            for missing in (folder.parent, folder):
                missing.mkdir(mode=0o700, exist_ok=True)
            shutil.copy2(path, folder / path.name)


def keep(settings: Settings) -> None:
    """Keep what this agent built of the shipped datasets."""
    for path in engines_folder(settings).glob("*.duckdb"):
        if _dataset(path) in _shipped() and not (_kept() / path.name).exists():
            shutil.copy2(path, _kept() / path.name)


def _dataset(path: Path) -> str:
    return path.name.rpartition("-")[0]
