"""A server on loopback that answers byte for byte what a test says, over TCP or TLS."""

from __future__ import annotations

import asyncio
import datetime
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

Answer = Callable[[asyncio.StreamWriter], Coroutine[Any, Any, None]]


@dataclass
class LoopbackServer:
    """``answer`` writes each reply; ``requests`` are the heads that arrived."""

    answer: Answer
    port: int = 0
    scheme: str = "http"
    requests: list[str] = field(default_factory=list)

    def url(self, path: str = "/jwks.json", host: str = "127.0.0.1") -> str:
        return f"{self.scheme}://{host}:{self.port}{path}"

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            self.requests.append((await reader.readuntil(b"\r\n\r\n")).decode())
            await self.answer(writer)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass  # the client went away, which is what some tests are about
        finally:
            writer.close()


def reply(body: bytes, *, status: str = "200 OK", head: str = "") -> Answer:
    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n{head}\r\n".encode())
        writer.write(body)

    return answer


@asynccontextmanager
async def loopback(answer: Answer, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[LoopbackServer]:
    server = LoopbackServer(answer, scheme="http" if tls is None else "https")
    listening = await asyncio.start_server(server.handle, "127.0.0.1", 0, ssl=tls)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()
        await listening.wait_closed()


def certificate(folder: Path, host: str) -> tuple[ssl.SSLContext, Path]:
    """A server's context with a fresh certificate for ``host``, and the PEM file to verify it by."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = folder / "authority.pem"
    pem.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private = folder / "server.pem"
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + pem.read_bytes()
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(private)
    return context, pem
