"""Where the approvals of a dataset agent lie: beside its ledger, or on the server of the state store."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from approvals.book import ApprovalBook
from approvals.redis_store import BUDGET_S, RedisApprovals, hash_of
from approvals.seal import Seal
from approvals.sqlite_store import SqliteApprovals
from approvals.store import ApprovalStore
from cache.keys import load_secrets
from contract.errors import Category, Component, DatasetAgentError
from contract.settings import Settings
from grants.state_server import StateServer

APPROVALS_FILE: Final = "approvals.sqlite"


def open_approvals(settings: Settings) -> ApprovalBook:
    """The agent's approvals, for whoever has its secrets. Nothing is read yet.

    Raises ``DatasetAgentError``: a state URL that cannot be used, secrets that cannot be read.
    """
    return ApprovalBook(_store(settings), approval_seal(settings), settings.approval_ttl)


def approval_seal(settings: Settings) -> Seal:
    """Under keys of their own, of the secrets that this agent alone has (``cache.keys.load_secrets``)."""
    return Seal(settings.agent_id, _keys(load_secrets(settings)))


def approvals_file(settings: Settings) -> Path:
    """Where they lie without a state server; there once one was asked for."""
    return settings.home / "remote" / APPROVALS_FILE


def _keys(secrets: Sequence[bytes]) -> list[bytes]:
    return [hmac.digest(secret, b"dataset-agent/approval/1", hashlib.sha256) for secret in secrets]


def _store(settings: Settings) -> ApprovalStore:
    if settings.state_url is None:
        return SqliteApprovals(approvals_file(settings))
    try:
        server = StateServer(settings.state_url, key=hash_of(settings.agent_id), waiting=BUDGET_S)
    except ValueError as error:
        raise DatasetAgentError(
            Component.REMOTE_AGENT,
            Category.CONFIGURATION,
            "remote_agent.approvals.url",
            f"DATASET_AGENT_STATE_URL cannot be used: {error}",
        ) from None
    return RedisApprovals(server, settings.agent_id)
