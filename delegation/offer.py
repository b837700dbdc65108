"""What a verified card offers, and an agent whose card could not be had."""

from __future__ import annotations

from dataclasses import dataclass

from contract.verdict import Decision
from control_plane.descriptor import DatasetDescriptor
from control_plane.registry import InvalidDataset


@dataclass(frozen=True, slots=True)
class Offer:
    """A dataset on a verified card. ``public`` is what the agent's public card shows of it.

    ``direct`` is false where the agent does not know who reads its card: then only another
    agent can ask it, of a capability that ``delegates`` to it.
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
    """An agent whose card could not be had, and why, as an outcome."""

    agent_id: str
    decision: Decision
