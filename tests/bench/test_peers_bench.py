"""The peers get windows that all of them accept, answer alike, and are skipped with a reason where they are missing."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from bench import peers
from bench._measure import Progress
from bench._mixed.workloads import flight_queries
from bench._peers import expert, flink, in_duckdb, in_penstock, spark_plain
from bench._peers.flights import QUERIES
from bench._peers.trades import RANGES_S, Case, Peer, Trades, differing, draw_windows, write_csv
from bench._plain import Window
from bench._results.peers import peers as peers_section

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TINY = peers.Workload(
    rows=3_000, files=2, keyless=(1, 2), by_symbol=(2,), plain_most=1, plain_most_by_symbol=1, flights=600, months=2
)


@pytest.fixture(scope="module")
def trades(interpreted: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Trades:
    return write_csv(interpreted, tmp_path_factory.mktemp("peers") / "trades", rows=3_000, files=2, seed=1)


def test_every_drawn_window_is_accepted_by_flink_and_there_are_no_two_alike() -> None:
    windows = draw_windows(256, seed=1)
    assert all(window.range_s % window.slide_s == 0 and window.range_s in RANGES_S for window in windows)
    assert len(set(windows)) == 256
    assert windows[:16] == draw_windows(16, seed=1)
    assert windows != draw_windows(256, seed=2)


def test_more_windows_than_there_are_is_an_error() -> None:
    with pytest.raises(ValueError, match="fewer than 600"):
        draw_windows(600, seed=1)


@pytest.mark.parametrize("by_symbol", [pytest.param(False, marks=pytest.mark.soak), True])
def test_penstock_duckdb_and_the_expert_answer_alike(
    interpreted: SparkSession, trades: Trades, tmp_path: Path, by_symbol: bool
) -> None:
    case = Case(draw_windows(4, seed=1), by_symbol)
    runs: dict[str, Peer] = {
        "penstock": partial(in_penstock.run, interpreted, trades),
        "expert": partial(expert.run, interpreted, trades),
        **in_duckdb.peers(trades),
    }
    found = {}
    for name, run in runs.items():
        (tmp_path / name).mkdir()
        found[name] = run(case, tmp_path / name).answers
    ours = found["penstock"]
    assert ours.num_rows > 15
    assert sum(ours["n"].to_pylist()) == sum(window.range_s // window.slide_s for window in case.windows) * trades.rows
    assert {name: differing(ours, theirs) for name, theirs in found.items()} == dict.fromkeys(runs, 0)


@pytest.mark.soak
def test_plain_spark_answers_all_windows_that_end_before_the_last_row(
    interpreted: SparkSession, trades: Trades, tmp_path: Path
) -> None:
    case = Case(draw_windows(1, seed=1))
    plain = spark_plain.run(interpreted, trades, case, tmp_path).answers
    duck = in_duckdb.run(trades, False, case, tmp_path).answers
    assert 0 < plain.num_rows < duck.num_rows
    assert differing(duck, plain) == duck.num_rows - plain.num_rows
    assert differing(duck, plain, trades.last_us) == 0


def answers(*rows: tuple[int, float, int]) -> pa.Table:
    ends, values, counts = zip(*rows, strict=True)
    names = {"query": ["q0"] * len(rows), "symbol": [""] * len(rows)}
    return pa.table({**names, "end_us": list(ends), "value": list(values), "n": list(counts)})


def test_answers_differ_by_value_by_count_and_if_only_one_side_has_them() -> None:
    ours = answers((1, 1.0, 1), (2, 2.0, 2))
    assert differing(ours, answers((1, 1.0 + 1e-12, 1), (2, 2.0, 2))) == 0
    assert differing(ours, answers((1, 1.1, 1), (2, 2.0, 3))) == 2
    assert differing(ours, answers((1, 1.0, 1), (3, 2.0, 2))) == 2
    assert differing(ours, answers((1, 1.0, 1), (3, 2.0, 2)), until_us=1) == 0


def test_slices_of_the_expert_hold_their_symbols() -> None:
    #  slices    10    20        windows over [10, 30) and [20, 30)
    #  A          1     2
    #  B                4
    slices = expert.Slices()
    slices.add(pa.table({"start": [10, 20], "symbol": ["A", "A"], "value": [1.0, 2.0], "n": [1, 1]}))
    slices.add(pa.table({"start": [20], "symbol": ["B"], "value": [4.0], "n": [2]}))
    held, sums, counts = slices.window(10, 30)
    assert (held.tolist(), sums.tolist(), counts.tolist()) == ([0, 1], [3.0, 4.0], [2, 2])
    held, sums, counts = slices.window(0, 20)
    assert (held.tolist(), sums.tolist(), counts.tolist()) == ([0], [1.0], [1])


def test_flinks_python_is_the_one_that_is_named_else_that_of_the_checkout(tmp_path: Path) -> None:
    assert flink.flink_python({}, tmp_path) is None
    made = tmp_path / ".flink" / "bin" / "python"
    made.parent.mkdir(parents=True)
    made.touch()
    assert flink.flink_python({}, tmp_path) == made
    assert flink.flink_python({"PENSTOCK_FLINK_PYTHON": str(tmp_path / "none")}, tmp_path) is None
    assert flink.flink_python({"PENSTOCK_FLINK_PYTHON": str(tmp_path)}, tmp_path) == tmp_path


def test_flink_is_told_how_many_digits_seconds_have() -> None:
    (insert,) = flink.inserts(Case((Window(900, 300),), by_symbol=True))
    assert "INTERVAL '300' SECOND(3), INTERVAL '900' SECOND(3)" in insert
    assert "GROUP BY symbol, window_start, window_end" in insert


def test_java_s_last_cause_is_why_a_job_failed() -> None:
    text = "org.Failure: whole\n\tat a.b(C.java:1)\nCaused by: first\n\tat d.e(F.java:2)\nCaused by: last\n\t... 3 more"
    assert flink.first_lines(text) == "Caused by: last"
    assert flink.first_lines("no cause\n") == "no cause"


def test_a_python_without_flink_says_what_it_lacks(tmp_path: Path) -> None:
    with (
        flink.Flink(Path(sys.executable), tmp_path) as started,
        pytest.raises(flink.FlinkFailed, match="No module named 'pyflink'"),
    ):
        started.job([], [], tmp_path)


def test_flink_runs_queries_of_the_airline() -> None:
    asked = flight_queries()
    for name, query in QUERIES.items():
        assert all(key in asked[name] for key, _ in query.keys)
        assert ("WHERE" in asked[name], "HAVING" in asked[name]) == (bool(query.where), bool(query.rest))


def test_a_missing_flink_is_skipped_with_a_reason(
    interpreted: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PENSTOCK_FLINK_PYTHON", str(tmp_path / "none"))
    figures = peers.measure(interpreted, replace(TINY, keyless=(1,), by_symbol=(), flights=0, warm=False), Progress())
    assert figures.measurements["skipped"] == {"Flink": flink.ABSENT}
    assert "make flink" in flink.ABSENT
    section = peers_section({"measurements": figures.measurements, "targets": []})
    assert f"skipped: {flink.ABSENT}" in str(section.tables[0])


@pytest.mark.soak
def test_all_peers_answer_alike_and_make_a_section(interpreted: SparkSession) -> None:
    if flink.flink_python() is None:
        pytest.skip(flink.ABSENT)
    figures = peers.measure(interpreted, TINY, Progress())
    found: dict[str, Any] = figures.measurements
    assert found["skipped"] == {}
    assert {name for name, one in found["answers_compared"].items() if one["differing"]} == set()
    assert found["flights"]["differing"] == []
    assert found["times"]["plain 2"]["scaled_from_queries"] == 1
    assert len(peers_section({"measurements": found, "targets": []}).tables) == 5
