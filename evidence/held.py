"""The receipts in whatever was saved of an answer: a receipt, an answer's JSON, an envelope, another export."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import orjson

from contract.files import read_bounded
from evidence.artifact import MAX_ARTIFACT_BYTES
from evidence.checkpoint import Checkpoint, InvalidReceipt, Receipt
from evidence.dsse import PAYLOAD_TYPE
from evidence.walk import Held

_DEEPEST: Final = 48


def read_held(path: Path) -> list[Held]:
    """Every receipt and checkpoint in a JSON file, those inside of envelopes too; *unverified*.

    Of an export, its newest checkpoint. Raises ``OSError``, and ``InvalidReceipt`` where there is none.
    """
    if path.is_file() and path.stat().st_size > MAX_ARTIFACT_BYTES:
        with path.open("rb") as file:
            data = file.readline(2**20)
    else:
        data = read_bounded(path, MAX_ARTIFACT_BYTES)
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        value = _first_line(data)
    held = list(held_in(value))
    if not held:
        raise InvalidReceipt("it holds no receipt")
    return held


def held_in(value: Any, depth: int = 0) -> Iterator[Held]:
    """The receipts of a JSON value, and the checkpoints that are in no receipt."""
    if depth > _DEEPEST:
        return
    if isinstance(value, list):
        for item in value:
            yield from held_in(item, depth + 1)
    elif isinstance(value, dict):
        one = _one(value)
        if one is not None:
            yield one
            return
        for inner in (_payload(value), *value.values()):
            yield from held_in(inner, depth + 1)


def _first_line(data: bytes) -> Any:
    try:
        return orjson.loads(data.partition(b"\n")[0])
    except orjson.JSONDecodeError as error:
        raise InvalidReceipt("it is not JSON") from error


def _one(value: dict[str, Any]) -> Held | None:
    for kind in (Receipt, Checkpoint):
        try:
            return kind.from_json(value)
        except InvalidReceipt:
            continue
    return None


def _payload(value: dict[str, Any]) -> Any:
    """What an envelope holds; nothing of what is none."""
    payload = value.get("payload")
    if value.get("payloadType") != PAYLOAD_TYPE or not isinstance(payload, str):
        return None
    try:
        return orjson.loads(base64.b64decode(payload.replace("-", "+").replace("_", "/")))
    except (binascii.Error, ValueError):
        return None
