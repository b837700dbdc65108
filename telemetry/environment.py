"""The standard variables of OpenTelemetry, as far as this product reads them itself.

By default nothing is exported. Traces are where ``OTEL_TRACES_EXPORTER=otlp``, or an OTLP endpoint is
named and no exporter is. What an endpoint is asked with (``OTEL_EXPORTER_OTLP_*``), how spans are
gathered (``OTEL_BSP_*``, but for how long the last ones may take, which that code does not heed) and
what the process is called (``OTEL_SERVICE_NAME``, ``OTEL_RESOURCE_ATTRIBUTES``) is read by
OpenTelemetry's own code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from contract.errors import Component, DatasetAgentError, WrongSetting
from telemetry.sampling import SAMPLERS

_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_PROTOCOL: Final = "http/protobuf"
_TRUE: Final = "true"
_LAST_MS: Final = "OTEL_BSP_EXPORT_TIMEOUT"
LAST_S: Final = 3.0
MOST_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """That traces are exported, and which: ``sampler`` is one of ``SAMPLERS``, ``ratio`` between 0 and 1.

    A process that ends waits ``last_s`` seconds for its last spans to leave.
    """

    sampler: str
    ratio: float
    last_s: float = LAST_S


def wanted(environ: Mapping[str, str], component: Component) -> Wanted | None:
    """``None`` where no traces are exported. Raises a CONFIGURATION fault for what cannot be meant."""
    if _said(environ, "OTEL_SDK_DISABLED").lower() == _TRUE:
        return None
    exporter = _said(environ, "OTEL_TRACES_EXPORTER").lower()
    if exporter == "none" or (not exporter and not any(_said(environ, name) for name in _ENDPOINTS)):
        return None
    if exporter not in ("", "otlp"):
        raise _fault(component, "OTEL_TRACES_EXPORTER", "to otlp or none: this product exports spans by no other way")
    protocol = next((said for name in _PROTOCOLS if (said := _said(environ, name))), _PROTOCOL)
    if protocol != _PROTOCOL:
        raise _fault(component, "OTEL_EXPORTER_OTLP_PROTOCOL", f"to {_PROTOCOL}: it is the one that is installed")
    sampler = _said(environ, "OTEL_TRACES_SAMPLER").lower() or "parentbased_always_on"
    if sampler not in SAMPLERS:
        raise _fault(component, "OTEL_TRACES_SAMPLER", f"to one of {', '.join(SAMPLERS)}")
    ratio = _ratio(environ, component) if "ratio" in sampler else 1.0
    return Wanted(sampler, ratio, _last_s(environ, component))


def _last_s(environ: Mapping[str, str], component: Component) -> float:
    said = _said(environ, _LAST_MS)
    if not said:
        return LAST_S
    if not (said.isascii() and said.isdigit() and 0 < len(said) < 10 and int(said)):
        raise _fault(component, _LAST_MS, "to milliseconds")
    return min(int(said) / 1_000, MOST_S)


def _ratio(environ: Mapping[str, str], component: Component) -> float:
    said = _said(environ, "OTEL_TRACES_SAMPLER_ARG") or "1"
    try:
        ratio = float(said)
    except ValueError:
        ratio = -1.0
    if not 0.0 <= ratio <= 1.0:
        raise _fault(component, "OTEL_TRACES_SAMPLER_ARG", "to a number from 0 to 1")
    return ratio


def _said(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name, "").strip()


def _fault(component: Component, name: str, what: str) -> DatasetAgentError:
    code = f"{component.value}.telemetry.traces"
    return WrongSetting(component, code, f"unset {name}, or set it {what}")
