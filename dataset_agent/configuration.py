"""Settings as a command reads them: a value that does not parse is one line that names its variable."""

from __future__ import annotations

import os
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import SettingsError

from contract.errors import Category, Component, DatasetAgentError
from contract.files import of_another_user
from contract.setting_forms import PREFIX, no_settings, said
from contract.settings import Settings

_GIVEN: Final = {"url": "the address"}
"""Settings that an argument gave instead, as it is called; others are options."""


def load_settings(**given: Any) -> Settings:
    """The settings of the environment, with what an option gave instead. Raises INVALID_INPUT."""
    settings = read_settings(**given)
    if not settings.datasets.is_dir():
        raise _invalid(f"{PREFIX}DATASETS names {settings.datasets}, which is no folder: name one, or unset it")
    return settings


def read_settings(**given: Any) -> Settings:
    """The same for a command that makes a datasets folder, or is told one: that of the settings need not be there."""
    try:
        settings = Settings(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        # the value is never shown: it may be a secret
        raise _invalid("; ".join(_wrong(problem, given) for problem in error.errors())) from None
    except SettingsError as error:
        raise _invalid(str(error)) from None
    if settings.home.exists() and not settings.home.is_dir():
        raise _invalid(f"{PREFIX}HOME names {settings.home}, which is no folder: name one")
    if settings.ledger_url is not None:
        _check_ledger(settings.ledger_url.get_secret_value())
    return settings


def _check_ledger(url: str) -> None:
    """Whether the form is a server's; what must be installed to reach it is said where it is opened."""
    try:
        from evidence.postgres_place import check_url
    except ImportError:
        return
    try:
        check_url(url)
    except ValueError as why:
        raise _invalid(f"correct or unset {PREFIX}LEDGER_URL: {why}") from None


def datasets_problem(settings: Settings) -> str | None:
    """Why the datasets folder is none: it is that of one dataset, or of something else. ``None`` where it may be one."""
    if any((settings.datasets / name).exists() for name in ("policies", "principals.yaml")):
        return None
    return (
        f"{PREFIX}DATASETS names {settings.datasets.absolute()}, which holds neither policies nor principals.yaml: "
        "name the folder that holds them beside a folder for each dataset"
    )


def check_datasets_folder(settings: Settings) -> None:
    """For commands that decide who may do what. Raises INVALID_INPUT."""
    if (problem := datasets_problem(settings)) is not None:
        raise _invalid(problem)


def check_home(settings: Settings) -> None:
    """For commands that look into a home: what is not there is not made. Raises NOT_FOUND."""
    if not settings.home.is_dir():
        raise DatasetAgentError(
            Component.COMMAND,
            Category.NOT_FOUND,
            "command.home.missing",
            f"there is no home at {settings.home}: correct {PREFIX}HOME, or make one with dataset-agent keys init",
        )


def check_user(settings: Settings, *files: Path) -> None:
    """For commands that write into a home: what they leave there must not shut out the user whose it is.

    ``files`` of the same role tell whose it is where they are there. Raises CONFIGURATION.
    """
    found = of_another_user(settings.home, *files)
    if found is not None:
        path, owner = found
        raise DatasetAgentError(
            Component.COMMAND,
            Category.CONFIGURATION,
            "command.home.user",
            f"{path} belongs to user {owner}, not to this one ({os.geteuid()}): run this as that user",
        )


def default_settings(home: Path, **given: Any) -> Settings:
    """Every setting at its default but those given, whatever the environment says."""
    defaults = {name: field.get_default(call_default_factory=True) for name, field in Settings.model_fields.items()}
    return Settings(**(defaults | {"home": home} | given))


def unknown_settings() -> list[tuple[str, str]]:
    """Variables of the environment that look like settings and are none: each with the setting that is near."""
    known = [name.upper() for name in Settings.model_fields]
    found = []
    for name in no_settings(os.environ, Settings.model_fields):
        near = get_close_matches(name.upper().removeprefix(PREFIX), known, 1, 0.8)
        advice = f"did you mean {PREFIX}{near[0]}?" if near else "correct its name or unset it"
        found.append((name, f"is no setting: {advice}"))
    return found


def _wrong(problem: ErrorDetails, given: Mapping[str, Any]) -> str:
    """What is wrong with one setting, and where it was said: by an option or argument, else in the environment."""
    name = "_".join(str(part) for part in problem["loc"])
    if given.get(name) is not None:
        return f"correct {_GIVEN.get(name, f'--{name}')}: {said(problem)}"
    return f"correct or unset {PREFIX}{name.upper()}: {said(problem)}"


def _invalid(message: str) -> DatasetAgentError:
    return DatasetAgentError(Component.COMMAND, Category.INVALID_INPUT, "command.settings", message)
