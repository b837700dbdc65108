"""The SDK's call context, built without the request's headers."""

from __future__ import annotations

from a2a.extensions.common import HTTP_EXTENSION_HEADER, get_requested_extensions
from a2a.server.context import ServerCallContext
from a2a.server.routes.common import ServerCallContextBuilder
from a2a.utils.constants import VERSION_HEADER
from starlette.requests import Request

from contract.extension import GRANT_HEADER
from remote_agent.caller import CallerUser, PresentedGrants
from remote_agent.incoming import GRANTS_KEY


class GovernedContextBuilder(ServerCallContextBuilder):
    """The authenticated caller, the activated extensions, and the grant held opaquely.

    The SDK's default builder copies every header into ``state``, bearer token included; this
    one copies the protocol version, which the SDK looks for there, and nothing else.
    """

    def build(self, request: Request) -> ServerCallContext:
        caller = request.scope["dataset_agent.caller"]
        version = request.headers.get(VERSION_HEADER)
        return ServerCallContext(
            user=CallerUser(caller),
            state={
                GRANTS_KEY: PresentedGrants(tuple(request.headers.getlist(GRANT_HEADER))),
                "headers": {} if version is None else {VERSION_HEADER.lower(): version},
            },
            requested_extensions=get_requested_extensions(request.headers.getlist(HTTP_EXTENSION_HEADER)),
        )
