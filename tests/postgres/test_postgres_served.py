"""A served agent whose ledger lies in PostgreSQL: no answer without its row, and none while the server is away."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from contract.errors import DatasetAgentError
from contract.settings import Settings
from evidence import postgres_place
from evidence.opening import server_stores
from tests.postgres.postgres_server import PostgresServer
from tests.running_agent import Asker, agent_home, decision_of, running_agent

pytestmark = pytest.mark.live
PATIENCE_S = 600.0
CALL = ("purification-batches", "compare_batches", {"batch_a": "B001", "batch_b": "B002"})


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    made = PostgresServer()
    made.start()
    yield made
    made.close()


def rows_of(settings: Settings) -> list[str]:
    url = settings.ledger_url.get_secret_value() if settings.ledger_url else ""
    store, _ = server_stores(url, settings.agent_id)
    with store.reading() as reading:
        return [str(entry.cells["reason"]) for entry in reading.entries()]


def test_every_answer_has_its_row_there_and_a_server_that_is_away_withholds_them(
    tmp_path: Path, server: PostgresServer
) -> None:
    settings = agent_home(tmp_path / "home", ledger_url=SecretStr(server.url))
    with running_agent(settings) as agent:
        asker = Asker(settings, agent.url)
        assert decision_of(asker.ask(*CALL))["verdict"] == "GRANTED"
        assert rows_of(settings) == ["PRINCIPAL_AUTHORIZED"]
        server.stop(killed=True)
        away = asker.ask(*CALL)
        assert decision_of(away)["reason"] == "EVIDENCE_UNAVAILABLE"
        assert "artifacts" not in away
        server.start()
        assert decision_of(asker.ask(*CALL))["verdict"] == "GRANTED"
        assert rows_of(settings).count("PRINCIPAL_AUTHORIZED") == 2
    # What could not be recorded then is recorded since.
    assert sorted(rows_of(settings)) == ["EVIDENCE_UNAVAILABLE", "PRINCIPAL_AUTHORIZED", "PRINCIPAL_AUTHORIZED"]
    assert not (settings.home / "remote" / "ledger.sqlite").exists()


def test_a_server_that_says_nothing_holds_nobody_up_for_long_and_is_found_again(
    tmp_path: Path, server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_place, "_SILENT_S", 0.5)
    monkeypatch.setattr(postgres_place, "_REST_S", PATIENCE_S)
    settings = agent_home(tmp_path / "home", ledger_url=SecretStr(server.url))
    with running_agent(settings) as agent:
        asker = Asker(settings, agent.url)
        assert decision_of(asker.ask(*CALL))["verdict"] == "GRANTED"
        with server.silent():
            # The second one is not tried: of a server that was silent just now nothing is asked.
            assert [decision_of(asker.ask(*CALL))["reason"] for _ in range(2)] == ["EVIDENCE_UNAVAILABLE"] * 2
        monkeypatch.setattr(postgres_place, "_REST_S", 0.0)
        assert decision_of(asker.ask(*CALL))["verdict"] == "GRANTED"
    found = rows_of(settings)
    assert (found.count("PRINCIPAL_AUTHORIZED"), found.count("EVIDENCE_UNAVAILABLE")) == (2, 2)


def test_a_server_elsewhere_that_need_not_prove_itself_is_refused_at_start(tmp_path: Path) -> None:
    settings = agent_home(tmp_path / "home", ledger_url=SecretStr("postgresql://u:geheim@db.internal/evidence"))
    with (
        pytest.raises(DatasetAgentError, match="has to prove itself: add sslmode=verify-full") as fault,
        running_agent(settings),
    ):
        pass
    assert "geheim" not in fault.value.message
