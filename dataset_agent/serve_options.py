"""What the three serving commands share for the person who starts them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from dataset_agent.console import note

Port = Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")]
Host = Annotated[str | None, typer.Option(help="Bind address; default DATASET_AGENT_HOST.")]


def announce(what: str, address: str) -> Callable[[], None]:
    """One line for whoever waits for the start."""
    return lambda: note(f"{what} is ready at {address}")
