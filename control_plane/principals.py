"""The directory: who this service knows, and what each may ask of which dataset.

Identity is (issuer, subject) and nothing else; names are labels for people and tests.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
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
from contract.verdict import NotGranted, Reason
from control_plane.model_faults import ModelFault, all_faults, in_one_line
from control_plane.yaml_reader import Document, UnreadableFile, read_document

_Identifier = Annotated[str, StringConstraints(min_length=1, max_length=512, pattern=r"^[^\s\x00]+$")]
_Names = Annotated[tuple[Slug, ...], Field(strict=False)]
_Texts = Annotated[tuple[str, ...], Field(strict=False)]


class SignIn(Strict):
    """A person at an identity provider, by its issuer URL and subject."""

    issuer: _Identifier
    subject: _Identifier

    @model_validator(mode="after")
    def _normal(self) -> Self:
        if not is_nfc(self.subject):
            raise ValueError("the subject of a sign-in is not in Unicode form NFC")
        return self


class PrincipalEntry(Strict):
    """One person of the file. ``issuer`` overrides the file's issuer.

    ``signs_in_as`` are the same person at identity providers. Grants never name those: they
    say who somebody is at the root agent's door and nowhere else.
    """

    name: Slug
    subject: _Identifier
    issuer: _Identifier | None = None
    tenant: Slug
    principal_class: Slug
    clearance: Annotated[Sensitivity, Field(strict=False)]
    entitlements: dict[Slug, _Names] = Field(default_factory=dict)
    attributes: dict[Slug, str | bool | int | _Texts] = Field(default_factory=dict)
    signs_in_as: Annotated[tuple[SignIn, ...], Field(strict=False, max_length=8)] = ()

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
        keys += [(at.issuer, at.subject) for entry in self.principals for at in entry.signs_in_as]
        names = [entry.name for entry in self.principals]
        for kind, items in (("subject", keys), ("name", names)):
            if len(set(items)) != len(items):
                raise ValueError(f"a {kind} stands twice among the principals")
        return self


@dataclass(frozen=True, slots=True)
class Directory:
    """Principals by identity. ``version`` is a digest of everything a decision can read.

    ``by_sign_in`` has the identities that ``signs_in_as`` lists; ``find`` does not look there.
    """

    issuer: str
    version: str
    by_identity: Mapping[tuple[str, str], Principal]
    by_name: Mapping[str, Principal]
    by_sign_in: Mapping[tuple[str, str], Principal] = field(default_factory=lambda: MappingProxyType({}))

    def find(self, issuer: str, subject: str) -> Principal | None:
        """The principal of a verified identity; byte-exact, no case folding, no prefix."""
        return self.by_identity.get((issuer, subject))

    def signed_in(self, issuer: str, subject: str) -> Principal | None:
        """The principal of an identity provider's verified token: whose ``signs_in_as`` lists it, or whose own it is."""
        return self.by_sign_in.get((issuer, subject)) or self.find(issuer, subject)

    def named(self, name: str) -> Principal | None:
        """By label, for the development issuer and the command only; never for a decision."""
        return self.by_name.get(name)

    @classmethod
    def of(
        cls,
        issuer: str,
        principals: tuple[Principal, ...],
        by_sign_in: Mapping[tuple[str, str], Principal] = MappingProxyType({}),
    ) -> Directory:
        described = sorted((_described(principal) for principal in principals), key=lambda item: str(item["name"]))
        return cls(
            issuer=issuer,
            version=digest("dataset-agent/directory/v1", described),
            by_identity=MappingProxyType({principal.key: principal for principal in principals}),
            by_name=MappingProxyType({principal.name: principal for principal in principals}),
            by_sign_in=MappingProxyType(dict(by_sign_in)),
        )


def load_directory(path: Path) -> Directory:
    """Raises a CONFIGURATION fault that names the file and the first things wrong in it."""
    found, faults = examine_directory(path)
    if found is None:
        raise _fault(path, in_one_line(faults))
    return found


def examine_directory(path: Path) -> tuple[Directory | None, tuple[ModelFault, ...]]:
    """The directory, or everything that is wrong with its file."""
    document = Document(None, None)
    try:
        document = read_document(path)
        file = DirectoryFile.model_validate(document.value)
    except ValidationError as error:
        return None, all_faults(error, document)
    except UnreadableFile as error:
        line, message = error.parts()
        return None, (ModelFault(line, "", message),)
    principals = tuple(entry.principal(file.issuer) for entry in file.principals)
    sign_ins = {
        (at.issuer, at.subject): principal
        for entry, principal in zip(file.principals, principals, strict=True)
        for at in entry.signs_in_as
    }
    return Directory.of(file.issuer, principals, sign_ins), ()


def with_claims(principal: Principal, claims: Mapping[str, AttributeValue]) -> Principal:
    """``principal`` with the attributes that its identity provider states and the directory lacks.

    Nothing but absent attributes is filled. Raises ``NotGranted`` PRINCIPAL_ATTRIBUTE_CONFLICT
    where the two state different values: which of them is right is not known here.
    """
    for name in sorted(claims):
        if name in principal.attributes and not _same(principal.attributes[name], claims[name]):
            raise NotGranted(
                Reason.PRINCIPAL_ATTRIBUTE_CONFLICT,
                f"the identity token and the directory state different values of the attribute {name}",
            )
    new = {name: value for name, value in claims.items() if name not in principal.attributes}
    return replace(principal, attributes=MappingProxyType({**principal.attributes, **new})) if new else principal


def _same(held: AttributeValue, stated: AttributeValue) -> bool:
    """Equal and of one type (1 is not true); the order of a list says nothing."""
    if isinstance(held, tuple) and isinstance(stated, tuple):
        return set(held) == set(stated)
    return type(held) is type(stated) and held == stated


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
