"""What the three serving commands share for the person who starts them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Annotated

import typer

from dataset_agent.console import note, print_json

Port = Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")]
Host = Annotated[str | None, typer.Option(help="Bind address; default DATASET_AGENT_HOST.")]

Workers = Annotated[
    int | None, typer.Option(min=1, max=64, help="Processes that serve together; default DATASET_AGENT_WORKERS.")
]

ReadyJson = Annotated[bool, typer.Option("--json", help="When ready, print where, as one JSON object for programs.")]


def announce(what: str, address: str, *, as_json: bool) -> Callable[[], None]:
    """One line for whoever waits for the start; for programs an object on standard output too."""

    def ready() -> None:
        if as_json:
            print_json({"url": address, "pid": os.getpid()})
            sys.stdout.flush()
        note(f"{what} is ready at {address}")

    return ready
