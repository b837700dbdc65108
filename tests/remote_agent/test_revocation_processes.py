"""A revocation made in one process is in force in all others with their next call."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from pathlib import Path

import pytest

from contract.call import Operation
from contract.canonical import sha256_hex
from grants.derive import derive, header_value
from grants.state import RevocationKind, open_state, revoked_by_now
from tests.races.served_race import CAPABILITY, DATASET, Served, serving
from tests.running_agent import Asker, decision_of, task_of

pytestmark = pytest.mark.live

CACHED = {"batch_a": "B001", "batch_b": "B002"}


@pytest.mark.parametrize("kind", ["sqlite", "redis"])
def test_four_serving_processes_refuse_with_the_very_next_call(tmp_path: Path, kind: str) -> None:
    with serving(kind, tmp_path) as served:
        root = served.asker.root_token(served.asker.scope(DATASET, CAPABILITY))
        ports = sorted({port for port, _ in served.connections})
        assert [asked(served, root, port, CACHED) for port in ports] == ["PRINCIPAL_AUTHORIZED"] * 4
        served.reasons()
        served.runs()
        asyncio.run(revoke(served))
        fresh = [{"batch_a": "B003", "batch_b": f"B{number:03d}"} for number in range(4, 8)]
        outcomes = [asked(served, root, port, arguments) for port in ports for arguments in (CACHED, fresh.pop())]
        assert outcomes == ["GRANT_REVOKED"] * 8
        assert served.runs() == 0
        assert served.reasons() == Counter({"GRANT_REVOKED": 8})


async def revoke(served: Served) -> None:
    store = open_state(served.asker.settings)
    await store.revoke(RevocationKind.SUBJECT, "u-eng-01", not_before=revoked_by_now(time.time()))
    await store.close()


def asked(served: Served, root: str, port: int, arguments: dict[str, str]) -> str:
    asker = Asker(served.asker.settings, f"http://127.0.0.1:{port}")
    call = asker.call(DATASET, CAPABILITY, arguments)
    operation = Operation("SendMessage", call_hash=sha256_hex(call))
    receiver = asker.trust.agents[asker.settings.agent_id]
    chain = derive((root,), asker.holder, audience=receiver, operation=operation, now=time.time())
    task = task_of(asker.send(call, asker.headers(header_value(chain))))
    assert ("artifacts" in task) == (decision_of(task)["verdict"] == "GRANTED")
    return str(decision_of(task)["reason"])
