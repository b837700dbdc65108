"""What a dataset's folder holds: its descriptor, and what never leaves the service.

Base tables, template files and how BigQuery is asked are here; ``published`` is the half that crosses agent cards.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final, Self

from pydantic import Field, field_validator, model_validator

from contract.ids import Slug, Version
from contract.minimum_group import GroupRule
from contract.rollup import Rollup
from contract.schema import ResultColumn, Strict, Table, Text
from control_plane.descriptor import DatasetCapability, DatasetDescriptor
from control_plane.source_facts import AUTO, FROM_SOURCE, SourceFacts

MIN_BYTES_BILLED: Final = 10 * 2**20
"""BigQuery bills at least this for a table that a query reads."""

_Bytes = Annotated[int, Field(ge=MIN_BYTES_BILLED, le=2**53 - 1)]
_Account = Annotated[str, Field(max_length=255, pattern=r"^[a-z0-9][a-z0-9._-]*@[a-z0-9.:-]+\.gserviceaccount\.com$")]
_Project = Annotated[str, Field(pattern=r"^[a-z][a-z0-9:.-]{4,61}[a-z0-9]$")]


class Supply(Strict):
    """How a template gets the rows that another dataset agent answers with.

    ``table`` is the name it reads them by, ``arguments`` gives each parameter of the other
    capability the value of one of this capability's. ``columns`` is what the other is
    expected to return; whether it does is checked against its verified card at every call.
    """

    table: Slug
    arguments: dict[Slug, Slug] = Field(default_factory=dict)
    columns: tuple[ResultColumn, ...] = Field(min_length=1, strict=False)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        names = [column.name for column in self.columns]
        if len(set(names)) != len(names):
            raise ValueError(f"the supplied table {self.table} names a column twice")
        return self


class BigQuery(Strict):
    """How a dataset's tables are asked where they lie in BigQuery.

    Jobs run in ``project`` and ``location``. ``maximum_bytes_billed`` bounds each query of a
    capability that names no budget of its own; with ``estimate`` a query is estimated first.
    Results of at least ``storage_read`` rows are read by the Storage Read API. With
    ``impersonate`` a query runs as the service account of the caller's principal class, and a
    class that is not there is refused; without it, as the agent's own account.
    """

    project: _Project
    location: str = Field(pattern=r"^[A-Za-z][A-Za-z0-9-]{1,62}$")
    maximum_bytes_billed: _Bytes
    estimate: bool = False
    storage_read: int = Field(default=20_000, ge=1)
    impersonate: dict[Slug, _Account] = Field(default_factory=dict, max_length=64)


class CapabilityManifest(DatasetCapability):
    """A capability and what only its own service needs: the template, and what it is supplied with.

    ``template`` is a GoogleSQL file relative to the dataset's folder; it is absent only
    where the capability is answered by an MCP tool. ``supply`` comes with ``delegates``.
    ``maximum_bytes_billed`` and ``estimate`` are those of ``BigQuery``, for this capability alone.
    ``minimum_group`` names the column of the subjects as well. ``rollup`` declares which calls follow from
    the stored result of a wider one.
    """

    template: str | None = None
    supply: Supply | None = None
    maximum_bytes_billed: _Bytes | None = None
    estimate: bool | None = None
    minimum_group: GroupRule | None = None
    rollup: Rollup | None = None

    @model_validator(mode="after")
    def _has_template(self) -> Self:
        if self.tool_name and not self.template:
            raise ValueError(f"capability {self.name} has a tool_name and needs a template")
        if (self.supply is not None) != (self.delegates is not None):
            raise ValueError(f"capability {self.name}: delegates and supply go together")
        if self.delegates is not None and not self.template:
            raise ValueError(f"capability {self.name} completes another agent's rows and needs a template")
        if self.minimum_group is not None and (not self.template or self.delegates is not None):
            raise ValueError(f"capability {self.name}: minimum_group needs a template that reads this dataset alone")
        if self.rollup is not None and (not self.template or not self.cacheable or self.minimum_group is not None):
            raise ValueError(f"capability {self.name}: rollup needs a template, cacheable, and no minimum_group")
        given = self.supply.arguments.values() if self.supply else ()
        if unknown := set(given) - {parameter.name for parameter in self.parameters}:
            raise ValueError(f"capability {self.name} passes on {sorted(unknown)[0]}, which is none of its parameters")
        return self


_UNPUBLISHED: Final[dict[str, Any]] = {
    "template": True,
    "supply": True,
    "maximum_bytes_billed": True,
    "estimate": True,
    "minimum_group": {"subject": True},
    "rollup": True,
}
_KEPT_BACK: Final[dict[str, Any]] = {
    "tables": True,
    "bigquery": True,
    "revision_command": True,
    "capabilities": {"__all__": _UNPUBLISHED},
}


class DatasetManifest(DatasetDescriptor):
    """A dataset's folder: ``descriptor.yaml`` with base tables and templates.

    Its tables are all files, or all tables of BigQuery, which ``bigquery`` says how to ask.
    ``revision`` and ``as_of`` may be left to the source (``auto``, or absent), or to a command.
    """

    revision: Version = AUTO
    as_of: datetime = Field(default=FROM_SOURCE, strict=False)
    revision_command: tuple[Text, ...] = Field(default=(), max_length=32, strict=False)
    capabilities: tuple[CapabilityManifest, ...] = Field(min_length=1, strict=False)
    tables: tuple[Table, ...] = Field(min_length=1, strict=False)
    bigquery: BigQuery | None = None

    @field_validator("as_of", mode="before")
    @classmethod
    def _left_to_the_source(cls, value: Any) -> Any:
        return FROM_SOURCE if value == AUTO else value

    @model_validator(mode="after")
    def _told_once(self) -> Self:
        if self.revision_command and self.revision != AUTO:
            raise ValueError(f"dataset {self.dataset} states its revision and names a command for it; keep one")
        return self

    @model_validator(mode="after")
    def _unique_tables(self) -> Self:
        names = [table.name for table in self.tables]
        if len(set(names)) != len(names):
            raise ValueError(f"dataset {self.dataset} names a table twice")
        supplied = {capability.supply.table for capability in self.capabilities if capability.supply}
        if shadowed := supplied.intersection(names):
            raise ValueError(f"dataset {self.dataset} has a table {sorted(shadowed)[0]}; supply rows by another name")
        return self

    @model_validator(mode="after")
    def _one_engine(self) -> Self:
        lie_there = {table.bigquery is not None for table in self.tables}
        if len(lie_there) > 1:
            raise ValueError(f"dataset {self.dataset} has files and tables of BigQuery; publish them as two datasets")
        if lie_there != {self.bigquery is not None}:
            raise ValueError(f"dataset {self.dataset}: tables of BigQuery and the options bigquery go together")
        if self.bigquery is None:
            for capability in self.capabilities:
                if capability.maximum_bytes_billed is not None or capability.estimate is not None:
                    raise ValueError(f"capability {capability.name} has a budget of bytes; only BigQuery bills bytes")
        return self

    @property
    def asks_its_source(self) -> bool:
        """Whether the revision or the age is still to be told."""
        return self.revision == AUTO or self.as_of == FROM_SOURCE

    def told(self, facts: SourceFacts) -> Self:
        """With what the source says of itself, where the descriptor leaves it open. Raises ``ValueError``."""
        as_of = facts.as_of if self.as_of == FROM_SOURCE else self.as_of
        if as_of is None:
            raise ValueError(f"the source of {self.dataset} does not tell when it was changed; state as_of")
        revision = facts.revision if self.revision == AUTO else self.revision
        return self.model_copy(update={"revision": revision, "as_of": as_of})

    def published(self) -> DatasetDescriptor:
        """The half that may leave the service: no table, no file name, no account, no budget.

        Raises ``ValueError`` where the source is still to be asked.
        """
        if self.asks_its_source:
            raise ValueError(f"dataset {self.dataset} has no revision yet: its source was not asked")
        return DatasetDescriptor.model_validate(self.model_dump(exclude=_KEPT_BACK))

    def on_card(self) -> dict[str, Any]:
        """The JSON of what is published, whether or not the source was asked."""
        return self.model_dump(mode="json", exclude=_KEPT_BACK, exclude_defaults=True)
