"""The extended card of everything is made once, whoever asks for it as often as they like, and anew when it is another."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from contract.errors import SignerUnavailable
from remote_agent import extended_card
from tests.running_agent import Asker, RunningAgent


@pytest.fixture
def asker(agent: RunningAgent) -> Asker:
    return Asker(agent.settings, agent.url)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was done for the cards that were asked for meanwhile."""
    work: list[str] = []
    for name in ("build_card", "MessageToDict"):
        inner = getattr(extended_card, name)

        def counted(*args: Any, inner: Any = inner, name: str = name, **kwargs: Any) -> Any:
            work.append(name)
            return inner(*args, **kwargs)

        monkeypatch.setattr(extended_card, name, counted)
    return work


def by_rpc(asker: Asker) -> dict[str, Any]:
    return dict(asker.rpc("GetExtendedAgentCard", {}, asker.headers()).json()["result"])


def by_http(asker: Asker, tenant: str = "") -> dict[str, Any]:
    return dict(httpx.get(f"{asker.url}{tenant}/extendedAgentCard", headers=asker.headers()).json())


def test_it_is_made_and_written_once_for_both_bindings(agent: RunningAgent, asker: Asker, made: list[str]) -> None:
    agent.run(agent.lifecycle.reload())
    told = [by_rpc(asker), by_rpc(asker), by_http(asker), by_http(asker, "/acme"), by_rpc(asker)]
    assert made == ["build_card", "MessageToDict"]
    assert all(card == told[0] for card in told)
    assert "clinical-private" in str(told[0])


def test_after_a_reload_it_is_made_anew(agent: RunningAgent, asker: Asker, made: list[str]) -> None:
    by_rpc(asker)
    made.clear()
    agent.run(agent.lifecycle.reload())
    by_rpc(asker)
    assert made == ["build_card", "MessageToDict"]


def test_one_that_could_not_be_signed_is_tried_again(
    agent: RunningAgent, asker: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent.run(agent.lifecycle.reload())

    def away(*_: Any, **__: Any) -> Any:
        raise SignerUnavailable("the signer is away")

    with monkeypatch.context() as patched:
        patched.setattr(extended_card, "build_card", away)
        assert asker.rpc("GetExtendedAgentCard", {}, asker.headers()).status_code == 503
    assert by_rpc(asker)["skills"]


def test_over_http_another_version_of_the_protocol_is_refused_as_before(asker: Asker) -> None:
    refused = httpx.get(f"{asker.url}/extendedAgentCard", headers=asker.headers() | {"A2A-Version": "0.3"})
    assert refused.json()["error"]["details"][0]["reason"] == "VERSION_NOT_SUPPORTED"
