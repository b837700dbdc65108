"""Who may read the metrics: this machine in development, else whoever has the token; for others there is no such path."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from contract.bearer_token import BearerToken
from contract.errors import Category, Component, DatasetAgentError
from contract.settings import Settings
from metrics.door import MetricsDoor, metrics_token

TOKEN = "scraper-" + "s" * 32
Headers = list[tuple[bytes, bytes]]
HOME = [(b"host", b"127.0.0.1:8801")]
MINE = [*HOME, (b"authorization", b"Bearer " + TOKEN.encode())]


class Stage:
    """A door before an application that says 418, and a clock that is moved by hand."""

    def __init__(self, *, token: str | None = None, at_home: bool = True) -> None:
        self.token = None if token is None else BearerToken.of(token)
        self.refused = 0
        self.now = 0.0
        self.fault: Exception | None = None
        self.door = MetricsDoor(
            self._app,
            text=self._text,
            token=lambda: self.token,
            at_home=at_home,
            refused=self._refuse,
            component=Component.REMOTE_AGENT,
            clock=lambda: self.now,
        )

    def ask(
        self,
        headers: Headers,
        *,
        client: tuple[str, int] | None = ("127.0.0.1", 4),
        path: str = "/metrics",
        method: str = "GET",
    ) -> tuple[int, dict[bytes, bytes], bytes]:
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {"type": "http", "path": path, "method": method, "headers": headers, "client": client}
        asyncio.run(self.door(scope, None, send))
        return sent[0]["status"], dict(sent[0]["headers"]), sent[1]["body"]

    def status(self, headers: Headers, **options: Any) -> int:
        return self.ask(headers, **options)[0]

    async def _app(self, scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 418, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def _text(self) -> bytes:
        if self.fault is not None:
            raise self.fault
        return b"numbers"

    def _refuse(self) -> None:
        self.refused += 1


@pytest.mark.parametrize("client", ["127.0.0.1", "127.8.8.8", "::1"])
@pytest.mark.parametrize("host", [b"127.0.0.1:8801", b"localhost", b"[::1]:8801"])
def test_in_development_this_machine_is_answered_without_a_token(client: str, host: bytes) -> None:
    status, headers, body = Stage().ask([(b"host", host)], client=(client, 4))
    assert (status, body) == (200, b"numbers")
    assert headers[b"content-type"].startswith(b"text/plain; version=")
    assert headers[b"cache-control"] == b"no-store"


@pytest.mark.parametrize("client", [("10.0.0.4", 4), ("192.168.1.1", 4), ("localhost.example", 4), None])
def test_another_machine_finds_no_such_path(client: tuple[str, int] | None) -> None:
    assert Stage().status(HOME, client=client) == 404


@pytest.mark.parametrize("name", [b"forwarded", b"via", b"x-forwarded-for", b"x-forwarded-host", b"x-real-ip"])
def test_who_passes_on_for_others_is_not_this_machine(name: bytes) -> None:
    assert Stage().status([*HOME, (name, b"127.0.0.1")]) == 404


@pytest.mark.parametrize("hosts", [[], [b"rebound.example"], [b"127.0.0.1", b"127.0.0.1"], [b"\xff"], [b"[::1"]])
def test_a_request_for_another_host_is_not_for_this_machine(hosts: list[bytes]) -> None:
    assert Stage().status([(b"host", host) for host in hosts]) == 404


def test_in_production_nobody_is_answered_without_a_token() -> None:
    assert Stage(at_home=False).status(HOME) == 404


@pytest.mark.parametrize("at_home", [True, False])
def test_with_a_token_set_it_is_asked_for_wherever_a_request_comes_from(at_home: bool) -> None:
    stage = Stage(token=TOKEN, at_home=at_home)
    assert stage.status(MINE) == 200
    assert stage.status(MINE, client=("10.0.0.4", 4)) == 200
    assert stage.refused == 0
    status, headers, body = stage.ask(HOME)
    assert (status, json.loads(body)["status"], stage.refused) == (401, 401, 1)
    assert headers[b"www-authenticate"] == b'Bearer realm="dataset-agent-metrics"'
    assert b"numbers" not in body


@pytest.mark.parametrize("value", [b"", b"Bearer", b"Basic " + TOKEN.encode(), b"Bearer " + TOKEN.encode() + b"s"])
def test_a_wrong_token_is_told_nothing_and_counted(value: bytes) -> None:
    stage = Stage(token=TOKEN)
    assert stage.status([*HOME, (b"authorization", value)]) == 401
    assert stage.status([*MINE, (b"authorization", b"Bearer " + TOKEN.encode())]) == 401
    assert stage.refused == 2


def test_only_reading_is_answered() -> None:
    stage = Stage()
    assert [stage.status(HOME, method=method) for method in ("POST", "PUT", "DELETE")] == [404] * 3
    status, headers, body = stage.ask(HOME, method="HEAD")
    assert (status, headers[b"content-length"], body) == (200, b"7", b"")


@pytest.mark.parametrize("path", ["/", "/metrics/", "/metrics/x", "/METRICS", "/metric"])
def test_any_other_path_is_the_applications(path: str) -> None:
    assert Stage().status(HOME, path=path) == 418


def test_more_than_a_scraper_needs_is_told_to_wait_and_then_answered_again() -> None:
    stage = Stage()
    answers = [stage.status(HOME) for _ in range(60)]
    assert set(answers[:20]) == {200}
    assert answers[-1] == 429
    assert stage.ask(HOME)[1][b"retry-after"] == b"1"
    stage.now += 1
    assert stage.status(HOME) == 200


def test_what_goes_wrong_is_told_by_no_text_of_it(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage()
    stage.fault = ValueError("ROW-SECRET")
    status, _, body = stage.ask(HOME)
    assert status == 500
    assert b"ROW-SECRET" not in body
    assert "ValueError" in caplog.text
    assert "ROW-SECRET" not in caplog.text


def test_a_token_comes_from_the_settings_or_from_a_file_of_its_owner(tmp_path: Path) -> None:
    assert metrics_token(Settings(), Component.REMOTE_AGENT) is None
    (file := tmp_path / "token").write_text(TOKEN + "\n")
    file.chmod(0o600)
    for settings in (Settings(metrics_token=TOKEN), Settings(metrics_token_file=file)):
        token = metrics_token(settings, Component.REMOTE_AGENT)
        assert token is not None
        assert token.is_of(MINE)
        assert TOKEN not in repr(settings)


def test_what_is_no_token_stops_the_start_with_the_setting_by_name() -> None:
    with pytest.raises(DatasetAgentError, match="DATASET_AGENT_METRICS_TOKEN must hold 32") as caught:
        metrics_token(Settings(metrics_token="short"), Component.ROOT_AGENT)
    assert caught.value.category is Category.CONFIGURATION
    assert caught.value.code == "root_agent.metrics.malformed"
