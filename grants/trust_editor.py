"""Changes to ``trust.toml`` by the commands that make, rotate and retire keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from contract.signing import PublicKey, is_thumbprint
from grants.trust import MAX_KEYS, MAX_REVOKED, Trust, TrustedAgent, TrustedIssuer, read_trust, trust_fault
from grants.trust_file import locked, trust_target, trust_text, write_trust


@contextmanager
def edit_trust(path: Path) -> Iterator[TrustEditor]:
    """Change ``trust.toml``, and private keys with it, under one lock; what would not load is not written.

    Other entries are kept; comments are not, since the file is written anew. Whoever changes
    private keys hands that work to the editor: where anything is refused nothing is done.
    Raises ``grants.trust.*``.
    """
    target = trust_target(path)
    with locked(target):
        there = target.exists()
        editor = TrustEditor(read_trust(target) if there else Trust({}, {}))
        before = editor.trust
        yield editor
        text = trust_text(editor.trust, path) if editor.trust != before or not there else None
        editor.before.do()
        if text is not None:
            write_trust(target, text)
        editor.afterwards.do()


class Works:
    """Work on private files, in the order in which it was handed over."""

    def __init__(self) -> None:
        self._works: list[Callable[[], object]] = []

    def add(self, work: Callable[[], object]) -> None:
        self._works.append(work)

    def do(self) -> None:
        for work in self._works:
            work()


class TrustEditor:
    """The trust file while it is being changed; ``trust`` is what will be written.

    ``before`` is done once the new text is known to load, before it is written: keys are made
    before they are pinned. ``afterwards`` is done when it is: a key is removed when nobody
    accepts it any more.
    """

    def __init__(self, trust: Trust) -> None:
        self.trust = trust
        self.before = Works()
        self.afterwards = Works()

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
        """Enter an issuer, or add its keys to the entry that is there; ``withdraw`` revokes its other keys.

        Raises ``grants.trust.issuer``, ``.conflict`` and ``.revoked``.
        """
        held = self.trust.issuer(url) or TrustedIssuer(url, (), (), tenants, subject_prefix)
        left = replace(held, keys=(), identity_keys=()) if withdraw else held
        self._put_issuer(left)
        self.add_issuer_key(url, key)
        self.add_issuer_key(url, identity_key, identity=True)
        for old in (*held.keys, *held.identity_keys):
            if withdraw and old not in (key, identity_key):
                self.revoke(old.thumbprint)

    def add_issuer_key(self, url: str, key: PublicKey, *, identity: bool = False) -> None:
        """Publish one more grant key, or ``identity`` key. Raises ``grants.trust.issuer``, ``.conflict``, ``.revoked``."""
        held = self._issuer(url)
        before = held.identity_keys if identity else held.keys
        keys = _with(before, key)
        if len(keys) > MAX_KEYS:
            raise trust_fault("issuer", f"the issuer {url} has {MAX_KEYS} keys already; retire one first")
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
        verified; of those the newest ``MAX_KEYS`` are kept. It is revoked too. Raises
        ``grants.trust.conflict`` where another key is pinned, unless it is to be withdrawn,
        and where another agent serves one of the datasets or anybody else has the key; and
        ``grants.trust.revoked``.
        """
        held = self.trust.agent(agent_id)
        self._check_free(key, of=() if held is None else held.every_key)
        if held is None:
            listed = None if datasets is None else self._free_datasets(datasets)
            self._put_agent(TrustedAgent(agent_id, url, key, datasets=listed, asks=asks))
        elif withdraw:
            before = (*held.retired_keys, *held.further_keys, held.key)
            retired = _newest(old for old in before if old != key)
            self._put_agent(replace(held, key=key, retired_keys=retired, further_keys=()))
            for old in held.accepted_keys:
                if old != key:
                    self.revoke(old.thumbprint)
        elif key not in held.accepted_keys:
            raise trust_fault(
                "conflict",
                f"the trust file pins another key for {agent_id}: bring the newest trust.toml here, or replace "
                "the key, and refuse what is under way, with dataset-agent keys init --force",
            )

    def stage_agent_key(self, agent_id: str, key: PublicKey) -> None:
        """Publish an agent's next key beside the present one. Raises ``grants.trust.agent``, ``.conflict``."""
        held = self._agent(agent_id)
        if key in held.accepted_keys and key.thumbprint not in self.trust.revoked_keys:
            return
        if len(held.further_keys) >= MAX_KEYS:
            raise trust_fault("agent", f"the agent {agent_id} has {MAX_KEYS} further keys already; retire one first")
        self._check_free(key)
        self._put_agent(replace(held, further_keys=(*held.further_keys, key)))

    def switch_agent_key(self, agent_id: str, key: PublicKey) -> None:
        """A published key becomes the present one; the one before is accepted until it is retired."""
        self.refuse_revoked(key)
        held = self._agent(agent_id)
        if key != held.key:
            further = (*(other for other in held.further_keys if other != key), held.key)
            self._put_agent(replace(held, key=key, further_keys=further))

    def retire_agent_key(self, agent_id: str, kid: str, *, keep: bool) -> bool:
        """Accept a further key no longer; whether there was one.

        ``keep`` leaves it among the retired ones, with which what it signed still verifies.
        """
        owner = self.trust.agent_key(kid)
        if owner is None:
            return False
        held, key = owner
        if held.id != agent_id or key == held.key:
            return False
        further = tuple(other for other in held.further_keys if other != key)
        retired = _newest((*held.retired_keys, key)) if keep else held.retired_keys
        self._put_agent(replace(held, further_keys=further, retired_keys=retired))
        return True

    def revoke(self, kid: str) -> None:
        """Nothing is believed by this key again, whoever pins or publishes it.

        Raises ``grants.trust.kid`` for what is no thumbprint, ``grants.trust.conflict`` where
        the key is still accepted here, and ``grants.trust.revoked`` where the list is full.
        """
        if not is_thumbprint(kid):
            raise trust_fault("kid", "this is no key's thumbprint; dataset-agent keys list shows them")
        accepted = [key for issuer in self.trust.issuers.values() for key in (*issuer.keys, *issuer.identity_keys)]
        accepted += [key for agent in self.trust.agents.values() for key in agent.accepted_keys]
        if any(key.thumbprint == kid for key in accepted):
            raise trust_fault(
                "conflict", f"the trust file accepts the key {kid} for another use or owner; name that one"
            )
        revoked = self.trust.revoked_keys | {kid}
        if len(revoked) > MAX_REVOKED:
            raise trust_fault(
                "revoked", f"revoked_keys has {MAX_REVOKED} keys already; take out those that nobody pins or publishes"
            )
        self.trust = replace(self.trust, revoked_keys=revoked)

    def refuse_revoked(self, key: PublicKey) -> None:
        """Raises ``grants.trust.revoked``."""
        if key.thumbprint in self.trust.revoked_keys:
            raise trust_fault("revoked", f"the trust file revokes the key {key.thumbprint}; make another one")

    def _issuer(self, url: str) -> TrustedIssuer:
        held = self.trust.issuer(url)
        if held is None:
            raise trust_fault("issuer", f"the trust file has no issuer {url}; run: dataset-agent keys init")
        return held

    def _agent(self, agent_id: str) -> TrustedAgent:
        held = self.trust.agent(agent_id)
        if held is None:
            raise trust_fault("agent", f"the trust file has no agent {agent_id}; run: dataset-agent keys init")
        return held

    def _check_free(self, key: PublicKey, *, of: tuple[PublicKey, ...] = ()) -> None:
        """A key has one owner and one use: what it signs must not be taken for another's. None is revoked."""
        self.refuse_revoked(key)
        issuers, agents = self.trust.issuers.values(), self.trust.agents.values()
        owned = {held for issuer in issuers for held in (*issuer.keys, *issuer.identity_keys)}
        owned |= {held for agent in agents for held in agent.every_key}
        if key in owned and key not in of:
            raise trust_fault(
                "conflict", f"the key {key.thumbprint} stands in the trust file already; make another one"
            )

    def _free_datasets(self, datasets: Iterable[str]) -> frozenset[str]:
        """A dataset is believed of one agent. Raises ``grants.trust.conflict``."""
        listed = frozenset(datasets)
        for agent in self.trust.agents.values():
            for taken in sorted(listed & (agent.datasets or frozenset())):
                raise trust_fault("conflict", f"the trust file lists the dataset {taken} for {agent.id} already")
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
