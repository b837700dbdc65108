"""An artifact in a file: ``{"envelope": …, "result_base64": …}``, to be verified where nothing runs.

Without ``result_base64`` the rows are in a file of their own.
"""

from __future__ import annotations

import base64
import binascii
import errno
import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from contract.errors import Category, Component, DatasetAgentError
from contract.files import read_bounded

MAX_ARTIFACT_BYTES: Final = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Artifact:
    """Result bytes as they were sent, and the envelope they came with; *unverified*.

    ``body`` is ``None`` where the rows were fetched into a file of their own.
    """

    envelope: dict[str, Any]
    body: bytes | None


def write_artifact(path: Path, artifact: Artifact) -> None:
    """Write the file whole or not at all, readable by its user only. Raises ``OSError``."""
    told: dict[str, Any] = {"envelope": artifact.envelope}
    if artifact.body is not None:
        told["result_base64"] = base64.b64encode(artifact.body).decode("ascii")
    text = json.dumps(told)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def read_artifact(path: Path) -> Artifact:
    """Raises ``DatasetAgentError`` (``evidence.artifact.not_found``, ``evidence.artifact.malformed``)."""
    try:
        data = read_bounded(path, MAX_ARTIFACT_BYTES)
    except OSError as error:
        if error.errno in (errno.EFBIG, errno.EINVAL):
            raise _malformed(path, str(error.strerror)) from error
        raise DatasetAgentError(
            Component.EVIDENCE,
            Category.NOT_FOUND,
            "evidence.artifact.not_found",
            f"the artifact {path} cannot be read: name a file saved with an answer",
        ) from error
    try:
        value = orjson.loads(data)  # the strict reader is for what is signed; nothing here is trusted yet
    except orjson.JSONDecodeError as error:
        raise _malformed(path, "it is not JSON") from error
    if not isinstance(value, dict) or set(value) | {"result_base64"} != {"envelope", "result_base64"}:
        raise _malformed(
            path, "it must have exactly the members envelope and, unless its rows are apart, result_base64"
        )
    envelope, result = value["envelope"], value.get("result_base64")
    if isinstance(envelope, dict) and "result_base64" not in value:
        return Artifact(envelope, None)
    if not isinstance(envelope, dict) or not isinstance(result, str):
        raise _malformed(path, "envelope must be an object and result_base64 text")
    try:
        body = base64.b64decode(result.encode("ascii"), validate=True)
    except (UnicodeEncodeError, binascii.Error) as error:
        raise _malformed(path, "result_base64 is not base64") from error
    return Artifact(envelope, body)


def _malformed(path: Path, why: str) -> DatasetAgentError:
    return DatasetAgentError(
        Component.EVIDENCE,
        Category.INVALID_INPUT,
        "evidence.artifact.malformed",
        f"{path.name} is not a saved artifact: {why}",
    )
