"""What the commands of the evidence share: whose ledger, which keys, which receipts, how old."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

import orjson
import typer
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from contract.errors import Category, Component, DatasetAgentError
from contract.files import read_bounded
from contract.settings import Settings
from contract.signing import InvalidKey, PublicKey
from dataset_agent.console import progress
from dataset_agent.pinned import audited_agent
from evidence.checkpoint import InvalidReceipt
from evidence.held import read_held
from evidence.opening import server_stores
from evidence.reader import told
from evidence.reading_file import write_reading
from evidence.walk import Held

_MAX_KEY: Final = 64 * 1024
_AGE: Final = re.compile(r"(\d{1,9})([smhd])")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


class Side(StrEnum):
    REMOTE = "remote"
    ROOT = "root"


SideOption = Annotated[Side, typer.Option(help="Whose ledger.")]
AgentOption = Annotated[str | None, typer.Option("--agent", help="The agent that signs it; default: the side's own.")]
LedgerOption = Annotated[Path | None, typer.Option("--ledger", help="A ledger file; default: the side's own.")]
OlderThan = Annotated[str, typer.Option(help="Only rows that are older: 90s, 15m, 6h, 7d.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


def ledger_path(settings: Settings, side: Side) -> Path:
    return settings.home / side.value / "ledger.sqlite"


@contextmanager
def ledger_at(settings: Settings, side: Side, ledger: Path | None = None) -> Iterator[Path]:
    """The ledger that is named, or a side's own: its file, or an export of what lies on a server, gone with the block."""
    if ledger is not None or settings.ledger_url is None:
        yield ledger or _own(settings, side)
        return
    store, _ = server_stores(settings.ledger_url.get_secret_value(), agent_of(settings, side))
    with tempfile.TemporaryDirectory(prefix="dataset-agent-") as folder:
        taken = Path(folder) / f"{side.value}.jsonl"
        with progress("reading the ledger's server") as percent, told(store.name), store.reading() as opened:
            write_reading(opened, taken, percent)
        yield taken


def _own(settings: Settings, side: Side) -> Path:
    """A side's own file. Raises ``DatasetAgentError`` where this home has none, and has the other side's."""
    path = ledger_path(settings, side)
    here = [other for other in Side if ledger_path(settings, other).is_file()]
    if here and side not in here:
        told = f"there is no ledger at {path}: this home has that of --side {here[0]}; or ask something first"
        raise DatasetAgentError(Component.EVIDENCE, Category.NOT_FOUND, "evidence.ledger.not_found", told)
    return path


def ledger_keys(settings: Settings, side: Side) -> tuple[PublicKey, ...]:
    """The pinned key that signs a side's checkpoints, and those that did before."""
    return audited_agent(settings, agent_of(settings, side)).every_key


def agent_of(settings: Settings, side: Side) -> str:
    return settings.agent_id if side is Side.REMOTE else settings.root_id


def read_keys(paths: Sequence[Path]) -> tuple[PublicKey, ...]:
    """The public keys in files: a JWK, a set of them, or PEM. Raises ``DatasetAgentError``."""
    keys: list[PublicKey] = []
    for path in paths:
        try:
            keys += _keys_in(read_bounded(path, _MAX_KEY))
        except (OSError, ValueError, TypeError) as error:
            raise DatasetAgentError(
                Component.COMMAND,
                Category.INVALID_INPUT,
                "command.key.invalid",
                f"{path} is no public Ed25519 key ({error}): name a JWK, a JWKS or a PEM file",
            ) from error
    return tuple(dict.fromkeys(keys))


def _keys_in(data: bytes) -> list[PublicKey]:
    if data.lstrip().startswith(b"-----BEGIN"):
        key = load_pem_public_key(data)
        if not isinstance(key, Ed25519PublicKey):
            raise InvalidKey("the key is not an Ed25519 key")
        return [PublicKey(key.public_bytes_raw())]
    value: Any = orjson.loads(data)
    found = value["keys"] if isinstance(value, dict) and isinstance(value.get("keys"), list) else [value]
    return [PublicKey.from_jwk(jwk) for jwk in found]


def read_receipts(paths: Sequence[Path]) -> list[Held]:
    """Every receipt in files that were kept. Raises ``DatasetAgentError``."""
    held: list[Held] = []
    for path in paths:
        try:
            held += read_held(path)
        except (OSError, InvalidReceipt) as error:
            raise DatasetAgentError(
                Component.COMMAND,
                Category.INVALID_INPUT,
                "command.receipt.invalid",
                f"{path} is not a receipt ({error}): name an answer saved with --save or --json, its member "
                "evidence.remote (or .root), or an export",
            ) from error
    return held


def seconds(text: str) -> int:
    """What ``--older-than`` says."""
    found = _AGE.fullmatch(text)
    if found is None:
        raise typer.BadParameter("--older-than is a number with s, m, h or d, such as 90d")
    return int(found[1]) * _SECONDS[found[2]]
