"""The directory: who this service knows, and what each may ask of which dataset.

Identity is (issuer, subject) and nothing else; names are labels for people and tests.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Self

from pydantic import Field, StringConstraints, ValidationError, model_validator

from contract.canonical import digest
from contract.errors import Category, Component, DatasetAgentError
from contract.ids import Slug, is_nfc
from contract.principal import AttributeValue, Principal
from contract.schema import Strict
from contract.scope import Sensitivity
from control_plane.yaml_reader import Document, UnreadableFile, faults_in, read_document

_Identifier = Annotated[str, StringConstraints(min_length=1, max_length=512, pattern=r"^[^\s\x00]+$")]
_Names = Annotated[tuple[Slug, ...], Field(strict=False)]
_Texts = Annotated[tuple[str, ...], Field(strict=False)]


class PrincipalEntry(Strict):
    """One person of the file. ``issuer`` overrides the file's issuer."""

    name: Slug
    subject: _Identifier
    issuer: _Identifier | None = None
    tenant: Slug
    principal_class: Slug
    clearance: Annotated[Sensitivity, Field(strict=False)]
    entitlements: dict[Slug, _Names] = Field(default_factory=dict)
    attributes: dict[Slug, str | bool | int | _Texts] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _normal(self) -> Self:
        if not is_nfc(self.subject):
            raise ValueError(f"principal {self.name}: subject is not in Unicode form NFC")
        return self

    def principal(self, issuer: str) -> Principal:
        return Principal(
            issuer=self.issuer or issuer,
            subject=self.subject,
            tenant=self.tenant,
            name=self.name,
            principal_class=self.principal_class,
            clearance=self.clearance,
            entitlements=MappingProxyType({key: frozenset(names) for key, names in self.entitlements.items()}),
            attributes=MappingProxyType(dict(self.attributes)),
        )


class DirectoryFile(Strict):
    """``principals.yaml``: identities and names are unique."""

    issuer: _Identifier
    principals: Annotated[tuple[PrincipalEntry, ...], Field(strict=False)]

    @model_validator(mode="after")
    def _unique(self) -> Self:
        keys = [(entry.issuer or self.issuer, entry.subject) for entry in self.principals]
        names = [entry.name for entry in self.principals]
        for kind, items in (("subject", keys), ("name", names)):
            if len(set(items)) != len(items):
                raise ValueError(f"a {kind} stands twice among the principals")
        return self


@dataclass(frozen=True, slots=True)
class Directory:
    """Principals by identity. ``version`` is a digest of everything a decision can read."""

    issuer: str
    version: str
    by_identity: Mapping[tuple[str, str], Principal]
    by_name: Mapping[str, Principal]

    def find(self, issuer: str, subject: str) -> Principal | None:
        """The principal of a verified identity; byte-exact, no case folding, no prefix."""
        return self.by_identity.get((issuer, subject))

    def named(self, name: str) -> Principal | None:
        """By label, for the development issuer and the command only; never for a decision."""
        return self.by_name.get(name)

    @classmethod
    def of(cls, issuer: str, principals: tuple[Principal, ...]) -> Directory:
        described = sorted((_described(principal) for principal in principals), key=lambda item: str(item["name"]))
        return cls(
            issuer=issuer,
            version=digest("dataset-agent/directory/v1", described),
            by_identity=MappingProxyType({principal.key: principal for principal in principals}),
            by_name=MappingProxyType({principal.name: principal for principal in principals}),
        )


def load_directory(path: Path) -> Directory:
    """Raises a CONFIGURATION fault that names the file and the first things wrong in it."""
    document = Document(None, None)
    try:
        document = read_document(path)
        file = DirectoryFile.model_validate(document.value)
    except ValidationError as error:
        raise _fault(path, faults_in(error, document)) from error
    except UnreadableFile as error:
        raise _fault(path, str(error)) from error
    return Directory.of(file.issuer, tuple(entry.principal(file.issuer) for entry in file.principals))


def _described(principal: Principal) -> dict[str, object]:
    attributes: dict[str, AttributeValue | list[str]] = principal.attributes_json()
    return {
        "issuer": principal.issuer,
        "subject": principal.subject,
        "tenant": principal.tenant,
        "name": principal.name,
        "principal_class": principal.principal_class,
        "clearance": principal.clearance.value,
        "entitlements": {name: sorted(held) for name, held in principal.entitlements.items()},
        "attributes": attributes,
    }


def _fault(path: Path, problem: str) -> DatasetAgentError:
    return DatasetAgentError(
        Component.CONTROL_PLANE,
        Category.CONFIGURATION,
        "control_plane.principals.invalid",
        f"{path.name}: {problem}",
    )
