"""The benchmark of windows, so small that its times mean nothing: it runs, and all sides answer the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from bench._measure import Progress, machine, write_json
from bench._plain import BySecond, Window, differences
from bench.windows import Workload, measure

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TINY = Workload(
    rows=6_000,
    files=2,
    more_files=3,
    repetitions=1,
    shared=(1, 4),
    foldered=(4,),
    plain=(1,),
    by_symbol=(1,),
    plain_by_symbol=(1,),
    overlapping=Window(600, 60),
    compared=1,
    counted=4,
    small_rows=500,
    small_batches=3,
    small_queries=5,
    warm=False,
    fresh_processes=False,
)


@pytest.fixture(scope="module")
def written(interpreted: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path: Path = tmp_path_factory.mktemp("bench") / "results" / "windows.json"
    write_json(path, machine(), measure(interpreted, TINY, Progress()))
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


@pytest.mark.soak
def test_the_file_has_machine_measurements_and_targets(written: dict[str, Any]) -> None:
    assert list(written) == ["machine", "measurements", "targets"]
    assert written["machine"]["cores"] >= 1
    assert all(set(target) == {"name", "value", "target", "met"} for target in written["targets"])


@pytest.mark.soak
def test_all_sides_answer_the_same(written: dict[str, Any]) -> None:
    compared = written["measurements"]["answers_compared"]
    assert len(compared) == 5
    assert all(found["answers"] > 5 and found["differing"] == 0 for found in compared.values())


@pytest.mark.soak
def test_every_side_is_timed(written: dict[str, Any]) -> None:
    assert list(written["measurements"]["times"]) == [
        "bare limit",
        "penstock 1",
        "penstock 4",
        "penstock in folders 4",
        "plain 1",
        "hand-tuned 1",
        "penstock overlapping",
        "plain overlapping",
        "penstock by symbol 1",
        "plain by symbol 1",
    ]


@pytest.mark.soak
def test_unshared_windows_fold_every_row_once_for_each_query(written: dict[str, Any]) -> None:
    operations = written["measurements"]["operations"]
    assert operations["shared paired"]["partial"] == TINY.rows
    assert operations["unshared paired"]["partial"] == TINY.rows * TINY.counted
    assert operations["unshared paired"]["final"] < operations["shared paired"]["final"]


@pytest.mark.soak
def test_memory_is_watched_over_two_cuts(written: dict[str, Any]) -> None:
    few, many = written["measurements"]["memory"]
    assert (len(few["python_bytes_by_batch"]), len(many["python_bytes_by_batch"])) == (3, 4)  # and the stream's end
    assert few["jvm_peak_bytes"] > 100 << 20


def test_windows_are_drawn_alike_every_time() -> None:
    assert Workload().windows(256)[:16] == Workload().windows(16)
    assert all(600 <= w.range_s <= 900 and 300 <= w.slide_s <= 600 for w in Workload().windows(1000))


def test_windows_put_together_from_seconds() -> None:
    import numpy as np

    #  seconds   100 101 … 109         one a second, each of value 1
    #  ends              105      110      115     over the 10 s before
    by_second = BySecond(100)
    by_second.add(np.arange(100, 110), np.ones(10))
    assert by_second.answers(Window(10, 5)) == {
        (105_000_000, None): 5.0,
        (110_000_000, None): 10.0,
        (115_000_000, None): 5.0,
    }


def test_differences_are_found() -> None:
    assert differences({(1, None): 1.0}, {(1, None): 1.0 + 1e-12}) == []
    assert len(differences({(1, None): 1.0, (2, None): 1.0}, {(1, None): 1.1})) == 2
