"""The ``dataset-agent`` command."""

from __future__ import annotations

import logging
import os
import sys

# The SDK's own spans cost a fifth of a call and may name requests; ours are enough.
os.environ.setdefault("OTEL_INSTRUMENTATION_A2A_SDK_ENABLED", "false")

import click
import typer
from pydantic import ValidationError

import dataset_agent
from contract.errors import DatasetAgentError
from contract.verdict import NotGranted
from dataset_agent import (
    asking,
    cache_commands,
    demo,
    doctor,
    evidence_commands,
    key_commands,
    serving,
)
from dataset_agent.console import EXIT_FAULT, EXIT_USAGE, err, exit_code, fail

app = typer.Typer(
    name="dataset-agent",
    help="A dataset that is itself an agent: verified grants, its own decision, signed provenance.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("demo")(demo.demo)
app.command("serve")(serving.serve)
app.command("root")(serving.root)
app.command("reload")(serving.reload)
app.command("card")(asking.card)
app.command("ask")(asking.ask)
app.command("call")(asking.call)
app.command("login")(asking.login)
app.command("doctor")(doctor.doctor)
for name, group in (
    ("policy", serving.policy_app),
    ("keys", key_commands.keys_app),
    ("grant", key_commands.grant_app),
    ("cache", cache_commands.cache_app),
    ("evidence", evidence_commands.evidence_app),
    ("provenance", evidence_commands.provenance_app),
):
    app.add_typer(group, name=name)


@app.callback(invoke_without_command=True)
def version(show: bool = typer.Option(False, "--version", help="Print the version.")) -> None:
    """A dataset that is itself an agent."""
    if show:
        typer.echo(dataset_agent.__version__)
        raise typer.Exit


def main() -> None:
    """Run the command; every fault is one line on standard error and an exit code, never a traceback."""
    logging.basicConfig(level=os.environ.get("DATASET_AGENT_LOG_LEVEL", "WARNING").upper(), format="%(message)s")
    try:
        code = app(standalone_mode=False)
    except click.ClickException as usage:
        usage.show()
        code = usage.exit_code
    except (click.Abort, KeyboardInterrupt):
        code = 130
    except NotGranted as outcome:
        err.print(f"{outcome.reason}: {outcome.message}", markup=False)
        code = exit_code(outcome)
    except DatasetAgentError as fault:
        code = fail(fault.message, exit_code(fault)).exit_code
    except ValidationError as fault:
        first = fault.errors()[0]
        name = "DATASET_AGENT_" + "_".join(str(part) for part in first["loc"]).upper()
        code = fail(f"{name}: {first['msg']}", EXIT_USAGE).exit_code
    except BrokenPipeError:
        sys.stderr.close()
        code = EXIT_FAULT
    except OSError as fault:
        code = fail(f"{fault.strerror or type(fault).__name__}: {fault.filename or ''}".rstrip(": ")).exit_code
    sys.exit(code or 0)
