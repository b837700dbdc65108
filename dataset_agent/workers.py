"""The process that leads several workers: it serves nothing itself.

It starts them and puts another in the place of one that ended, passes on that they should
reload, writes the one run file in which they are one agent, and stops them together.
"""

from __future__ import annotations

import gc
import logging
import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final

from contract.errors import Component
from contract.settings import Settings
from dataset_agent.console import note
from dataset_agent.ledger_writer import ledger_writer
from dataset_agent.process import DRAIN_S
from dataset_agent.run_files import RunFile, run_file
from dataset_agent.serve_options import announce
from dataset_agent.worker import become_worker
from dataset_agent.worker_place import Place, place_of
from dataset_agent.worker_slot import Slot
from evidence.writer_process import WriterElsewhere, WriterProcess
from telemetry.environment import wanted

log = logging.getLogger(__name__)

_LAST_S: Final = DRAIN_S + 10.0
"""A worker that has not ended by then is killed; where its spans leave at the end, when they have had their time too."""
_PULSE_S: Final = 1.0
"""So often the writer of the ledger is looked after."""
_STOPS: Final = (signal.SIGTERM, signal.SIGINT)


def serve_workers(settings: Settings, port: int, *, as_json: bool) -> None:
    """Serve with several workers until SIGTERM or SIGINT. Raises as one worker does, and ``KeyboardInterrupt``."""
    with (
        place_of(settings, port) as place,
        run_file(settings, "serve") as file,
        ledger_writer(settings) as writer,
    ):
        ready = announce(f"the dataset agent with {place.count} workers", place.address, as_json=as_json)
        gc.collect()
        gc.freeze()  # what is loaded by now stays memory of them all
        workers = Workers(settings, place, file, writer, ready)
        with workers.signals():
            workers.lead()
    if workers.interrupted:
        raise KeyboardInterrupt


class Workers:
    """``lead`` returns when all have ended."""

    interrupted = False

    def __init__(
        self, settings: Settings, place: Place, file: RunFile, writer: WriterProcess | None, ready: Callable[[], None]
    ) -> None:
        self._settings = settings
        self._place = place
        self._file = file
        self._writer = writer
        self._ready: Callable[[], None] | None = ready
        self._slots = [Slot(number) for number in range(place.count)]
        self._woken, self._wake = socket.socketpair()
        self._generation = 1
        self._restarts = 0
        self._told: dict[str, Any] = {}
        self._last: float | None = None
        spans = wanted(os.environ, Component.REMOTE_AGENT)
        self._patience = _LAST_S + (spans.last_s if spans is not None else 0.0)

    @contextmanager
    def signals(self) -> Iterator[None]:
        """They only wake the leader, which does what is asked between two steps."""
        for end in (self._woken, self._wake):
            end.setblocking(False)
        numbers = (*_STOPS, signal.SIGHUP, signal.SIGCHLD)
        before = {number: signal.signal(number, _noticed) for number in numbers}
        waker = signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(waker)
            for number, handler in before.items():
                signal.signal(number, handler)
            self._woken.close()
            self._wake.close()

    def lead(self) -> None:
        """Raises what kept the first workers from opening."""
        try:
            while not self._is_over():
                if self._writer is not None and any(slot.serves for slot in self._slots):
                    self._writer.ensure()
                self._start_due()
                self._wait()
                self._listen()
                self._bury()
                self._kill_late()
        finally:
            for slot in self._slots:
                slot.signal(signal.SIGKILL)

    def _is_over(self) -> bool:
        return self._last is not None and not any(slot.lives for slot in self._slots)

    def _start_due(self) -> None:
        for slot in self._empty():
            if slot.due is not None and slot.due <= time.monotonic():
                slot.start(lambda leader, slot=slot: self._become(slot, leader))  # type: ignore[misc]

    def _empty(self) -> list[Slot]:
        """The places that are to be filled. The first worker opens alone: what is built then is built once."""
        if self._last is not None:
            return []
        alone = self._ready is not None and not self._slots[0].serves
        return [slot for slot in (self._slots[:1] if alone else self._slots) if slot.due is not None]

    def _become(self, slot: Slot, leader: socket.socket) -> int:
        """In the worker: nothing of the leader's is held on to, or others would not notice that it ended."""
        signal.set_wakeup_fd(-1)
        for number in (*_STOPS, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        for other in self._slots:
            if other.channel is not None:
                other.channel.close()
        for end in (self._woken, self._wake):
            end.close()
        try:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {*_STOPS, signal.SIGHUP, signal.SIGCHLD})
            writer = None if self._writer is None else WriterElsewhere(self._writer.address)
            return become_worker(
                self._settings, self._place, slot.number, leader, generation=self._generation, writer=writer
            )
        except Exception as error:
            log.error("worker %d failed with %s", slot.number, type(error).__name__)
            log.debug("what ended it", exc_info=error)
            return 1
        finally:
            sys.stdout.flush()
            sys.stderr.flush()

    def _wait(self) -> None:
        """Until somebody says something, or a worker is due to be started or killed."""
        instants = [due for due in (self._last, *(slot.due for slot in self._empty())) if due is not None]
        patience = max(0.0, min([_PULSE_S, *(instant - time.monotonic() for instant in instants)]))
        with selectors.DefaultSelector() as selector:
            selector.register(self._woken, selectors.EVENT_READ)
            for slot in self._slots:
                if slot.channel is not None:
                    selector.register(slot.channel, selectors.EVENT_READ)
            selector.select(patience)
        with suppress(BlockingIOError):
            for number in self._woken.recv(4_096):
                self._notice(number)

    def _notice(self, number: int) -> None:
        if number in _STOPS:
            self._stop(signal.Signals(number))
        elif number == signal.SIGHUP:
            self._reload()

    def _stop(self, number: signal.Signals) -> None:
        if self._last is None:
            self._last = time.monotonic() + self._patience
            self.interrupted = number is signal.SIGINT
            note(f"stopping: requests under way get up to {DRAIN_S} s")
        for slot in self._slots:
            slot.signal(signal.SIGTERM)

    def _reload(self) -> None:
        for slot in self._slots:
            slot.tell({"do": "reload"})

    def _listen(self) -> None:
        changed = False
        for slot in self._slots:
            for told in slot.told():
                changed = changed or "began" in told
                if "ask" in told:
                    self._reload()
        if changed:
            self._publish()

    def _bury(self) -> None:
        for slot in self._slots:
            how = slot.ended() if slot.lives else None
            if how is None:
                continue
            list(slot.told())
            pid, fault = slot.pid, slot.fault
            slot.forget()
            if self._last is not None:
                continue
            if self._ready is not None:
                raise fault or RuntimeError(f"the worker ended {how}")
            self._restarts += 1
            pause = max(0.0, (slot.due or 0.0) - time.monotonic())
            again = f"another is started in {pause:.0f} s" if pause else "another is started"
            why = "" if fault is None else f": {fault.message}"
            log.error("worker %d (process %d) ended %s, its tasks with it%s; %s", slot.number, pid, how, why, again)
            self._publish()

    def _kill_late(self) -> None:
        if self._last is not None and time.monotonic() > self._last:
            for slot in self._slots:
                if slot.lives:
                    log.error("worker %d (process %d) did not end in time and is killed", slot.number, slot.pid)
                slot.signal(signal.SIGKILL)
            self._last += self._patience

    def _publish(self) -> None:
        """The run file for ``reload`` and ``doctor``, and for the workers what readiness says of them all."""
        self._told = standing([slot.state for slot in self._slots if slot.state is not None]) or self._told
        serving = sum(slot.serves for slot in self._slots)
        counts = {"workers": self._place.count, "workers_serving": serving, "workers_restarted": self._restarts}
        self._generation = max([self._generation, *(slot.state["generation"] for slot in self._slots if slot.state)])
        lives = [slot.began for slot in self._slots if slot.lives]
        began = min(lives) if lives else 0.0
        of_all = {"pid": os.getpid(), "port": self._place.port, "began": began, **self._told, **counts}
        self._file.write(of_all | {"worker_pids": [slot.pid for slot in self._slots]})
        summary = {name: len(self._told[name]) for name in ("invalid", "outdated")}
        refused = {} if self._told["fault"] is None else {"reload": "refused"}
        for slot in self._slots:
            slot.tell(counts | summary | refused)
        if self._ready is not None and serving == self._place.count:
            self._ready()
            self._ready = None


def standing(states: list[dict[str, Any]]) -> dict[str, Any]:
    """Of several workers one status: what all of them serve, and whatever is wrong with any; empty of none."""
    if not states:
        return {}
    datasets = set.intersection(*(set(state["datasets"]) for state in states))
    merged: dict[str, Mapping[str, str]] = {}
    for name in ("invalid", "outdated"):
        merged[name] = {key: why for state in states for key, why in state[name].items()}
    return {
        "generation": min(state["generation"] for state in states),
        "fault": next((state["fault"] for state in states if state["fault"] is not None), None),
        "datasets": sorted(datasets),
        **merged,
    }


def _noticed(*_: object) -> None:
    """Only the number that is written to the leader's socket counts."""
