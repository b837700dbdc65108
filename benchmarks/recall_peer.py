"""The corpus of ``authorized-recall`` and its metrics, in a folder of its own below ``.venv``: generated when it is needed, and judged there."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
FOLDER: Final = ROOT / ".venv" / "recall"
LOCK: Final = Path(__file__).with_name("requirements-recall.lock")
_CORPUS: Final = """
import json
from authorized_recall.corpus import build
datasets, queries, profiles = build()
print(json.dumps({"datasets": datasets, "queries": queries, "profiles": profiles}))
"""
_JUDGED: Final = """
import json, statistics, sys
from authorized_recall import metric
names = ("recall", "precision", "ndcg", "exposure", "post")
sums = {}
for pair in json.load(sys.stdin):
    held, relevant, shown, blind = set(pair["held"]), pair["relevant"], pair["shown"], pair["blind"]
    own = [name for name in relevant if name in held]
    for k in (1, 3, 5, 10):
        found = {
            "recall": metric.authorized_recall_at_k(shown, relevant, held.__contains__, k),
            "post": metric.authorized_recall_at_k(metric.post_filter(blind, held.__contains__, k), relevant, held.__contains__, k),
            "precision": metric.precision_at_k(shown, own, k),
            "ndcg": metric.ndcg_at_k(shown, own, k),
            "exposure": metric.unusable_fraction_at_k(shown, held.__contains__, k),
        }
        for name, value in found.items():
            sums.setdefault(f"{name}@{k}", []).append(value)
            if own:
                sums.setdefault(f"{name}@{k} of pairs with something relevant", []).append(value)
told = {name: statistics.mean(values) for name, values in sums.items()}
told["pairs"] = len(sums["recall@1"])
told["pairs with something relevant"] = len(sums["recall@1 of pairs with something relevant"])
print(json.dumps(told))
"""


class NotInstalled(Exception):
    """The folder cannot be made, and why."""


def installed() -> None:
    """Makes the folder where it is missing or of another lock. Raises ``NotInstalled``."""
    stamp, wanted = FOLDER / "lock.sha256", hashlib.sha256(LOCK.read_bytes()).hexdigest()
    if stamp.is_file() and stamp.read_text() == wanted:
        return
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes"]
    made = subprocess.run(
        [*pip, "--no-deps", "--upgrade", "--target", str(FOLDER), "-r", str(LOCK)], capture_output=True, text=True
    )
    if made.returncode:
        raise NotInstalled(made.stderr.strip().splitlines()[-1] if made.stderr.strip() else "pip failed")
    stamp.write_text(wanted)


def corpus() -> dict[str, Any]:
    """``datasets``, ``queries`` and ``profiles``, as the package generates them."""
    return _run(_CORPUS, None)


def judged(pairs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Means over the pairs of a query and a person by the package's own metrics.

    A pair has what is ``relevant``, what the person ``held``, what was ``shown``, and the ``blind`` ranking of all.
    """
    return _run(_JUDGED, json.dumps(pairs))


def _run(code: str, given: str | None) -> dict[str, Any]:
    environment = os.environ | {"PYTHONPATH": str(FOLDER)}
    done = subprocess.run(
        [sys.executable, "-c", code], input=given, capture_output=True, text=True, env=environment, check=True
    )
    return dict(json.loads(done.stdout))
