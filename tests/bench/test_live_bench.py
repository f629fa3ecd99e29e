"""The live benchmark runs alerts beside reports, and the same work under every policy."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from bench import live
from bench._live.desk_costs import DeskLoad, choosing, condition_queries, desk_files, throughput, window_queries
from bench._live.freshness import Looks, Overload, stale
from bench._live.freshness import queries as dashboards
from bench._live.midnight import (
    Midnight,
    groups,
    ideal_us,
    judged,
    midnight_s,
    midnights,
    queries,
    run_folder,
    running,
)
from bench._live.neighbours import SECOND_US, START_US, Neighbourhood, respond
from bench._live.neighbours import queries as neighbours
from bench._live.replay import REPLAYED, apart, compared, medians, recorded
from bench._live.sweeps import KERNELS, TECHNIQUES, SweptQueries, sweeps
from bench._live.sweeps import queries as percentiles
from penstock.language.grammar.parse import parse_query

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("interpreted")


def test_alerts_are_answered_beside_reports_and_timed_from_the_file_that_made_them_final(spark: SparkSession) -> None:
    load = Neighbourhood(200, 30, 5, 1, 0.3, 4, 2, 2, 4, 0.1, past_minutes=0)
    found = respond(spark, load, reports=True)
    assert {end for end, _ in found.seconds} >= {1, 2, 3}
    assert all(took > 0 for _, took in found.seconds)
    assert found.reports


def test_where_all_happens_in_the_batch_alerts_wait_for_a_slow_sink(spark: SparkSession) -> None:
    load = Neighbourhood(200, 30, 6, 2, 0.1, 4, 2, 2, 4, 0.5, past_minutes=0)
    found = respond(spark, load, reports=True, policy="FCFS", apart=False)
    later = [took for end, took in found.seconds if end >= 4]
    assert later
    assert max(later) >= load.sleep_seconds  # of the batch before


def test_the_past_that_a_query_asks_for_is_answered_beside_the_alerts(spark: SparkSession) -> None:
    load = Neighbourhood(200, 30, 13, 1, 0.1, 4, 1, 2, 4, 0.1, past_minutes=12, backfill_at=2)
    found = respond(spark, load, reports=True)
    assert len(found.past) == load.past_windows
    assert {end for end, _ in found.seconds} >= {11, 12}


def test_every_query_that_is_due_at_midnight_is_judged(spark: SparkSession) -> None:
    load = Midnight(400, 20, 12, 3, first=2, backlog=2, beats=2)
    each_s = midnight_s(spark, load)
    with run_folder() as folder, running(spark, load, "FCFS", folder, each_s) as engine:
        ran = [midnights(engine, load, folder, name, each_s) for name in ("HNR", "FCFS")]
    ideal = ideal_us(ran)
    found = [judged(one.recording, ideal) for one in ran]
    assert found[0]["answered"] == found[1]["answered"] == load.queries * (load.backlog + load.beats)
    assert all(1.0 <= one["mean slowdown"] <= one["maximum slowdown"] for one in found)
    assert each_s > 0


def test_at_midnight_queries_ask_for_as_many_groups_as_is_drawn_and_have_time_in_proportion() -> None:
    load = Midnight()
    asked, written = groups(load), queries(load, 0.5)
    assert (len(asked), min(asked) >= load.fewest, max(asked) <= load.symbols) == (500, True, True)
    deadlines = [int(text.split("deadline = '")[1].split()[0]) for text in written.values()]
    assert sorted(range(500), key=lambda n: (asked[n], n)) == sorted(
        range(500), key=lambda n: (deadlines[n], asked[n], n)
    )
    assert all("SLIDE 1 s" in text for text in written.values())


def test_what_runs_at_midnight_is_recorded_and_replayed_under_all_policies(spark: SparkSession) -> None:
    load = Midnight(400, 20, 12, 3, first=2, batches=3)
    with run_folder() as folder, running(spark, load, "FCFS", folder) as engine:
        recordings = {name: recorded(engine, load, folder, name) for name in ("FCFS", "HNR")}
    for one in recordings.values():
        assert sum(windows.answers for windows in one.windows) == load.queries * (load.batches - load.first)
    rows = medians([compared(recordings)])
    assert [(row["ran"], row["replayed"]) for row in rows] == [(a, b) for a in recordings for b in recordings]
    assert all(row["replayed mean"] > 0 for row in rows)
    assert set(recordings) < set(REPLAYED)


def test_a_change_is_right_if_it_has_the_sign_that_was_predicted() -> None:
    def row(ran: str, replayed: str, *times: float) -> dict[str, object]:
        named = dict(zip(("live mean", "replayed mean", "live p95", "replayed p95", "other mean"), times, strict=True))
        return {"ran": ran, "replayed": replayed, **named}

    rounds = [
        [row("A", "A", 1.0, 1.05, 2.0, 1.8, 1.0), row("A", "B", 1.0, 0.5, 2.0, 1.0, 0.9)],
        [row("A", "A", 1.0, 1.05, 2.0, 1.8, 1.0), row("A", "B", 1.0, 0.7, 2.0, 1.0, 1.3)],
    ]
    rows = medians(rounds)
    assert [one["right"] for one in rows] == [None, False]  # 40 % less was predicted, and 10 % more came
    assert rows[1]["predicted"] == pytest.approx(-0.4)
    assert apart(rows, "mean") == pytest.approx(0.05)
    assert apart(rows, "p95") == pytest.approx(0.1)
    assert medians([rounds[0]])[1]["right"] is True


def test_of_dashboards_every_window_is_answered_or_counted_and_exact_queries_lose_none(spark: SparkSession) -> None:
    load = Overload(200, 20, 5, 1, 0.2, 3, 1, 9, 4)
    found = stale(spark, load, 4, fresh=True)
    assert found["lost"] == 0
    assert found["uncounted"] == 0
    assert found["answers"] + found["skipped"] == 4 * (load.files - 1)
    assert 0 <= found["staleness"] <= found["most stale"]


def test_staleness_is_how_far_the_newest_answer_is_behind_the_watermark() -> None:
    clock = SimpleNamespace(watermark_us=START_US + 9 * SECOND_US, last_us=START_US + 9 * SECOND_US)
    stream = SimpleNamespace(pipeline=SimpleNamespace(progress=SimpleNamespace(clock=clock)))
    engine: Any = SimpleNamespace(stream=lambda name: stream)
    looks = Looks(newest={"a": START_US + 8 * SECOND_US, "b": START_US + 3 * SECOND_US})
    looks.look(engine, ["a", "b"], appeared=11)
    assert (looks.stale, looks.unread) == ([3.5], [2.0])


def test_the_desk_is_measured_by_throughput_and_by_what_choosing_takes(spark: SparkSession) -> None:
    load = DeskLoad(400, 3, 1, 3, 6, 1)
    with desk_files(spark, load) as files:
        assert throughput(spark, load, files, ordered=True) > 0
    chosen = choosing(spark, load)
    assert chosen["milliseconds a batch"] > 0
    assert chosen["calls a batch"] >= 1


@pytest.mark.parametrize("kernel", ["scan kernel", pytest.param("state lanes", marks=pytest.mark.soak)])
def test_percentiles_that_fall_behind_answer_more_the_more_runs_together(spark: SparkSession, kernel: str) -> None:
    found = sweeps(spark, SweptQueries(24, 40, 300, 2), kernel)
    assert list(found) == list(TECHNIQUES)
    assert found["No-S"]["answers"] <= found["CS"]["answers"] <= found["H-LP"]["answers"]
    assert found["H-LP"]["operations an answer"] < found["No-S"]["operations an answer"]
    assert found["H-LP"]["late"] <= found["No-S"]["late"]


def test_the_queries_of_the_live_benchmark_are_queries() -> None:
    asked = {**queries(Midnight()), **neighbours(Neighbourhood(), reports=True)}
    assert len(asked) == Midnight().queries + Neighbourhood().alerts + Neighbourhood().reports
    more = {**dashboards(Overload(), 7, fresh=True), **window_queries(9), **condition_queries(9)}
    for how in KERNELS.values():
        more |= percentiles(SweptQueries(), how[1])
    for text in (*asked.values(), *more.values()):
        parse_query(text)
    assert live.Workload().rounds == live.ROUNDS
