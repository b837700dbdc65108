"""A policy server with OPA's data API, evaluating the shipped Cedar policies.

``POST /v1/data/dataset_agent/decision`` with ``{"input": …}`` answers ``{"result": …}``, as
OPA does, so a company's own OPA can stand in its place.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse

from contract.canonical import InvalidJson, parse_json
from contract.errors import DatasetAgentError
from control_plane.evaluator import decision_document
from control_plane.policy import PolicySet, load_policies
from control_plane.policy_seen import told_apart

log = logging.getLogger(__name__)
MAX_INPUT_BYTES = 64 * 1024


class PolicyFile:
    """The policies of a datasets folder; a reload of broken ones keeps the old. Raises where they are broken."""

    def __init__(self, datasets: Path, home: Path | None = None) -> None:
        self._folder, self._home = datasets / "policies", home
        self.policies = self._loaded()
        self._generation = 1
        self._fault: str | None = None

    def status(self) -> dict[str, Any]:
        return {"generation": self._generation, "fault": self._fault, "invalid": {}}

    async def reload(self) -> None:
        try:
            self.policies, self._fault = self._loaded(), None
        except DatasetAgentError as error:
            self._fault = error.message
        else:
            self._generation += 1

    def _loaded(self) -> PolicySet:
        policies = load_policies(self._folder)
        if self._home is not None and (told := told_apart(policies, self._folder.parent, self._home, remember=True)):
            log.warning(told)
        return policies


def create_policy_app(file: PolicyFile) -> FastAPI:
    """The policy server over the policies in force."""
    app = FastAPI(title="Policy server", docs_url=None, redoc_url=None, openapi_url=None)

    @app.post("/v1/data/dataset_agent/decision")
    async def decide(request: Request) -> Response:
        if "origin" in request.headers:  # a page in a browser, which may have had its own name pointed at this machine
            return JSONResponse({"code": "unauthorized", "message": "pages are told nothing here"}, status_code=403)
        try:
            body: Any = parse_json(await _limited(request), limit=MAX_INPUT_BYTES)
        except InvalidJson as error:
            return JSONResponse({"code": "invalid_parameter", "message": str(error)}, status_code=400)
        if not isinstance(body, dict) or "input" not in body:
            return JSONResponse({"code": "invalid_parameter", "message": 'send {"input": …}'}, status_code=400)
        try:
            return JSONResponse(decision_document(file.policies, body["input"]))
        except DatasetAgentError as error:
            return JSONResponse({"code": "invalid_parameter", "message": error.message}, status_code=400)

    @app.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "ok", "policy_version": file.policies.version}

    return app


async def _limited(request: Request) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_INPUT_BYTES:
            break
    return bytes(body)
