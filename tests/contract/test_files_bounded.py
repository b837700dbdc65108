"""Files that others made are read whole within a bound, or not at all."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from contract.files import read_bounded


def test_a_file_within_the_bound_is_read_whole(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x" * 10)
    assert read_bounded(file, 10) == b"x" * 10


def test_a_file_over_the_bound_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x" * 11)
    with pytest.raises(OSError, match="larger than 10 bytes") as refused:
        read_bounded(file, 10)
    assert refused.value.errno == errno.EFBIG


def test_a_pipe_is_no_file_and_is_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="no regular file") as refused:
        read_bounded(pipe, 10)
    assert refused.value.errno == errno.EINVAL
