"""A query's answers are a stream that others read: what they answer equals the same questions about the answers."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.engine import Engine
from penstock.errors import CatalogError, LanguageError, PenstockError, SourceError, StreamEnded, Unsupported
from penstock.store import faults
from penstock.testing import TestBed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row = dict[str, Any]
LATENESS = 2
TENS = "SELECT k, sum(v) AS v, count(*) AS n FROM s [RANGE 10 s SLIDE 5 s] GROUP BY k"
TOPS = "SELECT max(v) AS top FROM tens [RANGE 20 s SLIDE 10 s]"
READERS = {
    "rolled": ("tens", 30, 10, "SELECT k, sum(v) AS v, count(*) AS n FROM tens [RANGE 30 s SLIDE 10 s] GROUP BY k"),
    "again": ("tops", 40, 20, "SELECT sum(top) AS v, count(*) AS n FROM tops [RANGE 40 s SLIDE 20 s]"),
}


def opened(spark: SparkSession, state: Path | None) -> TestBed:
    bed = TestBed(spark, state=state)
    bed.stream("s", "ts TIMESTAMP, k STRING, v INT", lateness=f"{LATENESS} s")
    return bed


def some_rows(draw: random.Random, number: int) -> list[Row]:
    times = (i / 2 + draw.choice([0, 0, 1, -1]) for i in range(number))
    return [{"ts": max(0, ts), "k": draw.choice(["a", "b", None]), "v": draw.randrange(9)} for ts in times]


def cut(draw: random.Random, rows: list[Row], batches: int) -> Iterator[list[Row]]:
    edges = sorted(draw.sample(range(1, len(rows)), batches - 1))
    yield from (rows[a:b] for a, b in zip([0, *edges], [*edges, len(rows)], strict=True))


def wanted(answers: Sequence[tuple[Any, ...]], length: int, slide: int) -> list[tuple[Any, ...]]:
    """Add up (window_end, [k,] value, …) as rows of time window_end - 1 us: sum of the value, and count, by k."""
    keyed = len(answers[0]) > 2
    rows = [(end, one[0] if keyed else None, one[1] if keyed else one[0]) for end, *one in answers]
    ends = range(slide, int(rows[-1][0]) + length, slide)  # through the last that holds a row
    found: list[tuple[Any, ...]] = []
    for end in ends:
        window = [row for row in rows if end - length < row[0] <= end]
        for k in sorted({row[1] for row in window}, key=lambda k: (k is not None, k)):
            values = [v for _, other, v in window if other == k]
            found.append((end, *((k,) if keyed else ()), sum(values), len(values)))
    return found


def test_roll_ups_of_roll_ups_equal_adding_up_answers(spark: SparkSession, tmp_path: Path) -> None:
    draw = random.Random(4)
    with opened(spark, tmp_path) as bed:
        bed.engine.execute(f"CREATE STREAM tens AS {TENS}; CREATE STREAM tops AS {TOPS}")
        for name, (*_, text) in READERS.items():
            bed.query(name, text)
    rows = some_rows(draw, 160)
    for number, batch in enumerate([rows[:70], *cut(draw, rows[70:], 2)]):
        with opened(spark, tmp_path) as bed:
            if number == 1:
                bed.query("late", "SELECT k, sum(v) AS v, count(n) AS n FROM tens [RANGE 10 s SLIDE 10 s] GROUP BY k")
                seen_until = bed.engine.stream("tens").pipeline.progress.clock.seen_until_us
            bed.feed("s", batch)
    with opened(spark, tmp_path) as bed:
        bed.flush()
        answered = {name: bed.timeline(name) for name in ("tens", "tops")}
        for name, (source, length, slide, _) in READERS.items():
            assert bed.timeline(name) == wanted(answered[source], length, slide), name
        assert seen_until is not None
        begins = seen_until / 1e6 - bed.epoch.timestamp()
        assert bed.timeline("late") == [one for one in wanted(answered["tens"], 10, 10) if one[0] - 10 >= begins]
        assert bed.counts("tens").ingested == bed.counts("tens").on_time == len(answered["tens"])
        with pytest.raises(SourceError, match='the rows of stream "tens" come from stream "s" alone'):
            bed.feed("tens", [])


def test_the_watermark_is_the_last_final_window_end(spark: SparkSession) -> None:
    """Rows up to 18 s with 2 s lateness: windows up to 15 s are final, also where none of them has an answer."""
    with opened(spark, None) as bed:
        bed.engine.execute(f"CREATE STREAM tens AS {TENS} HAVING n > 2")
        bed.query("n", "SELECT count(*) AS n FROM tens [RANGE 5 s SLIDE 5 s]")
        bed.feed("s", [{"ts": ts, "k": "a", "v": 1} for ts in (1, 2, 3, 18)])
        progress = bed.engine.stream("tens").pipeline.progress
        assert (progress.clock.watermark_us or 0) / 1e6 - bed.epoch.timestamp() == 15
        assert bed.timeline("n") == [(5, 1), (10, 1), (15, 0)]
        assert (progress.clock.last_us or 0) + 1 == (bed.epoch.timestamp() + 10) * 1_000_000
        bed.flush()
        with pytest.raises(StreamEnded):
            bed.feed("s", [{"ts": 99, "k": "a", "v": 1}])


@pytest.mark.parametrize(
    ("moment", "times"), [("commit.before", 1), pytest.param("answers.after", 0, marks=pytest.mark.soak)]
)
def test_a_death_between_two_streams_takes_every_answer_once(
    spark: SparkSession, tmp_path: Path, moment: str, times: int
) -> None:
    rows = [{"ts": ts, "k": "a", "v": 1} for ts in range(60)]
    left = times

    def hook(point: str) -> None:
        nonlocal left
        left -= point == moment
        if left < 0:
            raise KeyboardInterrupt(point)

    with opened(spark, tmp_path) as bed:
        bed.engine.execute(f"CREATE STREAM tens AS {TENS}")
        bed.query("rolled", READERS["rolled"][3])
        bed.feed("s", rows[:20], number=0)
        faults.hook = hook
        try:
            with pytest.raises(KeyboardInterrupt):
                bed.feed("s", rows[20:], number=1)
        finally:
            faults.hook = None
    with opened(spark, tmp_path) as bed:
        bed.feed("s", rows[20:], number=1)  # Spark sends it again, and it is in already
        bed.flush()
        assert bed.timeline("rolled") == wanted(bed.timeline("tens"), 30, 10)


def test_after_a_death_windows_without_answers_are_final_as_before(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As above, but the process dies when all answers are taken, and the time after them is not written yet."""
    commits = []

    def hook(point: str) -> None:
        commits.extend([point] * (point == "commit.before"))
        if len(commits) > 2:
            raise KeyboardInterrupt(point)

    rows = [{"ts": ts, "k": "a", "v": 1} for ts in (1, 2, 3, 18)]
    with opened(spark, tmp_path) as bed:
        bed.engine.execute(f"CREATE STREAM tens AS {TENS} HAVING n > 2")
        bed.query("n", "SELECT count(*) AS n FROM tens [RANGE 5 s SLIDE 5 s]")
        monkeypatch.setattr(faults, "hook", hook)
        with pytest.raises(KeyboardInterrupt):
            bed.feed("s", rows, number=0)
        monkeypatch.setattr(faults, "hook", None)
    with opened(spark, tmp_path) as bed:
        bed.feed("s", rows, number=0)
        assert bed.timeline("n") == [(5, 1), (10, 1), (15, 0)]


@pytest.mark.parametrize(
    ("statement", "kind", "what"),
    [
        ("DROP STREAM tens", CatalogError, 'stream "tens" is read by query "rolled"'),
        ("DROP STREAM s", CatalogError, 'stream "s" is read by query "tens"'),
        ("DROP QUERY tens", CatalogError, 'the answers of query "tens" are stream "tens"'),
        ("ALTER QUERY tens SET WINDOW [RANGE 1 s SLIDE 1 s]", CatalogError, 'are stream "tens"'),
        ("CREATE QUERY tens AS SELECT count(*) AS n FROM s [RANGE 1 s SLIDE 1 s]", CatalogError, "exists already"),
        ("CREATE STREAM rolled AS SELECT count(*) AS n FROM s [RANGE 1 s SLIDE 1 s]", CatalogError, "exists already"),
        ("CREATE STREAM x AS SELECT count(*) AS n FROM x [RANGE 1 s SLIDE 1 s]", PenstockError, "there is no stream"),
        (
            "CREATE STREAM x AS SELECT sum(v) FROM s [RANGE 1 s SLIDE 1 s] WITH (late = 'revise', revise_for = '1 s')",
            Unsupported,
            "answers that are revised cannot be a stream",
        ),
        (
            "CREATE STREAM x AS SELECT max(ts) AS ts FROM s [RANGE 1 s SLIDE 1 s]",
            LanguageError,
            'output is called "ts"',
        ),
        (
            "CREATE STREAM x AS SELECT count(*) AS n FROM s [RANGE 1 s SLIDE 1 s] WITH (lifetime = '1 h')",
            Unsupported,
            "a stream has no lifetime",
        ),
    ],
)
def test_what_cannot_be_is_refused(spark: SparkSession, statement: str, kind: type[PenstockError], what: str) -> None:
    with opened(spark, None) as bed:
        bed.engine.execute(f"CREATE STREAM tens AS {TENS}")
        bed.query("rolled", READERS["rolled"][3])
        with pytest.raises(kind, match=what):
            bed.engine.execute(statement)
        with pytest.raises(Unsupported, match="are a stream, which has already passed these windows"):
            bed.engine.backfill(["tens"])


def test_statements_know_a_stream_of_answers(spark: SparkSession, tmp_path: Path) -> None:
    def shown(engine: Engine, statement: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = engine.execute(statement)[0].to_pylist()
        return rows

    with opened(spark, tmp_path) as bed:
        engine = bed.engine
        engine.execute(f"CREATE STREAM tens AS {TENS}; CREATE STREAM IF NOT EXISTS tens AS {TENS}")
        engine.execute(f"CREATE STREAM tens AS {TENS}")  # the same again changes nothing
        assert shown(engine, "SHOW CREATE STREAM tens") == [{"statement": f"CREATE STREAM tens AS {TENS}"}]
        described = {row["column"]: (row["type"], row["about"]) for row in shown(engine, "DESCRIBE STREAM tens")}
        assert described["ts"] == ("timestamp", "event time, 1 us before window_end")
        assert described["v"] == ("bigint", None)
        assert [row["format"] for row in shown(engine, "SHOW STREAMS")] == [None, "answers"]
        assert "stream tens: 0 queries" in str(engine.explain())
        assert [s["stream"] for s in engine.status()["streams"]] == ["s", "tens"]
        engine.execute("DROP STREAM tens")
        assert engine.catalog.query_names() == []
    with opened(spark, tmp_path) as bed:
        assert bed.engine.catalog.stream_names() == ["s"]
