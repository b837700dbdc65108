"""What a verified card offers, and what could not be had or is not believed."""

from __future__ import annotations

from dataclasses import dataclass

from contract.verdict import Decision
from control_plane.descriptor import DatasetDescriptor
from control_plane.registry import InvalidDataset


@dataclass(frozen=True, slots=True)
class Offer:
    """A dataset on a verified card. ``public`` is what the agent's public card shows of it.

    ``direct`` is false where the agent did not hand its extended card to who reads it here:
    then only another agent can ask it, of a capability that ``delegates`` to it.
    """

    agent_id: str
    agent_url: str
    agent_name: str
    descriptor: DatasetDescriptor | InvalidDataset
    public: DatasetDescriptor | InvalidDataset | None = None
    direct: bool = True

    @property
    def dataset(self) -> str:
        return self.descriptor.dataset


@dataclass(frozen=True, slots=True)
class Unavailable:
    """An agent whose card could not be had, or some of whose offers are not believed, and why, as an outcome.

    ``datasets`` are those it concerns, ``None`` any.
    """

    agent_id: str
    decision: Decision
    datasets: frozenset[str] | None = None

    def concerns(self, dataset: str) -> bool:
        """Whether this is why the dataset cannot be had from the agent."""
        return self.datasets is None or dataset in self.datasets
