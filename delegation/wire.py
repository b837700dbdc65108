"""A2A service parameters: the headers that go beside a message, and never inside one."""

from __future__ import annotations

from collections.abc import Mapping

from a2a.client.service_parameters import ServiceParameters, ServiceParametersFactory, with_a2a_extensions
from a2a.utils.constants import PROTOCOL_VERSION_1_0, VERSION_HEADER

from contract.extension import EXTENSION_URI


def service_parameters(existing: ServiceParameters | None, headers: Mapping[str, str]) -> ServiceParameters:
    """``existing`` with ``headers`` and with the execution-grant extension activated."""
    parameters = ServiceParametersFactory.create_from(existing, [with_a2a_extensions([EXTENSION_URI])])
    parameters[VERSION_HEADER] = PROTOCOL_VERSION_1_0
    parameters.update(headers)
    return parameters
