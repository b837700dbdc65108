"""What a revocation may mean here: the names that the trust file, the datasets and the principals know."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Final

from contract.errors import DatasetAgentError
from contract.settings import Settings
from control_plane.policy import load_policies
from control_plane.principals import load_directory
from control_plane.registry import load_registry
from grants.state import RevocationKind
from grants.trust import load_trust

_WHERE: Final = {
    RevocationKind.SUBJECT: "principals.yaml",
    RevocationKind.POLICY: "the policies",
    RevocationKind.DATASET: "the datasets folder",
    RevocationKind.HOLDER: "trust.toml",
    RevocationKind.KEY: "trust.toml",
}


def doubt(settings: Settings, kind: RevocationKind, value: str) -> str | None:
    """Why a value may be misspelt: it names nothing here, or has blanks around it. It may be right all the same."""
    if value != value.strip():
        return "the value begins or ends with a blank: only what is spelt so is revoked"
    try:
        names = _names(settings, kind)
    except DatasetAgentError:  # what is broken here says nothing about the value
        return None
    if names is None or value in names:
        return None
    folded = {name.casefold(): name for name in sorted(names)}
    close = get_close_matches(value.casefold(), folded, n=1)
    meant = f"; did you mean {folded[close[0]]}?" if close else ""
    return f"nothing in {_WHERE[kind]} here is named so: it is revoked as it is spelt{meant}"


def _names(settings: Settings, kind: RevocationKind) -> set[str] | None:
    """``None`` where nobody here can know."""
    if kind is RevocationKind.SUBJECT:
        return {subject for _, subject in load_directory(settings.datasets / "principals.yaml").by_identity}
    if kind is RevocationKind.DATASET:
        datasets = load_registry(settings.datasets).datasets
        return {f"{name}@{manifest.version}" for name, manifest in datasets.items()}
    if kind is RevocationKind.POLICY:
        policies = load_policies(settings.datasets / "policies")
        return {f"{name}@{policies.version}" for name in policies.policies}
    if kind is RevocationKind.HOLDER:
        agents = load_trust(settings.trust_path).agents.values()
        return {key.thumbprint for agent in agents for key in agent.every_key}
    if kind is RevocationKind.KEY:
        issuers = load_trust(settings.trust_path).issuers.values()
        if any(issuer.jwks_url for issuer in issuers):
            return None
        return {key.thumbprint for issuer in issuers for key in issuer.keys}
    return None
