"""What a disk shows of a stored result, and which of its chunks a reader takes."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from remote_agent.spool_file import CHUNK, TAG, ChunkReader, ChunkWriter, Damaged, Sealed


@pytest.fixture
def sealed(tmp_path: Path) -> Sealed:
    """Three chunks of the same bytes."""
    writer = ChunkWriter(tmp_path / "file", "task-1")
    writer.write(b"a" * (3 * CHUNK))
    return writer.finish()


def test_the_same_bytes_are_others_in_every_chunk(sealed: Sealed) -> None:
    whole = sealed.path.read_bytes()
    chunks = {whole[at : at + CHUNK] for at in range(0, len(whole), CHUNK + TAG)}
    assert len(chunks) == 3


def test_another_result_under_the_same_key_does_not_open(sealed: Sealed) -> None:
    with closing(ChunkReader(replace(sealed, result_id="task-2"))) as reader, pytest.raises(Damaged):
        reader.read(0)


def test_a_file_that_was_cut_after_a_whole_chunk_does_not_end(sealed: Sealed) -> None:
    """Who may change what is told of the size too takes a chunk away and no more."""
    with closing(ChunkReader(replace(sealed, size=2 * CHUNK))) as reader:
        assert reader.read(0) == b"a" * CHUNK
        with pytest.raises(Damaged):
            reader.read(1)
