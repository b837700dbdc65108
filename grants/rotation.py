"""Changing a key without refusing anybody: publish the next one, sign with it, retire the one before.

    stage -> (everybody reads the new trust file) -> switch -> (what was signed before ends) -> retire

Between stage and retire both keys are accepted everywhere, so no step has to happen at two
places at once. All steps run under the lock of the trust file, private keys are touched only
when the new trust file is known to load, and each step may be repeated after a crash and goes
on from what it finds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from contract.errors import Category
from contract.published import LIFE
from contract.settings import Settings
from contract.signing import PublicKey
from grants.claims import MAX_ROOT_LIFE, SKEW
from grants.key_files import FileSigner, key_fault, make_store
from grants.key_store import KeyName, KeyStore
from grants.signers import outside_setting, outside_signer
from grants.trust import Trust
from grants.trust_editor import TrustEditor, edit_trust

AHEAD: Final = int(LIFE)
"""Seconds for which a key is published before it signs: the life of a key set that somebody may have read."""
MAX_IDENTITY_LIFE: Final = 86_400
RETIRE_AFTER: Final = {
    KeyName.ISSUER: MAX_ROOT_LIFE + SKEW,
    KeyName.IDENTITY: MAX_IDENTITY_LIFE + SKEW,
    KeyName.ROOT: MAX_ROOT_LIFE + SKEW,
    KeyName.REMOTE: MAX_ROOT_LIFE + SKEW,
}
"""Seconds after which nothing that a replaced key signed, and no grant that names it, is alive."""


def stage(settings: Settings, name: KeyName, *, now: float) -> PublicKey:
    """Publish the next key beside the present one; make it where it is to be a file. Safe to repeat.

    Raises ``grants.keys.*`` and ``grants.trust.*``; ``grants.keys.in_use`` where the
    environment gives the key that signs already, and not the next one.
    """
    with edit_trust(settings.trust_path) as trust:
        return _Role(settings, name, trust).publish_next(now)


def switch(settings: Settings, name: KeyName, *, now: float, at_once: bool = False) -> PublicKey:
    """Sign with the staged key from now on; the one before stays accepted until it is retired.

    ``at_once`` stages it too where that was not done, and does not wait until everybody can
    know it. Raises ``grants.keys.not_staged``, ``grants.keys.too_early`` and as ``stage``.
    """
    with edit_trust(settings.trust_path) as trust:
        role = _Role(settings, name, trust)
        key = role.staged()
        if key is None and at_once:
            key = role.publish_next(now)
        if key is None:
            raise key_fault(
                "not_staged", f"no {name} key is staged; run: dataset-agent keys rotate --role {name} --stage"
            )
        if not at_once:
            _check_published(role.store.dates(key.thumbprint).published_at, now)
        role.sign_with(key, now)
        return key


def retire(settings: Settings, name: KeyName, kid: str, *, now: float, force: bool = False) -> None:
    """Accept a replaced key no longer, or take a staged one back; its private half is removed.

    An agent's key stays among its ``retired_keys``, for the ledger and the answers it signed.
    Raises ``grants.keys.in_use`` for the key that signs, ``grants.keys.unknown``, and
    ``grants.keys.too_early`` while something that it signed may be alive. ``force`` is for a
    key that somebody else may have: it does not wait, and revokes the key, pinned here or not.
    """
    with edit_trust(settings.trust_path) as trust:
        role = _Role(settings, name, trust)
        if kid in role.signing():
            raise key_fault(
                "in_use", f"this key signs now; run: dataset-agent keys rotate --role {name}, then retire it"
            )
        accepted = any(key.thumbprint == kid for key in accepted_keys(settings, name, trust.trust))
        if not (accepted or force or kid in role.store.kids()):
            message = f"{settings.trust_path} accepts no {name} key {kid[:64]!r}; dataset-agent keys list has them"
            raise key_fault("unknown", message, Category.NOT_FOUND)
        staged = role.staged()
        never_signed = staged is not None and staged.thumbprint == kid
        if accepted and not (never_signed or force):
            _check_ended(name, role.store.dates(kid).replaced_at, now)
        role.withdraw(kid, keep=not never_signed)
        if force:
            trust.revoke(kid)


def accepted_keys(settings: Settings, name: KeyName, trust: Trust) -> tuple[PublicKey, ...]:
    """The keys of this role that the trust file accepts."""
    agent_id = agent_of(settings, name)
    if agent_id is not None:
        agent = trust.agent(agent_id)
        return () if agent is None else agent.accepted_keys
    issuer = trust.issuer(settings.issuer_url)
    if issuer is None:
        return ()
    return issuer.identity_keys if name is KeyName.IDENTITY else issuer.keys


def agent_of(settings: Settings, name: KeyName) -> str | None:
    """The agent whose key it is; ``None`` for a key of the issuer."""
    return {KeyName.ROOT: settings.root_id, KeyName.REMOTE: settings.agent_id}.get(name)


def _check_published(published: int | None, now: float) -> None:
    if published is None or now < published + AHEAD:
        left = "it is not known since when" if published is None else f"{published + AHEAD - now:.0f} s left"
        raise key_fault(
            "too_early", f"a key is published {AHEAD} s before it signs ({left}): wait, or add --now and risk refusals"
        )


def _check_ended(name: KeyName, replaced: int | None, now: float) -> None:
    wait = RETIRE_AFTER[name]
    if replaced is None or now < replaced + wait:
        left = "it is not known when it was" if replaced is None else f"{replaced + wait - now:.0f} s left"
        raise key_fault(
            "too_early",
            f"this key is retired {wait} s after it was replaced ({left}): wait, or add --force, and what it signed "
            "is refused",
        )


@dataclass(frozen=True, slots=True)
class _Role:
    """One key, its files, and the trust file while it is being changed."""

    settings: Settings
    name: KeyName
    trust: TrustEditor

    @property
    def store(self) -> KeyStore:
        return KeyStore.of(self.settings, self.name)

    def signing(self) -> frozenset[str]:
        """Kids that sign, or that everybody is told do."""
        pinned = self._pinned()
        found = [self._present_file() or self._outside_of_issuer(), pinned]
        return frozenset(key.thumbprint for key in found if key is not None)

    def staged(self) -> PublicKey | None:
        """The next key: a file, or what the environment gives, or one whose switch was not finished."""
        if self.store.staged.exists():
            return FileSigner.load(self.store.staged).public_key
        outside = outside_signer(self.settings, self.name)
        candidate = self._present_file() if outside is None else outside.public_key
        if candidate is None or candidate not in self._accepted() or candidate == self._pinned():
            return None
        # an agent's pin says that it is unfinished; of the issuer's keys none is the first
        unfinished = (
            agent_of(self.settings, self.name) is not None
            or self.store.dates(candidate.thumbprint).switching_at is not None
        )
        return candidate if outside is not None or unfinished else None

    def publish_next(self, now: float) -> PublicKey:
        key, made = self._next()
        known = key in self._accepted()
        agent_id = agent_of(self.settings, self.name)
        if agent_id is None:
            self.trust.add_issuer_key(self.settings.issuer_url, key, identity=self.name is KeyName.IDENTITY)
        else:
            self.trust.stage_agent_key(agent_id, key)
        self.trust.before.add(lambda: self._keep_next(key, made, known, now))
        return key

    def _next(self) -> tuple[PublicKey, FileSigner | None]:
        """The next key, and its private half where it is made here and now."""
        outside, store = outside_signer(self.settings, self.name), self.store
        if outside is not None:
            if outside.public_key == self._pinned():
                setting = outside_setting(self.settings, self.name)
                raise key_fault("in_use", f"{setting} holds the key that signs now; set the next one")
            return outside.public_key, None
        if store.staged.exists():
            key = FileSigner.load(store.staged).public_key
            if key.thumbprint not in self.trust.trust.revoked_keys:
                return key, None
        make_store(store.folder)
        made = FileSigner.new()
        return made.public_key, made

    def _keep_next(self, key: PublicKey, made: FileSigner | None, known: bool, now: float) -> None:
        """``known``: it is published already. One that was taken back meanwhile is published anew, from now on."""
        store, kid = self.store, key.thumbprint
        if made is not None:
            made.store(store.staged)
            store.note(kid, created_at=int(now))
        if not known or store.dates(kid).published_at is None:
            store.note(kid, published_at=int(now), replaced_at=None, switching_at=None)

    def sign_with(self, key: PublicKey, now: float) -> None:
        """``key`` signs from now on; every other one that is accepted was replaced."""
        self.trust.refuse_revoked(key)
        agent_id, signed = agent_of(self.settings, self.name), self.signing() - {key.thumbprint}
        if agent_id is not None:
            self.trust.switch_agent_key(agent_id, key)
        replaced = [other.thumbprint for other in self._accepted() if other != key]
        self.trust.before.add(lambda: self._swap(key.thumbprint, replaced, signed, now))

    def _swap(self, kid: str, replaced: list[str], signed: frozenset[str], now: float) -> None:
        """What was replaced is written down first: after a crash nothing else would know."""
        store = self.store
        store.note(kid, replaced_at=None, switching_at=int(now))
        for other in replaced:
            if other in signed or store.dates(other).replaced_at is None:
                store.note(other, replaced_at=int(now))
        if store.staged.exists():
            store.switch()
        elif outside_setting(self.settings, self.name) is not None and store.current.exists():
            store.set_aside()
            store.current.unlink()
        store.note(kid, switching_at=None)

    def withdraw(self, kid: str, *, keep: bool) -> None:
        agent_id, store = agent_of(self.settings, self.name), self.store
        if agent_id is None:
            self.trust.remove_issuer_key(self.settings.issuer_url, kid, identity=self.name is KeyName.IDENTITY)
        else:
            self.trust.retire_agent_key(agent_id, kid, keep=keep)
        if not keep:
            self.trust.afterwards.add(lambda: store.staged.unlink(missing_ok=True))
        self.trust.afterwards.add(lambda: store.replaced_file(kid).unlink(missing_ok=True))

    def _accepted(self) -> tuple[PublicKey, ...]:
        return accepted_keys(self.settings, self.name, self.trust.trust)

    def _pinned(self) -> PublicKey | None:
        """The key that an agent is said to sign with; the issuer's keys have no order."""
        agent = self.trust.trust.agent(agent_of(self.settings, self.name) or "")
        return None if agent is None else agent.key

    def _present_file(self) -> PublicKey | None:
        current = self.store.current
        return FileSigner.load(current).public_key if current.exists() else None

    def _outside_of_issuer(self) -> PublicKey | None:
        """Without a file of its own the issuer signs with what the environment gives."""
        if agent_of(self.settings, self.name) is not None:
            return None
        outside = outside_signer(self.settings, self.name)
        return None if outside is None else outside.public_key
