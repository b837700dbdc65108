"""What a dataset agent makes of a limit: who is counted, how each is told, and when to come again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from contract.errors import Category, DatasetAgentError
from contract.verdict import NotGranted, Reason
from quota.limiter import Limiter, Quota
from quota.rate import Rate
from quota.sqlite_store import SqliteQuotas
from quota.store import Names
from remote_agent.quotas import counting, executing, limit

NOW = 1_790_000_000.0
ONE_A_MINUTE = Rate(1 / 60, 1)
NAMES = Names(b"s" * 32)


def grant(subject: str, client: str = "urn:a") -> Any:
    return SimpleNamespace(issuer="https://issuer", tenant="acme", subject=subject, client=client)


def authority(subject: str, client: str = "urn:a") -> Any:
    return SimpleNamespace(grant=grant(subject, client))


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Any]:
    """All of a ``Service`` that limits are held by."""
    limiter = Limiter(
        SqliteQuotas(tmp_path / "quota.sqlite3"),
        agent=Quota(ONE_A_MINUTE, running=3),
        person=Quota(ONE_A_MINUTE, running=2),
        names=NAMES,
    )
    yield SimpleNamespace(limiter=limiter, agent_id="urn:here", clock=lambda: NOW)
    await limiter.close()


async def test_an_agent_over_its_rate_is_told_when_to_come_back(service: Any) -> None:
    count = counting(service)
    await count(SimpleNamespace(agent="urn:a"))
    await count(SimpleNamespace(agent="urn:b"))
    with pytest.raises(DatasetAgentError) as over:
        await count(SimpleNamespace(agent="urn:a"))
    assert over.value.category is Category.RATE_LIMITED
    assert over.value.retry_after == pytest.approx(60, abs=0.1)


async def test_a_person_over_their_rate_is_told_when_to_come_back(service: Any) -> None:
    await limit(grant("alice"), service, NOW)
    await limit(grant("bob"), service, NOW)
    with pytest.raises(NotGranted) as over:
        await limit(grant("alice", "urn:b"), service, NOW)
    assert over.value.reason is Reason.RATE_LIMITED
    assert over.value.retry_after_s == pytest.approx(60, abs=0.1)


@pytest.mark.parametrize(
    ("running", "next_one"),
    [
        (["alice at a", "alice at b"], "alice at c"),
        (["alice at a", "alice at a", "bob at a"], "carol at a"),
    ],
)
async def test_executions_at_once_are_bounded_of_a_person_and_of_an_agent(
    service: Any, running: list[str], next_one: str
) -> None:
    async with AsyncExitStack() as inside:
        for words in running:
            await inside.enter_async_context(executing(authority(*words.split(" at ")), service))
        with pytest.raises(NotGranted) as over:
            await inside.enter_async_context(executing(authority(*next_one.split(" at ")), service))
        assert (over.value.reason, over.value.retry_after_s) == (Reason.CONCURRENCY_LIMITED, 1.0)
        await inside.enter_async_context(executing(authority("dave", "urn:z"), service))


async def test_where_agents_cannot_be_counted_nothing_is_granted_also_to_people_who_have_no_limit(
    tmp_path: Path,
) -> None:
    file = tmp_path / "quota.sqlite3"
    file.write_bytes(b"no database" * 1_000)
    limiter = Limiter(SqliteQuotas(file), agent=Quota(ONE_A_MINUTE), person=Quota(), names=NAMES)
    service: Any = SimpleNamespace(limiter=limiter, agent_id="urn:here", clock=lambda: NOW)
    client = SimpleNamespace(agent="urn:a")
    await counting(service)(client)
    with pytest.raises(NotGranted) as stop:
        await limit(grant("alice"), service, NOW + 60)
    assert stop.value.reason is Reason.STATE_UNAVAILABLE
    file.unlink()
    service.clock = lambda: NOW + 61
    await counting(service)(client)
    await limit(grant("alice"), service, NOW + 61)
    await limiter.close()
