"""What holds for every test file: it leaves no thread behind, no clock fails it, and no garbage is searched for twice."""

from __future__ import annotations

import gc
import os
import ssl
import threading
import time
from collections.abc import Generator, Iterator
from functools import cache
from typing import Final

import pytest
from httpx._transports import default as transports
from hypothesis import settings

_PATIENCE: Final = 10.0
_first_seen: dict[threading.Thread, str] = {}

# Half the time of collecting 16,000 tests is a search for garbage among what stays.
gc.disable()

# A machine that is busy makes an example slow, and no test wrong.
settings.register_profile("patient", settings(), deadline=None)
settings.load_profile("patient")

_made = transports.create_ssl_context


@cache
def _authorities() -> ssl.SSLContext:
    return _made()


def _context(verify: ssl.SSLContext | str | bool = True, cert: object = None, trust_env: bool = True) -> ssl.SSLContext:
    """One for all clients that bring none: each would read every known authority, 20 ms for a call to loopback."""
    if verify is True and cert is None and not {"SSL_CERT_FILE", "SSL_CERT_DIR"} & os.environ.keys():
        return _authorities()
    return _made(verify, cert, trust_env)  # type: ignore[arg-type]


transports.create_ssl_context = _context


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    before = set(threading.enumerate())
    done = yield
    for thread in threading.enumerate():
        if thread not in before:
            _first_seen.setdefault(thread, item.nodeid)
    return done


@pytest.fixture(scope="module", autouse=True)
def no_thread_is_left() -> Iterator[None]:
    """A thread that outlives the tests that started it is at work in tests that know nothing of it."""
    before = set(threading.enumerate())
    yield
    until = time.monotonic() + _PATIENCE
    left = [thread for thread in threading.enumerate() if thread not in before]
    for thread in left:
        thread.join(max(0.0, until - time.monotonic()))
    alive = [f"{thread.name} of {_first_seen.get(thread, 'the last test')}" for thread in left if thread.is_alive()]
    _first_seen.clear()
    if alive:
        pytest.fail("a thread is left: " + ", ".join(alive), pytrace=False)
