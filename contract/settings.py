"""The one reader of the environment: ``DATASET_AGENT_*``.

Every field is documented in ``docs/settings.md``; a test compares the two.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, SettingsConfigDict

SHIPPED_DATASETS = Path(__file__).resolve().parent.parent / "datasets"


def _store_url(url: str) -> str:
    """Refused where no store could be meant; the text is not repeated, it may hold a password."""
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - raises where it is no number
    except ValueError:
        raise PydanticCustomError("store_url", "it is not a URL") from None
    if parts.scheme not in ("redis", "rediss", "unix"):
        raise PydanticCustomError("store_url", "it must start with redis://, rediss:// or unix://")
    return url


_StoreUrl = Annotated[str, AfterValidator(_store_url)]


class Settings(BaseSettings):
    """Settings of every process. Durations are seconds, sizes bytes."""

    model_config = SettingsConfigDict(
        env_prefix="DATASET_AGENT_", frozen=True, extra="ignore", hide_input_in_errors=True
    )

    home: Path = Field(default_factory=lambda: Path.home() / ".dataset-agent", description="Where state lives.")
    datasets: Path = Field(default_factory=lambda: SHIPPED_DATASETS, description="Folder of datasets.")
    trust_file: Path | None = Field(default=None, description="trust.toml; default: in the home folder.")
    issuer_keys: Path | None = Field(default=None, description="The issuer's private store; default: home/keys/issuer.")
    root_keys: Path | None = Field(
        default=None, description="The root holder's private store; default: home/keys/root."
    )
    remote_keys: Path | None = Field(default=None, description="A remote's private store; default: home/keys/remote.")

    url: str = Field(default="http://127.0.0.1:8801", description="The dataset agent that clients ask.")
    public_url: str | None = Field(
        default=None, description="The address the card advertises; default: the bind address."
    )
    root_url: str = Field(default="http://127.0.0.1:8800", description="The root agent's address.")
    agent_id: str = Field(default="urn:dataset-agent:remote", description="This dataset agent's id (its audience).")
    root_id: str = Field(default="urn:dataset-agent:root", description="The root agent's id.")
    issuer_url: str = Field(default="https://issuer.dataset-agent.example", description="The grant issuer's URL.")
    private_network: bool = Field(default=False, description="Allow plain http to agents off loopback.")

    state_url: _StoreUrl | None = Field(
        default=None, description="State store: redis(s)://… ; default: SQLite in home."
    )
    cache_url: _StoreUrl | None = Field(
        default=None, description="Result cache: redis(s)://… ; default: SQLite in home."
    )
    cache_secret: SecretStr | None = Field(
        default=None, description="Cache key material, 64 hex; default: a file in the remote's store."
    )
    cache_max_bytes: int = Field(default=256 * 2**20, ge=2**20, description="Bound of the SQLite cache file.")
    cache_enabled: bool = Field(default=True, description="Reuse stored results.")

    policy_url: str | None = Field(default=None, description="Policy server base URL; default: evaluate in process.")
    policy_budget: float = Field(default=0.25, gt=0, le=10, description="Evaluator budget in seconds.")
    root_ttl: int = Field(default=300, ge=1, le=300, description="Life of a root token in seconds.")
    leaf_ttl: int = Field(default=60, ge=1, le=60, description="Life of a leaf in seconds.")

    query_timeout: float = Field(default=30.0, gt=0, le=600, description="Longest query in seconds.")
    query_memory: str = Field(
        default="512MB",
        pattern=r"^[0-9]{1,6}(\.[0-9]{1,3})? ?([KMGT]i?B|%)$",
        description="DuckDB memory limit.",
    )
    max_result_bytes: int = Field(default=2**20, ge=1024, description="Largest inline result in bytes.")
    max_body_bytes: int = Field(default=256 * 1024, ge=1024, description="Largest request body in bytes.")
    max_tasks: int = Field(default=10_000, ge=1, description="Tasks remembered by a dataset agent.")
    call_timeout: float = Field(default=60.0, gt=0, le=600, description="Root's longest wait for a remote in seconds.")
    card_ttl: float = Field(default=60.0, ge=0, description="How long the root keeps a verified card in seconds.")
    discovery_limit: int = Field(default=5, ge=1, le=50, description="Datasets shown after the authorization filter.")
    dev_issuer: bool = Field(default=True, description="Accept the development issuer's identity tokens.")

    as_principal: str | None = Field(
        default=None, description="Development only: the principal that `adk run` and `adk web` ask as."
    )
    model: str | None = Field(default=None, description="A model that proposes the typed intent; default: none.")
    host: str = Field(default="127.0.0.1", description="Bind address of serve, root and policy serve.")
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(default="WARNING", description="Log level.")

    @property
    def trust_path(self) -> Path:
        return self.trust_file or self.home / "trust.toml"

    @property
    def issuer_dir(self) -> Path:
        return self.issuer_keys or self.home / "keys" / "issuer"

    @property
    def root_dir(self) -> Path:
        return self.root_keys or self.home / "keys" / "root"

    @property
    def remote_dir(self) -> Path:
        return self.remote_keys or self.home / "keys" / "remote"
