"""The installed face of the dataset agent.

The code lives in agent folders that are imported by bare name (``grants``, ``cache``, …), as ADK
does it. Importing this package puts the folder that holds them, ``AGENTS_DIR``, on the path: the
repository in a checkout, ``dataset_agent/agents`` in a wheel. The public names below are loaded
on first use.
"""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from contract.errors import DatasetAgentError as DatasetAgentError
    from contract.settings import Settings as Settings
    from contract.verdict import Decision as Decision
    from contract.verdict import NotGranted as NotGranted
    from contract.verdict import Reason as Reason
    from contract.verdict import Verdict as Verdict
    from evidence.dsse import InvalidProvenance as InvalidProvenance
    from evidence.provenance import verify_provenance as verify_provenance
    from evidence.provenance import verify_saved as verify_saved
    from evidence.tree import verify_tree as verify_tree
    from evidence.verify import verify_ledger as verify_ledger
    from grants.trust import load_trust as load_trust

__version__ = "0.1.0"

_HERE: Final = Path(__file__).resolve().parent
_PRIVATE: Final = _HERE / "agents"

AGENTS_DIR: Final = _PRIVATE if _PRIVATE.is_dir() else _HERE.parent
"""The folder that holds the agent folders; ``adk web`` and ``adk run`` take it as it is."""

PACKAGES: Final = (
    "contract",
    "control_plane",
    "grants",
    "queries",
    "cache",
    "evidence",
    "metrics",
    "approvals",
    "telemetry",
    "quota",
    "delegation",
    "root_agent",
    "remote_agent",
)

_PUBLIC: Final = {
    "DatasetAgentError": "contract.errors",
    "Decision": "contract.verdict",
    "InvalidProvenance": "evidence.dsse",
    "NotGranted": "contract.verdict",
    "Reason": "contract.verdict",
    "Settings": "contract.settings",
    "Verdict": "contract.verdict",
    "load_trust": "grants.trust",
    "verify_ledger": "evidence.verify",
    "verify_provenance": "evidence.provenance",
    "verify_saved": "evidence.provenance",
    "verify_tree": "evidence.tree",
}

__all__ = [
    "AGENTS_DIR",
    "DatasetAgentError",
    "Decision",
    "InvalidProvenance",
    "NotGranted",
    "Reason",
    "Settings",
    "Verdict",
    "load_trust",
    "verify_ledger",
    "verify_provenance",
    "verify_saved",
    "verify_tree",
]


def _foreign(name: str) -> str | None:
    """Where a module of this name is, or would be, loaded from if not from ours."""
    module = sys.modules.get(name)
    spec = PathFinder.find_spec(name) if module is None else module.__spec__
    if spec is None:
        return None if module is None else getattr(module, "__file__", None) or "a module made at run time"
    folders = [str(folder) for folder in spec.submodule_search_locations or []]
    if AGENTS_DIR / name in (Path(folder).resolve() for folder in folders):
        return None
    return folders[0] if folders else spec.origin or "a module without a file"


def _open_agents_dir() -> None:
    """Put ``AGENTS_DIR`` on the path, last: nobody else's ``cache`` is taken away from them.

    Raises ``ImportError`` where another module has, or would get, one of our names.
    """
    if str(AGENTS_DIR) not in sys.path:
        sys.path.append(str(AGENTS_DIR))
        importlib.invalidate_caches()
    for name in PACKAGES:
        place = _foreign(name)
        if place is not None:
            raise ImportError(
                f"dataset_agent needs the module name {name!r}, which belongs to {place} here; "
                f"run it in an environment without that module, or rename it",
                name=name,
                path=place,
            )


_open_agents_dir()


if not TYPE_CHECKING:  # a type checker sees the names above, and only those

    def __getattr__(name: str) -> object:
        home = _PUBLIC.get(name)
        if home is None:
            raise AttributeError(f"module 'dataset_agent' has no attribute {name!r}")
        return getattr(importlib.import_module(home), name)
