"""The dataset descriptor: the strict, framework-free statement of what a dataset offers.

``DatasetDescriptor`` crosses agent cards without loss. What a dataset's folder holds beside it and
never publishes is in ``manifest.py``.
"""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, SerializerFunctionWrapHandler, field_validator, model_serializer, model_validator

from contract.ids import MAX_ID_BYTES, Slug, Version
from contract.mcp import MCP_ENDPOINT, mcp_path
from contract.minimum_group import MinimumGroup
from contract.schema import Parameter, Period, ResultColumn, Strict, Text, check_periods
from contract.scope import MAX_STALE_S, Sensitivity


class Effect(StrEnum):
    READ = "read"
    COMPUTE = "compute"
    WRITE = "write"
    """It changes something; this and EXTERNAL must be held by the principal (AD-POL-009)."""
    EXTERNAL = "external"
    """It reaches outside."""


APPROVE: Final = "approve"
"""What an approver is entitled to and permitted: to decide about calls of others. No capability has this name."""

_Effect = Annotated[Effect, Field(strict=False)]
_Sensitivity = Annotated[Sensitivity, Field(strict=False)]
_GOVERNED = (Sensitivity.CONFIDENTIAL, Sensitivity.RESTRICTED)


class Freshness(Strict):
    """``maximum_age_s``: the age in seconds the publisher promises not to exceed.

    ``reuse_s``: how long a stored result may be reused, in seconds from its execution, however often it is
    read. ``class`` is the publisher's name for it, such as ``daily``, by which operators find what is stored.
    ``stale_s``: for how many more seconds it may be answered once more, while it is refreshed, by whose
    policy allows it.
    """

    maximum_age_s: int = Field(ge=1)
    reuse_s: int = Field(default=3_600, ge=1, le=86_400 * 30)
    stale_s: int | None = Field(default=None, ge=1, le=MAX_STALE_S)
    class_: Slug | None = Field(default=None, alias="class")

    @property
    def reuse_class(self) -> str:
        """Stored results of one class may replace one another. The time is part of it: a shorter one finds nothing older."""
        return f"{self.reuse_s}s" if self.class_ is None else f"{self.class_}-{self.reuse_s}s"

    @model_serializer(mode="wrap")
    def _as_written(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {"class" if name == "class_" else name: value for name, value in dump(self).items() if value is not None}


_PRINTABLE = r"^[^\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+$"
_AgentId = Annotated[str, Field(max_length=MAX_ID_BYTES, pattern=_PRINTABLE)]
_Named = Annotated[str, Field(max_length=255, pattern=_PRINTABLE)]


class Source(Strict):
    """Where the data comes from: signed beside every result, so on one line and short."""

    system: _Named
    source: _Named


class Delegation(Strict):
    """What a capability asks of another dataset agent: one capability of one dataset there."""

    agent: _AgentId
    dataset: Slug
    capability: Slug


class DatasetCapability(Strict):
    """One bounded operation. Confidential and restricted ones name the policy that governs them.

    ``requires_review`` marks a capability of which a person must approve each call; without that it does not
    run at all. ``delegates`` is there exactly where the target in use is
    a ``sub_agent_name``: what is then asked of another dataset agent. Such a capability is
    never ``cacheable``: the other agent's policy, revocations and revision are to be asked
    each time, and it has a cache of its own. ``minimum_group`` tells callers that groups of
    too few subjects are left out, and what is rounded. More than ``max_rows`` rows are refused;
    with ``truncate`` the first so many are the result, which says so. ``periods`` lie between
    two parameters each, and are how questions and the root's callers say both at once.
    """

    name: Slug
    description: Text
    effect: _Effect
    sensitivity: _Sensitivity = Sensitivity.INTERNAL
    policy_id: str | None = None
    tool_name: Slug | None = None
    mcp_tool_name: Slug | None = None
    sub_agent_name: Slug | None = None
    preferred: Literal["tool", "mcp", "sub_agent"] | None = None
    freshness_requirement_s: int | None = Field(default=None, ge=1)
    retention_requirement: dict[str, int] | None = None
    requires_review: bool = False
    cacheable: bool = True
    max_rows: int = Field(default=1_000, ge=1, le=10_000_000)
    truncate: bool = False
    keywords: tuple[str, ...] = Field(default=(), strict=False)
    examples: tuple[str, ...] = Field(default=(), strict=False)
    parameters: tuple[Parameter, ...] = Field(default=(), strict=False)
    periods: tuple[Period, ...] = Field(default=(), strict=False)
    results: tuple[ResultColumn, ...] = Field(min_length=1, strict=False)
    delegates: Delegation | None = None
    minimum_group: MinimumGroup | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.name == APPROVE:
            raise ValueError(f"{APPROVE} is what approvers are permitted, and no name of a capability")
        if self.sensitivity in _GOVERNED and not self.policy_id:
            raise ValueError(f"capability {self.name} is {self.sensitivity.value} and must name its policy_id")
        if (self.delegates is not None) != (self.target == "sub_agent"):
            raise ValueError(f"capability {self.name}: sub_agent_name and delegates go together")
        if self.delegates is not None and self.cacheable:
            raise ValueError(f"capability {self.name} asks another agent each time and must say cacheable: false")
        for kind, items in (("parameter", self.parameters), ("result column", self.results)):
            names = [item.name for item in items]
            if len(set(names)) != len(names):
                raise ValueError(f"capability {self.name} names a {kind} twice")
        check_periods(self.name, self.parameters, self.periods)
        return self

    @property
    def target(self) -> str:
        """Which of its targets is in use: ``tool``, ``mcp`` or ``sub_agent``. Raises ``ValueError`` where that is not plain."""
        targets = {"tool": self.tool_name, "mcp": self.mcp_tool_name, "sub_agent": self.sub_agent_name}
        named = [kind for kind, target in targets.items() if target]
        if not named:
            raise ValueError(f"capability {self.name} names no tool_name, mcp_tool_name or sub_agent_name")
        if len(named) > 1 and self.preferred is None:
            raise ValueError(f"capability {self.name} names several targets; mark one as preferred")
        if self.preferred is not None and self.preferred not in named:
            raise ValueError(f"capability {self.name} prefers a target it does not name")
        return self.preferred or named[0]

    def parameter(self, name: str) -> Parameter | None:
        return next((parameter for parameter in self.parameters if parameter.name == name), None)

    def period(self, name: str) -> Period | None:
        return next((period for period in self.periods if period.name == name), None)


class DatasetDescriptor(Strict):
    """What may be known of a dataset by those who may ask it.

    ``as_of`` is when the data was last true (UTC). ``revision`` changes with the data,
    ``schema_version`` with its shape, ``version`` with the publication. With an endpoint ``mcp`` the
    capabilities that have an ``mcp_tool_name`` are tools of an MCP server, too.
    """

    dataset: Slug
    description: Text
    tenant: Slug
    version: Version
    revision: Version
    schema_version: Version
    as_of: datetime = Field(strict=False)
    sensitivity: _Sensitivity = Sensitivity.INTERNAL
    prohibited: tuple[Slug, ...] = Field(default=(), strict=False)
    freshness: Freshness
    retention: dict[str, int] = Field(default_factory=dict)
    provenance: Source
    policies: tuple[str, ...] = Field(default=(), strict=False)
    schemas: tuple[str, ...] = Field(default=(), strict=False)
    quality: dict[str, Annotated[tuple[str, ...], Field(strict=False)]] = Field(default_factory=dict)
    endpoints: dict[str, str] = Field(default_factory=dict)
    capabilities: tuple[DatasetCapability, ...] = Field(min_length=1, strict=False)

    @field_validator("as_of")
    @classmethod
    def _utc(cls, value: datetime) -> datetime:
        if value.tzinfo is None:
            raise ValueError("as_of needs a time zone, for example 2026-08-31T22:00:00Z")
        return value.astimezone(UTC)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        names = [capability.name for capability in self.capabilities]
        if len(set(names)) != len(names):
            raise ValueError(f"dataset {self.dataset} names a capability twice")
        private = [c.name for c in self.capabilities if c.sensitivity is Sensitivity.RESTRICTED]
        if self.freshness.stale_s is not None and private:
            raise ValueError(
                f"dataset {self.dataset} has freshness.stale_s and the restricted capability {private[0]}, of whose"
                " stored results nothing may be told; publish them as two datasets"
            )
        tools = [capability.mcp_tool_name for capability in self.capabilities if capability.mcp_tool_name]
        if len(set(tools)) != len(tools):
            raise ValueError(f"dataset {self.dataset} names an mcp_tool_name twice")
        if self.endpoints.get(MCP_ENDPOINT, mcp_path(self.dataset)) != mcp_path(self.dataset):
            raise ValueError(f"dataset {self.dataset}: the endpoint mcp is {mcp_path(self.dataset)}")
        undeclared = {c.policy_id for c in self.capabilities if c.policy_id} - set(self.policies)
        if undeclared:
            raise ValueError(f"dataset {self.dataset} does not list policy {sorted(undeclared)[0]}; add it to policies")
        return self

    def capability(self, name: str) -> DatasetCapability | None:
        # A loop: this is asked for each decision, where a generator would cost more than the search.
        for capability in self.capabilities:
            if capability.name == name:
                return capability
        return None

    def age_s(self, now: float) -> float:
        """Seconds since ``as_of``; ``now`` is POSIX seconds."""
        return max(0.0, now - self.as_of.timestamp())

    @property
    def is_restricted(self) -> bool:
        """Whether the dataset is left out of public cards."""
        return self.sensitivity is Sensitivity.RESTRICTED

    def to_json(self) -> dict[str, Any]:
        """JSON that ``model_validate`` reads back to an equal value."""
        return self.model_dump(mode="json", exclude_defaults=True)
