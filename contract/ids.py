"""Identifiers, parsed once where they enter and trusted by type afterwards.

Four leaf identifiers follow ADK's core types: not empty, no NUL byte, at most
512 bytes of UTF-8; ``:``, ``@`` and ``/`` are allowed because validation is not
coupled to how a store encodes a key. Slugs are stricter: they appear in keys,
file names and log lines.
"""

from __future__ import annotations

import os
import re
import unicodedata
from typing import Annotated, Any, Self

from pydantic import AfterValidator, GetCoreSchemaHandler, WithJsonSchema
from pydantic_core import CoreSchema, core_schema

MAX_ID_BYTES = 512
_SLUG = re.compile(r"[a-z][a-z0-9_-]{0,63}")
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
_NAME_OF_RECORD = re.compile(r"[\x21-\x7e]{1,200}")
_JOSE_START = "eyJ"  # base64url of an object's first member: how every JWS and JWE begins


class InvalidId(ValueError):
    """An identifier that breaks a rule of its type; the message names the rule."""


class _LeafId(str):
    """A validated identifier that stays a plain JSON string on the wire."""

    __slots__ = ()

    def __new__(cls, value: str) -> Self:
        if not isinstance(value, str):
            raise InvalidId(f"{cls.__name__} must be text")
        if not value:
            raise InvalidId(f"{cls.__name__} must not be empty")
        if "\x00" in value:
            raise InvalidId(f"{cls.__name__} must not contain a NUL byte")
        try:
            size = len(value.encode("utf-8"))
        except UnicodeEncodeError as error:
            raise InvalidId(f"{cls.__name__} must be valid Unicode") from error
        if size > MAX_ID_BYTES:
            raise InvalidId(f"{cls.__name__} must not exceed {MAX_ID_BYTES} bytes")
        return super().__new__(cls, value)

    @classmethod
    def generate(cls) -> Self:
        """A new identifier with 128 random bits."""
        return cls(os.urandom(16).hex())

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        def check(value: Any) -> _LeafId:
            # A value of another leaf type is a swapped argument, not text to convert.
            if isinstance(value, _LeafId) and not isinstance(value, cls):
                raise ValueError(f"expected {cls.__name__}, got {type(value).__name__}")
            return cls(value)

        return core_schema.no_info_plain_validator_function(
            check, serialization=core_schema.plain_serializer_function_ser_schema(str)
        )


class AppName(_LeafId):
    """The ADK application a session belongs to."""

    __slots__ = ()


class UserId(_LeafId):
    """The authenticated user, or a principal's issuer-qualified subject."""

    __slots__ = ()


class SessionId(_LeafId):
    """One conversation."""

    __slots__ = ()


class InvocationId(_LeafId):
    """One run of an agent inside a session."""

    __slots__ = ()


def new_id(prefix: str) -> str:
    """``prefix-`` and 128 random bits in hex: decision, request and execution ids."""
    return f"{prefix}-{os.urandom(16).hex()}"


def is_slug(value: str) -> bool:
    """Whether ``value`` may name a dataset, capability, table, parameter or agent."""
    return _SLUG.fullmatch(value) is not None


def is_version(value: str) -> bool:
    """Whether ``value`` may be the version of a dataset."""
    return _VERSION.fullmatch(value) is not None


def is_name_of_record(value: str) -> bool:
    """Whether evidence may hold ``value`` as it is: printable ASCII without blanks, 200 characters at most, no token."""
    return _NAME_OF_RECORD.fullmatch(value) is not None and _JOSE_START not in value


def is_nfc(value: str) -> bool:
    """Whether ``value`` is in Unicode normal form C (canonical JSON does not normalise)."""
    return unicodedata.is_normalized("NFC", value)


def _slug(value: str) -> str:
    if not is_slug(value):
        raise ValueError(f"{value[:80]!r} is not a name of a-z, 0-9, '_' and '-' (64 at most)")
    return value


def _version(value: str) -> str:
    if not is_version(value):
        raise ValueError(f"{value[:80]!r} is not a version of letters, digits and '._+-' (64 at most)")
    return value


Slug = Annotated[str, AfterValidator(_slug), WithJsonSchema({"type": "string", "pattern": f"^{_SLUG.pattern}$"})]
Version = Annotated[
    str, AfterValidator(_version), WithJsonSchema({"type": "string", "pattern": f"^{_VERSION.pattern}$"})
]
