"""Where the approvals commands work: at the stores of this home, or over the admin endpoint of an agent."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol

import httpx

from contract.address import UnsafeUrl, plain_url, secure_url
from contract.canonical import InvalidJson, parse_json
from contract.errors import Category, Component, DatasetAgentError
from contract.settings import Settings
from dataset_agent.configuration import check_home, check_user
from remote_agent.admin_token import token_text

if TYPE_CHECKING:
    from evidence.ledger import Ledger
    from remote_agent.approval_desk import ApprovalDesk
    from remote_agent.service import World

Members = Mapping[str, Any]

_PATIENCE_S: Final = 60.0
_MOST: Final = 16 * 2**20
_PREFIX: Final = "/admin/approvals/"
_CATEGORIES: Final = {
    400: Category.INVALID_INPUT,
    401: Category.UNAUTHENTICATED,
    404: Category.NOT_FOUND,
    429: Category.RATE_LIMITED,
}


class ApprovalSource(Protocol):
    """Each answer is one JSON object, the same from here and from there (``remote_agent.approval_desk``)."""

    def listed(self, *, everything: bool) -> dict[str, Any]: ...

    def show(self, approval_id: str, person: str) -> dict[str, Any]: ...

    def approve(self, approval_id: str, person: str, *, edits: Members, why: str) -> dict[str, Any]: ...

    def deny(self, approval_id: str, person: str, *, why: str) -> dict[str, Any]: ...


def approval_source(settings: Settings, url: str | None) -> ApprovalSource:
    """Raises NOT_FOUND where there is no home to look into, CONFIGURATION without a token for ``url``."""
    if url is not None:
        return _There(settings, url)
    check_home(settings)
    return _Here(settings)


class _Here:
    """The desk itself, over the stores of this home, beside whoever serves from it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def listed(self, *, everything: bool) -> dict[str, Any]:
        return self._at_desk(lambda desk: desk.listed(everything=everything))

    def show(self, approval_id: str, person: str) -> dict[str, Any]:
        return self._at_desk(lambda desk: desk.show(approval_id, person))

    def approve(self, approval_id: str, person: str, *, edits: Members, why: str) -> dict[str, Any]:
        return self._at_desk(lambda desk: desk.approve(approval_id, person, edits=edits, why=why))

    def deny(self, approval_id: str, person: str, *, why: str) -> dict[str, Any]:
        return self._at_desk(lambda desk: desk.deny(approval_id, person, why=why))

    def _at_desk(self, work: Callable[[ApprovalDesk], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
        async def done() -> dict[str, Any]:
            async with _own_desk(self._settings) as desk:
                return await work(desk)

        return asyncio.run(done())


@asynccontextmanager
async def _own_desk(settings: Settings) -> AsyncIterator[ApprovalDesk]:
    """A desk over this home's approvals, ledger and keys; the ledger is opened where something is recorded."""
    from grants.key_store import KeyName  # engines and ledgers take a second to load
    from grants.signers import open_signer
    from grants.trust import load_trust
    from remote_agent.admin_world import described_world
    from remote_agent.approval_desk import ApprovalDesk
    from remote_agent.approvals_place import open_approvals
    from remote_agent.approvers import Approvers
    from remote_agent.own_ledger import open_ledger

    check_user(settings, settings.home / "remote" / "ledger.sqlite")
    trust = load_trust(settings.trust_path)
    opened: list[Ledger] = []

    def ledger() -> Ledger:
        if not opened:
            opened.append(open_ledger(settings, open_signer(settings, KeyName.REMOTE), trust))
        return opened[0]

    @asynccontextmanager
    async def world(dataset: str) -> AsyncIterator[World]:
        async with described_world(settings, dataset) as described:
            yield described

    approvals, people = open_approvals(settings), Approvers(settings, lambda: trust)
    try:
        yield ApprovalDesk(settings.agent_id, world, approvals, ledger, people, time.time)
    finally:
        await people.close()
        await approvals.close()
        for one in opened:
            one.close()


class _There:
    """The desk of a running agent, behind its admin token."""

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

    def listed(self, *, everything: bool) -> dict[str, Any]:
        return self._ask("GET", "list", params={"all": str(everything).lower()})

    def show(self, approval_id: str, person: str) -> dict[str, Any]:
        return self._ask("POST", "show", body={"id": approval_id, "person": person})

    def approve(self, approval_id: str, person: str, *, edits: Members, why: str) -> dict[str, Any]:
        body = {"id": approval_id, "person": person, "edits": dict(edits), "why": why}
        return self._ask("POST", "approve", body=body)

    def deny(self, approval_id: str, person: str, *, why: str) -> dict[str, Any]:
        return self._ask("POST", "deny", body={"id": approval_id, "person": person, "why": why})

    def _ask(
        self, method: str, what: str, *, params: Members | None = None, body: Members | None = None
    ) -> dict[str, Any]:
        try:
            with (
                httpx.Client(timeout=_PATIENCE_S, trust_env=False) as http,
                http.stream(
                    method,
                    self._url + _PREFIX + what,
                    params=dict(params or {}),
                    json=None if body is None else dict(body),
                    headers={"Authorization": f"Bearer {self._token}"},
                ) as response,
            ):
                data = b""
                for piece in response.iter_bytes():
                    data += piece
                    if len(data) > _MOST:
                        raise _fault(Category.UNAVAILABLE, "answer", f"the answer is larger than {_MOST} bytes")
        except httpx.HTTPError as error:
            told = f"{self._url} does not answer ({type(error).__name__}): start the agent, or correct --url"
            raise _fault(Category.UNAVAILABLE, "unreachable", told) from error
        return _read(response.status_code, data, self._url)


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
    if status == 401 and code == "remote_agent.admin.token":
        raise _fault(Category.UNAUTHENTICATED, "token", f"this is not the admin token of {url}")
    told = detail if isinstance(detail, str) else f"{url} answers {status}, and nothing that an agent would"
    raise _fault(_CATEGORIES.get(status, Category.UNAVAILABLE), "refused", told)


def _fault(category: Category, code: str, message: str) -> DatasetAgentError:
    return DatasetAgentError(Component.COMMAND, category, f"command.approvals.{code}", message)
