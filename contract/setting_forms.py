"""What every setting is held to, whichever it is, and how the forms of text among them are said to people."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import AfterValidator, field_validator
from pydantic_core import ErrorDetails, PydanticCustomError
from pydantic_settings import BaseSettings, SettingsConfigDict

PREFIX: Final = "DATASET_AGENT_"

_SAID: Final[Mapping[str, str]] = {
    "int_parsing": "it must be a whole number without a unit; durations are seconds, sizes bytes",
    "float_parsing": "it must be a number without a unit; durations are seconds, sizes bytes",
    "bool_parsing": "it must be true or false",
}
"""What pydantic says of text in its own terms, by the type of its error."""

_INJECTED: Final = re.compile(
    r"(^|_)(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$"
)
"""What Kubernetes tells every container of a Service that is called ``dataset-agent`` or begins so."""


def read_by(parse: Callable[[str], object]) -> AfterValidator:
    """Text that ``parse`` takes; what it says is wrong is said without ``ValueError`` before it."""

    def check(text: str) -> str:
        try:
            parse(text)
        except ValueError as error:
            raise PydanticCustomError("setting", "{why}", {"why": str(error)}) from None
        return text

    return AfterValidator(check)


def shaped(pattern: str, wanted: str) -> AfterValidator:
    """Text all of which ``pattern`` matches; ``wanted`` says to people what that is."""
    form = re.compile(pattern)

    def parse(text: str) -> None:
        if form.fullmatch(text) is None:
            raise ValueError(f"it must be {wanted}")

    return read_by(parse)


def said(problem: ErrorDetails) -> str:
    """What is wrong with a setting, for people. The value is never in it: it may be a secret."""
    return _SAID.get(problem["type"], problem["msg"])


def no_settings(environment: Mapping[str, str], known: Mapping[str, Any]) -> list[str]:
    """Names in ``environment`` that look like settings and are none of ``known`` (field names): misspelt ones."""
    fields = {PREFIX + name.upper() for name in known}
    return sorted(
        name
        for name, value in environment.items()
        if name.upper().startswith(PREFIX) and name.upper() not in fields and not _injected(name, value)
    )


def _injected(name: str, value: str) -> bool:
    rest = name.removeprefix(PREFIX)
    return _INJECTED.search(rest) is not None or (rest.endswith("PORT") and "://" in value)


class FromEnvironment(BaseSettings):
    """Settings that are read from ``DATASET_AGENT_*``, in any case.

    An empty value is refused: it is what is left of ``$HOEM`` or of a line that was never filled in, and as a path it
    would be the working folder, as an address every one. ``~`` begins a home folder where no shell has seen it, too.
    """

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="ignore", hide_input_in_errors=True)

    @field_validator("*", mode="before")
    @classmethod
    def _says_something(cls, value: Any) -> Any:
        if isinstance(value, str) and not value.strip():
            raise PydanticCustomError("setting", "it is empty")
        return value

    @field_validator("*", mode="after")
    @classmethod
    def _at_home(cls, value: Any) -> Any:
        if not isinstance(value, Path):
            return value
        try:
            return value.expanduser()
        except RuntimeError:
            raise PydanticCustomError("setting", "it begins with ~ and no home folder of that user is known") from None
