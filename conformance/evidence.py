"""What the two ledgers say of one step: their rows since it began, joined by trace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from evidence.reader import LedgerFile

_TERMINAL: Final = "terminal"
_JOINED: Final = ("policy_version", "dataset", "dataset_version", "revision", "schema_version", "principal_class")


class LedgersDisagree(Exception):
    """Root agent and dataset agent have written down different things of the same request."""


@dataclass
class Evidence:
    """Both ledgers of a home, read as an auditor reads them: from the files."""

    home: Path

    def __post_init__(self) -> None:
        self._ledgers = {side: LedgerFile(self.home / side / "ledger.sqlite") for side in ("root", "remote")}
        self._from = dict.fromkeys(self._ledgers, 0)

    def begin(self) -> None:
        """What is there by now belongs to earlier steps."""
        self._from = {side: _size(ledger) for side, ledger in self._ledgers.items()}

    def rows(self, side: str) -> list[Mapping[str, Any]]:
        """The terminal rows of one side since the step began."""
        found = self._ledgers[side].rows(start=self._from[side])
        return [entry.cells for entry in found if entry.cells["kind"] == _TERMINAL]

    def runs(self) -> int:
        """Rows of the dataset agent that say that its engine ran for them and came to an end."""
        return sum(_ran(row) for row in self.rows("remote"))

    def records(self) -> list[dict[str, Any]]:
        """One record for each request: the root agent's row, which the dataset agent's rows of its trace bear out.

        Raises ``LedgersDisagree`` where those say otherwise. A grant's trace without any row of the
        dataset agent is no complete record and is left out.
        """
        remote = self.rows("remote")
        found: list[dict[str, Any]] = []
        for row in self.rows("root"):
            same = [other for other in remote if other["trace_id"] == row["trace_id"]]
            if row["leaf_jti"] is not None and not same:
                continue
            _check(row, same)
            found.append(record(row))
        return found


def record(row: Mapping[str, Any]) -> dict[str, Any]:
    """A ledger's row under the names the kit has for its members."""
    return {
        "trace_id": row["trace_id"],
        "request_id": row["request_id"],
        "principal_class": row["principal_class"],
        "decision": row["verdict"],
        "reason": row["reason"],
        "policy_id": row["policy_id"],
        "policy_version": row["policy_version"],
        "capability": row["capability"],
        "dataset_id": row["dataset"],
        "dataset_version": row["dataset_version"],
        "dataset_revision": row["revision"],
        "schema_version": row["schema_version"],
        "recorded_at": row["recorded_at"],
    }


def _check(row: Mapping[str, Any], same: Sequence[Mapping[str, Any]]) -> None:
    """The last word of the dataset agent, where both of them granted."""
    if row["verdict"] != "GRANTED" or not same:
        return
    last = same[-1]
    apart = [name for name in ("verdict", *_JOINED) if last[name] != row[name]]
    if apart:
        raise LedgersDisagree(f"the ledgers differ in {', '.join(apart)}")


def _ran(row: Mapping[str, Any]) -> bool:
    return row["execution_id"] is not None and row["cache"] in ("MISS", "WITHHELD", "OFF")


def _size(ledger: LedgerFile) -> int:
    return ledger.checkpoint().size
