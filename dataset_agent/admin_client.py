"""Asking the admin endpoint of a running agent, for the commands that work against a container."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import httpx

from contract.address import UnsafeUrl, plain_url, secure_url
from contract.canonical import InvalidJson, parse_json
from contract.errors import Category, Component, DatasetAgentError
from contract.settings import Settings
from remote_agent.admin_token import token_text

Members = Mapping[str, Any]
_MOST: Final = 16 * 2**20
_CATEGORIES: Final = {
    400: Category.INVALID_INPUT,
    401: Category.UNAUTHENTICATED,
    404: Category.NOT_FOUND,
    413: Category.INVALID_INPUT,
    429: Category.RATE_LIMITED,
}


class AdminClient:
    """The part of the endpoint below ``/admin/<part>/``. Faults are ``command.<part>.*``.

    ``patience_s`` is the longest wait for one piece of an answer.
    """

    def __init__(self, settings: Settings, url: str, part: str, *, patience_s: float) -> None:
        """Raises INVALID_INPUT for a URL that is none, CONFIGURATION without a token for it."""
        self._part = part
        self._patience_s = patience_s
        try:
            (plain_url if settings.private_network else secure_url)(url)
        except UnsafeUrl as error:
            raise self._fault(Category.INVALID_INPUT, "url", f"--url: {error}") from error
        token = token_text(settings)
        if token is None:
            told = "set DATASET_AGENT_ADMIN_TOKEN, or DATASET_AGENT_ADMIN_TOKEN_FILE, to the token of that agent"
            raise self._fault(Category.CONFIGURATION, "token", told)
        self._url = url.rstrip("/")
        self._token = token

    def ask(
        self, method: str, what: str, *, params: Members | None = None, body: Members | None = None
    ) -> dict[str, Any]:
        """The JSON object that it answers with. Raises ``DatasetAgentError``."""
        try:
            with (
                httpx.Client(timeout=self._patience_s, trust_env=False) as http,
                http.stream(
                    method,
                    f"{self._url}/admin/{self._part}/{what}",
                    params=dict(params or {}),
                    json=None if body is None else dict(body),
                    headers={"Authorization": f"Bearer {self._token}"},
                ) as response,
            ):
                data = self._bounded(response)
        except httpx.HTTPError as error:
            told = f"{self._url} does not answer ({type(error).__name__}): start the agent, or correct --url"
            raise self._fault(Category.UNAVAILABLE, "unreachable", told) from error
        return self._read(response.status_code, data)

    def _bounded(self, response: httpx.Response) -> bytes:
        data = b""
        for piece in response.iter_bytes():
            data += piece
            if len(data) > _MOST:
                raise self._fault(Category.UNAVAILABLE, "answer", f"the answer is larger than {_MOST} bytes")
        return data

    def _read(self, status: int, data: bytes) -> dict[str, Any]:
        try:
            value = parse_json(data, limit=_MOST)
        except InvalidJson:
            value = None
        if status == 200 and isinstance(value, dict):
            return value
        problem = value if isinstance(value, dict) else {}
        code, detail = problem.get("code"), problem.get("detail")
        if status == 404 and code in (None, "remote_agent.admin.path"):
            set_there = "set DATASET_AGENT_ADMIN_TOKEN where it is served, or correct --url"
            raise self._fault(Category.NOT_FOUND, "endpoint", f"{self._url} has no admin endpoint: {set_there}")
        if status == 401 and code in (None, "remote_agent.admin.token"):
            raise self._fault(Category.UNAUTHENTICATED, "token", f"this is not the admin token of {self._url}")
        told = detail if isinstance(detail, str) else f"{self._url} answers {status}, and nothing that an agent would"
        raise self._fault(_CATEGORIES.get(status, Category.UNAVAILABLE), "refused", told)

    def _fault(self, category: Category, code: str, message: str) -> DatasetAgentError:
        return DatasetAgentError(Component.COMMAND, category, f"command.{self._part}.{code}", message)
