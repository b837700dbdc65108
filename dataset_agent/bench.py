"""``bench``: the benchmarks of the source tree, run from the command; they are in no wheel."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from dataset_agent import AGENTS_DIR
from dataset_agent.console import EXIT_USAGE, AsJson, fail

_FEWEST_BLOCKS: Final = 3


def bench(
    sections: Annotated[list[str] | None, typer.Argument(help="The sections to run; default: all of them.")] = None,
    blocks: Annotated[
        int | None, typer.Option(min=_FEWEST_BLOCKS, help="Interleaved blocks of each side; default: the section's.")
    ] = None,
    calls: Annotated[int | None, typer.Option(min=1, help="Calls of one block; default: the section's.")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure on this machine what a governed call costs, beside what it is built on (minutes). Needs the source tree.

    The figures are ratios of sides that are measured in one run; each says its goal and whether it is met.
    """
    folder = tree()
    sizes = [word for name, size in (("--blocks", blocks), ("--calls", calls)) if size for word in (name, str(size))]
    words = [*(sections or ()), *sizes, *(("--json",) if as_json else ())]
    done = subprocess.run([sys.executable, "-m", "benchmarks", *words], cwd=folder, check=False)  # noqa: S603 - our own
    raise typer.Exit(done.returncode)


def tree(beside: Path = AGENTS_DIR) -> Path:
    """The folder that holds the benchmarks of this very tree; a package that is called so elsewhere is none of them."""
    if not (beside / "benchmarks" / "__main__.py").is_file():
        raise fail(
            "the benchmarks are in the source tree, and not in the installed package: run make bench there", EXIT_USAGE
        )
    return beside
