"""The admin endpoint over loopback HTTP: not there without a token, and telling nothing with a wrong one."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
import uvicorn
from starlette.responses import PlainTextResponse

from cache.keys import CacheKeys
from cache.opening import open_store
from cache.result_cache import ResultCache
from contract.errors import Category, DatasetAgentError
from contract.scope import Sensitivity
from contract.settings import Settings
from dataset_agent.process import bind_port, server_settings
from remote_agent.admin_cache import CacheDesk
from remote_agent.admin_door import AdminDoor, _Rate, _while_there
from remote_agent.admin_token import AdminToken, admin_token
from remote_agent.admin_world import described_world
from remote_agent.service import World
from tests.authority_builder import NOW, make_authority
from tests.cache.cache_builder import make_document, make_execution, make_intent

TOKEN = "operator-" + "t" * 32
KEYS = CacheKeys.from_secret(bytes(range(32)))
CALL = {"dataset": "purification-batches", "capability": "compare_batches"}
SECRETS = ("tenant-SECRET", "u-SECRET", "scope-SECRET", "argument-SECRET", "ROW-SECRET")


@dataclass
class Served:
    """An admin door before an application that says "passed", and the token that it has at the moment."""

    url: str
    settings: Settings
    token: AdminToken | None
    client: httpx.Client

    def ask(self, method: str, path: str, *, token: str | None = TOKEN, **options: Any) -> httpx.Response:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        return self.client.request(method, self.url + path, headers=headers, **options)

    def get(self, what: str, **query: Any) -> httpx.Response:
        return self.ask("GET", f"/admin/cache/{what}", params=query)

    def post(self, what: str, body: Any) -> httpx.Response:
        return self.ask("POST", f"/admin/cache/{what}", json=body)


async def fill(settings: Settings) -> None:
    """Three entries: two of one capability, one of a restricted one."""
    results = ResultCache(open_store(settings), KEYS)
    secret = {"tenant": SECRETS[0], "subject": SECRETS[1], "rows": {"t.c": {"one_of": [SECRETS[2]]}}}
    for number, change in enumerate(({}, {"principal_class": "analyst"}, {"sensitivity": Sensitivity.RESTRICTED})):
        await results.keep(
            make_authority(**secret, **change),
            make_intent({"batch": SECRETS[3] + str(number)}),
            make_document(b'{"rows":[["ROW-SECRET"]]}'),
            make_execution(),
            freshness_class="standard",
            reuse_s=3_600,
            now=NOW,
        )
    await results.close()


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with httpx.Client(timeout=30) as client:
        settings = Settings(home=tmp_path_factory.mktemp("home"), admin_token=TOKEN)
        listener = bind_port("127.0.0.1", 0)
        held = Served(f"http://127.0.0.1:{listener.getsockname()[1]}", settings, None, client)
        desk = CacheDesk(settings, lambda: (KEYS,), _Worlds(settings), clock=lambda: float(NOW))
        app = AdminDoor(PlainTextResponse("passed"), desk, lambda: held.token, burst=1e6)
        server = uvicorn.Server(uvicorn.Config(app, **server_settings()))
        thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])), daemon=True)
        thread.start()
        yield held
        server.should_exit = True
        thread.join(30)


class _Worlds:
    """One world for all tests: nothing in it runs."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._world: World | None = None

    @asynccontextmanager
    async def __call__(self, dataset: str) -> AsyncIterator[World]:
        if self._world is None:
            async with described_world(self._settings, dataset) as world:
                self._world = world
        yield self._world


@pytest.fixture
def served(door: Served) -> Served:
    """The door with its token, over a cache that no test has changed."""
    for file in door.settings.home.glob("cache.sqlite*"):
        file.unlink()
    asyncio.run(fill(door.settings))
    door.token = admin_token(door.settings)
    return door


@pytest.mark.parametrize("path", ["/admin", "/admin/", "/admin/cache/keys", "/admin/cache/nothing"])
def test_without_a_token_there_is_no_such_path(served: Served, path: str) -> None:
    served.token = None
    answers = [served.ask("GET", path, token=token) for token in (None, TOKEN)]
    assert [answer.status_code for answer in answers] == [404, 404]
    assert answers[0].json() == answers[1].json()
    assert answers[0].json()["detail"] == "there is no such path"


@pytest.mark.parametrize("path", ["/", "/administration", "/admin2/cache/keys", "/healthz"])
def test_everything_else_is_passed_on(served: Served, path: str) -> None:
    assert served.ask("GET", path, token=None).text == "passed"


@pytest.mark.parametrize("token", [None, TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "x" * 400])
@pytest.mark.parametrize("path", ["/admin/cache/keys", "/admin/cache/nothing", "/admin"])
def test_a_wrong_token_is_told_nothing(served: Served, path: str, token: str | None) -> None:
    answer = served.ask("GET", path, token=token)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert answer.json()["detail"] == "send Authorization: Bearer with this agent's admin token"


@pytest.mark.parametrize("lines", [[f"Bearer {TOKEN}"] * 2, [f"Basic {TOKEN}"], [TOKEN], [f"Bearer {TOKEN} x"]])
def test_a_token_is_one_bearer_and_nothing_else(served: Served, lines: list[str]) -> None:
    headers = [("Authorization", line) for line in lines]
    assert served.client.get(served.url + "/admin/cache/stats", headers=headers).status_code == 401


def held(served: Served) -> tuple[int, int]:
    """How many entries there are, and how many of restricted capabilities."""
    figures = served.get("stats").json()
    return figures["entries"], figures["restricted"]


def test_a_wrong_token_purges_nothing(served: Served) -> None:
    assert served.ask("POST", "/admin/cache/purge", token="y" * 40, json={"all": True}).status_code == 401
    assert held(served) == (2, 1)


def test_entries_are_listed_with_plain_dimensions_and_restricted_ones_counted(served: Served) -> None:
    found = served.get("keys").json()
    assert (found["matched"], len(found["entries"])) == (2, 2)
    assert found["restricted"] == [{"dataset": "purification-batches", "capability": "batch_yield", "entries": 1}]
    (analyst,) = served.get("keys", **{"class": "analyst", "sort": "age", "limit": 5}).json()["entries"]
    assert served.get("show", key=analyst["key"][-12:]).json() == analyst


def test_a_difference_names_what_differs(served: Served) -> None:
    left, right = (entry["key"] for entry in served.get("keys").json()["entries"])
    found = served.get("diff", left=left, right=right).json()
    assert {one["dimension"] for one in found["differences"]} == {"principal_class", "arguments"}


def test_no_answer_holds_a_row_an_argument_a_principal_or_a_scope(served: Served) -> None:
    keys = [entry["key"] for entry in served.get("keys").json()["entries"]]
    answers = [
        served.get("keys"),
        served.get("stats"),
        served.get("verify"),
        served.get("show", key=keys[0]),
        served.get("diff", left=keys[0], right=keys[1]),
        served.post(
            "explain", CALL | {"as": "process_engineer", "arguments": {"batch_a": "B-SECRET", "batch_b": "B001"}}
        ),
        served.post("purge", {"dry_run": True, "all": True}),
    ]
    assert [answer.status_code for answer in answers] == [200] * len(answers)
    assert not any("SECRET" in answer.text or "u-eng-01" in answer.text for answer in answers)


def test_a_request_is_explained_and_nothing_runs(served: Served) -> None:
    told = served.post(
        "explain", CALL | {"as": "process_engineer", "arguments": {"batch_a": "B001", "batch_b": "B002"}}
    )
    assert (told.json()["outcome"], told.json()["reason"], told.json()["verdict"]) == ("MISS", "absent", "GRANTED")
    assert {one["name"] for one in told.json()["components"]} >= {"tenant", "rows", "masks", "revision", "arguments"}
    unknown = served.post("explain", CALL | {"as": "nobody-here"})
    assert (unknown.status_code, "nobody-here" in unknown.text) == (404, False)


def test_who_may_not_call_has_no_key(served: Served) -> None:
    told = served.post(
        "explain", CALL | {"as": "external_auditor", "arguments": {"batch_a": "B001", "batch_b": "B002"}}
    )
    assert (told.json()["outcome"], told.json()["verdict"]) == ("NONE", "REFUSED")
    assert "key" not in told.json()


def test_a_call_that_misses_arguments_has_no_key(served: Served) -> None:
    told = served.post("explain", CALL | {"as": "process_engineer"}).json()
    assert (told["outcome"], told["reason"]) == ("NONE", "ARGUMENTS_MISSING")


def test_a_purge_counts_exactly_and_leaves_a_line_in_the_log(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    assert served.post("purge", {"class": "analyst", "dry_run": True}).json() == {
        "matched": 2,  # the restricted one among them, whosever it is
        "removed": 0,
        "dry_run": True,
    }
    assert caplog.messages == []
    assert served.post("purge", {"class": "analyst"}).json() == {"matched": 2, "removed": 2, "dry_run": False}
    assert caplog.messages == ["the cache was purged by an operator: 2 of 2 entries (class=analyst)"]
    assert served.post("purge", {"all": True}).json()["removed"] == 1
    assert held(served) == (0, 0)


@pytest.mark.parametrize(
    "body",
    [{}, {"dry_run": True}, {"all": False}, {"dataset": ""}, {"dataset": 5}, {"all": "yes"}, {"older_than_s": "1"}]
    + [{"older_than_s": -1}, {"older_than_s": True}, {"tenant": "x"}, {"expired": 1, "all": True}, [], "all", None, 5]
    + [{"secret": "curent"}, {"secret": "CURRENT"}, {"secret": "0123456789"}],
)
def test_a_purge_of_nothing_in_particular_or_that_does_not_read_purges_nothing(served: Served, body: Any) -> None:
    assert served.post("purge", body).status_code == 400
    assert held(served) == (2, 1)


@pytest.mark.parametrize(
    ("what", "query"),
    [
        ("keys", "limit=0"),
        ("keys", "limit=1001"),
        ("keys", "limit=x"),
        ("keys", "limit="),
        ("keys", "sort=tenant"),
        ("keys", "expired=maybe"),
        ("keys", "tenant=acme"),
        ("keys", "dataset=a&dataset=b"),
        ("keys", "dataset=" + "x" * 600),
        ("keys", "x" * 5_000),
        ("keys", "&".join(f"a{n}=1" for n in range(20))),
        ("stats", "a=1"),
        ("verify", "a=1"),
        ("show", ""),
        ("show", "key="),
        ("show", "key=a&more=b"),
        ("diff", "left=a"),
    ],
)
def test_a_query_that_does_not_read_is_one_line(served: Served, what: str, query: str) -> None:
    answer = served.ask("GET", f"/admin/cache/{what}?{query}")
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"as": 5},
        {"as": ""},
        {"as": "x" * 600},
        {"arguments": []},
        {"dataset": "A B"},
        {"capability": None},
        {"sql": "x"},
    ],
)
def test_a_request_to_explain_that_does_not_read_is_one_line(served: Served, body: dict[str, Any]) -> None:
    given = {**CALL, "as": "process_engineer", "arguments": {}, **body} if body else {}
    assert served.post("explain", given).status_code == 400


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/admin/cache/keys"),
        ("GET", "/admin/cache/purge"),
        ("GET", "/admin/cache/explain"),
        ("DELETE", "/admin/cache/keys"),
        ("HEAD", "/admin/cache/stats"),
        ("GET", "/admin/cache/"),
        ("GET", "/admin/keys"),
        ("GET", "/admin"),
    ],
)
def test_another_path_or_method_is_not_there(served: Served, method: str, path: str) -> None:
    assert served.ask(method, path).status_code == 404


def test_a_body_is_bounded_and_read_strictly(served: Served) -> None:
    big = served.ask("POST", "/admin/cache/purge", content=b" " * (64 * 1024 + 1))
    assert big.status_code == 413
    for body in (b"", b"{", b'{"all":true,"all":true}', b"\xff"):
        assert served.ask("POST", "/admin/cache/purge", content=body).status_code == 400
    assert held(served) == (2, 1)


def test_an_unknown_entry_is_not_found(served: Served) -> None:
    assert served.get("show", key="nothing").status_code == 404
    assert served.get("diff", left="nothing", right="nothing").status_code == 404


def test_a_store_that_is_damaged_is_unavailable_and_told_in_fixed_words(served: Served) -> None:
    path = served.settings.home / "cache.sqlite"
    path.write_bytes(b"SECRET of nobody" * 512)
    answer = served.get("keys")
    assert answer.status_code == 503
    assert "SECRET" not in answer.text


def test_answers_are_not_stored_on_the_way(served: Served) -> None:
    assert served.get("stats").headers["cache-control"] == "no-store"


def test_so_many_requests_at_once_and_so_many_a_second() -> None:
    rate = _Rate(40.0)
    for _ in range(40):
        rate.take(100.0)
    with pytest.raises(DatasetAgentError) as caught:
        rate.take(100.05)
    assert (caught.value.category, caught.value.retry_after) == (Category.RATE_LIMITED, 1.0)
    rate.take(100.2)


async def test_more_than_a_few_at_once_are_asked_to_wait() -> None:
    door = AdminDoor(PlainTextResponse("passed"), desk=None, token=lambda: None)  # type: ignore[arg-type]
    gate = asyncio.Event()

    async def slow(_: Any) -> dict[str, Any]:
        await gate.wait()
        return {}

    waiting = [asyncio.create_task(door._one_by_one(slow, {})) for _ in range(8)]
    await asyncio.sleep(0)
    with pytest.raises(DatasetAgentError) as caught:
        async with asyncio.timeout(10):  # one too many would wait with the others
            await door._one_by_one(slow, {})
    assert caught.value.code == "remote_agent.admin.busy"
    gate.set()
    assert await asyncio.gather(*waiting) == [{}] * 8
    assert await door._one_by_one(slow, {}) == {}


async def test_a_fault_that_nobody_foresaw_is_told_in_fixed_words(caplog: pytest.LogCaptureFixture) -> None:
    door = AdminDoor(PlainTextResponse("passed"), desk=None, token=lambda: None)  # type: ignore[arg-type]

    async def broken(_: Any) -> dict[str, Any]:
        raise ValueError("SECRET")

    with pytest.raises(DatasetAgentError) as caught:
        await door._one_by_one(broken, {})
    assert "SECRET" not in caught.value.message + json.dumps(caplog.messages)


async def test_work_for_a_client_that_is_gone_ends() -> None:
    ended = asyncio.Event()

    async def walk() -> dict[str, Any]:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return {}

    async def gone() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    assert await _while_there(walk(), gone) is None
    assert ended.is_set()
