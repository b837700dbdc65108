"""At a terminal the command asks for what a call misses, shows how far a long one is, and stops it on Ctrl-C."""

from __future__ import annotations

import multiprocessing
import os
import pty
import re
import select
import shlex
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from dataset_agent.cli import main
from dataset_agent.console import err
from remote_agent import events
from tests.dataset_agent.command_line import PATIENCE_S, CommandLine, environment
from tests.remote_agent.long_world import held, until
from tests.running_agent import RunningAgent

pytestmark = pytest.mark.live

CALL = ("call", "compare_batches", "--as", "analyst", "--dataset", "purification-batches")
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@dataclass
class Terminal:
    """A run whose standard input and error are a terminal; standard output is a file."""

    process: Any
    master: int
    out: Path
    shown: str = field(default="")

    def until(self, text: str) -> None:
        """Read what is shown until it holds ``text``, and take it off."""
        end = time.monotonic() + PATIENCE_S
        while text not in self.shown:
            if time.monotonic() > end or not self._read():
                raise AssertionError(f"{text!r} was not shown: {self.shown!r}")
        self.shown = self.shown.partition(text)[2]

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def end(self) -> tuple[int, str]:
        """The exit code and what standard output got; the rest of what was shown stays in ``shown``."""
        while self.process.is_alive() and self._read():
            pass
        while select.select([self.master], [], [], 0)[0] and self._read():
            pass
        self.process.join(PATIENCE_S)
        return int(self.process.exitcode), self.out.read_text(encoding="utf-8")

    def _read(self) -> bool:
        if not select.select([self.master, self.process.sentinel], [], [], PATIENCE_S)[0]:
            return False
        if not select.select([self.master], [], [], 0)[0]:
            return False  # it has ended and said all
        try:
            read = os.read(self.master, 65_536)
        except OSError:  # Linux: the other side was closed
            return False
        self.shown += _CONTROL.sub("", read.decode("utf-8", "replace"))
        return bool(read)


@contextmanager
def at_terminal(command: CommandLine, *arguments: str) -> Iterator[Terminal]:
    master, slave = pty.openpty()
    with tempfile.TemporaryDirectory(prefix="terminal-") as folder:
        out = Path(folder, "out")
        forks = multiprocessing.get_context("forkserver")
        process = forks.Process(target=_run, args=(os.ttyname(slave), str(out), arguments, dict(command.settings)))
        process.start()
        run = Terminal(process, master, out)
        try:
            yield run
        finally:
            if process.is_alive():
                process.kill()
            process.join()
            os.close(slave)
            os.close(master)


def _run(terminal: str, out: str, arguments: tuple[str, ...], settings: dict[str, str]) -> None:
    """In the child: become the command, with the terminal as the one that Ctrl-C comes from."""
    fresh = environment(settings) | {"TERM": "xterm"}
    os.environ.clear()
    os.environ.update(fresh)
    os.setsid()
    screen = os.open(terminal, os.O_RDWR)
    for number, source in ((0, screen), (1, os.open(out, os.O_WRONLY | os.O_CREAT, 0o600)), (2, screen)):
        os.dup2(source, number)
    sys.stdin, sys.stdout, sys.stderr = (
        os.fdopen(number, mode, encoding="utf-8", closefd=False) for number, mode in enumerate(("r", "w", "w"))
    )
    err.is_interactive = True  # as in a process whose console is made where its terminal is
    sys.argv = ["dataset-agent", *arguments]
    main()


def rows_since(agent: RunningAgent, before: int) -> list[tuple[str, str]]:
    return [(str(row.cells["reason"]), str(row.cells["task_id"])) for row in agent.rows()[before:]]


def test_a_call_asks_for_what_it_misses_and_completes_the_task(agent: RunningAgent, command: CommandLine) -> None:
    before = len(agent.rows())
    with at_terminal(command, *CALL, "--arg", "batch_a=B201") as terminal:
        terminal.until("batch_b (STRING that matches B[0-9]{3})")
        terminal.type("nonsense\n")
        terminal.until("that is not")
        terminal.type("b202\n")
        code, out = terminal.end()
    assert (code, "B202" in out) == (0, True)
    (asked, in_task), (granted, in_same) = rows_since(agent, before)
    assert (asked, granted, in_task) == ("ARGUMENTS_MISSING", "PRINCIPAL_AUTHORIZED", in_same)


@pytest.mark.parametrize(
    ("words", "loads"),
    [
        (("serve",), "loading the dataset agent and the datasets of"),
        (("root",), "loading the root agent, and the policies and principals of"),
        (("policy", "serve"), "loading the policies of"),
    ],
    ids=["serve", "root", "policy"],
)
def test_a_start_says_at_once_what_it_loads_and_a_taken_port_before_it_is_loaded(
    agent: RunningAgent, command: CommandLine, words: tuple[str, ...], loads: str
) -> None:
    with at_terminal(command, *words, "--port", agent.url.rpartition(":")[2]) as terminal:
        terminal.until(loads)
        terminal.until("cannot listen on")
        assert terminal.end()[0] == 1


def test_a_question_asks_for_what_it_does_not_say(command: CommandLine) -> None:
    with at_terminal(command, "ask", "--as", "analyst", "Compare the recovery of batch B203") as terminal:
        terminal.until("batch_b (STRING")
        terminal.type("B204\n")
        code, out = terminal.end()
    assert (code, "B204" in out) == (0, True)


def test_a_period_that_is_not_read_is_asked_for_in_words(command: CommandLine) -> None:
    question = "Total the pool masses in March"
    with at_terminal(command, "ask", "--as", "process_engineer", "--zone", "Europe/Zurich", question) as terminal:
        terminal.until("period (a period)")
        terminal.type("03/04/2024\n")
        terminal.until("that is no period")
        terminal.type("March 2024\n")
        code, out = terminal.end()
    assert (code, "uf_df" in out) == (0, True)


def test_who_gives_up_is_told_how_it_can_be_said(command: CommandLine) -> None:
    with at_terminal(command, *CALL, "--arg", "batch_a=B205") as terminal:
        terminal.until("batch_b (STRING")
        terminal.type("\x04")
        code, out = terminal.end()
        told = " ".join(terminal.shown.split())
    assert (code, out) == (4, "")
    assert "--arg batch_a=B205 --arg batch_b=… --task task-" in told


def test_where_nobody_can_be_asked_the_printed_line_completes_the_task(
    agent: RunningAgent, command: CommandLine
) -> None:
    before = len(agent.rows())
    asked = command(*CALL, "--arg", "batch_a=B206")
    assert asked.code == 4
    line = asked.err.splitlines()[-1].partition("next: dataset-agent ")[2]
    done = command(*shlex.split(line.replace("…", "B207")), "--json")
    assert (done.code, done.json["verdict"]) == (0, "GRANTED")
    (_, in_task), (_, in_same) = rows_since(agent, before)
    assert in_task == in_same == done.json["remote"]["task_id"]


def test_a_long_call_shows_how_far_it_is_and_ends_at_the_dataset_agent_with_ctrl_c(
    agent: RunningAgent, command: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "INTERVAL_S", 0.05)
    before = len(agent.rows())
    with held(agent) as holding:
        holding.percent = 42.0
        with at_terminal(command, *CALL, "--arg", "batch_a=B208", "--arg", "batch_b=B209") as terminal:
            terminal.until("42 %")
            terminal.type("\x03")
            until(lambda: holding.stopped)
            code, out = terminal.end()
        assert (code, out) == (130, "")
        assert until(lambda: rows_since(agent, before))[0][0] == "CANCELLED"
