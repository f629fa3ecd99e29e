"""A cap of memory: stages come and go with the load, exact answers stay, and what is given up is counted."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import Engine
from penstock.cli.status_text import status_text
from penstock.errors import PenstockError, ProjectError, Unsupported
from penstock.kernel.synopsis import Kernel
from penstock.language.grammar.parse import parse_query
from penstock.model.byte_sizes import parse_bytes
from penstock.sinks.callback import sink
from penstock.store import faults
from penstock.store.commits import FOR_MEMORY
from penstock.stream.accounting.accounts import balance_of
from penstock.stream.overload.memory_cap import MemoryCap
from penstock.stream.overload.stages import Measure, active_at, stages_of
from penstock.testing import TestBed
from tests.always.judged import Killed
from tests.always.questions import WHERES, Row
from tests.cases import cases
from tests.stream.made import SECOND, MadeStream, row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WIDE = "SELECT j, sum(v) AS x FROM s [RANGE 60 s SLIDE 5 s] GROUP BY j"
QUERIES = {
    "exact": WIDE,
    "short": "SELECT count(*) AS n FROM s [RANGE 10 s SLIDE 5 s]",
    "fresh": f"{WIDE} WITH (emit = 'fresh')",
    "large": "SELECT j, k, max(v) AS x FROM s [RANGE 60 s SLIDE 5 s] GROUP BY j, k WITH (preemptible = true)",
    "states": "SELECT j, approx_count_distinct(v) AS n FROM s [RANGE 30 s SLIDE 5 s] GROUP BY j "
    "WITH (preemptible = true)",
}
CAP = 700_000
LIKE = {"fresh": "exact", "large": "large", "states": "states"}


def opened(folder: Path, cap: int | None, *, lags: bool) -> MadeStream:
    folder.mkdir(exist_ok=True)
    made = MadeStream(folder, lateness_us=2 * SECOND)
    for name, text in QUERIES.items():
        made.create(name, text)
    return begun(made, cap, lags=lags)


def begun(made: MadeStream, cap: int | None, *, lags: bool) -> MadeStream:
    made.pipeline.given.settings.cap.change(cap)
    made.runner.let_answers_lag(may=lags)
    return made


def cap_of(made: MadeStream) -> MemoryCap:
    return made.pipeline.given.settings.cap


def feed(made: MadeStream, rows: list[Row], number: int | None = None) -> None:
    """Take a batch as a runner does: hold it, take it, look."""
    made.runner.relief.hold(threading.Event())
    made.feed(*rows, number=number)
    with made.pipeline.step():
        made.runner.relief.look_after_batch()


def drawn_rows(draw: random.Random, clock_s: float, *, burst: bool) -> list[Row]:
    many, keys = (120, 400) if burst else (12, 3)
    return [
        row(max(0.0, clock_s - draw.uniform(0, 6)), draw.randrange(50), draw.choice("abcdef"), draw.randrange(keys))
        for _ in range(many)
    ]


def windows(made: MadeStream, name: str) -> dict[float, set[Any]]:
    found: dict[float, set[Any]] = {}
    for end, *values in made.timeline(name):
        found.setdefault(end, set()).add(tuple(values))
    return found


@settings(max_examples=cases(12, soak=1_500), deadline=None)
@given(seed=st.integers(0, 1 << 60))
def test_under_a_small_cap_exact_answers_are_whole_and_all_that_is_said_is_exact(
    seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    draw, folder = random.Random(seed), tmp_path_factory.mktemp("overload")
    lags, cap = draw.random() < 0.7, draw.choice([30_000, 80_000, 150_000, 300_000])
    free, capped = opened(folder / "free", None, lags=lags), opened(folder / "capped", cap, lags=lags)
    clock_s, seen, preempted = 0.0, set[str](), 0
    for number in range(draw.randint(6, 16)):
        clock_s += draw.choice([1, 4, 11, 70])
        rows = drawn_rows(draw, clock_s, burst=number % 8 < 4 and draw.random() < 0.8)
        free.feed(*rows)
        preempted += feed_through_deaths(capped, rows, draw, lambda made: begun(made, cap, lags=lags))
        seen |= cap_of(capped).active
        preempted += surviving(capped, gives_way, draw, lambda made: begun(made, cap, lags=lags))
        if draw.random() < 0.3:
            keys = list(capped.pipeline.committer.unanswered.items)
            capped.pipeline.answer_next(draw.sample(keys, draw.randint(0, len(keys))))
        if draw.random() < 0.2:  # the process ends
            preempted += cap_of(capped).preempted
            capped.reopen()
            begun(capped, cap, lags=lags)
    preempted += cap_of(capped).preempted
    for one in (free, capped):
        one.runner.flush()
    compare(free, capped, preempted)
    if "hold" not in seen:
        assert preempted == 0


def feed_through_deaths(
    made: MadeStream, rows: list[Row], draw: random.Random, begin: Callable[[MadeStream], object]
) -> int:
    """Feed a batch, perhaps with a death at some durable write; return how many queries had been paused before."""
    number = made.pipeline.progress.clock.batch + 1
    return surviving(made, lambda one: feed(one, rows, number), draw, begin)


def surviving(
    made: MadeStream,
    do: Callable[[MadeStream], object],
    draw: random.Random,
    begin: Callable[[MadeStream], object],
) -> int:
    """Do something that the process may die in, and do it again after a restart."""
    left = [draw.randrange(12)] if draw.random() < 0.4 else []

    def reached(point: str) -> None:
        if left and left[0] == 0:
            left.clear()
            raise Killed(point)
        left[:] = [number - 1 for number in left]

    faults.hook = reached
    try:
        do(made)
        return 0
    except Killed:
        faults.hook, before = None, cap_of(made).preempted
        made.reopen()
        begin(made)
        do(made)
        return before
    finally:
        faults.hook = None


def gives_way(made: MadeStream) -> None:
    """Above the cap right before a batch, nothing is left that may be given up."""
    made.runner.relief.hold(threading.Event())
    cap = cap_of(made)
    if cap.total >= cap.bytes:
        assert cap.over > 0
        assert not made.pipeline.committer.unanswered
        assert list(made.runner.relief.preemptible()) == []


def compare(free: MadeStream, capped: MadeStream, preempted: int) -> None:
    assert capped.timeline("exact") == free.timeline("exact")
    assert capped.timeline("short") == free.timeline("short")
    for name, like in LIKE.items():
        whole, said = windows(free, like), windows(capped, name)
        assert all(whole[end] == rows for end, rows in said.items()), name  # a window is said whole or not at all
        if name != "fresh" and not preempted:
            assert said == whole
    fresh, every = windows(capped, "fresh"), windows(free, "exact")
    assert max(fresh, default=0) == max(every, default=0)
    skipped = capped.pipeline.progress.windows.skipped.get(capped.catalog.query("fresh").id, 0)
    assert len(fresh) + skipped >= len(every)  # windows without a row are skipped, too


def test_stages_begin_with_the_burst_and_end_after_it_and_paused_queries_go_on(tmp_path: Path) -> None:
    made = opened(tmp_path / "made", 350_000, lags=True)
    draw, clock_s, most = random.Random(4), 0.0, 0
    for _ in range(12):
        clock_s += 5
        feed(made, drawn_rows(draw, clock_s, burst=True))
        most = max(most, len(cap_of(made).active))
    figures = cap_of(made).figures()
    assert most == len(stages_of("memory"))
    assert all(stage.times > 0 for stage in figures.stages)
    assert figures.skipped > 0
    assert figures.held_s > 0
    assert figures.preempted > 0
    assert figures.peak_bytes >= figures.held_bytes
    paused = made.pipeline.progress.windows.paused
    assert {pause.kind for pause in paused.values()} == {"for memory"}
    assert all(pause.reason.startswith(FOR_MEMORY) for pause in paused.values())
    for _ in range(80):
        clock_s += 5
        feed(made, [row(clock_s, 1, "a", 1)])
        made.pipeline.drain()  # as the desk does when there is time
    figures = cap_of(made).figures()
    assert [stage.stage for stage in figures.stages if stage.active] == []
    assert figures.resumed == figures.preempted
    assert not made.pipeline.progress.windows.paused
    before = len(windows(made, "large"))
    feed(made, [row(clock_s + 200, 1, "a", 1)])
    made.runner.let_answers_lag(may=False)
    assert len(windows(made, "large")) > before


@pytest.mark.parametrize("kernel", ["fast", "scan"])
def test_a_cap_that_exact_queries_leave_room_in_is_kept(kernel: Kernel, tmp_path: Path) -> None:
    """The peak is at most a tenth above it: a batch that was let in brings its own partials."""
    made = MadeStream(tmp_path, lateness_us=2 * SECOND, kernel=kernel)
    made.create("short", QUERIES["short"])
    for number, (where, keys) in enumerate(product(WHERES, ("j", "j, k"))):
        text = f"SELECT {keys}, sum(v) AS x FROM s [RANGE 60 s SLIDE 5 s] WHERE {where} GROUP BY {keys}"
        made.create(f"q{number}", f"{text} WITH (preemptible = true)")
    begun(made, CAP, lags=True)
    draw, most = random.Random(8), 0.0
    for number in range(50):
        feed(made, [row(number * 2 + i / 25, i, draw.choice("ab"), draw.randrange(10_000)) for i in range(40)])
        most = max(most, balance_of(made.runner, "memory").total)
        made.pipeline.drain()  # as the desk does when there is time
    figures = cap_of(made).figures()
    assert figures.preempted > 0
    assert figures.over == 0
    assert most <= figures.peak_bytes <= 1.1 * CAP
    made.runner.let_answers_lag(may=False)
    assert [end for end, _ in made.timeline("short")] == [float(end) for end in range(5, 96, 5)]


@pytest.mark.parametrize("kernel", ["fast", "scan"])
def test_on_spark_the_peak_is_at_most_a_tenth_above_the_cap(
    kernel: Kernel, spark: SparkSession, tmp_path: Path
) -> None:
    cap, draw, most = 400_000, random.Random(3), 0.0
    with TestBed(spark, kernel=kernel, state=tmp_path) as bed:
        bed.stream("s", "ts TIMESTAMP, j INT, k STRING, v INT", lateness="2 s")
        bed.query("short", QUERIES["short"])
        for number, (what, keys) in enumerate(product(("sum(v)", "max(v)", "avg(v)"), ("j", "j, k"))):
            text = f"SELECT {keys}, {what} AS x FROM s [RANGE 60 s SLIDE 5 s] GROUP BY {keys}"
            bed.query(f"q{number}", f"{text} WITH (preemptible = true)")
        bed.engine.set_memory(cap)
        for number in range(22):
            bed.feed("s", [(number * 2 + i / 25, draw.randrange(10_000), draw.choice("ab"), i) for i in range(40)])
            most = max(most, balance_of(bed.engine.stream("s"), "memory").total)
        figures = bed.engine.metrics().overload
        bed.flush()
        assert [n for end, n in bed.timeline("short") if 10 <= end <= 40] == [200] * 7
    assert figures.preempted > 0
    assert figures.over == 0
    assert 0.7 * cap < most <= figures.peak_bytes <= 1.1 * cap


def test_what_is_paused_for_memory_holds_nothing_and_begins_anew(tmp_path: Path) -> None:
    made = opened(tmp_path / "made", 60_000, lags=False)
    for second in range(0, 40, 5):
        feed(made, [row(second + i / 400, i, "a", i) for i in range(300)])
    large = made.catalog.query("large").id
    assert large in made.pipeline.progress.windows.paused
    held = {len(key.keys): size for key, size in made.pipeline.synopsis.bytes_by_lane().items()}
    assert held[2] < 0.5 * held[1]  # by two keys there are as many groups: a batch at most, and not all windows
    made.reopen()  # without a cap there is room for it
    with made.pipeline.step():
        made.runner.relief.look_after_batch()
    for second in range(40, 200, 5):
        feed(made, [row(second, 1, "a", 1)])
    first = min(end for end in windows(made, "large") if end > 40)
    assert first >= 95  # the first window of a minute that began after it
    assert all(rows == {(1, "a", 1)} for end, rows in windows(made, "large").items() if end > 40)


def test_without_a_cap_nothing_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = opened(tmp_path / "made", None, lags=True)
    monkeypatch.setattr("penstock.stream.overload.relief.balance_of", None)
    for second in range(0, 50, 5):
        feed(made, [row(second, i, "a", i) for i in range(100)])
    assert not cap_of(made).active
    assert cap_of(made).figures().peak_bytes == 0


@settings(max_examples=cases(100), deadline=None)
@given(shares=st.lists(st.floats(0, 2), max_size=30), measure=st.sampled_from(["memory", "queues"]))
def test_stages_are_nested_and_do_not_flutter(shares: list[float], measure: Measure) -> None:
    active = frozenset[str]()
    for share in shares:
        before, active = active, active_at(share, active, measure)
        order = [one.name for one in stages_of(measure)]
        assert [name in active for name in order] == sorted((name in active for name in order), reverse=True)
        for one in stages_of(measure):
            if one.name in active - before:
                assert share >= one.above
            if one.name in before - active:
                assert share < one.below < one.above


def test_a_stream_that_is_stopping_is_not_held(tmp_path: Path) -> None:
    made = opened(tmp_path / "made", 1_000, lags=False)
    made.feed(*(row(i / 10, 1, "a", i) for i in range(100)))
    with made.pipeline.step():
        made.runner.relief.look_after_batch()
    assert cap_of(made).is_active("hold")
    stopping = threading.Event()
    stopping.set()
    made.runner.relief.hold(stopping)
    assert cap_of(made).over == 0


@pytest.mark.parametrize(
    ("text", "size"), [("4 GB", 4 * 10**9), ("512MiB", 512 << 20), ("1.5 kb", 1_500), ("700", 700), (12, 12)]
)
def test_sizes_are_read_as_people_write_them(text: str | int, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "4 apples", "-1 GB", "0", "GB", "1,5 GB"])
def test_what_is_no_size_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ProjectError, match="write for example '4 GB'"):
        MemoryCap().change(text)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT v FROM s WITH (preemptible = true)",
        "SELECT count(*) AS n FROM s [ROWS 10 SLIDE 5] WITH (preemptible = true)",
        "SELECT count(*) AS n FROM s [SESSION 5 MIN] WITH (preemptible = true)",
        f"{QUERIES['short']} WITH (preemptible = true, late = 'revise', revise_for = '1 h')",
        f"{QUERIES['short']} WITH (preemptible = true, retain = '1 h')",
    ],
)
def test_the_option_is_refused_where_it_has_no_meaning(text: str, tmp_path: Path) -> None:
    made = MadeStream(tmp_path)
    with pytest.raises((Unsupported, PenstockError), match="preemptible"):
        made.typed(parse_query(text), "q")


def test_a_running_engine_with_a_slow_sink_keeps_to_what_spark_says(spark: SparkSession, tmp_path: Path) -> None:
    """Files come one a batch, a sink takes its time, and the cap is a third of what would be held."""
    data, written = tmp_path / "data", list[int]()
    data.mkdir()
    rows = [(second, f"k{second * 7 % 90}", second % 13) for second in range(900)]
    for number in range(15):
        times = [pa.scalar(s * SECOND, pa.timestamp("us", "UTC")).as_py() for s, _, _ in rows[number * 60 :][:60]]
        some = {
            "ts": times,
            "k": [k for _, k, _ in rows[number * 60 :][:60]],
            "x": [x for *_, x in rows[number * 60 :][:60]],
        }
        pq.write_table(pa.table(some), data / f"{number:03d}.parquet")
        os.utime(data / f"{number:03d}.parquet", (number, number))

    @sink
    def slow(batch: Any) -> None:
        time.sleep(0.02)
        written.append(batch.number)

    with Engine(tmp_path / "state", spark=spark, sinks=[slow], memory="30 kB") as engine:
        declared = f"CREATE STREAM s (ts TIMESTAMP, k STRING, x BIGINT) USING parquet OPTIONS (path = '{data}', "
        engine.execute(f"{declared} maxFilesPerTrigger = 1) WATERMARK FOR ts")
        engine.create_query("exact", "SELECT k, sum(x) AS x FROM s [RANGE 120 s SLIDE 60 s] GROUP BY k")
        wide = "SELECT k, x, count(*) AS n FROM s [RANGE 600 s SLIDE 60 s] GROUP BY k, x WITH"
        engine.create_query("fresh", f"{wide} (emit = 'fresh')")
        engine.create_query("large", f"{wide} (preemptible = true)")
        engine.start()
        stream = engine.stream("s")
        assert waits_until(lambda: stream.pipeline.progress.clock.counts.ingested == 900 or stream.failure is not None)
        engine.stop()
        figures, told = engine.metrics().overload, engine.status()
        said = engine.results("exact", "rows")
    assert figures.peak_bytes > 30_000
    assert {stage.stage for stage in figures.stages if stage.times} >= {"skip", "periods", "background", "hold"}
    assert told["overload"]["cap_bytes"] == 30_000
    expected = dict[tuple[int, str], int]()
    for end in range(60, 900, 60):
        for second, k, x in rows:
            if end - 120 <= second < end:
                expected[end, k] = expected.get((end, k), 0) + x
    assert {(int(one["window_end"].timestamp()), one["k"]): one["x"] for one in said} == expected
    assert written == sorted(written)
    text = status_text({**told, "folder": "f", "pid": 1, "since_us": None, "answers_requests": True})
    assert "  memory   " in text


def waits_until(done: Callable[[], bool]) -> bool:
    until = time.monotonic() + 240
    while not done() and time.monotonic() < until:
        time.sleep(0.05)
    return done()
