"""Two workers of one dataset agent: two servers over one home, each with a port by which it is meant."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from contract.settings import Settings
from remote_agent.siblings import Siblings
from tests.running_agent import RunningAgent, running_agent

Pair = tuple[RunningAgent, RunningAgent]


@contextmanager
def two_workers(settings: Settings, *, count: int = 2) -> Iterator[Pair]:
    """The first two of ``count``; of the others there is nothing but their numbers."""
    with tempfile.TemporaryDirectory(prefix="workers-") as folder:
        secret = secrets.token_bytes(32)
        first, second = (Siblings(number, count, Path(folder), secret) for number in (0, 1))
        with running_agent(settings, siblings=first) as one, running_agent(settings, siblings=second) as other:
            yield one, other
