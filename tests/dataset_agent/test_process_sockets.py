"""The sockets that the servers of this package listen on."""

from __future__ import annotations

import socket
from contextlib import closing

import uvicorn

from dataset_agent.connection import KEPT_FILES
from dataset_agent.process import TAKEN_AT_ONCE, UNREAD_MS, DrainingServer, bind_port, server_settings


def test_a_connection_whose_peer_reads_nothing_is_ended_after_a_while() -> None:
    """What was sent to it lies in this process's memory until then."""
    with (
        closing(bind_port("127.0.0.1", 0)) as listener,
        closing(socket.create_connection(listener.getsockname())),
        closing(listener.accept()[0]) as taken,
    ):
        assert taken.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == UNREAD_MS
        assert taken.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR)


def test_connections_are_taken_a_few_at_a_time_so_that_they_count_before_the_files_are_gone() -> None:
    """A connection that is taken is served, and counts, a few rounds of the event loop later."""
    assert DrainingServer(uvicorn.Config("nobody", **server_settings())).config.backlog == TAKEN_AT_ONCE
    assert 4 * TAKEN_AT_ONCE < KEPT_FILES
