"""Every end of the command that is not its result: one line on standard error and an exit code."""

from __future__ import annotations

import logging
import os
import sys
from typing import Any, Final

import typer

from contract.errors import DatasetAgentError
from contract.verdict import VERDICTS, NotGranted
from dataset_agent.console import EXIT_FAULT, EXIT_INTERRUPTED, EXIT_USAGE, exit_code, fail, note
from dataset_agent.next_steps import with_next

log = logging.getLogger(__name__)

# Typer carries its own copy of click since 0.29; before, and in it, this is the base of usage errors.
_USAGE_ERROR: Final = next(base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException")


def report(fault: BaseException) -> int:
    """Say what ended the command, in one line, and return the exit code. Never raises."""
    if isinstance(fault, KeyboardInterrupt | typer.Abort):
        return EXIT_INTERRUPTED
    if isinstance(fault, SystemExit):
        return fault.code if isinstance(fault.code, int) else EXIT_FAULT
    if isinstance(fault, _USAGE_ERROR):
        return _usage(fault)
    if isinstance(fault, NotGranted):
        note(with_next(f"{VERDICTS[fault.reason]} {fault.reason}: {fault.message}", fault.reason))
        return exit_code(fault)
    if isinstance(fault, DatasetAgentError):
        return fail(fault.message, exit_code(fault)).exit_code
    if isinstance(fault, BrokenPipeError):
        return _reader_gone()
    log.debug("what ended the command", exc_info=fault)
    if isinstance(fault, OSError) and fault.strerror:
        place = f"{fault.filename}: " if fault.filename else ""
        return fail(f"{place}{fault.strerror}; check that it is there and that this user may use it").exit_code
    return fail(
        f"this should not have happened ({type(fault).__name__}): "
        "run it again with DATASET_AGENT_LOG_LEVEL=DEBUG to see where, and report that"
    ).exit_code


def _usage(fault: Any) -> int:
    context = getattr(fault, "ctx", None)
    if type(fault).__name__ == "NoArgsIsHelpError":
        typer.echo(fault.format_message(), err=True)
        return EXIT_USAGE
    where = context.command_path if context is not None else "dataset-agent"
    # What a library raised inside Typer says so too, which is nothing to a person.
    message = str(fault.format_message()).rstrip(".").replace(": Value error, ", ": ", 1)
    return fail(f"{message}; see {where} --help", EXIT_USAGE).exit_code


def _reader_gone() -> int:
    """Whoever read standard output went away; what Python still flushes at exit goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return EXIT_FAULT
