"""A dataset agent that pins no grant key: it reads them where the issuer publishes them, and follows their rotation."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from contract.published import LIFE, STALE
from contract.settings import Settings
from grants.key_files import FileSigner
from grants.key_store import KeyName
from grants.rotation import AHEAD, RETIRE_AFTER, retire, stage, switch
from grants.trust import load_trust
from tests.dataset_agent.command_line import CommandLine, Served, command_for, served
from tests.running_agent import COMPARE, Asker, RunningAgent, agent_home, decision_of, running_agent

pytestmark = pytest.mark.live


@pytest.fixture
def issuer(tmp_path: Path) -> Settings:
    return agent_home(tmp_path / "issuer")


@pytest.fixture
def root(issuer: Settings) -> Iterator[Served]:
    """The root agent's process, in which the issuer runs."""
    with served("root", HOME=str(issuer.home)) as process:
        yield process


def receiver(issuer: Settings, jwks_url: str, home: Path) -> Settings:
    """A dataset agent whose trust file names the issuer's address and none of its grant keys."""
    lines = issuer.trust_path.read_text().splitlines()
    pinned = [f'keys = []\njwks_url = "{jwks_url}"' if line.startswith("keys = ") else line for line in lines]
    home.mkdir()
    (home / "trust.toml").write_text("\n".join(pinned) + "\n")
    assert load_trust(home / "trust.toml").issuers[issuer.issuer_url].keys == ()
    return Settings(home=home, issuer_keys=issuer.issuer_dir, root_keys=issuer.root_dir, remote_keys=issuer.remote_dir)


Travel = Callable[[float], None]


@pytest.fixture
def travel(monkeypatch: pytest.MonkeyPatch) -> Travel:
    """Put every clock of this process forward."""
    real, ahead = time.time, [0.0]
    monkeypatch.setattr(time, "time", lambda: real() + ahead[0])

    def forward(seconds: float) -> None:
        ahead[0] += seconds

    return forward


def asked(agent: RunningAgent, by: FileSigner | None = None) -> dict[str, Any]:
    """The decision on one call, under a grant by the issuer's present key or ``by`` another."""
    agent.lifecycle.service.clock = lambda: time.time()
    asker = Asker(agent.settings, agent.url)
    asker.issuer = by or asker.issuer
    return decision_of(asker.ask("purification-batches", "compare_batches", COMPARE))


def reloaded(agent: RunningAgent) -> None:
    agent.run(agent.lifecycle.reload())
    assert agent.lifecycle.fault is None


def brought(issuer: Settings, agent: RunningAgent) -> None:
    """The issuer's trust file, at the receiver who pins none of its keys."""
    lines = issuer.trust_path.read_text().splitlines()
    own = load_trust(agent.settings.trust_path).issuers[issuer.issuer_url]
    pinned = [f'keys = []\njwks_url = "{own.jwks_url}"' if line.startswith("keys = ") else line for line in lines]
    agent.settings.trust_path.write_text("\n".join(pinned) + "\n")


def published(root: Served) -> list[str]:
    response = httpx.get(f"{root.url}/.well-known/jwks.json")
    assert response.headers["cache-control"] == f"public, max-age={LIFE:.0f}"
    return [key["kid"] for key in response.json()["keys"]]


def test_grants_are_accepted_by_published_keys_alone_and_through_their_rotation(
    issuer: Settings, root: Served, tmp_path: Path, travel: Travel
) -> None:
    command = CommandLine({"HOME": str(issuer.home)})
    (old,) = published(root)
    with running_agent(receiver(issuer, f"{root.url}/.well-known/jwks.json", tmp_path / "remote")) as agent:
        assert asked(agent)["verdict"] == "GRANTED"
        stage(issuer, KeyName.ISSUER, now=time.time())
        assert command("reload", "--wait").code == 0
        assert published(root) == [old, FileSigner.load(issuer.issuer_dir / "grant.next.jwk").public_key.thumbprint]
        travel(AHEAD)
        assert asked(agent)["verdict"] == "GRANTED"  # and the set, which is old by now, is read again
        new = switch(issuer, KeyName.ISSUER, now=time.time())
        assert asked(agent)["verdict"] == "GRANTED"
        assert command("reload", "--wait").code == 0
        assert published(root) == [new.thumbprint, old]
        travel(RETIRE_AFTER[KeyName.ISSUER])
        retire(issuer, KeyName.ISSUER, old, now=time.time())
        assert command("reload", "--wait").code == 0
        assert published(root) == [new.thumbprint]
        assert asked(agent)["verdict"] == "GRANTED"


def test_a_published_key_that_somebody_else_has_is_refused_from_the_reload_on_whatever_its_publisher_still_says(
    issuer: Settings, root: Served, tmp_path: Path
) -> None:
    stolen = FileSigner.load(issuer.issuer_dir / "grant.jwk")
    with running_agent(receiver(issuer, f"{root.url}/.well-known/jwks.json", tmp_path / "remote")) as agent:
        assert asked(agent, stolen)["verdict"] == "GRANTED"
        switch(issuer, KeyName.ISSUER, now=time.time(), at_once=True)
        retire(issuer, KeyName.ISSUER, stolen.public_key.thumbprint, now=time.time(), force=True)
        brought(issuer, agent)
        assert published(root) == [stolen.public_key.thumbprint]  # nobody reloaded the issuer yet
        reloaded(agent)
        assert asked(agent, stolen)["reason"] == "GRANT_KEY_UNTRUSTED"
        assert CommandLine({"HOME": str(issuer.home)})("reload", "--wait").code == 0
        reloaded(agent)
        assert asked(agent)["verdict"] == "GRANTED"
        root.process.terminate()
        root.end()
        reloaded(agent)
        assert asked(agent, stolen)["reason"] == "GRANT_KEY_UNTRUSTED"


def test_a_key_that_its_publisher_withdrew_is_refused_from_the_receivers_reload_on(
    issuer: Settings, root: Served, tmp_path: Path
) -> None:
    old = FileSigner.load(issuer.issuer_dir / "grant.jwk")
    with running_agent(receiver(issuer, f"{root.url}/.well-known/jwks.json", tmp_path / "remote")) as agent:
        assert asked(agent)["verdict"] == "GRANTED"
        switch(issuer, KeyName.ISSUER, now=time.time(), at_once=True)
        retire(issuer, KeyName.ISSUER, old.public_key.thumbprint, now=time.time(), force=True)
        assert CommandLine({"HOME": str(issuer.home)})("reload", "--wait").code == 0
        assert asked(agent, old)["verdict"] == "GRANTED"  # it knows nothing of it yet
        reloaded(agent)
        assert asked(agent, old)["reason"] == "GRANT_KEY_UNTRUSTED"
        assert asked(agent)["verdict"] == "GRANTED"


def test_without_the_issuers_keys_it_is_indeterminate(
    issuer: Settings, root: Served, tmp_path: Path, travel: Travel
) -> None:
    with running_agent(receiver(issuer, f"{root.url}/.well-known/jwks.json", tmp_path / "remote")) as agent:
        assert asked(agent)["verdict"] == "GRANTED"
        root.process.terminate()
        root.end()
        travel(LIFE)
        assert asked(agent)["verdict"] == "GRANTED"  # a set that was read is used while no other can be
        travel(STALE)
        decision = asked(agent)
        assert (decision["verdict"], decision["reason"]) == ("INDETERMINATE", "KEYS_UNAVAILABLE")
        assert len(agent.rows()) == 3


def test_an_agent_that_never_read_them_is_indeterminate_too(issuer: Settings, tmp_path: Path) -> None:
    with running_agent(receiver(issuer, "http://127.0.0.1:1/jwks.json", tmp_path / "remote")) as agent:
        decision = asked(agent)
        assert (decision["verdict"], decision["reason"]) == ("INDETERMINATE", "KEYS_UNAVAILABLE")


def test_a_dataset_agent_publishes_its_own_keys_while_they_change(issuer: Settings) -> None:
    with running_agent(issuer) as agent:
        keys = httpx.get(f"{agent.url}/.well-known/jwks.json")
        (old,) = [key["kid"] for key in keys.json()["keys"]]
        assert keys.headers["cache-control"] == f"public, max-age={LIFE:.0f}"
        staged = stage(issuer, KeyName.REMOTE, now=time.time()).thumbprint
        agent.run(agent.lifecycle.reload())
        assert [key["kid"] for key in httpx.get(f"{agent.url}/.well-known/jwks.json").json()["keys"]] == [old, staged]
        switch(issuer, KeyName.REMOTE, now=time.time(), at_once=True)
        card = command_for(issuer, URL=agent.url)
        assert card("card", "--json").json["kid"] == old
        agent.run(agent.lifecycle.reload())
        assert card("card", "--json").json["kid"] == staged
        assert [key["kid"] for key in httpx.get(f"{agent.url}/.well-known/jwks.json").json()["keys"]] == [staged, old]
        retire(issuer, KeyName.REMOTE, old, now=time.time(), force=True)
        agent.run(agent.lifecycle.reload())
        assert [key["kid"] for key in httpx.get(f"{agent.url}/.well-known/jwks.json").json()["keys"]] == [staged]
