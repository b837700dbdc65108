"""Bearer tokens of operators: where one comes from, and whether a request has it."""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pydantic import SecretStr

from contract.errors import Category, Component, DatasetAgentError, WrongSetting
from contract.secret_file import SecretFileError, read_secret

_FORM: Final = re.compile(r"[!-~]{32,512}")


@dataclass(frozen=True, slots=True)
class BearerToken:
    """A token by its SHA-256, so that two of any length are compared in one time."""

    digest: bytes = field(repr=False)

    @classmethod
    def of(cls, text: str) -> BearerToken:
        return cls(hashlib.sha256(text.encode()).digest())

    def is_of(self, headers: list[tuple[bytes, bytes]]) -> bool:
        """Whether exactly one Authorization header carries this token as bearer."""
        lines = [value for name, value in headers if name == b"authorization"]
        scheme, _, given = (lines[0] if len(lines) == 1 else b"").partition(b" ")
        same = hmac.compare_digest(hashlib.sha256(given.strip()).digest(), self.digest)
        return same and scheme.lower() == b"bearer"


@dataclass(frozen=True, slots=True)
class TokenSetting:
    """Which token it is: in words, by its environment variable (that of its file ends with ``_FILE``), and in codes."""

    what: str
    variable: str
    component: Component
    code: str

    def read(self, given: SecretStr | None, file: Path | None) -> str | None:
        """The token of the settings, or of the file they name; of the file, surrounding white space is no part.

        ``None`` where neither is set. Raises a CONFIGURATION fault where both are, or where it is no token.
        """
        if given is not None and file is not None:
            both = self._fault("two_sources", f"set {self.variable} or {self.variable}_FILE, not both")
            raise WrongSetting.of(both)
        if given is not None:
            try:
                return self._checked(given.get_secret_value(), self.variable)
            except DatasetAgentError as wrong:
                raise WrongSetting.of(wrong) from None
        if file is None:
            return None
        try:
            data = read_secret(file, what=self.what, limit=1_024)
        except SecretFileError as error:
            raise self._fault(error.code, str(error)) from error
        return self._checked(data.decode("ascii", "replace").strip(), str(file))

    def _checked(self, text: str, where: str) -> str:
        if _FORM.fullmatch(text) is None:
            raise self._fault("malformed", f"{where} must hold 32 to 512 printable ASCII characters without spaces")
        return text

    def _fault(self, code: str, message: str) -> DatasetAgentError:
        return DatasetAgentError(self.component, Category.CONFIGURATION, f"{self.code}.{code}", message)
