"""Attacks that only memory can refuse, each with what it does to the agent while it lasts."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Final

from contract.verdict import Reason
from grants.state import STATE_FILE, RevocationKind
from tests.attacks.attack_edits import put
from tests.attacks.attack_world import DATASET, DOORS, ELSEWHERE, STRANGER, Attempt, Door, Scene, Target
from tests.grants.grants_world import claims_of, forge
from tests.grants.state_worlds import SqliteWorld

Staging = Callable[[Target, Door], AbstractContextManager[Attempt]]


@dataclass(frozen=True)
class Remembered:
    """``stage`` yields what is sent while it lasts; its ``honest`` grant must work once it is over."""

    family: str
    case: str
    stage: Staging
    reason: Reason

    def __str__(self) -> str:
        return f"{self.family}: {self.case}"


def _used(scene: Scene, door: Door) -> None:
    reply = scene.target.post(door, scene.call, (scene.honest,), client=scene.target.root_id)
    assert reply.state == "TASK_STATE_COMPLETED"


def replayed(change: Callable[[Scene], str], *, elsewhere: bool = False) -> Staging:
    """A grant that was used, and then another text of it; ``elsewhere``: first used through the other binding."""

    @contextmanager
    def stage(target: Target, door: Door) -> Iterator[Attempt]:
        scene = Scene(target, door)
        others = [other for other in DOORS if other.method == door.method and other is not door]
        _used(scene, others[0] if elsewhere else door)
        yield scene.attempt(change(scene), honest=Scene(target, door).honest)

    return stage


def _signed_again(scene: Scene) -> str:
    """The holder signs other claims under a ``jti`` that was spent."""
    return ",".join(scene.forge.chain(edit_leaf=put(exp=int(scene.now) + 59)))


def _spaced(scene: Scene) -> str:
    """The same claims in another JSON text, signed by the holder."""
    first, leaf = scene.forge.chain()
    text = json.dumps(claims_of(leaf), indent=1).encode()
    return f"{first},{forge(text, scene.forge.leaf_signer, scene.forge.leaf_head)}"


AGE: Final = 25.0
"""Seconds between the signing of a grant and its use; the revocation lies between."""


def revoked(kind: RevocationKind, value: Callable[[Scene], str]) -> Staging:
    """A grant that was signed, then revoked, then used; one signed afterwards works."""

    @contextmanager
    def stage(target: Target, door: Door) -> Iterator[Attempt]:
        target.advance(100)  # past every instant that an earlier case has written
        scene = Scene(target, door, age=AGE)
        state = target.agent.lifecycle.service.state
        target.agent.run(state.revoke(kind, value(scene), not_before=target.now() - AGE / 2))
        yield scene.attempt(scene.honest, honest=Scene(target, door).honest)

    return stage


def _policy(scene: Scene) -> str:
    """The policy that the agent itself grants such a call by."""
    target = scene.target
    _used(Scene(target, scene.door), scene.door)
    row = target.row(target.rows() - 1)
    return f"{row['policy_id']}@{row['policy_version']}"


def _version(dataset: str) -> Callable[[Scene], str]:
    def value(scene: Scene) -> str:
        descriptor = scene.target.agent.lifecycle.service.world.datasets[dataset].descriptor
        return f"{dataset}@{descriptor.version}"

    return value


def _holder(name: Callable[[Target], str]) -> Callable[[Scene], str]:
    return lambda scene: scene.target.signers[name(scene.target)].public_key.thumbprint


@contextmanager
def flushed(target: Target, door: Door) -> Iterator[Attempt]:
    """Everything is forgotten; grants from before are no longer known to be unspent."""
    scene = Scene(target, door)
    SqliteWorld(target.settings.home / STATE_FILE).flush()
    yield scene.attempt(scene.honest)


@contextmanager
def used_and_flushed(target: Target, door: Door) -> Iterator[Attempt]:
    """A spent leaf after its memory was lost is not taken for a fresh one."""
    scene = Scene(target, door)
    _used(scene, door)
    SqliteWorld(target.settings.home / STATE_FILE).flush()
    yield scene.attempt(scene.honest)


@contextmanager
def silent(target: Target, door: Door) -> Iterator[Attempt]:
    scene = Scene(target, door)
    with SqliteWorld(target.settings.home / STATE_FILE).silent():
        yield scene.attempt(scene.honest)


@contextmanager
def unreachable(target: Target, door: Door) -> Iterator[Attempt]:
    """A key that may be an issuer's whose published keys cannot be read."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # bound and not listening: nobody answers there
        issuers = dict(target.agent.lifecycle.service.trust.issuers)
        url = target.settings.issuer_url
        issuers[url] = replace(issuers[url], jwks_url=f"http://127.0.0.1:{closed.getsockname()[1]}/jwks.json")
        scene = Scene(target, door)
        stranger = target.signers[STRANGER]
        head = {**scene.forge.root_head, "kid": stranger.public_key.thumbprint}
        with target.trusting(issuers=issuers):
            yield scene.with_world(root_signer=stranger, root_head=head)


def _kinds() -> Iterator[Remembered]:
    values: dict[str, tuple[RevocationKind, Callable[[Scene], str]]] = {
        "subject": (RevocationKind.SUBJECT, lambda scene: str(scene.forge.root["sub"])),
        "grant, by the root token": (RevocationKind.GRANT, lambda scene: str(scene.forge.root["jti"])),
        "grant, by the leaf": (RevocationKind.GRANT, lambda scene: str(scene.forge.leaf["jti"])),
        "transaction": (RevocationKind.TXN, lambda scene: str(scene.forge.root["txn"])),
        "policy": (RevocationKind.POLICY, _policy),
        "dataset": (RevocationKind.DATASET, _version(DATASET)),
        "dataset of another detail": (RevocationKind.DATASET, _version(ELSEWHERE)),
        "holder": (RevocationKind.HOLDER, _holder(lambda target: target.root_id)),
        "holder, the receiver": (RevocationKind.HOLDER, _holder(lambda target: target.remote_id)),
        "issuer's key": (RevocationKind.KEY, _holder(lambda target: target.settings.issuer_url)),
    }
    for case, (kind, value) in values.items():
        yield Remembered("revocation", case, revoked(kind, value), Reason.GRANT_REVOKED)


REMEMBERED: Final[tuple[Remembered, ...]] = (
    Remembered("replay", "second use", replayed(lambda scene: scene.honest), Reason.GRANT_REPLAYED),
    Remembered(
        "replay",
        "second use through the other binding",
        replayed(lambda scene: scene.honest, elsewhere=True),
        Reason.GRANT_REPLAYED,
    ),
    Remembered("replay", "other claims under the same jti", replayed(_signed_again), Reason.GRANT_REPLAYED),
    Remembered("replay", "the same claims in another text", replayed(_spaced), Reason.GRANT_REPLAYED),
    *_kinds(),
    Remembered("stores", "keys unreachable", unreachable, Reason.KEYS_UNAVAILABLE),
    Remembered("stores", "replay store down", silent, Reason.STATE_UNAVAILABLE),
    Remembered("stores", "replay store flushed", flushed, Reason.REPLAY_MEMORY_LOST),
    Remembered("stores", "replay store flushed after use", used_and_flushed, Reason.REPLAY_MEMORY_LOST),
)
