"""Groupings that the executors keep answer as those of the driver, whenever they are handed over."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from penstock.engine import Engine
from penstock.errors import Unsupported
from penstock.language.grammar.parse import parse_query
from penstock.sinks.jsonl import JsonLinesSink
from penstock.sinks.parquet import ParquetSink
from penstock.store import executor_state as spread
from penstock.store.verifying import verify_state
from penstock.stream.runner import StreamRunner
from penstock.testing import TestBed
from tests.oracle.grouped_rows import AGGREGATES, COLUMNS, START, Batch, Grouped, awkward_rows, check

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("interpreted", "few_buckets")
SECONDS = 60
QUERIES = (
    Grouped("by_ab", f"a, b, {AGGREGATES}", "a, b", where="a > 1 OR b = 'x'"),
    Grouped("by_abx", f"a, b, x, {AGGREGATES}", "a, b, x", having="count(*) > 1"),
    Grouped("rolled", f"b, x, grouping_id() AS g, {AGGREGATES}", "ROLLUP (b, x)"),  # stays in the driver
    Grouped("by_a", f"a, {AGGREGATES}", "a", 15, 10),
    Grouped("holistic", "a, b, count(DISTINCT x) AS n, median(v) AS mean", "a, b"),
)


@pytest.fixture
def few_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spread, "BUCKETS", 3)


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(2, 8))])
def test_spread_groupings_answer_as_plain_spark(spark: SparkSession, seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    rows = awkward_rows(draw, 300, SECONDS)
    cuts = sorted(draw.sample(range(30, len(rows)), 3))
    bed = TestBed(spark, state=tmp_path, max_driver_groups=5)
    bed.stream("r", COLUMNS)
    for query in QUERIES:
        bed.query(query.name, query.text)
    for number, (first, last) in enumerate(zip([0, *cuts], [*cuts, len(rows)], strict=True)):
        if number == 2:
            bed.close()
            bed = TestBed(spark, state=tmp_path, max_driver_groups=5)
        if number == 2:  # it finds its partials with the executors
            entered = bed.query("late", "SELECT a, b, count(*) AS n FROM r [RANGE 6 s SLIDE 6 s] GROUP BY a, b")
        bed.feed("r", rows[first:last])
        kept = bed.engine.stream("r").pipeline.groupings.spread
        assert {keys for _, keys in kept} == ({("`a`", "`b`"), ("`a`", "`b`", "`x`")} if number else set())
    bed.flush()
    batch = Batch(spark, rows, SECONDS)
    for query in QUERIES:
        check(bed, batch, query)
    found = [(row["window_end"], row["a"] is not None, row["a"] or 0, row["b"] or "") for row in bed.answers("by_ab")]
    assert found == sorted(found)  # whatever their buckets
    assert bed.engine.stream("r").pipeline.metrics.spread > 0
    late, begins = bed.answers("late"), (entered.first_end_us or 0) / 1e6 - 6
    assert {row["window_end"].timestamp() // 6 for row in late} == {
        row["ts"].timestamp() // 6 + 1 for row in rows if row["ts"].timestamp() >= begins
    }
    for end in {row["window_end"] for row in late}:
        held = [r for r in rows if 0 < (end - r["ts"]).total_seconds() <= 6]
        assert sum(row["n"] for row in late if row["window_end"] == end) == len(held)
    bed.close()


def rows_of(seconds: range, groups: int = 20) -> list[dict[str, object]]:
    return [
        {"ts": second, "a": a, "b": None, "x": None, "v": second, "d": None}
        for second in seconds
        for a in range(groups)
    ]


def test_a_grouping_of_which_some_batch_had_nothing_is_handed_over(spark: SparkSession, tmp_path: Path) -> None:
    with TestBed(spark, state=tmp_path, max_driver_groups=2) as bed:
        bed.stream("r", COLUMNS)
        bed.query("first", "SELECT first(v) AS v FROM r [RANGE 2 s SLIDE 1 s]")
        bed.query("some", "SELECT a, first(v) AS v FROM r [RANGE 4 s SLIDE 2 s] WHERE a > 0 GROUP BY a")
        bed.feed("r", rows_of(range(1), 1))  # nothing for "some"
        bed.feed("r", rows_of(range(1, 2), 4))
        bed.feed("r", rows_of(range(2, 5), 4))
        assert [keys for _, keys in bed.engine.stream("r").pipeline.groupings.spread] == [("`a`",)]
        assert bed.timeline("some") == [(end, a, v) for end, v in ((2, 1), (4, 1)) for a in (1, 2, 3)]


BY_A = "SELECT a, sum(v) AS total FROM r [RANGE 2 s SLIDE 1 s] GROUP BY a"


def spread_bed(spark: SparkSession, tmp_path: Path, **options: object) -> TestBed:
    bed = TestBed(spark, state=tmp_path / "state", max_driver_groups=10, epoch=START, **options)  # type: ignore[arg-type]
    if not bed.engine.catalog.stream_names():
        bed.stream("r", COLUMNS)
    return bed


def test_answers_of_an_altered_query_stay_in_the_order_of_their_groups(spark: SparkSession, tmp_path: Path) -> None:
    with spread_bed(spark, tmp_path) as bed:
        bed.query("q", BY_A)
        bed.feed("r", rows_of(range(4)))
        bed.feed("r", rows_of(range(4, 6)))
        bed.engine.alter_query("q", "SELECT v, count(*) AS n FROM r [RANGE 2 s SLIDE 1 s] GROUP BY v")
        bed.feed("r", rows_of(range(6, 9)))
        assert bed.engine.stream("r").pipeline.groupings.spread
        found = [(row["window_end"], row["a"]) for row in bed.engine.results("q", "rows", version=1)]
        assert len(found) > 60
        assert found == sorted(found)


def test_sinks_get_what_executors_wrote_exactly_once(spark: SparkSession, tmp_path: Path) -> None:
    sinks = [ParquetSink(tmp_path / "parquet", layout="columns"), JsonLinesSink(tmp_path / "lines")]
    with spread_bed(spark, tmp_path, sinks=sinks) as bed:
        bed.query("q", BY_A)
        bed.query("all", "SELECT count(*) AS n FROM r [RANGE 2 s SLIDE 1 s]")
        bed.feed("r", rows_of(range(3)))
        bed.feed("r", rows_of(range(3, 6)))
    with spread_bed(spark, tmp_path, sinks=sinks) as bed:
        bed.feed("r", rows_of(range(6, 8)))
        bed.flush()
        wanted = sorted((row["window_end"], row["a"], row["total"]) for row in bed.answers("q"))
        assert len(wanted) == len(set(wanted)) == 20 * 9
    table = pq.read_table(tmp_path / "parquet")
    mine = [row for row in table.to_pylist() if row["query_name"] == "q"]
    assert sorted((row["window_end"], row["a"], row["total"]) for row in mine) == wanted
    lines = [line for path in (tmp_path / "lines").glob("*.jsonl") for line in path.read_text().splitlines()]
    assert sum('"query_name": "q"' in line for line in lines) == len(wanted)
    assert len(lines) == len(wanted) + 9


def test_a_grouping_with_predicates_is_spread_though_nothing_else_is_asked(spark: SparkSession, tmp_path: Path) -> None:
    with spread_bed(spark, tmp_path) as bed:
        bed.query("q", BY_A)
        bed.query("some", BY_A.replace("GROUP", "WHERE v > 3 AND a > 1 GROUP"))
        for first in range(0, 9, 3):
            bed.feed("r", rows_of(range(first, first + 3)))
        bed.flush()
        assert bed.engine.stream("r").pipeline.groupings.spread
        for query, low, groups in (("q", 0, 20), ("some", 4, 18)):
            wanted = {end: sum(v for v in (end - 2, end - 1) if low <= v < 9) for end in range(1, 11)}
            found = bed.timeline(query)
            assert len(found) == groups * len({end for end, *_ in found})
            assert {end: total for end, a, total in found if a == 5} == {
                end: total for end, total in wanted.items() if any(low <= v < 9 for v in (end - 2, end - 1) if v >= 0)
            }


def test_a_question_is_answered_by_the_executors(spark: SparkSession, tmp_path: Path) -> None:
    with spread_bed(spark, tmp_path) as bed:
        bed.query("q", BY_A)
        bed.feed("r", rows_of(range(3)))
        bed.feed("r", rows_of(range(3, 6)))
        asked = bed.ask("SELECT a, sum(v) AS total FROM r [RANGE 1 s] GROUP BY a HAVING a < 3")
        assert [(row["a"], row["total"]) for row in asked] == [(0, 4), (1, 4), (2, 4)]
        assert not list((tmp_path / "state" / "answers" / "r").glob("asked*"))


def test_a_sum_that_overflows_pauses_its_query_in_all_buckets(spark: SparkSession, tmp_path: Path) -> None:
    with spread_bed(spark, tmp_path) as bed:
        bed.query("q", BY_A)
        bed.query("n", "SELECT a, count(*) AS n FROM r [RANGE 1 s SLIDE 1 s] GROUP BY a")
        bed.feed("r", rows_of(range(2)))
        bed.feed("r", rows_of(range(2, 4)))
        large = [{"ts": 4 + i / 10, "a": 7, "b": None, "x": None, "v": 2**62, "d": None} for i in range(3)]
        bed.feed("r", [*large, *rows_of(range(5, 6))])
        bed.flush()
        assert "does not fit" in (bed.paused("q") or "")
        assert {end for end, *_ in bed.timeline("q")} == {1, 2, 3, 4}
        assert {end for end, *_ in bed.timeline("n")} == {1, 2, 3, 4, 5, 6}


def test_partials_that_no_window_needs_are_removed(spark: SparkSession, tmp_path: Path) -> None:
    with spread_bed(spark, tmp_path) as bed:
        bed.query("q", BY_A)
        for first in range(0, 12, 3):
            bed.feed("r", rows_of(range(first, first + 3)))
        store = bed.engine.stream("r").pipeline.executor_state.store  # type: ignore[union-attr]
        assert [entry.number for entry in store.entries][-1] == 3
        assert len(store.entries) <= 2
        names = {path.name for path in store.folder.iterdir()}
        listed = {file.name for entry in store.entries for file in entry.files}
        assert {name for name in names if name.endswith(".arrow")} == listed


def test_what_the_executors_cannot_do_is_refused_and_nothing_changes(spark: SparkSession, tmp_path: Path) -> None:
    text = "SELECT a, hex(a) AS h, sum(v) AS t FROM r [RANGE 2 s SLIDE 1 s] GROUP BY a"
    with spread_bed(spark, tmp_path) as bed:
        bed.query("q", BY_A)
        bed.feed("r", rows_of(range(3)))
        bed.feed("r", rows_of(range(3, 6)))
        for change in (bed.engine.create_query, bed.engine.alter_query):
            with pytest.raises(Unsupported, match="cannot be answered") as refused:
                change("q" if change == bed.engine.alter_query else "odd", text)
            assert "kept by the executors" in (refused.value.detail or "")
        assert bed.engine.catalog.query_names() == ["q"]
        bed.engine.catalog.create_queries([bed.engine.typed(parse_query(text), "odd")])  # as older versions let it in
        bed.feed("r", rows_of(range(6, 8)))
        assert "kept by the executors" in (bed.paused("odd") or "")
        with pytest.raises(Unsupported, match="cannot be answered"):
            bed.engine.resume_query("odd")
        assert bed.paused("q") is None


PAST = "SELECT a, max(v) AS m FROM r [RANGE 2 s SLIDE 1 s] GROUP BY a WITH (from = {})"


def test_a_plain_query_begins_at_what_was_seen_however_many_rows_are_kept(spark: SparkSession, tmp_path: Path) -> None:
    with TestBed(spark, state=tmp_path, max_driver_groups=10, epoch=START) as bed:
        bed.stream("r", COLUMNS, retain_rows="1 d")
        bed.query("q", BY_A)
        bed.feed("r", rows_of(range(3)))
        bed.feed("r", rows_of(range(3, 6)))
        entered = bed.query("plain", "SELECT a, max(v) AS m FROM r [RANGE 2 s SLIDE 2 s] WHERE v > 1 GROUP BY a")
        assert "kept from now on" in str(entered)
        assert entered.first_end_us == int(START.timestamp() + 8) * 1_000_000  # of the first window after second 5
        bed.feed("r", rows_of(range(6, 11)))
        bed.flush()
        assert bed.paused("plain") is None
        assert sorted({(end, m) for end, _, m in bed.timeline("plain")}) == [(8, 7), (10, 9), (12, 10)]
        assert len(bed.timeline("plain")) == 3 * 20


def test_a_past_that_cannot_be_had_is_refused_before_anything_changes(spark: SparkSession, tmp_path: Path) -> None:
    with TestBed(spark, state=tmp_path, max_driver_groups=10, epoch=START) as bed:
        bed.stream("r", COLUMNS, retain_rows="1 d")
        bed.query("old", PAST.format("'beginning'"))
        bed.query("q", BY_A)
        bed.feed("r", rows_of(range(3)))
        bed.feed("r", rows_of(range(3, 6)))
        engine, version, past = bed.engine, bed.engine.catalog.version, PAST.format("'beginning'")
        changes: list[Callable[[], object]] = [
            lambda: engine.create_query("new", past),
            lambda: engine.create_query("new", PAST.format("'2026-01-05 12:00:01'")),
            lambda: engine.alter_query("q", past),
            lambda: engine.execute("ALTER QUERY q SET (from = 'beginning', keep = '1 d')"),
            lambda: engine.execute(f"CREATE QUERY fine AS {BY_A}; CREATE QUERY new AS {past}"),
            lambda: engine.execute(f"CREATE STREAM made AS {past}"),
        ]
        for change in changes:
            with pytest.raises(Unsupported, match="is not available"):
                change()
        assert engine.catalog.version == version
        bed.query("old", past)  # as it is already: nothing is asked for
        bed.query("later", PAST.format("'2026-01-05 12:00:07'"))  # no past
        bed.query("late", "SELECT a, sum(v) AS total FROM r [RANGE 1 s SLIDE 1 s] GROUP BY a")
        with pytest.raises(Unsupported, match="is not available"):
            engine.backfill(["late"])
        bed.feed("r", rows_of(range(6, 10)))
        bed.flush()
        assert [bed.paused(name) for name in engine.catalog.query_names()] == [None] * 4
        assert {end: total for end, a, total in bed.timeline("q") if a == 3} == {
            end: sum(v for v in (end - 2, end - 1) if 0 <= v < 10) for end in range(1, 12)
        }
        assert sorted({(end, m) for end, _, m in bed.timeline("later")}) == [(9, 8), (10, 9), (11, 9)]
        assert sorted({(end, total) for end, _, total in bed.timeline("late")}) == [
            (end, end - 1) for end in range(5, 11)
        ]


def test_a_promise_is_kept_though_the_next_batch_makes_its_grouping_large(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with TestBed(spark, state=tmp_path, max_driver_groups=10, epoch=START) as bed:
        bed.stream("r", COLUMNS, retain_rows="1 d")
        bed.query("q", BY_A)
        bed.feed("r", rows_of(range(3), groups=5))
        with monkeypatch.context() as patch:
            patch.setattr(StreamRunner, "running", True)  # what changes takes effect with the next batch
            entered = [bed.query("past", PAST.format("'beginning'")), bed.query("plain", BY_A.replace("2 s", "3 s"))]
        assert [(e.first_end_us or 0) / 1e6 - START.timestamp() for e in entered] == [1, 1]
        bed.feed("r", rows_of(range(3, 6)))  # twenty groups
        bed.feed("r", rows_of(range(6, 8)))
        bed.flush()
        assert [bed.paused(name) for name in ("q", "past", "plain")] == [None] * 3
        assert [(end, m) for end, a, m in bed.timeline("past") if a == 0] == [(e, min(e, 8) - 1) for e in range(1, 10)]
        assert [end for end, a, _ in bed.timeline("plain") if a == 0] == list(range(1, 11))


def test_a_grouping_whose_query_only_spark_can_finish_stays_in_the_driver(spark: SparkSession, tmp_path: Path) -> None:
    with spread_bed(spark, tmp_path) as bed:
        bed.query("odd", "SELECT a, hex(a) AS h, sum(v) AS t FROM r [RANGE 2 s SLIDE 1 s] GROUP BY a")
        bed.feed("r", rows_of(range(3)))
        bed.feed("r", rows_of(range(3, 6)))
        bed.flush()
        assert not bed.engine.stream("r").pipeline.groupings.spread
        assert len(bed.answers("odd")) == 20 * 7


def test_late_rows_reach_windows_that_the_executors_keep(spark: SparkSession, tmp_path: Path) -> None:
    with TestBed(spark, state=tmp_path, max_driver_groups=10, epoch=START) as bed:
        bed.stream("r", COLUMNS, lateness="2 s")
        bed.query("q", BY_A)
        bed.feed("r", rows_of(range(4)))
        bed.feed("r", [*rows_of(range(4, 6)), *rows_of(range(2, 3))])
        bed.feed("r", rows_of(range(2, 8)))
        bed.flush()
        counts = bed.counts("r")
        assert counts.ingested == counts.on_time + counts.late
        assert counts.late == 20
        totals = {end: total for end, a, total in bed.timeline("q") if a == 0}
        assert totals == {1: 0, 2: 1, 3: 5, 4: 12, 5: 14, 6: 18, 7: 16, 8: 13, 9: 7}


def test_a_damaged_file_of_the_executors_is_found(spark: SparkSession, tmp_path: Path) -> None:
    with spread_bed(spark, tmp_path) as bed:
        bed.query("q", BY_A)
        bed.feed("r", rows_of(range(3)))
        bed.feed("r", rows_of(range(3, 6)))
    assert verify_state(tmp_path / "state").sound
    for folder, end in (("spread", "*.arrow"), ("answers", "*.spread")):
        path = next((tmp_path / "state" / folder / "r").glob(end))
        content = path.read_bytes()
        path.write_bytes(content[:-9] + b"x" + content[-8:])
        assert [path.name in problem.what for problem in verify_state(tmp_path / "state").problems] == [True]
        path.write_bytes(content)


def test_the_old_name_of_the_limit_still_holds_and_is_warned_of(spark: SparkSession) -> None:
    with pytest.warns(DeprecationWarning, match="max_driver_groups"), Engine(spark=spark, spread_over=7) as engine:
        assert engine.streams.settings.max_driver_groups == 7
