"""``policy``: explain a decision, test a table of them, serve the policies as a process."""

from __future__ import annotations

import asyncio
from contextlib import closing

import typer

from dataset_agent.policy_explaining import explain
from dataset_agent.policy_testing import check
from dataset_agent.process import address_of, bind_port, serve_app
from dataset_agent.serve_options import Host, LogFormat, Port, ReadyJson, announce, begin, served_settings

policy_app = typer.Typer(help="Explain, test and serve policies.", no_args_is_help=True)
policy_app.command("explain")(explain)
policy_app.command("test")(check)


@policy_app.callback()
def policy_group() -> None:
    """Explain, test and serve policies."""


@policy_app.command("serve")
def policy_serve(
    port: Port = 8802, host: Host = None, log_format: LogFormat = None, as_json: ReadyJson = False
) -> None:
    """Serve the policies of the datasets folder; point DATASET_AGENT_POLICY_URL at it."""
    settings = served_settings(host=host, log_format=log_format)
    begin(f"loading the policies of {settings.datasets}")
    from dataset_agent.policy_server import PolicyFile, create_policy_app  # FastAPI takes a second to load

    policies = PolicyFile(settings.datasets, settings.home)
    with closing(bind_port(settings.host, port, found_by="DATASET_AGENT_POLICY_URL")) as listener:
        asyncio.run(
            serve_app(
                create_policy_app(policies),
                listener,
                settings=settings,
                kind="policy",
                status=policies.status,
                reload=policies.reload,
                ready=announce("the policy server", address_of(listener), as_json=as_json),
            )
        )
