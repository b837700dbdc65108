"""The bearer token of the admin endpoint: where it comes from, and whether a request has it."""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass, field
from typing import Final

from contract.errors import Category, Component, DatasetAgentError
from contract.secret_file import SecretFileError, read_secret
from contract.settings import Settings

_FORM: Final = re.compile(r"[!-~]{32,512}")
_WHAT: Final = "the admin token"


@dataclass(frozen=True, slots=True)
class AdminToken:
    """A token by its SHA-256, so that two of any length are compared in one time."""

    digest: bytes = field(repr=False)

    def is_of(self, headers: list[tuple[bytes, bytes]]) -> bool:
        """Whether exactly one Authorization header carries this token as bearer."""
        lines = [value for name, value in headers if name == b"authorization"]
        scheme, _, given = (lines[0] if len(lines) == 1 else b"").partition(b" ")
        same = hmac.compare_digest(hashlib.sha256(given.strip()).digest(), self.digest)
        return same and scheme.lower() == b"bearer"


def admin_token(settings: Settings) -> AdminToken | None:
    """``None`` where no token is set: then there is no admin endpoint. Raises as ``token_text``."""
    text = token_text(settings)
    return None if text is None else AdminToken(hashlib.sha256(text.encode()).digest())


def token_text(settings: Settings) -> str | None:
    """The token of the settings, or of the file they name; of the file, surrounding white space is no part.

    Raises a CONFIGURATION fault where both are given, or where it is no token.
    """
    given, file = settings.admin_token, settings.admin_token_file
    if given is not None and file is not None:
        raise _fault("two_sources", "set DATASET_AGENT_ADMIN_TOKEN or DATASET_AGENT_ADMIN_TOKEN_FILE, not both")
    if given is not None:
        return _checked(given.get_secret_value(), "DATASET_AGENT_ADMIN_TOKEN")
    if file is None:
        return None
    try:
        data = read_secret(file, what=_WHAT, limit=1_024)
    except SecretFileError as error:
        raise _fault(error.code, str(error)) from error
    return _checked(data.decode("ascii", "replace").strip(), str(file))


def _checked(text: str, where: str) -> str:
    if _FORM.fullmatch(text) is None:
        raise _fault("malformed", f"{where} must hold 32 to 512 printable ASCII characters without spaces")
    return text


def _fault(code: str, message: str) -> DatasetAgentError:
    return DatasetAgentError(Component.REMOTE_AGENT, Category.CONFIGURATION, f"remote_agent.admin.{code}", message)
