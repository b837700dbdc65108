"""``root``: the root agent as a process, for applications."""

from __future__ import annotations

import asyncio
from contextlib import closing
from typing import TYPE_CHECKING, Any

from contract.address import is_loopback
from contract.errors import Component, DatasetAgentError, WrongSetting
from contract.settings import Settings
from contract.telemetry import unquoted
from dataset_agent.configuration import check_user
from dataset_agent.console import note
from dataset_agent.evidence_commands import Side, ledger_path
from dataset_agent.process import address_of, bind_port, serve_app
from dataset_agent.serve_options import Host, LogFormat, Port, ReadyJson, announce, begin, served_settings

if TYPE_CHECKING:
    from root_agent.service import Service


def root(port: Port = 8800, host: Host = None, log_format: LogFormat = None, as_json: ReadyJson = False) -> None:
    """Serve the root agent to applications: POST /ask with a person's bearer token."""
    settings = served_settings(host=host, log_format=log_format)
    begin(f"loading the root agent, and the policies and principals of {settings.datasets}")
    asyncio.run(_root(settings, port, as_json))


async def _root(settings: Settings, port: int, as_json: bool) -> None:
    check_user(settings, ledger_path(settings, Side.ROOT))
    with closing(bind_port(settings.host, port)) as listener:
        from root_agent.app import build_app  # ADK takes seconds to load: a port that is taken is told before
        from root_agent.opening import open_service

        service = open_service(settings)
        await _ready_for_people(settings, service)
        world = RootWorld(settings, service)
        await serve_app(
            build_app(service, max_body_bytes=settings.max_body_bytes),
            listener,
            settings=settings,
            kind="root",
            status=world.status,
            reload=world.reload,
            ready=announce("the root agent", address_of(listener), as_json=as_json),
        )


async def _ready_for_people(settings: Settings, service: Service) -> None:
    """Raises CONFIGURATION where nobody could ever be verified. A provider that is away is waited for by nobody."""
    from root_agent.opening import close_service

    provider = service.identity_provider
    if provider is not None:
        note(f"reading the keys of {provider.provider.issuer} …")
        if not await provider.warm(service.clock()):
            note(f"the keys of {provider.provider.issuer} cannot be read yet: requests are answered 503 until they can")
    elif not settings.development_issuer:
        await close_service(service)
        told = "set DATASET_AGENT_OIDC_ISSUER and DATASET_AGENT_OIDC_AUDIENCE to your identity provider's"
        raise WrongSetting(Component.COMMAND, "command.root.people", f"nobody could ask: {told}")
    elif not is_loopback(settings.host):
        note("the development issuer is on: who may run dataset-agent login here may ask as anybody")


class RootWorld:
    """The root's principals, policies, trust and keys, re-read on request; broken ones are not taken over."""

    def __init__(self, settings: Settings, service: Service) -> None:
        self._settings = settings
        self._service = service
        self._generation = 1
        self._fault: str | None = None
        self._reloading = asyncio.Lock()

    def status(self) -> dict[str, Any]:
        return {"generation": self._generation, "fault": self._fault, "invalid": {}}

    async def reload(self) -> None:
        async with self._reloading:
            await self._reload()

    async def _reload(self) -> None:
        from root_agent.opening import reload_service

        try:
            await reload_service(self._settings, self._service)
        except DatasetAgentError as error:
            self._fault = error.message
            note(f"reload refused, the old version stays in force: {unquoted(error.message)}")
            return
        self._fault = None
        self._generation += 1
