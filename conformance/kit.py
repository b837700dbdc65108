"""The public kit: a package of its own, in a folder of its own, which is on the path of a run of it and of nothing else."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
FOLDER: Final = Path(sys.prefix) / "conformance-kit"
LOCK: Final = Path(__file__).with_name("requirements.lock")


def installed() -> Path:
    """Where the kit is, installed from the lock where it is missing or of another lock; it can be imported then."""
    stamp, wanted = FOLDER / "lock.sha256", hashlib.sha256(LOCK.read_bytes()).hexdigest()
    if not stamp.is_file() or stamp.read_text() != wanted:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*pip, "--require-hashes", "--upgrade", "--target", FOLDER, "-r", LOCK], check=True)
        stamp.write_text(wanted)
    if str(FOLDER) not in sys.path:
        sys.path.append(str(FOLDER))
    return FOLDER
