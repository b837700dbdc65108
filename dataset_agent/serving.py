"""``serve``: the dataset agent as a process."""

from __future__ import annotations

import asyncio
from contextlib import closing

from contract.settings import Settings
from control_plane.identity import refuse_in_production
from dataset_agent.configuration import check_datasets_folder
from dataset_agent.ledger_writer import ledger_writer
from dataset_agent.process import address_of, advertised_address, bind_port, serve_app
from dataset_agent.serve_options import Host, LogFormat, Port, ReadyJson, Workers, announce, begin, served_settings


def serve(
    port: Port = 8801,
    host: Host = None,
    workers: Workers = None,
    log_format: LogFormat = None,
    as_json: ReadyJson = False,
) -> None:
    """Serve the dataset agent. SIGTERM drains; edits of the datasets folder, SIGHUP and `reload` re-read it."""
    settings = served_settings(host=host, workers=workers, log_format=log_format)
    refuse_in_production(settings)
    check_datasets_folder(settings)
    begin(f"loading the dataset agent and the datasets of {settings.datasets}")
    if settings.workers > 1:
        from dataset_agent.workers import serve_workers  # as below

        serve_workers(settings, port, as_json=as_json)
    else:
        asyncio.run(_serve(settings, port, as_json))


async def _serve(settings: Settings, port: int, as_json: bool) -> None:
    with closing(bind_port(settings.host, port, found_by="DATASET_AGENT_URL")) as listener:
        from remote_agent.app import create_app  # ADK takes seconds to load: a port that is taken is told before
        from remote_agent.lifecycle import Lifecycle

        with ledger_writer(settings) as writer:
            lifecycle = await Lifecycle.open(
                settings,
                public_url=advertised_address(settings, listener),
                writer=writer,
            )
            await serve_app(
                create_app(lifecycle),
                listener,
                settings=settings,
                kind="serve",
                status=lifecycle.status,
                reload=lifecycle.reload,
                ready=announce("the dataset agent", address_of(listener), as_json=as_json),
                watch=lifecycle.watch,
            )
