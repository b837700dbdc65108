"""``cache explain``: what the key of a call would be, part by part, and why it would hit or not."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

import typer

from contract.canonical import InvalidJson, parse_json
from contract.errors import Category, Component, DatasetAgentError
from contract.files import read_bounded
from contract.schema import Parameter
from contract.settings import Settings
from control_plane.principals import load_directory
from control_plane.registry import load_registry
from dataset_agent.arguments import read_arguments
from dataset_agent.cache_display import explanation
from dataset_agent.cache_source import At, cache_source
from dataset_agent.configuration import load_settings
from dataset_agent.console import AsJson, note, print_json, progress
from remote_agent.admin_names import unknown_name

_MAX_FILE: Final = 64 * 1024


def explain(
    as_: Annotated[str, typer.Option("--as", help="For whom: a name of principals.yaml.")],
    capability: Annotated[str | None, typer.Argument(help="The capability that would be called.")] = None,
    dataset: Annotated[str | None, typer.Option(help="The dataset that would be asked.")] = None,
    arg: Annotated[
        list[str] | None, typer.Option(help="name=value, typed as declared; name:=JSON. Repeatable.")
    ] = None,
    file: Annotated[Path | None, typer.Option(help="Instead: a file with the call as JSON.")] = None,
    zone: Annotated[
        str | None, typer.Option(help="Where it would be asked, an IANA time zone; default: the setting.")
    ] = None,
    url: At = None,
    as_json: AsJson = False,
) -> None:
    """Say what the key of a call would be, and why it would be answered from the cache or not. Nothing runs."""
    settings = load_settings()
    if file is not None and (capability or dataset or arg):
        raise typer.BadParameter("give --file, or a capability with --dataset and --arg")
    if file is None and not capability:
        raise typer.BadParameter("give a capability and --dataset, or --file")
    if file is None and not dataset:
        raise typer.BadParameter(f"give --dataset, which has {str(capability)[:100]}")
    members = _from_file(file) if file is not None else _members(settings, str(capability), str(dataset), arg or [])
    if url is None:
        _check_person(settings, as_)
    # Here as there the same zone counts: that of who asks, as for `call`.
    members |= {"as": as_, "zone": zone or settings.zone}
    with progress("explaining"):
        told = cache_source(settings, url).explain(members)
    if as_json:
        print_json(told)
    else:
        explanation(told)
        if told.get("missing"):
            note(f"add {' '.join(f'--arg {name}=…' for name in told['missing'])}")


def _members(settings: Settings, capability: str, dataset: str, pairs: list[str]) -> dict[str, Any]:
    arguments = read_arguments(pairs, _declared(settings, capability, dataset))
    return {"dataset": dataset, "capability": capability, "arguments": arguments}


def _declared(settings: Settings, capability: str, dataset: str) -> dict[str, Parameter]:
    """The parameters as the datasets folder here declares them; without it values stay text."""
    descriptor = load_registry(settings.datasets).datasets.get(dataset)
    found = next((one for one in descriptor.capabilities if one.name == capability), None) if descriptor else None
    return {parameter.name: parameter for parameter in found.parameters} if found else {}


def _check_person(settings: Settings, name: str) -> None:
    """Who has the files may be told which name is near; the admin endpoint names nobody."""
    names = load_directory(settings.datasets / "principals.yaml").by_name
    if name not in names:
        raise unknown_name("principal", name, names)


def _from_file(path: Path) -> dict[str, Any]:
    """The members of a call: ``dataset``, ``capability``, ``arguments``. Raises INVALID_INPUT."""
    try:
        call = parse_json(read_bounded(path, _MAX_FILE), limit=_MAX_FILE)
    except (OSError, InvalidJson) as error:
        raise _fault(
            f"{path} cannot be read as a call: {error.strerror if isinstance(error, OSError) else error}"
        ) from error
    if not isinstance(call, dict) or not call.keys() <= {"dataset", "capability", "arguments"}:
        raise _fault(f"{path} must be one JSON object with dataset, capability and arguments")
    return call


def _fault(message: str) -> DatasetAgentError:
    return DatasetAgentError(Component.COMMAND, Category.INVALID_INPUT, "command.cache.file", message)
