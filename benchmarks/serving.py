"""What the two echoes share: a card, an app, and the product's own server settings."""

from __future__ import annotations

import uvicorn
from a2a.server.request_handlers.request_handler import RequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.routes.fastapi_routes import add_a2a_routes_to_fastapi
from a2a.types.a2a_pb2 import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from fastapi import FastAPI

from dataset_agent.process import server_settings, settle_memory


def echo_card(port: int) -> AgentCard:
    return AgentCard(
        name="echo",
        description="Echoes what it is sent.",
        version="1",
        supported_interfaces=[
            AgentInterface(url=f"http://127.0.0.1:{port}/", protocol_binding="JSONRPC", protocol_version="1.0")
        ],
        capabilities=AgentCapabilities(streaming=False),
        default_input_modes=["application/json"],
        default_output_modes=["application/json"],
        skills=[AgentSkill(id="echo", name="echo", description="echo", tags=["echo"])],
    )


def echo_app(handler: RequestHandler, card: AgentCard) -> FastAPI:
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    add_a2a_routes_to_fastapi(
        app,
        agent_card_routes=create_agent_card_routes(card),
        jsonrpc_routes=create_jsonrpc_routes(handler, "/"),
    )
    return app


def run(app: FastAPI, port: int) -> None:
    settle_memory()
    uvicorn.run(app, host="127.0.0.1", port=port, **server_settings())
