"""Changes to ``trust.toml`` by the commands that make, rotate and retire keys."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Iterator
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

    def add_issuer_key(self, url: str, key: PublicKey, *, identity: bool = False) -> None:
        """Publish one more grant key, or ``identity`` key. Raises ``grants.trust.issuer``."""
        held = self._issuer(url)
        before = held.identity_keys if identity else held.keys
        keys = _with(before, key)
        if len(keys) > MAX_KEYS:
            raise _fault("issuer", f"the issuer {url} has {MAX_KEYS} keys already; retire one first")
        self._check_free(key, of=before)
        self._put_issuer(replace(held, identity_keys=keys) if identity else replace(held, keys=keys))

    def remove_issuer_key(self, url: str, kid: str, *, identity: bool = False) -> bool:
        """Whether there was such a key."""
        held = self.trust.issuer(url)
        if held is None:
            return False
        keys = held.identity_keys if identity else held.keys
        kept = tuple(key for key in keys if key.thumbprint != kid)
        self._put_issuer(replace(held, identity_keys=kept) if identity else replace(held, keys=kept))
        return kept != keys

    def enter_agent(
        self,
        agent_id: str,
        url: str,
        key: PublicKey,
        *,
        withdraw: bool,
        datasets: Iterable[str] | None = None,
        asks: bool = True,
    ) -> None:
        """Enter an agent with its key; its address, datasets and whether it asks are kept where it is there.

        A key that is withdrawn joins the retired ones, so that what it signed can still be
        verified; of those the newest ``MAX_KEYS`` are kept. Raises ``grants.trust.conflict``
        where another key is pinned, unless it is to be withdrawn, and where another agent
        serves one of the datasets.
        """
        held = self.trust.agent(agent_id)
        if held is None:
            listed = None if datasets is None else self._free_datasets(datasets)
            self._put_agent(TrustedAgent(agent_id, url, key, datasets=listed, asks=asks))
        elif withdraw:
            before = (*held.retired_keys, *held.further_keys, held.key)
            retired = _newest(old for old in before if old != key)
            self._put_agent(replace(held, key=key, retired_keys=retired, further_keys=()))
        elif key not in held.accepted_keys:
            raise _fault(
                "conflict", f"the trust file pins another key for {agent_id}; replace it with keys init --force"
            )

    def stage_agent_key(self, agent_id: str, key: PublicKey) -> None:
        """Publish an agent's next key beside the present one. Raises ``grants.trust.agent``, ``.conflict``."""
        held = self._agent(agent_id)
        if key in held.accepted_keys:
            return
        if len(held.further_keys) >= MAX_KEYS:
            raise _fault("agent", f"the agent {agent_id} has {MAX_KEYS} further keys already; retire one first")
        self._check_free(key)
        self._put_agent(replace(held, further_keys=(*held.further_keys, key)))

    def switch_agent_key(self, agent_id: str, key: PublicKey) -> None:
        """A published key becomes the present one; the one before is accepted until it is retired."""
        held = self._agent(agent_id)
        if key != held.key:
            further = (*(other for other in held.further_keys if other != key), held.key)
            self._put_agent(replace(held, key=key, further_keys=further))

    def retire_agent_key(self, agent_id: str, kid: str, *, keep: bool) -> bool:
        """Accept a further key no longer; whether there was one.

        ``keep`` leaves it among the retired ones, with which what it signed still verifies.
        """
        held = self.trust.agent(agent_id)
        key = None if held is None else held.accepted_key(kid)
        if held is None or key is None or key == held.key:
            return False
        further = tuple(other for other in held.further_keys if other != key)
        retired = _newest((*held.retired_keys, key)) if keep else held.retired_keys
        self._put_agent(replace(held, further_keys=further, retired_keys=retired))
        return True

    def _issuer(self, url: str) -> TrustedIssuer:
        held = self.trust.issuer(url)
        if held is None:
            raise _fault("issuer", f"the trust file has no issuer {url}; run: dataset-agent keys init")
        return held

    def _agent(self, agent_id: str) -> TrustedAgent:
        held = self.trust.agent(agent_id)
        if held is None:
            raise _fault("agent", f"the trust file has no agent {agent_id}; run: dataset-agent keys init")
        return held

    def _check_free(self, key: PublicKey, *, of: tuple[PublicKey, ...] = ()) -> None:
        """A key has one owner and one use: what it signs must not be taken for another's."""
        issuers, agents = self.trust.issuers.values(), self.trust.agents.values()
        owned = {held for issuer in issuers for held in (*issuer.keys, *issuer.identity_keys)}
        owned |= {held for agent in agents for held in agent.every_key}
        if key in owned and key not in of:
            raise _fault("conflict", f"the key {key.thumbprint} stands in the trust file already; make another one")

    def _free_datasets(self, datasets: Iterable[str]) -> frozenset[str]:
        """A dataset is believed of one agent. Raises ``grants.trust.conflict``."""
        listed = frozenset(datasets)
        for agent in self.trust.agents.values():
            for taken in sorted(listed & (agent.datasets or frozenset())):
                raise _fault("conflict", f"the trust file lists the dataset {taken} for {agent.id} already")
        return listed

    def _put_issuer(self, issuer: TrustedIssuer) -> None:
        self.trust = replace(self.trust, issuers={**self.trust.issuers, issuer.url: issuer})

    def _put_agent(self, agent: TrustedAgent) -> None:
        self.trust = replace(self.trust, agents={**self.trust.agents, agent.id: agent})


def _with(keys: tuple[PublicKey, ...], key: PublicKey) -> tuple[PublicKey, ...]:
    return keys if key in keys else (*keys, key)


def _newest(keys: Iterable[PublicKey]) -> tuple[PublicKey, ...]:
    """Each once, the oldest first, no more than a trust file holds."""
    return tuple(dict.fromkeys(keys))[-MAX_KEYS:]


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


def _fault(code: str, message: str) -> DatasetAgentError:
    return DatasetAgentError(Component.GRANTS, Category.CONFIGURATION, f"grants.trust.{code}", message)
