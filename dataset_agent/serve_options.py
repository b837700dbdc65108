"""What the three serving commands share for the person who starts them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from enum import StrEnum
from typing import Annotated

import typer

from contract.settings import Settings
from dataset_agent.configuration import load_settings
from dataset_agent.console import err, note, print_json
from telemetry.logs import open_logs

Port = Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")]
Host = Annotated[str | None, typer.Option(help="Bind address; default DATASET_AGENT_HOST.")]

Workers = Annotated[
    int | None, typer.Option(min=1, max=64, help="Processes that serve together; default DATASET_AGENT_WORKERS.")
]


class LogForm(StrEnum):
    TEXT = "text"
    JSON = "json"


LogFormat = Annotated[
    LogForm | None,
    typer.Option(help="Form of log lines: json has one object a line; default DATASET_AGENT_LOG_FORMAT."),
]

ReadyJson = Annotated[bool, typer.Option("--json", help="When ready, print where, as one JSON object for programs.")]


def served_settings(*, host: str | None, log_format: LogForm | None, workers: int | None = None) -> Settings:
    """The settings of a process that serves, whose log lines have their form from here on. Raises INVALID_INPUT."""
    if log_format is not None:  # what this process starts reads its environment
        os.environ["DATASET_AGENT_LOG_FORMAT"] = log_format.value
    settings = load_settings(host=host, workers=workers)
    open_logs(settings.log_level, settings.log_format)
    return settings


def begin(doing: str) -> None:
    """One line for a person who waits at a terminal: a start takes seconds."""
    if err.is_terminal:
        note(f"{doing} …")


def announce(what: str, address: str, *, as_json: bool) -> Callable[[], None]:
    """One line for whoever waits for the start; for programs an object on standard output too."""

    def ready() -> None:
        if as_json:
            print_json({"url": address, "pid": os.getpid()})
            sys.stdout.flush()
        note(f"{what} is ready at {address}")

    return ready
