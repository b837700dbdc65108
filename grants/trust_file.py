"""How ``trust.toml`` is written: by one at a time, whole or not at all, and only what loads."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from contract.canonical import b64url
from contract.errors import DatasetAgentError
from grants.trust import Trust, parse_trust, trust_fault


def trust_target(path: Path) -> Path:
    """The file itself, where ``path`` is a link to it: a link is written through, never replaced.

    Raises ``grants.trust.unwritable`` where it leads nowhere.
    """
    try:
        target = path.resolve()
    except (OSError, RuntimeError) as error:
        raise trust_fault("unwritable", f"{path} is a link that leads nowhere; mend it") from error
    if path.is_symlink() and not target.parent.is_dir():
        raise trust_fault("unwritable", f"{path} is a link to {target}, whose folder is not there; mend it")
    return target


@contextmanager
def locked(target: Path) -> Iterator[None]:
    """The lock of whoever changes a trust file, or the private keys whose public halves it pins.

    Raises ``grants.trust.unwritable``.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = target.with_name(target.name + ".lock").open("a")
    except OSError as error:
        raise _unwritable(target, error) from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def trust_text(trust: Trust, path: Path) -> str:
    """The text of the file, which was seen to load as exactly ``trust``. Raises ``grants.trust.refused``."""
    text = _toml(trust)
    try:
        read = parse_trust(text.encode(), path)
    except DatasetAgentError as error:
        raise trust_fault(
            "refused", f"nothing was changed, because it would not load afterwards: {error.message}"
        ) from error
    if read != trust:
        raise trust_fault(
            "refused", f"nothing was changed: {path} would say something else afterwards; edit it by hand"
        )
    return text


def write_trust(target: Path, text: str) -> None:
    """Replace the file in one step. Raises ``grants.trust.unwritable``."""
    fresh = target.with_name(target.name + ".new")
    try:
        with fresh.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        fresh.chmod(0o644)
        os.replace(fresh, target)
    except OSError as error:
        raise _unwritable(target, error) from error


def _unwritable(target: Path, error: OSError) -> DatasetAgentError:
    return trust_fault(
        "unwritable",
        f"{target} cannot be written: {error.strerror}; run this where the file is, as its owner, or correct DATASET_AGENT_HOME",
    )


def _toml(trust: Trust) -> str:
    lines = ["# Public. Pins who may admit (issuer) and who may ask and answer (agent)."]
    if trust.policy_versions is not None:
        lines.append(f"policy_versions = {_texts(sorted(trust.policy_versions))}")
    if trust.revoked_keys:
        lines.append(f"revoked_keys = {_texts(sorted(trust.revoked_keys))}")
    for issuer in trust.issuers.values():
        lines += [
            "",
            "[[issuer]]",
            f"url = {_text(issuer.url)}",
            f"keys = {_texts([b64url(key.raw) for key in issuer.keys])}",
            f"identity_keys = {_texts([b64url(key.raw) for key in issuer.identity_keys])}",
            f"tenants = {_texts(sorted(issuer.tenants))}",
            f"subject_prefix = {_text(issuer.subject_prefix)}",
        ]
        if issuer.jwks_url is not None:
            lines.append(f"jwks_url = {_text(issuer.jwks_url)}")
    for agent in trust.agents.values():
        key = b64url(agent.key.raw)
        lines += ["", "[[agent]]", f"id = {_text(agent.id)}", f"url = {_text(agent.url)}", f"key = {_text(key)}"]
        if agent.further_keys:
            lines.append(f"keys = {_texts([b64url(further.raw) for further in agent.further_keys])}")
        if agent.retired_keys:
            lines.append(f"retired_keys = {_texts([b64url(old.raw) for old in agent.retired_keys])}")
        if agent.datasets is not None:
            lines.append(f"datasets = {_texts(sorted(agent.datasets))}")
        if not agent.asks:
            lines.append("asks = false")
    return "\n".join(lines) + "\n"


def _text(value: str) -> str:
    # a JSON string is a TOML basic string, but for DEL, which no identifier holds
    return json.dumps(value, ensure_ascii=False)


def _texts(values: list[str]) -> str:
    return "[" + ", ".join(_text(value) for value in values) + "]"
