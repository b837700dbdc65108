"""Two evaluators behind one Protocol: the policy set in process, or a policy server over HTTP.

The server speaks OPA's data API, so a company's own OPA can stand in for ours. A server
that is stopped, slow or unintelligible is unknown authority, never a refusal or a permit.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Protocol

import httpx
from pydantic import ValidationError

from contract.address import UnsafeUrl, is_loopback, plain_url
from contract.canonical import InvalidJson, parse_json
from contract.errors import Category, Component, DatasetAgentError, WrongSetting
from contract.principal import Principal
from contract.scope import Sensitivity
from control_plane.admission_memo import Granted
from control_plane.descriptor import Effect
from control_plane.model_faults import faults_in
from control_plane.policy import PolicyAnswer, PolicyRequest, PolicySet

DECISION_PATH: Final = "/v1/data/dataset_agent/decision"
MAX_ANSWER_BYTES: Final = 256 * 1024
MAX_REMEMBERED: Final = 65_536
UNKNOWN_VERSION: Final = "unknown"
BESIDE_THE_RESULT: Final = frozenset({"decision_id", "metrics", "provenance", "explanation"})
"""What OPA's data API puts beside ``result``. Its ``warning`` is not one of them: it says that no input came."""

_Key = tuple[int, str, str, Effect, Sensitivity, str, str | None]


class EvaluatorUnavailable(Exception):
    """No usable answer: not reached, or what came back is not an answer."""


class EvaluatorTimeout(Exception):
    """No answer within the budget."""


class Evaluator(Protocol):
    """Answers policy questions within a budget of seconds."""

    async def evaluate(self, request: PolicyRequest) -> PolicyAnswer:
        """Raises ``EvaluatorUnavailable`` or ``EvaluatorTimeout``, and nothing else on purpose."""
        ...

    def version(self) -> str:
        """The policy version in force, ``unknown`` while none was ever stated."""
        ...


class InProcessEvaluator:
    """The policy set in this process.

    Answers are remembered: an answer is a pure function of what a policy can read, all of
    which is in the key (a principal by identity of the object, held so that it stays
    unique), and of the set, which never changes in one evaluator. Cedar holds the GIL, so
    a late answer cannot be interrupted; it is thrown away.
    """

    def __init__(
        self, policy_set: PolicySet, budget: float = 0.25, *, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._policy_set = policy_set
        self._budget = budget
        self._clock = clock
        self._answers: dict[_Key, tuple[Principal, PolicyAnswer]] = {}
        self.granted: Final = Granted()

    async def evaluate(self, request: PolicyRequest) -> PolicyAnswer:
        key = (
            id(request.principal),
            request.dataset,
            request.capability,
            request.effect,
            request.sensitivity,
            request.tenant,
            request.policy_id,
        )
        held = self._answers.get(key)
        if held is not None and held[0] is request.principal:
            return held[1]
        started = self._clock()
        answer = self._policy_set.evaluate(request)
        if self._clock() - started > self._budget:
            raise EvaluatorTimeout("the policies did not answer within the budget")
        if len(self._answers) >= MAX_REMEMBERED:
            self._answers.clear()
        self._answers[key] = (request.principal, answer)
        return answer

    def version(self) -> str:
        return self._policy_set.version


WARM_S: Final = 2.0


class HttpEvaluator:
    """A policy server: ``POST <base_url>/v1/data/dataset_agent/decision`` with ``{"input": …}``.

    ``budget`` bounds the whole exchange in seconds. Redirects are not followed and the
    environment's proxies are not used: this peer decides who may read. Plain HTTP is for
    loopback, or for a private network where that is said.

    Each question has a connection of its own. Nothing in HTTP/1.1 or in OPA's answer says which question is
    answered, so on a connection that is kept an answer too many would be taken for that of the next person.
    """

    def __init__(self, base_url: str, budget: float = 0.25, *, private_network: bool = False) -> None:
        self._url = _checked(base_url, private_network=private_network) + DECISION_PATH
        self._budget = budget
        self._version = UNKNOWN_VERSION
        # Loading the system's authorities takes longer than the budget; plain HTTP gets a context that trusts none.
        secure = self._url.startswith("https:")
        self._tls = ssl.create_default_context() if secure else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._client: tuple[asyncio.AbstractEventLoop, httpx.AsyncClient] | None = None
        self._under_way = 0
        self._is_retired = False

    async def evaluate(self, request: PolicyRequest) -> PolicyAnswer:
        self._under_way += 1
        try:
            return await self._asked({"input": request.to_json()})
        finally:
            self._under_way -= 1
            await self._leave()

    async def _asked(self, question: dict[str, Any]) -> PolicyAnswer:
        try:
            async with asyncio.timeout(self._budget):
                status, body = await self._exchange(question)
        except (TimeoutError, httpx.TimeoutException) as error:
            raise EvaluatorTimeout("the policy server did not answer within the budget") from error
        except httpx.HTTPError as error:
            raise EvaluatorUnavailable("the policy server could not be reached") from error
        answer = _answer(status, body)
        self._version = answer.policy_version
        return answer

    def version(self) -> str:
        return self._version

    async def warm(self) -> None:
        """Load and find what the first question needs, so that its budget is for the answer.

        A server that is away is no fault here: the first question finds it out.
        """
        with suppress(httpx.HTTPError, TimeoutError):
            async with asyncio.timeout(WARM_S):
                await self._health_status()

    async def health(self) -> None:
        """Raises where the server does not say that it is well: ``EvaluatorUnavailable``, or what HTTP raised."""
        if await self._health_status() != httpx.codes.OK:
            raise EvaluatorUnavailable("the policy server is not well")

    async def _health_status(self) -> int:
        """The status alone: a body says nothing more, and could be without end."""
        async with self._http().stream("GET", self._url.removesuffix(DECISION_PATH) + "/health") as response:
            return response.status_code

    async def retire(self) -> None:
        """Close when the last question is answered: another evaluator stands in for this one.

        Who still holds it may go on asking; what it opens for that is closed each time.
        """
        self._is_retired = True
        await self._leave()

    async def _leave(self) -> None:
        if self._is_retired and not self._under_way:
            await self.close()

    async def close(self) -> None:
        if self._client is not None:
            loop, client = self._client
            self._client = None
            if loop is asyncio.get_running_loop():
                await client.aclose()

    async def _exchange(self, question: dict[str, Any]) -> tuple[int, bytes]:
        body = bytearray()
        # Without an encoding, so that what is bounded is what comes, and not what it would become.
        headers = {"Accept-Encoding": "identity"}
        async with self._http().stream("POST", self._url, json=question, headers=headers) as response:
            if response.headers.get("Content-Encoding", "identity") != "identity":
                raise EvaluatorUnavailable("the policy server's answer is encoded although no encoding was asked for")
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > MAX_ANSWER_BYTES:
                    raise EvaluatorUnavailable("the policy server's answer is too large")
            return response.status_code, bytes(body)

    def _http(self) -> httpx.AsyncClient:
        loop = asyncio.get_running_loop()
        if self._client is None or self._client[0] is not loop:
            client = httpx.AsyncClient(
                verify=self._tls,
                trust_env=False,
                follow_redirects=False,
                timeout=self._budget,
                headers={"Connection": "close"},
                limits=httpx.Limits(max_connections=64),
            )
            self._client = (loop, client)
        return self._client[1]


def decision_document(policy_set: PolicySet, raw_input: Any) -> dict[str, Any]:
    """What a policy server answers to the ``input`` of a question: ``{"result": {…}}``.

    Raises an INVALID_INPUT fault for a question that is not exactly of ``PolicyInput``'s shape.
    """
    try:
        request = PolicyRequest.from_json(raw_input)
    except ValidationError as error:
        raise DatasetAgentError(
            Component.CONTROL_PLANE,
            Category.INVALID_INPUT,
            "control_plane.policy.input",
            f"input is not a policy question: {faults_in(error)}",
        ) from error
    return {"result": policy_set.evaluate(request).to_json()}


def _answer(status: int, body: bytes) -> PolicyAnswer:
    if status != 200:
        raise EvaluatorUnavailable(f"the policy server answered HTTP {status}")
    try:
        document = parse_json(body, limit=MAX_ANSWER_BYTES)
    except InvalidJson as error:
        raise EvaluatorUnavailable("the policy server's answer is not JSON") from error
    # OPA leaves `result` out when the document is undefined: a policy that is not there decides nothing.
    if not isinstance(document, dict) or "result" not in document:
        raise EvaluatorUnavailable("the policy server has no decision document of that name")
    if set(document) - BESIDE_THE_RESULT != {"result"}:
        raise EvaluatorUnavailable("the policy server says something beside its decision that is not known here")
    try:
        return PolicyAnswer.from_json(document["result"])
    except ValueError as error:
        raise EvaluatorUnavailable("the policy server's answer is not a decision") from error


def _checked(base_url: str, *, private_network: bool) -> str:
    try:
        parts = plain_url(base_url)
    except UnsafeUrl as error:
        raise _fault("must be an http or https address without credentials, query or fragment") from error
    if parts.scheme == "http" and not private_network and not is_loopback(parts.hostname or ""):
        raise _fault("is plain http off loopback; use https, or set DATASET_AGENT_PRIVATE_NETWORK=true")
    return base_url.rstrip("/")


def _fault(problem: str) -> DatasetAgentError:
    return WrongSetting(Component.CONTROL_PLANE, "control_plane.policy.url", f"DATASET_AGENT_POLICY_URL {problem}")
