"""What ``doctor`` says of the ledgers: whether each can be continued. ``evidence verify`` reads every row."""

from __future__ import annotations

from collections.abc import Iterator

from contract.errors import Category, DatasetAgentError
from contract.settings import Settings
from dataset_agent.evidence_options import Side, agent_of, ledger_keys, ledger_path
from dataset_agent.finding import Finding, check
from evidence.opening import server_stores
from evidence.reader import LedgerFile, reading, stranger


def check_ledgers(settings: Settings) -> Iterator[Finding]:
    """Those that are there, in files or on a server; nothing is made."""
    if not settings.trust_path.exists():
        return
    for side in Side:
        if settings.ledger_url is not None:
            yield _on_server(settings, settings.ledger_url.get_secret_value(), side)
            continue
        file = LedgerFile(ledger_path(settings, side))
        if file.path.exists():
            yield check(
                f"{side} ledger",
                lambda file=file, side=side: file.trusted_checkpoint(ledger_keys(settings, side)),  # type: ignore[misc]
            )


def _on_server(settings: Settings, url: str, side: Side) -> Finding:
    name = f"{side} ledger"
    absent = False

    def probe() -> None:
        nonlocal absent
        try:
            store, _ = server_stores(url, agent_of(settings, side))
            with reading(store) as opened:
                newest = opened.head().checkpoint
        except DatasetAgentError as fault:
            absent = fault.category is Category.NOT_FOUND
            raise
        keys = ledger_keys(settings, side)
        if not newest.verifies(keys):
            raise stranger(store.name, keys)

    found = check(name, probe)
    return Finding(name, "absent", "its agent makes it on the server when it starts") if absent else found
