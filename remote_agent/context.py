"""The SDK's call context, built without the request's headers."""

from __future__ import annotations

from typing import Final

from a2a.extensions.common import HTTP_EXTENSION_HEADER, get_requested_extensions
from a2a.server.context import ServerCallContext
from a2a.server.routes.common import ServerCallContextBuilder
from a2a.utils.constants import VERSION_HEADER
from starlette.requests import Request
from starlette.types import Scope

from contract.extension import GRANT_HEADER
from remote_agent.authentication import CALLER
from remote_agent.caller import CallerUser, PresentedGrants
from remote_agent.incoming import GRANTS_KEY

VERSION: Final = VERSION_HEADER.lower()
_VERSION, _EXTENSIONS, _GRANT = (name.lower().encode() for name in (VERSION, HTTP_EXTENSION_HEADER, GRANT_HEADER))


class GovernedContextBuilder(ServerCallContextBuilder):
    """What ``context_of`` makes of the SDK's request."""

    def build(self, request: Request) -> ServerCallContext:
        return context_of(request.scope)


def context_of(scope: Scope) -> ServerCallContext:
    """The authenticated caller, the activated extensions, and the grant held opaquely.

    The SDK's default builder copies every header into ``state``, bearer token included; this
    one copies the protocol version, which the SDK looks for there, and nothing else.
    """
    grants, extensions, versions = _headers(scope, _GRANT, _EXTENSIONS, _VERSION)
    return ServerCallContext(
        user=CallerUser(scope[CALLER]),
        state={
            GRANTS_KEY: PresentedGrants(tuple(grants)),
            "headers": {VERSION: versions[0]} if versions else {},
        },
        requested_extensions=get_requested_extensions(extensions),
    )


def _headers(scope: Scope, *names: bytes) -> list[list[str]]:
    """The field lines of each name."""
    found: dict[bytes, list[str]] = {name: [] for name in names}
    for name, value in scope["headers"]:
        if name in found:
            found[name].append(value.decode("latin-1"))
    return list(found.values())
