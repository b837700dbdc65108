"""The one reader of the environment: ``DATASET_AGENT_*``.

Every field is documented in ``docs/settings.md``; a test compares the two.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, SecretStr, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from contract import provider
from contract.address import for_development, loopback_url, plain_url
from contract.provider import IdentityProvider
from contract.redis_options import read_place
from contract.setting_forms import PREFIX as PREFIX
from contract.setting_forms import FromEnvironment, read_by, shaped
from contract.zone import read_zone

SHIPPED_DATASETS = Path(__file__).resolve().parent.parent / "datasets"


_Url = Annotated[str, read_by(plain_url)]
_StoreUrl = Annotated[str, read_by(read_place)]
_Factory = Annotated[
    str, Field(max_length=300), shaped(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", "module:factory")
]


class Settings(FromEnvironment):
    """Settings of every process. Durations are seconds, sizes bytes."""

    home: Path = Field(default_factory=lambda: Path.home() / ".dataset-agent", description="Where state lives.")
    datasets: Path = Field(default_factory=lambda: SHIPPED_DATASETS, description="Folder of datasets.")
    trust_file: Path | None = Field(default=None, description="trust.toml; default: in the home folder.")
    issuer_keys: Path | None = Field(default=None, description="The issuer's private store; default: home/keys/issuer.")
    root_keys: Path | None = Field(
        default=None, description="The root holder's private store; default: home/keys/root."
    )
    remote_keys: Path | None = Field(default=None, description="A remote's private store; default: home/keys/remote.")

    issuer_jwk: SecretStr | None = Field(default=None, description="The grant key as a private JWK, instead of a file.")
    identity_jwk: SecretStr | None = Field(default=None, description="The identity key, likewise.")
    root_jwk: SecretStr | None = Field(default=None, description="The root holder's key, likewise.")
    remote_jwk: SecretStr | None = Field(default=None, description="The dataset agent's key, likewise.")
    issuer_signer: _Factory | None = Field(default=None, description="module:factory of who signs grants elsewhere.")
    identity_signer: _Factory | None = Field(default=None, description="The same for identity tokens.")
    root_signer: _Factory | None = Field(default=None, description="The same for the root holder.")
    remote_signer: _Factory | None = Field(default=None, description="The same for the dataset agent.")

    url: _Url = Field(default="http://127.0.0.1:8801", description="The dataset agent that clients ask.")
    public_url: _Url | None = Field(
        default=None, description="The address the card advertises; default: the bind address."
    )
    root_url: _Url = Field(default="http://127.0.0.1:8800", description="The root agent's address.")
    agent_id: str = Field(default="urn:dataset-agent:remote", description="This dataset agent's id (its audience).")
    root_id: str = Field(default="urn:dataset-agent:root", description="The root agent's id.")
    issuer_url: str = Field(default="https://issuer.dataset-agent.example", description="The grant issuer's URL.")
    private_network: bool = Field(default=False, description="Allow plain http to agents off loopback.")

    state_url: _StoreUrl | None = Field(
        default=None, description="State store: redis(s)://… ; default: SQLite in home."
    )
    ledger_url: SecretStr | None = Field(
        default=None, description="The ledger: postgresql://… (extra postgresql); default: SQLite in home."
    )
    cache_url: _StoreUrl | None = Field(
        default=None, description="Result cache: redis(s)://… ; default: SQLite in home."
    )
    cache_secret: SecretStr | None = Field(
        default=None,
        description="Cache secrets of 64 hex, the current one first, comma separated; default: a file in the remote's store.",
    )
    cache_max_bytes: int = Field(default=256 * 2**20, ge=2**20, description="Bound of the SQLite cache file.")
    cache_enabled: bool = Field(default=True, description="Reuse stored results.")
    admin_token: SecretStr | None = Field(
        default=None,
        description="Bearer token of the admin endpoint, 32 characters or more; default: no such endpoint.",
    )
    admin_token_file: Path | None = Field(default=None, description="A file of mode 0600 with that token instead.")
    metrics_token: SecretStr | None = Field(
        default=None,
        description="Bearer token of GET /metrics, 32 characters or more; default: in development this machine may read it.",
    )
    metrics_token_file: Path | None = Field(default=None, description="A file of mode 0600 with that token instead.")

    memo_ttl: int = Field(
        default=86_400, ge=0, le=2_592_000, description="How long the root remembers what words were read as; 0: never."
    )
    memo_url: _StoreUrl | None = Field(
        default=None, description="Where it remembers: redis(s)://… ; default: SQLite in home."
    )
    memo_secret: SecretStr | None = Field(
        default=None, description="Key material of what it remembers, 64 hex; default: a file in the root's store."
    )
    memo_max_bytes: int = Field(default=16 * 2**20, ge=2**20, description="Bound of the SQLite file it remembers in.")

    policy_url: _Url | None = Field(default=None, description="Policy server base URL; default: evaluate in process.")
    policy_budget: float = Field(default=0.25, gt=0, le=10, description="Evaluator budget in seconds.")
    approval_ttl: float = Field(
        default=86_400.0,
        ge=60,
        le=2_592_000,
        description="How long a call may wait for an approval, and an approval be used.",
    )
    root_ttl: int = Field(default=300, ge=1, le=300, description="Life of a root token in seconds.")
    leaf_ttl: int = Field(default=60, ge=1, le=60, description="Life of a leaf in seconds.")

    query_timeout: float = Field(default=30.0, gt=0, le=600, description="Longest query in seconds.")
    query_memory: Annotated[
        str,
        shaped(
            r"[0-9]{1,6}(\.[0-9]{1,3})? ?([KMGT]i?B|%)",
            "a size with its unit (KB, MB, GB, TB or KiB to TiB), such as 512MB, or a share, such as 50%",
        ),
    ] = Field(default="512MB", description="DuckDB memory limit.")
    bigquery_emulator: Annotated[str, read_by(loopback_url)] | None = Field(
        default=None, description="Development only: an emulator on this machine, asked instead of BigQuery."
    )
    watch_interval: float = Field(
        default=2.0,
        ge=0,
        le=3_600,
        description="How often the datasets folder is looked at for edits in seconds; 0: never.",
    )
    source_interval: float = Field(
        default=60.0, ge=0, le=86_400, description="How often sources elsewhere are asked for their revision; 0: never."
    )
    revision_commands: bool = Field(default=False, description="Let descriptors name commands that tell a revision.")
    max_result_bytes: int = Field(default=2**20, ge=1024, description="Largest inline result in bytes.")
    spool_max_bytes: int = Field(
        default=4 * 2**30, ge=0, description="Bound of the large results a process keeps on disk; 0 keeps none."
    )
    spool_max_result_bytes: int = Field(default=2**30, ge=2**20, description="Largest result that is kept on disk.")
    spool_ttl: float = Field(default=900.0, ge=10, le=86_400, description="How long a large result may be fetched.")
    max_body_bytes: int = Field(default=256 * 1024, ge=1024, description="Largest request body in bytes.")
    agent_rate: float = Field(
        default=2_000.0,
        ge=0,
        le=100_000,
        description="Calls a second of one client agent, in the long run; 0: no limit.",
    )
    agent_burst: int = Field(default=4_000, ge=1, le=1_000_000, description="Calls it may make at once after a pause.")
    agent_running: int = Field(
        default=64, ge=0, le=10_000, description="Executions at once of one client agent; 0: no limit."
    )
    person_rate: float = Field(default=500.0, ge=0, le=100_000, description="Calls a second of one person, likewise.")
    person_burst: int = Field(default=2_000, ge=1, le=1_000_000, description="Calls of one person after a pause.")
    person_running: int = Field(default=32, ge=0, le=10_000, description="Executions at once of one person.")
    max_tasks: int = Field(default=10_000, ge=1, description="Tasks remembered by a dataset agent.")
    call_timeout: float = Field(default=60.0, gt=0, le=600, description="Longest wait for another agent in seconds.")
    card_ttl: float = Field(default=60.0, ge=0, description="How long a verified card is kept in seconds.")
    discovery_budget: float = Field(
        default=2.0, gt=0, le=60, description="Longest wait of a question for the slower of several agents in seconds."
    )
    discovery_limit: int = Field(default=5, ge=1, le=50, description="Datasets shown after the authorization filter.")
    opaque_refusals: bool = Field(default=False, description="Answer about a hidden dataset as about none.")

    oidc_issuer: Annotated[str, read_by(provider.issuer_url)] | None = Field(
        default=None, description="The identity provider: its issuer URL, compared exactly; default: none."
    )
    oidc_audience: Annotated[str, read_by(provider.audience)] | None = Field(
        default=None, validate_default=True, description="The audience that identity tokens must be for."
    )
    oidc_jwks_url: Annotated[str, read_by(provider.jwks_url)] | None = Field(
        default=None, description="The provider's key set; default: its discovery document says."
    )
    oidc_ca_file: Path | None = Field(
        default=None, description="PEM file of the authorities of the provider's certificate; default: the usual ones."
    )
    oidc_algorithms: Annotated[str, read_by(provider.algorithms)] = Field(
        default="RS256 ES256", description="Accepted signature algorithms of identity tokens."
    )
    oidc_types: Annotated[str, read_by(provider.types)] = Field(
        default="JWT", description="Accepted typ of identity tokens; absent accepts none."
    )
    oidc_leeway: int = Field(default=5, ge=0, le=60, description="Clock difference allowed to the provider in seconds.")
    oidc_max_age: int = Field(
        default=7_200, ge=60, le=86_400, description="Oldest identity token, from iat, in seconds."
    )
    oidc_subject_claim: Annotated[str, read_by(provider.subject_claim)] = Field(
        default="sub", description="The claim that identifies a person."
    )
    oidc_required: Annotated[str, read_by(provider.required)] | None = Field(
        default=None, description="JSON: claims that identity tokens must hold, with their accepted values."
    )
    oidc_attributes: Annotated[str, read_by(provider.attributes)] | None = Field(
        default=None, description="JSON: principal attributes that are filled from claims."
    )
    dev_issuer: bool | None = Field(
        default=None, description="Accept the development issuer's identity tokens; default: unless in production."
    )

    as_principal: str | None = Field(
        default=None, description="Development only: the principal that `adk run` and `adk web` ask as."
    )
    zone: Annotated[str, read_by(read_zone)] = Field(
        default="UTC", description="The time zone of people who name none, by its IANA name."
    )
    model: str | None = Field(default=None, description="A model that proposes the typed intent; default: none.")
    workers: int = Field(default=1, ge=1, le=64, description="Processes that serve one dataset agent together.")
    host: str = Field(default="127.0.0.1", description="Bind address of serve, root and policy serve.")
    analytics_table: (
        Annotated[
            str, shaped(r"[a-z][a-z0-9-]{4,62}[a-z0-9](\.[A-Za-z0-9_]{1,300}){2}", "a table, project.dataset.table")
        ]
        | None
    ) = Field(
        default=None,
        description="BigQuery table, project.dataset.table, that the root agent counts askings in; default: none.",
    )
    analytics_location: Annotated[str, shaped(r"[A-Za-z0-9-]{2,40}", "a location of BigQuery, such as US")] = Field(
        default="US", description="Where that table is."
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(default="WARNING", description="Log level.")
    log_format: Literal["text", "json"] = Field(default="text", description="Form of log lines.")

    @field_validator("oidc_audience", "oidc_jwks_url", "oidc_ca_file", "oidc_required", "oidc_attributes")
    @classmethod
    def _with_its_issuer(cls, value: Any, info: ValidationInfo) -> Any:
        if "oidc_issuer" not in info.data:  # it does not parse, which is said already
            return value
        issuer = info.data["oidc_issuer"]
        if value is not None and issuer is None:
            raise PydanticCustomError("oidc", "it says nothing without " + PREFIX + "OIDC_ISSUER")
        if value is None and issuer is not None and info.field_name == "oidc_audience":
            raise PydanticCustomError("oidc", "it is needed with " + PREFIX + "OIDC_ISSUER")
        return value

    @property
    def identity_provider(self) -> IdentityProvider | None:
        """Whose identity tokens are believed; ``None`` where no provider is set."""
        if self.oidc_issuer is None or self.oidc_audience is None:
            return None
        return IdentityProvider(
            issuer=self.oidc_issuer,
            audience=self.oidc_audience,
            jwks_url=self.oidc_jwks_url,
            authorities=self.oidc_ca_file,
            algorithms=provider.algorithms(self.oidc_algorithms),
            types=provider.types(self.oidc_types),
            leeway_s=self.oidc_leeway,
            max_age_s=self.oidc_max_age,
            subject_claim=self.oidc_subject_claim,
            required={} if self.oidc_required is None else provider.required(self.oidc_required),
            attributes={} if self.oidc_attributes is None else provider.attributes(self.oidc_attributes),
        )

    @property
    def production(self) -> tuple[str, ...]:
        """The variables that say that people here are real: an identity provider, an address that is not certainly
        for development.
        """
        told = {"PUBLIC_URL": self.public_url, "ROOT_URL": self.root_url}
        found = ["OIDC_ISSUER"] if self.oidc_issuer is not None else []
        for name, url in told.items():
            if url is not None and not for_development(url, private_network=self.private_network):
                found.append(name)
        return tuple(PREFIX + name for name in found)

    @property
    def development_issuer(self) -> bool:
        """Whether the development issuer's tokens are made and accepted: unless told, not in production."""
        return not self.production if self.dev_issuer is None else self.dev_issuer

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
