"""A policy server with OPA's data API, evaluating the shipped Cedar policies.

``POST /v1/data/dataset_agent/decision`` with ``{"input": …}`` answers ``{"result": …}``, as
OPA does, so a company's own OPA can stand in its place.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse

from contract.canonical import InvalidJson, parse_json
from control_plane.evaluator import decision_document
from control_plane.policy import load_policies

MAX_INPUT_BYTES = 64 * 1024


def create_policy_app(datasets: Path) -> FastAPI:
    """The policy server over the policies of a datasets folder. Raises where they are broken."""
    policies = load_policies(datasets / "policies")
    app = FastAPI(title="Policy server", docs_url=None, redoc_url=None, openapi_url=None)

    @app.post("/v1/data/dataset_agent/decision")
    async def decide(request: Request) -> Response:
        try:
            body: Any = parse_json(await _limited(request), limit=MAX_INPUT_BYTES)
        except InvalidJson as error:
            return JSONResponse({"code": "invalid_parameter", "message": str(error)}, status_code=400)
        if not isinstance(body, dict) or "input" not in body:
            return JSONResponse({"code": "invalid_parameter", "message": 'send {"input": …}'}, status_code=400)
        return JSONResponse(decision_document(policies, body["input"]))

    @app.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "ok", "policy_version": policies.version}

    return app


async def _limited(request: Request) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_INPUT_BYTES:
            break
    return bytes(body)
