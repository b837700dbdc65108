"""Numbers in a fixed table: what is counted, what is told of it, and that nothing new comes in."""

from __future__ import annotations

import os
import subprocess
import sys
from math import inf, nan
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families as parsed

from metrics.folder import TableFile
from metrics.table import SECONDS, Kind, Metric, Table, layout_of, size_of, summed
from metrics.text import text_of

ENDS = Metric("t_ends", Kind.COUNTER, "Ends.", ("verdict", "reason"), (("YES", "A"), ("NO", "B"), ("NO", "C")))
OPEN = Metric("t_open", Kind.GAUGE, "Open.")
WORLD = Metric.by("t_world", Kind.GAUGE, 'Says "what"\nit is.', "state", ("on", "off"), common=True)
TIMES = Metric.by("t_seconds", Kind.HISTOGRAM, "Times.", "step", ("one", "two"))
ALL = (ENDS, OPEN, WORLD, TIMES)
ROOT = Path(__file__).resolve().parents[2]


def samples(text: bytes) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in parsed(text.decode())
        for sample in family.samples
    }


def value(text: bytes, name: str, **labels: str) -> float:
    return samples(text)[name, tuple(sorted(labels.items()))]


def told(table: Table) -> bytes:
    return text_of(ALL, list(table.cells))


def test_what_was_counted_and_set_is_told_under_its_labels() -> None:
    table = Table(ALL)
    table.numbers(ENDS).add(("NO", "C"))
    table.numbers(ENDS).add(("NO", "C"), 2)
    table.numbers(OPEN).add()
    table.numbers(OPEN).add(amount=-1)
    table.numbers(WORLD).set(1, ("off",))
    text = told(table)
    assert value(text, "t_ends_total", verdict="NO", reason="C") == 3
    assert value(text, "t_ends_total", verdict="YES", reason="A") == 0
    assert value(text, "t_open") == 0
    assert (value(text, "t_world", state="off"), value(text, "t_world", state="on")) == (1, 0)


@given(st.lists(st.tuples(st.floats(0, 100), st.sampled_from(["one", "two"])), max_size=60))
def test_a_histogram_counts_each_time_once_and_below_every_bound_that_it_is_under(
    times: list[tuple[float, str]],
) -> None:
    table = Table(ALL)
    for seconds, step in times:
        table.times(TIMES).observe(seconds, (step,))
    found = samples(told(table))
    for step in ("one", "two"):
        own = [seconds for seconds, which in times if which == step]
        for bound in (*SECONDS, inf):
            shown = "+Inf" if bound == inf else str(bound)
            under = sum(seconds <= bound for seconds in own)
            assert found["t_seconds_bucket", (("le", shown), ("step", step))] == under
        assert found["t_seconds_count", (("step", step),)] == len(own)
        assert found["t_seconds_sum", (("step", step),)] == pytest.approx(sum(own))


@given(st.text(), st.text())
def test_a_label_that_is_none_of_the_known_ones_counts_nowhere_and_is_told_nowhere(one: str, other: str) -> None:
    table, fresh = Table(ALL), Table(ALL)
    label = (f"{one}!", other)
    table.numbers(ENDS).add(label)
    table.numbers(WORLD).set(1, label)
    table.times(TIMES).observe(1.0, label)
    assert told(table) == told(fresh)


def test_what_is_not_there_is_not_told() -> None:
    table = Table(ALL)
    table.numbers(WORLD).set(nan, ("on",))
    assert ("t_world", (("state", "on"),)) not in samples(told(table))
    assert ("t_world", (("state", "off"),)) in samples(told(table))


def test_processes_are_added_up_but_for_what_is_common_to_them() -> None:
    first, second = Table(ALL), Table(ALL)
    for table, times in ((first, 1), (second, 5)):
        table.numbers(ENDS).add(("YES", "A"), times)
        table.numbers(OPEN).set(times)
        table.numbers(WORLD).set(times, ("on",))
        table.times(TIMES).observe(0.3, ("one",))
    text = text_of(ALL, summed(ALL, [list(first.cells), list(second.cells)]))
    assert value(text, "t_ends_total", verdict="YES", reason="A") == 6
    assert value(text, "t_open") == 6
    assert value(text, "t_world", state="on") == 1
    assert value(text, "t_seconds_count", step="one") == 2


def test_a_process_reads_what_the_others_in_its_folder_count_at_once(tmp_path: Path) -> None:
    first, second = TableFile(tmp_path / "m", 0, ALL), TableFile(tmp_path / "m", 1, ALL)
    first.table.numbers(ENDS).add(("YES", "A"))
    second.table.numbers(ENDS).add(("YES", "A"), 3)
    for file in (first, second):
        assert value(text_of(ALL, summed(ALL, file.tables())), "t_ends_total", verdict="YES", reason="A") == 4


def test_only_this_user_may_read_the_tables(tmp_path: Path) -> None:
    TableFile(tmp_path / "m", 0, ALL)
    assert (tmp_path / "m").stat().st_mode & 0o777 == 0o700
    assert [path.stat().st_mode & 0o777 for path in (tmp_path / "m").iterdir()] == [0o600]


def test_who_takes_the_place_of_a_process_goes_on_with_its_counts_and_with_none_of_its_gauges(tmp_path: Path) -> None:
    before = TableFile(tmp_path, 0, ALL)
    before.table.numbers(ENDS).add(("NO", "B"), 7)
    before.table.times(TIMES).observe(0.2, ("two",))
    before.table.numbers(OPEN).set(4)
    after = TableFile(tmp_path, 0, ALL)
    text = told(after.table)
    assert value(text, "t_ends_total", verdict="NO", reason="B") == 7
    assert value(text, "t_seconds_count", step="two") == 1
    assert value(text, "t_open") == 0


def test_of_a_process_that_was_killed_the_counts_stay_and_the_gauges_do_not(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys; from pathlib import Path; from metrics.folder import TableFile\n"
        "from tests.metrics.test_metrics_table import ALL, ENDS, OPEN\n"
        "table = TableFile(Path(sys.argv[1]), 1, ALL).table\n"
        "table.numbers(ENDS).add(('NO', 'B'), 5); table.numbers(OPEN).set(9)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], env=environment, timeout=60, check=False)
    assert done.returncode == -9
    text = text_of(ALL, summed(ALL, TableFile(tmp_path, 0, ALL).tables()))
    assert (value(text, "t_ends_total", verdict="NO", reason="B"), value(text, "t_open")) == (5, 0)


@pytest.mark.parametrize("rubbish", [b"", b"x" * 40, b"y" * 10_000])
def test_a_file_that_means_something_else_is_begun_anew_by_its_owner_and_read_by_nobody(
    tmp_path: Path, rubbish: bytes
) -> None:
    for number in (0, 1):
        (tmp_path / f"{number}.table").write_bytes(rubbish)
    own = TableFile(tmp_path, 0, ALL)
    own.table.numbers(ENDS).add(("YES", "A"))
    assert value(text_of(ALL, summed(ALL, own.tables())), "t_ends_total", verdict="YES", reason="A") == 1
    assert len((tmp_path / "0.table").read_bytes()) == 40 + size_of(ALL)


def test_a_table_of_another_release_is_not_added_and_not_gone_on_with(tmp_path: Path) -> None:
    other = (ENDS, OPEN, WORLD, Metric.by("t_seconds", Kind.HISTOGRAM, "Times.", "step", ("two", "one")))
    assert size_of(other) == size_of(ALL)
    assert layout_of(other) != layout_of(ALL)
    TableFile(tmp_path, 1, other).table.times(other[3]).observe(0.1, ("two",))
    assert len(TableFile(tmp_path, 0, ALL).tables()) == 1
    assert value(told(TableFile(tmp_path, 1, ALL).table), "t_seconds_count", step="one") == 0


def test_a_place_that_is_a_link_is_not_written_to(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(b"kept")
    (tmp_path / "0.table").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic"):
        TableFile(tmp_path, 0, ALL)
    assert (tmp_path / "elsewhere").read_bytes() == b"kept"
