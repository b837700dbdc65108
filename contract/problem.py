"""A fault as a plain HTTP answer, for doors that write ASGI themselves (RFC 9457)."""

from __future__ import annotations

import json
import math
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from contract.errors import DatasetAgentError

PROBLEM_TYPE: Final = "application/problem+json"
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
_UNAUTHORIZED: Final = 401


async def send_problem(send: Send, error: DatasetAgentError, *, realm: str = "dataset-agent") -> None:
    """Answer with the fault's status and problem details, kept by no cache.

    A 401 challenges for a bearer token of ``realm`` (RFC 6750, section 3). When to come again is told
    in whole seconds, at least one (RFC 9110, section 10.2.3).
    """
    status, body = error.http_status_code(), json.dumps(error.to_problem_json()).encode()
    headers = [
        (b"content-type", PROBLEM_TYPE.encode()),
        (b"content-length", b"%d" % len(body)),
        (b"cache-control", b"no-store"),
    ]
    if status == _UNAUTHORIZED:
        headers.append((b"www-authenticate", f'Bearer realm="{realm}"'.encode()))
    if error.retry_after is not None:
        headers.append((b"retry-after", b"%d" % max(1, math.ceil(error.retry_after))))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
