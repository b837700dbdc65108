"""Who may not have a large result, and that none of them learns whether there is one."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from contract.call import GET_RESULTS, Operation
from contract.canonical import sha256_hex, unb64url
from contract.extension import GRANT_HEADER
from contract.scope import Constraint
from contract.verdict import NotGranted, Reason
from grants.client import client_assertion
from grants.derive import derive, header_value
from grants.mint import mint_discovery
from grants.state import RevocationKind
from remote_agent.spool_file import CHUNK, TAG
from tests.large_world import ARROW, DATASET, Fetcher, large_agent, part_of, write_people
from tests.running_agent import RunningAgent, decision_of

ROWS = 30_000
PEOPLE = {"engineer": ["Basel", "Visp"], "colleague": ["Basel", "Visp"]}


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAgent]:
    with large_agent(tmp_path_factory.mktemp("refused"), rows=ROWS) as served:
        yield served


@pytest.fixture(scope="module")
def fetcher(agent: RunningAgent) -> Fetcher:
    return Fetcher(agent.settings, agent.url)


@pytest.fixture(scope="module")
def task(fetcher: Fetcher) -> dict[str, Any]:
    return fetcher.large()


@pytest.fixture
def own(agent: RunningAgent, fetcher: Fetcher) -> Iterator[tuple[RunningAgent, Fetcher, dict[str, Any]]]:
    """The agent with a result that waits at it; who is known and what is asked is put back afterwards."""
    template = agent.settings.datasets / DATASET / "list.sql"
    before = template.read_text()
    yield agent, fetcher, fetcher.large()
    template.write_text(before)
    write_people(agent.settings.datasets, PEOPLE)
    agent.run(agent.lifecycle.reload())


def reason_of(response: httpx.Response) -> str:
    return str(response.json()["decision"]["reason"])


def spooled(agent: RunningAgent) -> list[Path]:
    """The files of results that wait."""
    return [path for path in (agent.settings.home / "remote" / "spool").glob("*/*") if path.name != "lock"]


def files_of(agent: RunningAgent, task: dict[str, Any]) -> list[Path]:
    """The file that a task's result waits in."""
    return [agent.lifecycle.service.spool._held[task["id"]].sealed.path]


def test_without_a_client_assertion_nobody_is_heard(fetcher: Fetcher, task: dict[str, Any]) -> None:
    headers = fetcher.headers(fetcher.leaf(task["id"]), authenticated=False)
    assert httpx.get(f"{fetcher.url}/results/{task['id']}", headers=headers).status_code == 401


def test_without_the_extension_nothing_is_read(fetcher: Fetcher, task: dict[str, Any]) -> None:
    headers = fetcher.headers(fetcher.leaf(task["id"]), extension=False)
    response = httpx.get(f"{fetcher.url}/results/{task['id']}", headers=headers)
    assert (response.status_code, response.json()["code"]) == (400, "remote_agent.extension.required")


def test_without_a_grant_there_is_no_byte(fetcher: Fetcher, task: dict[str, Any]) -> None:
    response = httpx.get(f"{fetcher.url}/results/{task['id']}", headers=fetcher.headers())
    assert (response.status_code, reason_of(response)) == (403, "NO_ACTIVE_GRANT")


@pytest.mark.parametrize("method", ["HEAD", "POST", "DELETE", "OPTIONS"])
def test_only_get_is_offered(fetcher: Fetcher, task: dict[str, Any], method: str) -> None:
    headers = fetcher.headers(fetcher.leaf(task["id"]))
    response = httpx.request(method, f"{fetcher.url}/results/{task['id']}", headers=headers)
    assert (response.status_code, response.headers["allow"]) == (405, "GET")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"task": "task-another"}, "GRANT_OPERATION_MISMATCH"),
        ({"method": "SubscribeToTask"}, "GRANT_OPERATION_MISMATCH"),
        ({"method": "GetResult"}, "GRANT_OPERATION_MISMATCH"),
        ({"capability": "few"}, "GRANT_WIDENED"),
        ({"scope": {"columns": frozenset({"reading.id"})}}, "COLUMN_NOT_PERMITTED"),
        ({"scope": {"columns": frozenset(f"reading.{c}" for c in ("id", "site", "at", "value", "amount", "note"))}}, "GRANT_WIDENED"),
        ({"scope": {"constraints": {"reading.site": Constraint(one_of=frozenset({"Basel"}))}}}, "GRANT_WIDENED"),
        ({"scope": {"revision": "r0"}}, "UNKNOWN_DATASET_REVISION"),
        ({"now": time.time() - 70}, "GRANT_EXPIRED"),
        ({"signer": "remote"}, "GRANT_SIGNATURE_INVALID"),
    ],
)  # fmt: skip
def test_another_leaf_fetches_nothing(
    agent: RunningAgent, fetcher: Fetcher, task: dict[str, Any], changes: dict[str, Any], reason: str
) -> None:
    if changes.get("signer") == "remote":
        changed = replace_signature(fetcher.leaf(task["id"]))
    else:
        changed = fetcher.leaf(task["id"], **changes)
    before = len(agent.rows())
    response = fetcher.fetch(task, grant=changed)
    assert reason_of(response) == reason
    assert [row.cells["reason"] for row in agent.rows()[before:]] == [reason]
    assert response.status_code in (403, 503)


def replace_signature(header: str) -> str:
    return header[:-1] + ("A" if header[-1] != "A" else "Q")


def test_the_leaf_of_the_call_fetches_nothing(fetcher: Fetcher, task: dict[str, Any]) -> None:
    operation = Operation("SendMessage", call_hash=sha256_hex(b"{}"))
    grant = fetcher.grant(fetcher.scope(DATASET, "list"), operation)
    assert reason_of(fetcher.fetch(task, grant=grant)) == "GRANT_OPERATION_MISMATCH"


def test_a_grant_to_discover_fetches_nothing(fetcher: Fetcher, task: dict[str, Any]) -> None:
    token = mint_discovery(
        fetcher.issuer,
        issuer_url=fetcher.settings.issuer_url,
        principal=fetcher._principal(),
        holder=fetcher.trust.agents[fetcher.settings.root_id],
        rctx={"trace_id": "0" * 32},
        now=time.time(),
    )
    assert reason_of(fetcher.fetch(task, grant=fetcher.chain(token, task["id"]))) == "NO_ACTIVE_GRANT"


def test_a_leaf_fetches_once(fetcher: Fetcher, task: dict[str, Any]) -> None:
    grant = fetcher.leaf(task["id"])
    assert fetcher.fetch(task, grant=grant, range="bytes=0-9").status_code == 206
    assert reason_of(fetcher.fetch(task, grant=grant, range="bytes=10-19")) == "GRANT_REPLAYED"


def test_a_range_that_is_not_there_burns_no_leaf(fetcher: Fetcher, task: dict[str, Any]) -> None:
    grant = fetcher.leaf(task["id"])
    assert fetcher.fetch(task, grant=grant, range="bytes=99999999999-").status_code == 416
    assert fetcher.fetch(task, grant=grant, range="bytes=0-9").status_code == 206


def answers(asking: Callable[[str], httpx.Response], task: dict[str, Any]) -> list[tuple[int, str]]:
    """What is answered for a result that is there and for one that never was, without the ids of each answer."""
    told = []
    for name in (task["id"], "task-" + "0" * 32):
        response = asking(name)
        body = response.json()
        body["decision"].pop("decision_id")
        body.pop("receipt")
        told.append((response.status_code, re.sub(name, "", str(body))))
    return told


def test_another_persons_result_is_as_if_it_never_was(fetcher: Fetcher, task: dict[str, Any]) -> None:
    colleague = Fetcher(fetcher.settings, fetcher.url, "colleague")
    there, never = answers(colleague.fetch, task)
    assert there == never
    assert there[0] == 404
    assert "RESULT_NOT_FOUND" in there[1]


def test_another_agents_result_is_as_if_it_never_was(
    agent: RunningAgent, fetcher: Fetcher, task: dict[str, Any]
) -> None:
    """The same person asks by another agent, which has the key and the grants of an agent that may ask."""
    settings, other = fetcher.settings, agent.lifecycle.service.signer
    itself = fetcher.trust.agents[settings.agent_id]

    def asking(name: str) -> httpx.Response:
        asker = Fetcher(replace_root(settings), fetcher.url)
        token = asker.root_token(asker.scope(DATASET, "list"))
        operation = Operation(GET_RESULTS, task=name)
        chain = derive((token,), other, audience=itself, operation=operation, now=time.time())
        assertion = client_assertion(other, agent_id=settings.agent_id, audience=settings.agent_id, now=time.time())
        headers = fetcher.headers(header_value(chain)) | {"Authorization": f"Bearer {assertion}"}
        return httpx.get(f"{fetcher.url}/results/{name}", headers=headers)

    there, never = answers(asking, task)
    assert there == never
    assert there[0] == 404


def replace_root(settings: Any) -> Any:
    """As if the dataset agent were the root agent."""
    return settings.model_copy(update={"root_id": settings.agent_id})


def test_a_client_that_names_another_person_than_the_leaf_is_refused(fetcher: Fetcher, task: dict[str, Any]) -> None:
    person = (fetcher.settings.issuer_url, "acme", "u-colleague")
    assertion = client_assertion(
        fetcher.holder,
        agent_id=fetcher.settings.root_id,
        audience=fetcher.settings.agent_id,
        now=time.time(),
        person=person,
    )
    response = fetcher.fetch(task, Authorization=f"Bearer {assertion}")
    assert reason_of(response) == "GRANT_CLIENT_MISMATCH"


def test_several_grant_headers_are_none(fetcher: Fetcher, task: dict[str, Any]) -> None:
    headers = list(fetcher.headers(fetcher.leaf(task["id"])).items())
    response = httpx.get(
        f"{fetcher.url}/results/{task['id']}", headers=[*headers, (GRANT_HEADER, fetcher.leaf(task["id"]))]
    )
    assert reason_of(response) == "GRANT_MALFORMED"


def test_an_entitlement_that_was_taken_away_since_refuses(own: tuple[RunningAgent, Fetcher, dict[str, Any]]) -> None:
    agent, fetcher, task = own
    write_people(agent.settings.datasets, {"engineer": ["Basel", "Visp"]}, entitled=())
    agent.run(agent.lifecycle.reload())
    response = fetcher.fetch(task)
    assert (response.status_code, reason_of(response)) == (403, "INSUFFICIENT_PRIVILEGE")


def test_rows_that_the_person_may_not_see_any_more_are_in_no_old_result(
    own: tuple[RunningAgent, Fetcher, dict[str, Any]],
) -> None:
    agent, fetcher, task = own
    write_people(agent.settings.datasets, {"engineer": ["Basel"]})
    agent.run(agent.lifecycle.reload())
    assert reason_of(fetcher.fetch(task)) == "GRANT_WIDENED"
    assert fetcher.fetch(fetcher.large(accept=ARROW)).status_code == 200


def test_a_person_who_is_not_known_any_more_gets_nothing(own: tuple[RunningAgent, Fetcher, dict[str, Any]]) -> None:
    agent, fetcher, task = own
    grant = fetcher.leaf(task["id"])
    write_people(agent.settings.datasets, {"colleague": ["Basel", "Visp"]})
    agent.run(agent.lifecycle.reload())
    response = fetcher.fetch(task, grant=grant)
    assert (response.status_code, reason_of(response)) == (503, "UNKNOWN_PRINCIPAL")


def test_another_template_since_is_another_result(own: tuple[RunningAgent, Fetcher, dict[str, Any]]) -> None:
    agent, fetcher, task = own
    template = agent.settings.datasets / DATASET / "list.sql"
    template.write_text(template.read_text().replace("r.value AS value", "r.value * 2 AS value"))
    agent.run(agent.lifecycle.reload())
    assert reason_of(fetcher.fetch(task)) == "GRANT_WIDENED"


def test_a_revoked_grant_fetches_nothing(agent: RunningAgent, fetcher: Fetcher, task: dict[str, Any]) -> None:
    root = fetcher.root_token(fetcher.scope(DATASET, "list"))
    claims = json.loads(unb64url(root.split(".")[1]))
    state = agent.lifecycle.service.state
    agent.run(state.revoke(RevocationKind.GRANT, claims["jti"], not_before=time.time() + 5))
    response = fetcher.fetch(task, grant=fetcher.chain(root, task["id"]))
    assert (response.status_code, reason_of(response)) == (403, "GRANT_REVOKED")


def test_a_result_that_expired_is_as_if_it_never_was(agent: RunningAgent, fetcher: Fetcher) -> None:
    expired, spool = fetcher.large(), agent.lifecycle.service.spool
    (file,) = files_of(agent, expired)
    now = spool._clock
    spool._clock = lambda: time.time() + agent.settings.spool_ttl + 1
    try:
        there, never = answers(fetcher.fetch, expired)
        spool.sweep()
    finally:
        spool._clock = now
    assert there == never
    assert (file.exists(), spool.used) == (False, 0)


def test_a_result_whose_answer_was_never_released_is_gone(
    agent: RunningAgent, fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine ran and the rows are on disk; then the grant turns out to be revoked."""
    service = agent.lifecycle.service
    before = spooled(agent)
    seen: list[str] = []

    async def revoked(*args: Any, **kwargs: Any) -> None:
        seen.extend(name for name, held in service.spool._held.items() if not held.released)
        raise NotGranted(Reason.GRANT_REVOKED, "revoked")

    monkeypatch.setattr(service.state, "recheck", revoked)
    refused = fetcher.large(20_000)
    assert decision_of(refused)["reason"] == "GRANT_REVOKED"
    assert seen == [refused["id"]]
    assert refused["id"] not in service.spool._held
    assert spooled(agent) == before


def flip(path: Path, at: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1]))


def swap_chunks(path: Path) -> None:
    whole, step = path.read_bytes(), CHUNK + TAG
    path.write_bytes(whole[step : 2 * step] + whole[:step] + whole[2 * step :])


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:CHUNK])


@pytest.mark.parametrize(
    "tamper",
    [lambda p: flip(p, 0), lambda p: flip(p, CHUNK), swap_chunks, cut, lambda p: p.unlink()],
    ids=["a byte", "a tag", "two chunks", "cut", "gone"],
)
def test_what_was_changed_on_the_disk_is_not_handed_out(
    agent: RunningAgent, fetcher: Fetcher, tamper: Callable[[Path], object]
) -> None:
    waiting = fetcher.large()
    tamper(*files_of(agent, waiting))
    response = fetcher.fetch(waiting)
    assert (response.status_code, reason_of(response)) == (503, "RESULT_STORE_UNAVAILABLE")


def test_a_later_chunk_that_was_changed_ends_the_stream_and_its_row_says_where(
    agent: RunningAgent, fetcher: Fetcher
) -> None:
    waiting = fetcher.large()
    (file,) = files_of(agent, waiting)
    flip(file, CHUNK + TAG + 5)
    with pytest.raises(httpx.RemoteProtocolError):
        fetcher.fetch(waiting)
    ended = agent.rows()[-1].cells
    assert (ended["reason"], ended["bytes_released"]) == ("RESULT_STORE_UNAVAILABLE", CHUNK)
    assert fetcher.fetch(waiting).status_code == 404
    assert not file.exists()


def test_the_chunks_of_one_result_are_none_of_another(agent: RunningAgent, fetcher: Fetcher) -> None:
    one, other = fetcher.large(), fetcher.large()
    (first,), (second,) = files_of(agent, one), files_of(agent, other)
    first.write_bytes(second.read_bytes())
    assert reason_of(fetcher.fetch(one)) == "RESULT_STORE_UNAVAILABLE"
    assert fetcher.fetch(other).status_code == 200


def test_a_call_that_is_small_has_nothing_to_fetch(fetcher: Fetcher) -> None:
    small = fetcher.large(10)
    assert "raw" in part_of(small)
    assert fetcher.fetch(small).status_code == 404
