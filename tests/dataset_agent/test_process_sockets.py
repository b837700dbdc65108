"""The sockets that the servers of this package listen on."""

from __future__ import annotations

import asyncio
import resource
import socket
from contextlib import closing

import pytest
import uvicorn

from dataset_agent.connection import FILES, KEPT_FILES, MOST, most_connections, raise_files
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


async def nobody(scope: object, receive: object, send: object) -> None:
    """An application that nobody asks."""


async def test_a_server_that_starts_may_open_more_files_than_its_shell() -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = FILES if limits[1] == resource.RLIM_INFINITY else min(FILES, limits[1])
    server = DrainingServer(uvicorn.Config(nobody, lifespan="off", **server_settings()))
    with closing(bind_port("127.0.0.1", 0)) as listener:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most // 2, limits[1]))
        try:
            serving = asyncio.create_task(server.serve(sockets=[listener]))
            while not server.started:
                await asyncio.sleep(0.005)
            assert resource.getrlimit(resource.RLIMIT_NOFILE) == (most, limits[1])
            server.should_exit = True
            await serving
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.parametrize(
    ("found", "asked"),
    [
        ((1_024, 4_096), [(4_096, 4_096)]),
        ((1_024, 1_048_576), [(FILES, 1_048_576)]),
        ((1_024, resource.RLIM_INFINITY), [(FILES, resource.RLIM_INFINITY)]),
        ((1_024, 1_024), []),
        ((20_000, 20_000), []),
        ((resource.RLIM_INFINITY, resource.RLIM_INFINITY), []),
    ],
)
def test_no_limit_is_lowered_and_none_raised_beyond_what_is_of_use(
    found: tuple[int, int], asked: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: found)
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: told.append(limits))
    raise_files()
    assert told == asked


def test_a_system_that_allows_no_more_files_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: int, limits: tuple[int, int]) -> None:
        raise ValueError(limits)

    monkeypatch.setattr(resource, "getrlimit", lambda _: (1_024, 4_096))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    raise_files()
    assert most_connections() == 1_024 - KEPT_FILES


def test_the_files_asked_for_are_enough_for_the_most_connections() -> None:
    assert FILES - KEPT_FILES > MOST
