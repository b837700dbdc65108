"""What an engine on BigQuery is told: where its jobs run, as whom, and what they may cost."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from contract.verdict import NotGranted, Reason

_LABEL_LENGTH: Final = 63
_DIGEST_LENGTH: Final = 16
_NOT_OF_A_LABEL: Final = re.compile(r"[^a-z0-9_-]")


@dataclass(frozen=True, slots=True)
class Budget:
    """``maximum_bytes_billed`` bounds one query; with ``estimate`` it is estimated before it runs."""

    maximum_bytes_billed: int
    estimate: bool = False


@dataclass(frozen=True, slots=True)
class Emulator:
    """An emulator on this machine, which takes no credentials: a REST address, and ``host:port`` of its gRPC side."""

    rest: str
    storage: str | None = None


@dataclass(frozen=True, slots=True)
class BigQueryOptions:
    """Options of one dataset; see ``control_plane.descriptor.BigQuery``.

    ``capabilities`` has the budgets that differ from ``budget``, ``accounts`` the service
    account of each principal class: without any, jobs run as the agent's own account.
    """

    project: str
    location: str
    budget: Budget
    capabilities: Mapping[str, Budget] = field(default_factory=dict)
    accounts: Mapping[str, str] = field(default_factory=dict)
    storage_read: int = 20_000
    emulator: Emulator | None = None

    def budget_of(self, capability: str) -> Budget:
        return self.capabilities.get(capability, self.budget)

    def account_of(self, principal_class: str) -> str | None:
        """The service account that a query of this class runs as, ``None`` for the agent's own.

        Raises ``NotGranted(INSUFFICIENT_PRIVILEGE)`` where accounts are named and the class has none.
        """
        if not self.accounts:
            return None
        account = self.accounts.get(principal_class)
        if account is None:
            raise NotGranted(Reason.INSUFFICIENT_PRIVILEGE, "the dataset has no account for the principal's class")
        return account


def label(text: str) -> str:
    """``text`` in the alphabet of BigQuery's labels: lower-case letters, digits, ``_`` and ``-``, at most 63.

    Where that changes it, a part of its SHA-256 is added, so that two ids stay two labels.
    """
    plain = _NOT_OF_A_LABEL.sub("-", text)
    if plain == text and len(text) <= _LABEL_LENGTH:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_LENGTH]
    return f"{_NOT_OF_A_LABEL.sub('-', text.lower())[: _LABEL_LENGTH - _DIGEST_LENGTH - 1]}-{digest}"
