"""The bearer token of the admin endpoint."""

from __future__ import annotations

from typing import Final

from contract.bearer_token import BearerToken, TokenSetting
from contract.errors import Component
from contract.settings import Settings

AdminToken = BearerToken
_ADMIN: Final = TokenSetting(
    "the admin token", "DATASET_AGENT_ADMIN_TOKEN", Component.REMOTE_AGENT, "remote_agent.admin"
)


def admin_token(settings: Settings) -> AdminToken | None:
    """``None`` where no token is set: then there is no admin endpoint. Raises as ``token_text``."""
    text = token_text(settings)
    return None if text is None else AdminToken.of(text)


def token_text(settings: Settings) -> str | None:
    """The token of the settings, or of the file they name. Raises as ``TokenSetting.read``."""
    return _ADMIN.read(settings.admin_token, settings.admin_token_file)
