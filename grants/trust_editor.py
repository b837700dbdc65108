"""Changes to ``trust.toml`` by the commands that make, rotate and retire keys."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from contract.canonical import b64url
from contract.errors import Category, Component, DatasetAgentError
from contract.signing import PublicKey
from grants.trust import MAX_KEYS, Trust, TrustedAgent, TrustedIssuer, load_trust


@contextmanager
def edit_trust(path: Path) -> Iterator[TrustEditor]:
    """Change ``trust.toml`` under a lock; written whole or not at all.

    Other entries are kept; comments are not, since the file is written anew.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with path.with_name(path.name + ".lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        editor = TrustEditor(load_trust(path) if path.exists() else Trust({}, {}))
        before = editor.trust
        yield editor
        if editor.trust != before or not path.exists():
            _write(path, editor.trust)


class TrustEditor:
    """The trust file while it is being changed; ``trust`` is what will be written."""

    def __init__(self, trust: Trust) -> None:
        self.trust = trust

    def enter_issuer(
        self,
        url: str,
        *,
        key: PublicKey,
        identity_key: PublicKey,
        tenants: frozenset[str],
        subject_prefix: str,
        withdraw: bool,
    ) -> None:
        """Enter an issuer, or add its keys to the entry that is there; ``withdraw`` drops its old keys."""
        held = self.trust.issuer(url)
        if held is None:
            self._put_issuer(TrustedIssuer(url, (key,), (identity_key,), tenants, subject_prefix))
            return
        keys = () if withdraw else held.keys
        identity_keys = () if withdraw else held.identity_keys
        self._put_issuer(replace(held, keys=_with(keys, key), identity_keys=_with(identity_keys, identity_key)))

    def add_issuer_key(self, url: str, key: PublicKey) -> None:
        held = self.trust.issuer(url)
        if held is None:
            raise _fault("issuer", f"the trust file has no issuer {url}; run: dataset-agent keys init")
        if len(_with(held.keys, key)) > MAX_KEYS:
            raise _fault("issuer", f"the issuer {url} has {MAX_KEYS} keys already; retire one first")
        self._put_issuer(replace(held, keys=_with(held.keys, key)))

    def remove_issuer_key(self, url: str, kid: str) -> bool:
        """Whether there was such a key."""
        held = self.trust.issuer(url)
        if held is None or all(key.thumbprint != kid for key in held.keys):
            return False
        self._put_issuer(replace(held, keys=tuple(key for key in held.keys if key.thumbprint != kid)))
        return True

    def enter_agent(self, agent_id: str, url: str, key: PublicKey, *, withdraw: bool) -> None:
        """Enter an agent with its key; its address is kept where it has one.

        A key that is withdrawn joins the retired ones, so that what it signed can still be
        verified; of those the newest ``MAX_KEYS`` are kept. Raises ``grants.trust.conflict``
        where another key is pinned, unless it is to be withdrawn.
        """
        held = self.trust.agent(agent_id)
        if held is not None and held.key != key and not withdraw:
            raise _fault(
                "conflict", f"the trust file pins another key for {agent_id}; replace it with keys init --force"
            )
        agent = TrustedAgent(agent_id, url, key)
        if held is not None:
            before = held.retired_keys if held.key == key else _with(held.retired_keys, held.key)
            retired = tuple(old for old in before if old != key)[-MAX_KEYS:]
            agent = replace(agent, url=held.url, retired_keys=retired)
        self.trust = replace(self.trust, agents={**self.trust.agents, agent_id: agent})

    def _put_issuer(self, issuer: TrustedIssuer) -> None:
        self.trust = replace(self.trust, issuers={**self.trust.issuers, issuer.url: issuer})


def _with(keys: tuple[PublicKey, ...], key: PublicKey) -> tuple[PublicKey, ...]:
    return keys if key in keys else (*keys, key)


def _write(path: Path, trust: Trust) -> None:
    fresh = path.with_name(path.name + ".new")
    with fresh.open("w", encoding="utf-8") as file:
        file.write(_toml(trust))
        file.flush()
        os.fsync(file.fileno())
    fresh.chmod(0o644)
    os.replace(fresh, path)


def _toml(trust: Trust) -> str:
    lines = ["# Public. Pins who may admit (issuer) and who may ask and answer (agent)."]
    if trust.policy_versions is not None:
        lines.append(f"policy_versions = {_texts(sorted(trust.policy_versions))}")
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
        if agent.retired_keys:
            lines.append(f"retired_keys = {_texts([b64url(old.raw) for old in agent.retired_keys])}")
    return "\n".join(lines) + "\n"


def _text(value: str) -> str:
    # a JSON string is a TOML basic string, but for DEL, which no identifier holds
    return json.dumps(value, ensure_ascii=False)


def _texts(values: list[str]) -> str:
    return "[" + ", ".join(_text(value) for value in values) + "]"


def _fault(code: str, message: str) -> DatasetAgentError:
    return DatasetAgentError(Component.GRANTS, Category.CONFIGURATION, f"grants.trust.{code}", message)
