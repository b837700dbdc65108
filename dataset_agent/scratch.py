"""Where a command that looks at datasets builds their database files."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from contract.settings import Settings
from remote_agent.world import engines_folder


@contextmanager
def database_scratch(settings: Settings) -> Iterator[Path]:
    """The database files of a dataset agent that runs here as this user; elsewhere nothing is left behind."""
    own = engines_folder(settings)
    if own.is_dir() and own.stat().st_uid == os.geteuid() and os.access(own, os.W_OK):
        yield own
        return
    with tempfile.TemporaryDirectory(prefix="dataset-agent-databases-") as folder:
        yield Path(folder)
