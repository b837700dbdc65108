"""The sockets that the servers of this package listen on."""

from __future__ import annotations

import socket
from contextlib import closing

from dataset_agent.process import UNREAD_MS, bind_port


def test_a_connection_whose_peer_reads_nothing_is_ended_after_a_while() -> None:
    """What was sent to it lies in this process's memory until then."""
    with (
        closing(bind_port("127.0.0.1", 0)) as listener,
        closing(socket.create_connection(listener.getsockname())),
        closing(listener.accept()[0]) as taken,
    ):
        assert taken.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == UNREAD_MS
        assert taken.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR)
