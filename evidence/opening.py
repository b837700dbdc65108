"""The ledger of an agent, where its settings say that it lies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from contract.errors import Category, Component, DatasetAgentError
from contract.settings import Settings
from contract.signing import PublicKey, Signer
from evidence.ledger import Ledger
from evidence.store import LedgerStore, SubjectStore

LEDGER_FILE: Final = "ledger.sqlite"
SUBJECTS_FILE: Final = "subjects.sqlite"


def open_own(
    settings: Settings, agent_id: str, folder: Path, signer: Signer, *, now: float, retired: Sequence[PublicKey]
) -> Ledger:
    """In two files of ``folder``, or in the agent's schema of the server of ``DATASET_AGENT_LEDGER_URL``.

    Raises as ``Ledger.on``, and ``evidence.ledger.url`` for a server that cannot be used.
    """
    if settings.ledger_url is None:
        subjects = folder / SUBJECTS_FILE
        return Ledger.open(folder / LEDGER_FILE, signer, subject_key_path=subjects, now=now, retired=retired)
    store, keys = server_stores(settings.ledger_url.get_secret_value(), agent_id)
    return Ledger.on(store, keys, signer, now=now, retired=retired)


def server_stores(url: str, agent_id: str) -> tuple[LedgerStore, Callable[[], SubjectStore]]:
    """An agent's places on a PostgreSQL server; nothing is asked of it yet. Raises ``evidence.ledger.url``."""
    try:
        from evidence.postgres_place import schema_of
        from evidence.postgres_store import PostgresStore
        from evidence.postgres_subjects import PostgresSubjects
    except ImportError as error:
        raise _fault("a ledger in PostgreSQL needs: pip install 'dataset-agent[postgresql]'") from error
    schema = schema_of(agent_id)
    try:
        store = PostgresStore(url, schema)
    except ValueError as error:
        raise _fault(f"DATASET_AGENT_LEDGER_URL cannot be used: {error}") from None
    return store, lambda: PostgresSubjects(url, schema)


def _fault(message: str) -> DatasetAgentError:
    return DatasetAgentError(Component.EVIDENCE, Category.CONFIGURATION, "evidence.ledger.url", message)
