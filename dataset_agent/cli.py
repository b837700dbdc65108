"""The ``dataset-agent`` command: which commands there are, and how a run begins and ends."""

from __future__ import annotations

import importlib
import io
import logging
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

# The SDK's own spans cost a fifth of a call and may name requests; ours are enough.
os.environ.setdefault("OTEL_INSTRUMENTATION_A2A_SDK_ENABLED", "false")

import typer

import dataset_agent
from contract.telemetry import quiet_content_loggers
from dataset_agent.configuration import load_settings, read_settings, unknown_settings
from dataset_agent.console import note
from dataset_agent.faults import report
from telemetry.logs import open_logs

if TYPE_CHECKING:
    app: typer.Typer

_HELP: Final = "A dataset that is itself an agent: verified grants, its own decision, signed provenance."

#: name -> (module, what it defines, the line in the list of commands). A run imports only its own
#: command: ADK alone takes two seconds, which `cache keys` should not.
_COMMANDS: Final = {
    "demo": ("demo", "demo", "Run the main job end to end over loopback HTTP."),
    "serve": ("serving", "serve", "Serve the dataset agent."),
    "root": ("root_serving", "root", "Serve the root agent to applications: POST /ask."),
    "policy": ("policy_serving", "policy_app", "Explain, test and serve policies."),
    "reload": ("reloading", "reload", "Make what this home serves re-read its files."),
    "card": ("card_command", "card", "Fetch a card, verify it, and show what may be asked."),
    "ask": ("asking", "ask", "Ask in words."),
    "call": ("asking", "call", "Call one capability with typed arguments."),
    "login": ("login", "login", "Print a development identity token."),
    "datasets": ("dataset_commands", "datasets_app", "Make, list and check datasets."),
    "keys": ("key_commands", "keys_app", "Keys of the issuer, the root agent and the dataset agent."),
    "grant": ("grant_commands", "grant_app", "Look at execution grants."),
    "cache": ("cache_commands", "cache_app", "Inspect the semantic result cache."),
    "approvals": ("approval_commands", "approvals_app", "Decide about calls that wait for a person."),
    "evidence": ("evidence_commands", "evidence_app", "Read and verify the evidence ledgers."),
    "provenance": ("provenance_commands", "provenance_app", "Verify a saved answer offline."),
    "doctor": ("doctor", "doctor", "Check what is set up, and what to do about what is not."),
    "bench": ("bench", "bench", "Measure on this machine what a governed call costs."),
}


def command_line(only: str | None = None) -> typer.Typer:
    """The command; with ``only``, every other command is listed but not loaded."""
    made = typer.Typer(
        name="dataset-agent", help=_HELP, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
    )
    made.callback(invoke_without_command=True, help=_HELP)(_begin)
    for name, (module, attribute, line) in _COMMANDS.items():
        found: Any = _not_loaded
        if only is None or only == name:
            found = getattr(importlib.import_module(f"dataset_agent.{module}"), attribute)
        if isinstance(found, typer.Typer):
            made.add_typer(found, name=name, help=line)
        else:
            made.command(name, short_help=line)(found)
    return made


def run(arguments: Sequence[str]) -> int:
    """One run of the command; its exit code. No fault leaves it as an exception."""
    try:
        quiet_content_loggers()  # before anything imports ADK, which warns then
        # It warns of a card without skills, which is what an agent has whose datasets are all broken.
        logging.getLogger("a2a.utils.proto_utils").setLevel(logging.ERROR)
        word = next((word for word in arguments if not word.startswith("-")), "")
        code = command_line(word)(args=list(arguments), prog_name="dataset-agent", standalone_mode=False)
        sys.stdout.flush()
    except BaseException as fault:
        return report(fault)
    return code if isinstance(code, int) else 0


def main() -> None:
    """Run the command; every fault is one line on standard error and an exit code, never a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # what the terminal's encoding lacks is no fault
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="surrogateescape")  # what is no text is refused where it is read
    sys.exit(run(sys.argv[1:]))


def _begin(context: typer.Context, version: bool = typer.Option(False, "--version", help="Print the version.")) -> None:
    if version:
        typer.echo(dataset_agent.__version__)
        raise typer.Exit
    settings = read_settings() if context.invoked_subcommand == "datasets" else load_settings()
    open_logs(settings.log_level, settings.log_format)
    if context.invoked_subcommand != "doctor":  # which has a finding for each
        for name, advice in unknown_settings():
            note(f"warning: {name} {advice}")


def _not_loaded(**_: Any) -> None:
    """Stands for a command that this run does not need."""


if not TYPE_CHECKING:  # a type checker sees the name above

    def __getattr__(name: str) -> object:
        if name != "app":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return command_line()
