"""Windows of rows equal counting by hand, whatever the batches, the disorder, the restarts and other queries."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from penstock.errors import LanguageError, PenstockError, SourceError, Unsupported
from penstock.kernel.synopsis import Kernel
from penstock.model.strategy import StrategyName
from penstock.sinks.parquet import ParquetSink
from penstock.spark.kept_rows import row_buffer as waiting
from penstock.spark.kept_rows import row_numbers as counting
from penstock.store import faults
from penstock.stream import batch_taking
from penstock.stream.derived import partitioned_rows as parts_fed
from penstock.testing import ManualClock, TestBed
from tests.stream.counted import COLUMNS, Counted, Row, Stream, expected

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LATENESS = 3
FIRST = {
    "plain": Counted(10, 4),
    "apart": Counted(5, 3, apart=True, by=("k",)),
    "taken": Counted(7, 5, takes=0, by=("k",)),
    "finer": Counted(3, 8, apart=True, takes=1, by=("k", "odd")),
    "often": Counted(4, 1, takes=2),
}
LATER = {"new": Counted(6, 4), "new_apart": Counted(4, 2, apart=True, takes=0, by=("k",))}


def some_rows(draw: random.Random, number: int, start: float = 0) -> list[Row]:
    rows: list[Row] = []
    for i in range(number):
        ts = start + i / 4 + draw.choice([0, 0, 0.25, 1, 2, -2, -6])
        rows.append({"ts": None if draw.random() < 0.03 else ts, "k": draw.choice(["a", "a", "b", None]), "v": i})
    return rows


def cut(draw: random.Random, rows: list[Row], batches: int) -> Iterator[list[Row]]:
    edges = sorted(draw.sample(range(1, len(rows)), batches - 1))
    yield from (rows[a:b] for a, b in zip([0, *edges], [*edges, len(rows)], strict=True))


def opened(spark: SparkSession, state: Path | None) -> TestBed:
    bed = TestBed(spark, state=state)
    bed.stream("s", COLUMNS, lateness=f"{LATENESS} s")
    return bed


def answers(bed: TestBed, name: str) -> list[tuple[Any, ...]]:
    rows = [tuple(row.values()) for row in bed.answers(name)]
    return [(start.timestamp(), end.timestamp(), *values) for start, end, *values in rows]


def check(bed: TestBed, model: Stream, asked: dict[str, Counted], since: dict[str, float | None]) -> None:
    rows = model.in_order(bed.engine.session, bed.epoch)
    epoch = bed.epoch.timestamp()
    for name, query in asked.items():
        begins = since.get(name)
        wanted = expected(query, rows, None if begins is None else epoch + begins)
        assert answers(bed, name) == wanted, name
        assert wanted, name


def run(spark: SparkSession, state: Path, seed: int) -> None:
    """Feed rows in random batches with a restart before each; queries come and go in the middle."""
    draw, model = random.Random(seed), Stream(LATENESS)
    since: dict[str, float | None] = {}
    asked = dict(FIRST)
    with opened(spark, state) as bed:
        for name, query in FIRST.items():
            bed.query(name, query.text)
    for number, batch in enumerate(cut(draw, some_rows(draw, 140), 3)):
        with opened(spark, state) as bed:
            if number == 1:
                for name, query in LATER.items():
                    bed.query(name, query.text)
                    since[name] = model.greatest
                bed.engine.drop_query("often")
                asked = {**asked, **LATER}
                asked.pop("often")
            bed.feed("s", batch)
            model.feed(batch)
    with opened(spark, state) as bed:
        bed.flush()
        check(bed, model, asked, since)
        counts = bed.counts("s")
        assert counts.on_time == len(model.on_time)
        assert counts.late + counts.invalid == counts.ingested - len(model.on_time)
        assert not list((state / "waiting" / "s").glob("0*"))  # nothing waits any more


def test_any_batches_restarts_and_queries_that_come_and_go_change_nothing(spark: SparkSession, tmp_path: Path) -> None:
    run(spark, tmp_path / "state", 7)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 140))
def test_many_other_batches_change_nothing(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    run(spark, tmp_path / "state", seed)


def test_rows_wait_until_the_watermark_has_passed_them(spark: SparkSession) -> None:
    """Rows at 0 … 9 s with 3 s lateness: the watermark is 6 s, and six rows are numbered."""
    with opened(spark, None) as bed:
        bed.query("q", "SELECT count(*) AS n, sum(v) AS s FROM s [ROWS 2 SLIDE 2]")
        bed.query("time", "SELECT count(*) AS n FROM s [RANGE 5 s SLIDE 5 s]")
        bed.feed("s", [{"ts": t, "k": "a", "v": t} for t in (9, 0, 1, 2, 3, 4, 5, 6, 7, 8)])
        assert [(n, s) for _, n, s in bed.timeline("q")] == [(2, 1), (2, 5), (2, 9)]
        assert bed.timeline("time") == [(5, 5)]
        metrics = bed.engine.stream("s").pipeline.metrics
        assert (metrics.waiting, metrics.waiting_bytes > 0) == (4, True)
        bed.feed("s", [{"ts": 5.5, "k": "a", "v": 100}, {"ts": 6, "k": "a", "v": 60}, {"ts": 10, "k": "a", "v": 10}])
        assert bed.counts("s").late == 1
        bed.flush()
        sums = [s for _, _, s in bed.timeline("q")]
        assert sums[:3] == [1, 5, 9]
        assert sum(sums) == sum(range(11)) + 60  # every row on time once, the late one never
        assert metrics.waiting == 0


def test_more_rows_than_one_task_sorts_are_numbered_alike(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    draw, model = random.Random(5), Stream(LATENESS)
    monkeypatch.setattr(counting, "FEW_ROWS", 10)
    with opened(spark, None) as bed:
        asked = {"plain": FIRST["plain"], "unusual": Counted(40, 17, apart=True, by=("k",))}  # a slide of its own line
        for name, query in asked.items():
            bed.query(name, query.text)
        rows = some_rows(draw, 90)
        bed.feed("s", rows)
        model.feed(rows)
        bed.flush()
        check(bed, model, asked, {})


@contextmanager
def dying_at(moment: str, times: int) -> Iterator[None]:
    left = times

    def hook(point: str) -> None:
        nonlocal left
        left -= point == moment
        if left < 0 and point == moment:
            raise KeyboardInterrupt(point)

    faults.hook = hook
    try:
        yield
    finally:
        faults.hook = None


@pytest.mark.parametrize(
    ("moment", "times"),
    [
        ("waiting.torn", 0),
        ("commit.before", 1),
        ("commit.before", 2),
        pytest.param("commit.before", 0, marks=pytest.mark.soak),
        pytest.param("commit.torn", 1, marks=pytest.mark.soak),
        pytest.param("commit.after", 2, marks=pytest.mark.soak),
        pytest.param("answers.before", 1, marks=pytest.mark.soak),
        pytest.param("answers.after", 0, marks=pytest.mark.soak),
    ],
)
def test_a_death_anywhere_in_a_batch_loses_no_row_and_counts_none_twice(
    spark: SparkSession, tmp_path: Path, moment: str, times: int
) -> None:
    """The stream, its numbered rows and those numbered apart commit one after the other: each may be the last."""
    draw, model = random.Random(11), Stream(LATENESS)
    asked = {name: FIRST[name] for name in ("plain", "apart")}
    batches = list(cut(draw, some_rows(draw, 60), 2))
    with opened(spark, tmp_path) as bed:
        for name, query in asked.items():
            bed.query(name, query.text)
        bed.feed("s", batches[0], number=0)
        with pytest.raises(KeyboardInterrupt), dying_at(moment, times):
            bed.feed("s", batches[1], number=1)
    with opened(spark, tmp_path) as bed:
        bed.feed("s", batches[1], number=1)  # Spark sends it again
        bed.flush()
        for batch in batches:
            model.feed(batch)
        check(bed, model, asked, {})


def test_partials_of_parts_are_let_go_of_and_put_together(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key that was seen long ago keeps its last rows, however often the others' are put together."""
    monkeypatch.setattr(batch_taking, "COMPACTED_EVERY", 1)
    monkeypatch.setattr("penstock.store.commits.FAN", 1)
    monkeypatch.setattr("penstock.store.compaction.FAN", 2)
    model, query = Stream(LATENESS), Counted(4, 3, apart=True, by=("k",))
    rare: list[Row] = [{"ts": 0, "k": "rare", "v": 1}, {"ts": 0, "k": "rare", "v": 2}]
    batches = [[*rare, {"ts": 4, "k": "a", "v": 0}]]
    batches += [[{"ts": 5 * b + i, "k": "ab"[i % 2], "v": i} for i in range(5)] for b in range(1, 4)]
    batches.append([{"ts": 40, "k": "rare", "v": 3}, {"ts": 60, "k": "rare", "v": 4}])
    for batch in batches:
        with opened(spark, tmp_path) as bed:
            bed.query("q", query.text)
            bed.feed("s", batch)
            model.feed(batch)
    with opened(spark, tmp_path) as bed:
        bed.flush()
        check(bed, model, {"q": query}, {})
        [line] = [one for one in bed.engine.streams.runners.values() if isinstance(one, parts_fed.PartitionedRowStream)]
        lanes = line.pipeline.synopsis.lanes.values()
        assert max(lane.cells for lane in lanes) <= 3 * 4  # of each key, what windows to come hold


def test_slices_of_parts_are_let_go_of_while_the_stream_runs(spark: SparkSession, tmp_path: Path) -> None:
    query = Counted(4, 3, apart=True, by=("k",))
    with opened(spark, tmp_path) as bed:
        bed.query("q", query.text)
        for b in range(8):
            bed.feed("s", [{"ts": 5 * b + i, "k": "ab"[i % 2], "v": i} for i in range(5)])
        [line] = [one for one in bed.engine.streams.runners.values() if isinstance(one, parts_fed.PartitionedRowStream)]
        assert max(lane.cells for lane in line.pipeline.synopsis.lanes.values()) <= 2 * 4  # of 32 rows and more


def test_a_row_that_fails_pauses_its_query_alone(spark: SparkSession, tmp_path: Path) -> None:
    with opened(spark, tmp_path) as bed:
        bed.query("bad", "SELECT sum(1 / v) AS s FROM s [ROWS 2 SLIDE 2]")
        bed.query("bad_apart", "SELECT k, sum(1 / v) AS s FROM s [PARTITION BY k ROWS 2 SLIDE 2] GROUP BY k")
        bed.query("good", "SELECT count(*) AS n FROM s [ROWS 2 SLIDE 2]")
        bed.feed("s", [{"ts": t, "k": "a", "v": v} for t, v in enumerate([1, 1, 1, 0, 1, 1, 1, 1, 1])])
        bed.flush()
        assert len(bed.answers("good")) == 4
        assert len(bed.answers("bad")) == 1
        assert "Division by zero" in (bed.paused("bad") or "")
        with pytest.raises(Unsupported, match="cannot be resumed"):
            bed.engine.resume_query("bad_apart")
        told = {q["query"]: q for q in bed.engine.status()["queries"]}
        assert (told["bad"]["state"], told["good"]["state"], told["good"]["stream"]) == ("paused", "answering", "s")


def test_too_many_rows_that_wait_stop_the_stream_and_say_why(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "MOST_WAITING", 3)
    with opened(spark, None) as bed:
        bed.query("q", "SELECT count(*) AS n FROM s [ROWS 2 SLIDE 2]")
        with pytest.raises(SourceError, match='more than 3 rows of stream "s" wait for the watermark'):
            bed.feed("s", [{"ts": t / 10, "k": "a", "v": t} for t in range(5)])


def test_queries_share_the_numbers_and_the_partials(spark: SparkSession) -> None:
    with opened(spark, None) as bed:
        for number, (rows, slide) in enumerate([(10, 4), (6, 4), (8, 2)]):
            bed.query(f"q{number}", f"SELECT sum(v) AS s FROM s [ROWS {rows} SLIDE {slide}]")
        bed.feed("s", [{"ts": t, "k": "a", "v": t} for t in range(40)])
        [line] = [one for one in bed.engine.streams.runners.values() if one.stream.name != "s"]
        assert line.pipeline.metrics.batches == 1
        assert line.pipeline.metrics.partials == 36 // 2  # a slice of two rows each, for all three
        assert "[ROWS 6 SLIDE 4]" in str(bed.engine.explain())


Refused = Callable[[TestBed], object]


@pytest.mark.parametrize(
    ("tried", "kind", "what"),
    [
        (lambda bed: bed.engine.backfill(["q"]), Unsupported, "has a window of rows, which has no past"),
        (lambda bed: bed.engine.execute("DROP STREAM s"), PenstockError, 'stream "s" is read by query "q"'),
        (lambda bed: bed.ask("SELECT count(*) AS n FROM s [ROWS 5]"), Unsupported, "one-time query are not available"),
        (
            lambda bed: bed.query("x", "SELECT count(*) AS n FROM s [PARTITION BY k ROWS 5 SLIDE 1]"),
            LanguageError,
            'column "k" of PARTITION BY is not in GROUP BY',
        ),
        (
            lambda bed: bed.query(
                "x", "SELECT k, count(*) AS n FROM s [PARTITION BY k ROWS 5 SLIDE 1] GROUP BY CUBE (k)"
            ),
            Unsupported,
            "PARTITION BY with ROLLUP, CUBE or GROUPING SETS is not available",
        ),
        (
            lambda bed: bed.engine.execute("CREATE STREAM x AS SELECT count(*) AS n FROM s [ROWS 5 SLIDE 1]"),
            Unsupported,
            "cannot be a stream",
        ),
        (lambda bed: bed.query("x", "SELECT count(*) AS n FROM `s#rows` [ROWS 5 SLIDE 1]"), PenstockError, "no stream"),
    ],
)
def test_what_windows_of_rows_cannot_do_is_refused(
    spark: SparkSession, tried: Refused, kind: type[PenstockError], what: str
) -> None:
    with opened(spark, None) as bed:
        bed.query("q", "SELECT count(*) AS n FROM s [ROWS 2 SLIDE 2]")
        with pytest.raises(kind, match=what):
            tried(bed)


def test_holistic_aggregates_are_of_the_rows_in_their_order(spark: SparkSession) -> None:
    draw = random.Random(1)
    rows: list[Row] = [{"ts": i / 3, "k": draw.choice("ab"), "v": draw.randrange(100)} for i in range(60)]
    asked = "count(DISTINCT v % 5) AS d, median(v) AS m, first(v) AS f, last(v) AS l"

    def told(window: list[int]) -> tuple[Any, ...]:
        return len({v % 5 for v in window}), statistics.median(window), window[0], window[-1]

    with opened(spark, None) as bed:
        bed.query("q", f"SELECT {asked} FROM s [ROWS 10 SLIDE 4]")
        bed.query("apart", f"SELECT k, {asked} FROM s [PARTITION BY k ROWS 6 SLIDE 3] GROUP BY k")
        bed.feed("s", draw.sample(rows, len(rows)))
        bed.flush()
        values = [row["v"] for row in rows]
        assert [one[1:] for one in bed.timeline("q")] == [told(values[max(0, e - 10) : e]) for e in range(4, 61, 4)]
        for key in "ab":
            mine = [row["v"] for row in rows if row["k"] == key]
            wanted = [told(mine[max(0, end - 6) : end]) for end in range(3, len(mine) + 1, 3)]
            assert [one[2:] for one in bed.timeline("apart") if one[1] == key] == wanted


@pytest.mark.parametrize(
    ("strategy", "kernel"),
    [
        ("fragments", "fast"),
        pytest.param("unshared paned", "scan", marks=pytest.mark.soak),
        pytest.param("shared paned", "fast", marks=pytest.mark.soak),
    ],
)
def test_every_strategy_counts_alike(spark: SparkSession, strategy: StrategyName, kernel: Kernel) -> None:
    draw, model = random.Random(9), Stream(LATENESS)
    asked = {name: FIRST[name] for name in ("plain", "apart", "taken", "finer")}
    with TestBed(spark, strategy=strategy, kernel=kernel) as bed:
        bed.stream("s", COLUMNS, lateness=f"{LATENESS} s")
        for name, query in asked.items():
            bed.query(name, query.text)
        for batch in cut(draw, some_rows(draw, 120), 2):
            bed.feed("s", batch)
            model.feed(batch)
        bed.flush()
        check(bed, model, asked, {})


def test_a_silence_that_the_clock_ends_numbers_the_rows_that_wait(spark: SparkSession) -> None:
    clock = ManualClock("2026-01-05 00:00:10")
    with TestBed(spark, clock=clock) as bed:
        bed.stream("s", COLUMNS, lateness="3 s", idle="5 s")
        bed.engine.execute("CREATE STREAM tens AS SELECT count(*) AS n FROM s [RANGE 5 s SLIDE 5 s]")
        bed.query("q", "SELECT count(*) AS n FROM s [ROWS 4 SLIDE 2]")
        bed.query("up", "SELECT sum(n) AS n FROM tens [RANGE 5 s SLIDE 5 s]")
        bed.feed("s", [{"ts": t, "k": "a", "v": t} for t in range(8)])
        assert (len(bed.answers("q")), bed.timeline("up")) == (2, [])
        clock.advance(20)
        assert bed.heartbeat("s")
        assert len(bed.answers("q")) == 4
        assert bed.timeline("up")[:2] == [(5, 5), (10, 3)]


def test_joins_come_after_the_numbering(spark: SparkSession) -> None:
    """A row that a table has twice is one row of the window, and two of what is added up; one that it lacks is none."""
    with opened(spark, None) as bed:
        bed.table("t", [{"k": "a", "w": 1}, {"k": "a", "w": 10}, {"k": "b", "w": 100}])
        bed.query("q", "SELECT count(*) AS n, sum(w) AS w FROM s [ROWS 4 SLIDE 2] JOIN t USING (k)")
        bed.query(
            "apart", "SELECT k, sum(v * w) AS w FROM s [PARTITION BY k ROWS 2 SLIDE 1] LEFT JOIN t USING (k) GROUP BY k"
        )
        bed.feed("s", [{"ts": t, "k": k, "v": t + 1} for t, k in enumerate(["a", "c", "b", "a", "a"])])
        bed.flush()
        assert bed.timeline("q") == [(1, 2, 11), (3, 5, 122)]
        assert bed.timeline("apart") == [(0, "a", 11), (1, "c", None), (2, "b", 300), (3, "a", 55), (4, "a", 99)]


def test_sinks_get_what_a_query_over_rows_had_answered_before_it_was_dropped_and_the_process_died(
    spark: SparkSession, tmp_path: Path
) -> None:
    def opened() -> TestBed:
        return TestBed(spark, state=tmp_path / "state", sinks=[ParquetSink(tmp_path / "answers", roll_seconds=600.0)])

    bed = opened()
    bed.stream("s", "ts TIMESTAMP, v INT")
    bed.query("q", "SELECT sum(v) AS total FROM s [ROWS 2 SLIDE 2]")
    bed.feed("s", [{"ts": ts, "v": ts} for ts in range(6)])
    assert len(bed.answers("q")) >= 2
    wanted = [row["total"] for row in bed.answers("q")]
    bed.engine.drop_query("q")
    assert not list((tmp_path / "answers").rglob("*.parquet"))  # still collected in a draft
    bed.engine.release()
    with opened() as again:
        again.engine.stream("s")
        files = list((tmp_path / "answers").rglob("*.parquet"))
        assert [total for file in files for total in pq.read_table(file)["total"].to_pylist()] == wanted
