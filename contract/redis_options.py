"""Where a Redis or Valkey server is, how it is trusted, and how this program talks to it: read in one place.

Forms of a URL, where ``USER:PASSWORD@`` and what is in brackets may be left out:

    redis://USER:PASSWORD@HOST[:PORT][/DB]               one server; rediss:// with TLS
    unix://USER:PASSWORD@/PATH[?db=DB]                   one server on this machine
    redis+sentinel://HOST[:PORT],…/SERVICE[/DB]          the primary that sentinels name; rediss+sentinel:// with TLS
    redis+cluster://HOST[:PORT],…                        a cluster, found from some of its servers; rediss+cluster://

Nothing is retried by the client and no timer of its own runs: the caller bounds connecting,
handshake and answer together. (redis-py's defaults make a lookup on a refused server take 4 s.)
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from redis.asyncio.connection import AbstractConnection, Connection, UnixDomainSocketConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

Address = tuple[str, int]
"""Host and port; of a socket its path, and 0."""
Kind = Literal["one", "sentinel", "cluster"]
_PORT: Final = 6379
_SENTINEL_PORT: Final = 26379
_MAX_PORT: Final = 65_535
_MAX_NODES: Final = 32
_SCHEMES: Final[Mapping[str, Kind]] = {
    "redis": "one",
    "rediss": "one",
    "unix": "one",
    "redis+sentinel": "sentinel",
    "rediss+sentinel": "sentinel",
    "redis+cluster": "cluster",
    "rediss+cluster": "cluster",
}
_NODE: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:\[\]/,@]+)(?::([0-9]{1,5}))?")
_SERVICE: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")
_ACCOUNT_OPTIONS: Final = frozenset({"username", "password"})
_SENTINEL_OPTIONS: Final = frozenset({"sentinel_username", "sentinel_password"})
_TLS_OPTIONS: Final = frozenset({"ssl_ca_certs", "ssl_ca_path", "ssl_cert_reqs", "ssl_certfile", "ssl_keyfile"})
_CERT_REQS: Final = {"none": ssl.CERT_NONE, "optional": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


class _TlsConnection(Connection):
    """Over a context that all connections share: to read the authorities anew would cost a budget."""

    def __init__(self, *, context: ssl.SSLContext, **given: Any) -> None:
        self._context = context
        super().__init__(**given)

    def _connection_arguments(self) -> Mapping[str, Any]:
        return {**super()._connection_arguments(), "ssl": self._context}


@dataclass(frozen=True)
class RedisPlace:
    """A parsed URL. ``nodes`` are the server itself, the sentinels, or some servers of the cluster."""

    kind: Kind
    nodes: tuple[Address, ...]
    db: int = 0
    service: str = ""
    socket: bool = False
    tls: Mapping[str, str] | None = None
    username: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    sentinel_username: str | None = field(default=None, repr=False)
    sentinel_password: str | None = field(default=None, repr=False)

    def connection_kwargs(self) -> dict[str, Any]:
        """What every connection to a server that holds data is made with."""
        return self._common() | {"db": self.db, "username": self.username, "password": self.password}

    def connection_class(self) -> type[AbstractConnection]:
        if self.socket:
            return UnixDomainSocketConnection
        return Connection if self.tls is None else _TlsConnection

    def where(self, address: Address) -> dict[str, Any]:
        return {"path": address[0]} if self.socket else {"host": address[0], "port": address[1]}

    def connection(self, address: Address) -> AbstractConnection:
        """A connection that is not open yet. Raises ``OSError`` for files of TLS that cannot be read."""
        return self.connection_class()(**self.where(address), **self.connection_kwargs())

    def sentinel_connection(self, address: Address) -> AbstractConnection:
        """The same to a sentinel, which has accounts of its own and no databases."""
        account: dict[str, Any] = {"username": self.sentinel_username, "password": self.sentinel_password}
        return self.connection_class()(**self.where(address), **self._common(), **account)

    def check_files(self) -> None:
        """Raises ``ValueError`` where a file of TLS cannot be used, without its content."""
        try:
            _ = self._context if self.tls is not None else None
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            raise ValueError(
                f"its ssl_ca_certs, ssl_ca_path, ssl_certfile or ssl_keyfile cannot be used ({type(error).__name__})"
            ) from error

    def _common(self) -> dict[str, Any]:
        common: dict[str, Any] = {
            "socket_timeout": None,
            "socket_connect_timeout": None,
            # The synchronous class of the same name would be ignored here, and ten retries made.
            "retry": Retry(NoBackoff(), 0),
            "protocol": 2,
            # CLIENT SETINFO is unknown to servers before 7.2, and to accounts with the smallest rights.
            "driver_info": None,
        }
        return common if self.tls is None else common | {"context": self._context}

    @cached_property
    def _context(self) -> ssl.SSLContext:
        """With authorities that were named only these are believed, else those of the system."""
        given = self.tls or {}
        context = ssl.create_default_context(cafile=given.get("ssl_ca_certs"), capath=given.get("ssl_ca_path"))
        context.check_hostname = given.get("ssl_cert_reqs", "required") != "none"
        context.verify_mode = _CERT_REQS[given.get("ssl_cert_reqs", "required")]
        if "ssl_certfile" in given:
            context.load_cert_chain(Path(given["ssl_certfile"]), given.get("ssl_keyfile"))
        return context


def read_place(url: str) -> RedisPlace:
    """What a URL says. Raises ``ValueError`` with what is wrong, which repeats nothing of it: it may hold a password."""
    try:
        parts = urlsplit(url)
    except ValueError:
        raise ValueError("it is not a URL") from None
    kind = _SCHEMES.get(parts.scheme)
    if kind is None:
        raise ValueError("it must start with redis://, rediss://, unix://, redis+sentinel:// or redis+cluster://")
    options = _options(parts, kind)
    account, _, servers = parts.netloc.rpartition("@")
    username, _, password = account.partition(":")
    place: dict[str, Any] = {
        "username": options.get("username") or unquote(username) or None,
        "password": options.get("password") or unquote(password) or None,
        "sentinel_username": options.get("sentinel_username"),
        "sentinel_password": options.get("sentinel_password"),
        "tls": {name: text for name, text in options.items() if name in _TLS_OPTIONS} if _tls(parts) else None,
    }
    if parts.scheme == "unix":
        if servers or not parts.path.strip("/"):
            raise ValueError("behind unix:// it takes the path of a socket")
        return RedisPlace("one", ((unquote(parts.path), 0),), _db(options.get("db", "0")), socket=True, **place)
    nodes = tuple(_node(text, _SENTINEL_PORT if kind == "sentinel" else _PORT) for text in servers.split(","))
    if len(nodes) > (1 if kind == "one" else _MAX_NODES):
        raise ValueError(f"it names too many servers: at most {1 if kind == 'one' else _MAX_NODES}")
    service, number = _path(parts, kind)
    return RedisPlace(kind, nodes, _db(number or options.get("db", "0")), service, **place)


def _tls(parts: SplitResult) -> bool:
    return parts.scheme.startswith("rediss")


def _options(parts: SplitResult, kind: Kind) -> dict[str, str]:
    given = dict(parse_qsl(parts.query, keep_blank_values=True))
    known = _ACCOUNT_OPTIONS | (_TLS_OPTIONS if _tls(parts) else frozenset())
    known |= {"one": frozenset({"db"}), "sentinel": _SENTINEL_OPTIONS, "cluster": frozenset()}[kind]
    if parts.fragment or not given.keys() <= known or bool(given) != bool(parts.query):
        raise ValueError(f"behind ? it takes {', '.join(sorted(known))} only")
    if given.get("ssl_cert_reqs", "required") not in _CERT_REQS:
        raise ValueError("its ssl_cert_reqs must be required, optional or none")
    if "ssl_keyfile" in given and "ssl_certfile" not in given:
        raise ValueError("its ssl_keyfile needs an ssl_certfile")
    return given


def _node(text: str, default: int) -> Address:
    found = _NODE.fullmatch(text) if text else None
    if text and found is None:
        raise ValueError("it must name servers as HOST or HOST:PORT, and hold a password percent-encoded")
    host, port = (found[1].strip("[]"), int(found[2] or default)) if found else ("localhost", default)
    if not 0 < port <= _MAX_PORT:
        raise ValueError("its port must be 1 to 65535")
    return unquote(host), port


def _path(parts: SplitResult, kind: Kind) -> tuple[str, str]:
    """The service, and the number of the database where it is given."""
    names = parts.path.strip("/").split("/")
    if kind == "one" and len(names) == 1:
        return "", names[0]
    if kind == "cluster" and names == [""]:
        return "", ""
    if kind == "sentinel" and len(names) <= 2 and _SERVICE.fullmatch(names[0]):
        return names[0], names[1] if len(names) > 1 else ""
    raise ValueError(
        {
            "one": "behind the server it takes /DB only",
            "sentinel": "behind the sentinels it takes /SERVICE, or /SERVICE/DB",
            "cluster": "behind the servers of a cluster it takes nothing: a cluster has one database",
        }[kind]
    )


def _db(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,5}", text):
        raise ValueError("its db must be a number")
    return int(text)
