"""Where the cache commands look: into the store that the settings name, or over the admin endpoint of an agent."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final, Protocol

import httpx
import typer

from cache.keys import load_keys
from contract.address import UnsafeUrl, plain_url, secure_url
from contract.canonical import InvalidJson, parse_json
from contract.errors import Category, Component, DatasetAgentError
from contract.settings import Settings
from dataset_agent.configuration import check_home
from remote_agent.admin_cache import CacheDesk, Progress
from remote_agent.admin_names import unknown_name
from remote_agent.admin_query import PREFIX, read_asked, read_key, read_listing, read_purge
from remote_agent.admin_token import token_text

if TYPE_CHECKING:
    from remote_agent.service import World

At = Annotated[str | None, typer.Option("--url", help="Ask the admin endpoint of the agent there instead.")]
Members = Mapping[str, Any]

_PATIENCE_S: Final = 600.0
_MOST: Final = 16 * 2**20
_CATEGORIES: Final = {
    400: Category.INVALID_INPUT,
    401: Category.UNAUTHENTICATED,
    404: Category.NOT_FOUND,
    413: Category.INVALID_INPUT,
    429: Category.RATE_LIMITED,
}


class CacheSource(Protocol):
    """Each answer is one JSON object, the same from here and from there (``remote_agent.admin_cache``)."""

    def entries(self, members: Members) -> dict[str, Any]: ...

    def stats(self) -> dict[str, Any]: ...

    def show(self, key: str) -> dict[str, Any]: ...

    def diff(self, left: str, right: str) -> dict[str, Any]: ...

    def verify(self, progress: Progress | None) -> dict[str, Any]: ...

    def purge(self, members: Members, progress: Progress | None) -> dict[str, Any]: ...

    def explain(self, members: Members) -> dict[str, Any]: ...


def cache_source(settings: Settings, url: str | None) -> CacheSource:
    """Raises NOT_FOUND where there is no home to look into, CONFIGURATION without a token for ``url``."""
    if url is not None:
        return _There(settings, url)
    if settings.cache_url is None:
        check_home(settings)
    return _Here(settings)


class _Here:
    """The store itself, read beside whoever serves from it."""

    def __init__(self, settings: Settings) -> None:
        self._desk = CacheDesk(settings, lambda: load_keys(settings), self._world, time.time)
        self._settings = settings

    @asynccontextmanager
    async def _world(self, dataset: str) -> AsyncIterator[World]:
        from control_plane.registry import load_registry  # engines take a second to load
        from remote_agent.admin_world import described_world

        async with described_world(self._settings, dataset) as world:
            if dataset not in world.datasets and dataset not in world.invalid:
                raise unknown_name("dataset", dataset, load_registry(self._settings.datasets).datasets)
            yield world

    def entries(self, members: Members) -> dict[str, Any]:
        chosen, sort, limit = read_listing(members)
        return asyncio.run(self._desk.entries(chosen, sort=sort, limit=limit))

    def stats(self) -> dict[str, Any]:
        return asyncio.run(self._desk.stats())

    def show(self, key: str) -> dict[str, Any]:
        return asyncio.run(self._desk.show(read_key(key)))

    def diff(self, left: str, right: str) -> dict[str, Any]:
        return asyncio.run(self._desk.diff(read_key(left), read_key(right)))

    def verify(self, progress: Progress | None) -> dict[str, Any]:
        return asyncio.run(self._desk.verify(progress))

    def purge(self, members: Members, progress: Progress | None) -> dict[str, Any]:
        return asyncio.run(self._desk.purge(read_purge(members), progress))

    def explain(self, members: Members) -> dict[str, Any]:
        return asyncio.run(self._desk.explain(read_asked(members)))


class _There:
    """An agent's admin endpoint, which has the keys and the datasets that are served. It tells no progress."""

    def __init__(self, settings: Settings, url: str) -> None:
        try:
            (plain_url if settings.private_network else secure_url)(url)
        except UnsafeUrl as error:
            raise _fault(Category.INVALID_INPUT, "url", f"--url: {error}") from error
        token = token_text(settings)
        if token is None:
            told = "set DATASET_AGENT_ADMIN_TOKEN, or DATASET_AGENT_ADMIN_TOKEN_FILE, to the token of that agent"
            raise _fault(Category.CONFIGURATION, "token", told)
        self._url = url.rstrip("/")
        self._token = token

    def entries(self, members: Members) -> dict[str, Any]:
        given = {name: str(value).lower() if isinstance(value, bool) else value for name, value in members.items()}
        if "older_than_s" in given:
            given["older_than_s"] = int(given["older_than_s"])
        return self._ask("GET", "keys", params=given)

    def stats(self) -> dict[str, Any]:
        return self._ask("GET", "stats")

    def show(self, key: str) -> dict[str, Any]:
        return self._ask("GET", "show", params={"key": key})

    def diff(self, left: str, right: str) -> dict[str, Any]:
        return self._ask("GET", "diff", params={"left": left, "right": right})

    def verify(self, progress: Progress | None) -> dict[str, Any]:
        return self._ask("GET", "verify")

    def purge(self, members: Members, progress: Progress | None) -> dict[str, Any]:
        return self._ask("POST", "purge", body=members)

    def explain(self, members: Members) -> dict[str, Any]:
        return self._ask("POST", "explain", body=members)

    def _ask(
        self, method: str, what: str, *, params: Members | None = None, body: Members | None = None
    ) -> dict[str, Any]:
        try:
            with (
                httpx.Client(timeout=_PATIENCE_S, trust_env=False) as http,
                http.stream(
                    method,
                    self._url + PREFIX + what,
                    params=dict(params or {}),
                    json=None if body is None else dict(body),
                    headers={"Authorization": f"Bearer {self._token}"},
                ) as response,
            ):
                data = _bounded(response)
        except httpx.HTTPError as error:
            told = f"{self._url} does not answer ({type(error).__name__}): start the agent, or correct --url"
            raise _fault(Category.UNAVAILABLE, "unreachable", told) from error
        return _read(response.status_code, data, self._url)


def _bounded(response: httpx.Response) -> bytes:
    data = b""
    for piece in response.iter_bytes():
        data += piece
        if len(data) > _MOST:
            raise _fault(Category.UNAVAILABLE, "answer", f"the answer is larger than {_MOST} bytes")
    return data


def _read(status: int, data: bytes, url: str) -> dict[str, Any]:
    try:
        value = parse_json(data, limit=_MOST)
    except InvalidJson:
        value = None
    if status == 200 and isinstance(value, dict):
        return value
    problem = value if isinstance(value, dict) else {}
    code, detail = problem.get("code"), problem.get("detail")
    if status == 404 and code in (None, "remote_agent.admin.path"):
        told = f"{url} has no admin endpoint: set DATASET_AGENT_ADMIN_TOKEN where it is served, or correct --url"
        raise _fault(Category.NOT_FOUND, "endpoint", told)
    if status == 401:
        raise _fault(Category.UNAUTHENTICATED, "token", f"this is not the admin token of {url}")
    told = detail if isinstance(detail, str) else f"{url} answers {status}, and nothing that an agent would"
    raise _fault(_CATEGORIES.get(status, Category.UNAVAILABLE), "refused", told)


def _fault(category: Category, code: str, message: str) -> DatasetAgentError:
    return DatasetAgentError(Component.COMMAND, category, f"command.cache.{code}", message)
