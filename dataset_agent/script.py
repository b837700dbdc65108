"""The console script. Importing the command takes a second, in which Ctrl-C is an end like any: no traceback, and 130."""

from __future__ import annotations

import sys
from typing import Final

_INTERRUPTED: Final = 130


def main() -> None:
    """Run the command. Raises ``SystemExit`` with its exit code."""
    try:
        from dataset_agent.cli import main as command
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    command()
