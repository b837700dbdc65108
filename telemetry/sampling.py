"""Which traces are kept: by what the caller decided, or by the id of the trace, so that agents agree without a word."""

from __future__ import annotations

from typing import Final

from contract.trace_context import TraceContext
from contract.tracing import Sampler

SAMPLERS: Final = (
    *("parentbased_always_on", "parentbased_always_off", "parentbased_traceidratio"),
    *("always_on", "always_off", "traceidratio"),
)
"""The names that OpenTelemetry gives them."""
_PARENT: Final = "parentbased_"
_LOW: Final = 2**64


def sampler_of(name: str, ratio: float) -> Sampler:
    """A ``parentbased_`` one does as the verified caller did, and as the other part of its name says where there is none."""
    own = {"always_on": 1.0, "always_off": 0.0, "traceidratio": ratio}[name.removeprefix(_PARENT)]
    bound = round(own * _LOW)
    follows = name.startswith(_PARENT)

    def sampled(parent: TraceContext | None, trace_id: str) -> bool:
        if follows and parent is not None:
            return parent.sampled
        return int(trace_id[16:], 16) < bound

    return sampled
