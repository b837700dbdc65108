"""The command in processes of their own, as a person or a program meets it.

``CommandLine`` forks each run from a server that has imported the command once (importing ADK
takes seconds): a real process with its own arguments, environment, streams and exit code.
``served`` starts a serving process from nothing.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contract.settings import Settings
from dataset_agent.cli import main

PROGRAM = "from dataset_agent.cli import main; main()"
HOUSE = Path(__file__).resolve().parents[2]
PATIENCE_S = 60

_MODULES = (
    "asking",
    "answering",
    "serving",
    "cache_commands",
    "evidence_commands",
    "provenance_commands",
    "card_command",
    "doctor",
    "dataset_commands",
)
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["dataset_agent.cli", *(f"dataset_agent.{name}" for name in _MODULES)])


@dataclass(frozen=True)
class Run:
    """How one run ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def line(self) -> str:
        """The one line on standard error, where there is exactly one and nothing else was said."""
        lines = self.err.splitlines()
        assert len(lines) == 1, self.err
        assert self.out == ""
        return lines[0]


@dataclass(frozen=True)
class Started:
    """A run under way."""

    process: Any
    folder: tempfile.TemporaryDirectory[str]

    def end(self) -> Run:
        self.process.join(PATIENCE_S)
        if self.process.is_alive():
            self.process.kill()
            raise AssertionError("the command did not end")
        with self.folder as name:
            out, err = (Path(name, stream).read_text(encoding="utf-8") for stream in ("out", "err"))
        assert "Traceback" not in out + err, err
        return Run(self.process.exitcode, out, err)


@dataclass(frozen=True)
class CommandLine:
    """The command with settings of its own; ``COLUMNS`` is 80, as where there is no terminal."""

    settings: Mapping[str, str]

    def __call__(self, *arguments: str, stdin: str | bytes = b"", **settings: str) -> Run:
        return self.start(*arguments, stdin=stdin, **settings).end()

    def start(self, *arguments: str, stdin: str | bytes = b"", **settings: str) -> Started:
        folder = tempfile.TemporaryDirectory(prefix="command-")
        Path(folder.name, "in").write_bytes(stdin.encode() if isinstance(stdin, str) else stdin)
        given = dict(self.settings) | settings
        process = _FORKS.Process(target=_run, args=(folder.name, arguments, given))
        process.start()
        return Started(process, folder)

    def ask(self, question: str, principal: str = "process_engineer", **settings: str) -> Run:
        return self("ask", "--as", principal, question, "--json", **settings)


def environment(settings: Mapping[str, str]) -> dict[str, str]:
    """This environment without settings of its own, and with those given by their short names.

    Edits are taken over when a test asks for it, unless the test sets WATCH_INTERVAL.
    """
    settings = {"WATCH_INTERVAL": "0"} | dict(settings)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DATASET_AGENT_")}
    return kept | {"COLUMNS": "80"} | {f"DATASET_AGENT_{name}": value for name, value in settings.items()}


def command_for(settings: Settings, **more: str) -> CommandLine:
    """The command of a client of ``settings``' home and URL."""
    return CommandLine({"HOME": str(settings.home), "URL": settings.url} | more)


def _run(folder: str, arguments: tuple[str, ...], settings: Mapping[str, str]) -> None:
    """In the child: become the command. ``main`` ends by ``SystemExit``, which is the exit code."""
    fresh = environment(settings)
    os.environ.clear()
    os.environ.update(fresh)
    for number, (name, flags) in enumerate((("in", os.O_RDONLY), ("out", os.O_WRONLY), ("err", os.O_WRONLY))):
        os.dup2(os.open(os.path.join(folder, name), flags | os.O_CREAT, 0o600), number)
    sys.stdin, sys.stdout, sys.stderr = (
        os.fdopen(number, mode, encoding="utf-8", closefd=False) for number, mode in enumerate(("r", "w", "w"))
    )
    sys.argv = ["dataset-agent", *arguments]
    main()


@dataclass(frozen=True)
class Served:
    """A serving process that said it is ready."""

    process: subprocess.Popen[str]
    url: str
    said: list[str]

    def line_with(self, text: str) -> str:
        """The next line on standard error that holds ``text``."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.append(line)
            if text in line:
                return line
        raise AssertionError(f"it ended without saying {text!r}: {''.join(self.said)}")

    def end(self) -> int:
        """Its exit code; what it still said is in ``said``."""
        assert self.process.stderr is not None
        code = self.process.wait(PATIENCE_S)
        self.said.extend(self.process.stderr)
        return code


@contextmanager
def served(*arguments: str, **settings: str) -> Iterator[Served]:
    """``serve``, ``root`` or ``policy serve`` on a free port, as a process started from nothing."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments, "--port", "0"],
        env=environment(settings),
        cwd=HOUSE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        serving = Served(process, "", [])
        url = serving.line_with("is ready at").rpartition(" ")[2].strip().removesuffix('"}')
        yield Served(process, url, serving.said)
    finally:
        if process.poll() is None:
            process.terminate()
        process.communicate(timeout=PATIENCE_S)


def from_nothing(*arguments: str, python: tuple[str, ...] = (), program: str = PROGRAM, **settings: str) -> Run:
    """One run of a fresh interpreter, where what happens at import matters."""
    done = subprocess.run(
        [sys.executable, *python, "-c", program, *arguments],
        env=environment(settings),
        cwd=HOUSE,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    return Run(done.returncode, done.stdout, done.stderr)
