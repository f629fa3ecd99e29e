"""Rows without a usable time say why, and columns that cannot be computed harm only the queries that read them."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock import Engine
from penstock.errors import PenstockError
from penstock.spark.job.partials import PartialsJob
from penstock.spark.sources.computed_columns import marked
from penstock.store.commits import Counts
from penstock.store.invalid import Invalid
from penstock.stream import intake
from penstock.testing import EPOCH, ManualClock, TestBed
from tests.project.making import write_project
from tests.shell import Penstock, penstock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["penstock"]

NOW = 1_000  # seconds since 1970
CLOCK = ManualClock(datetime.fromtimestamp(NOW, UTC))
LIMIT = NOW + 600  # the greatest time that is not too far ahead
SECONDS = "a BIGINT, b BIGINT, x INT, ts TIMESTAMP GENERATED ALWAYS AS (timestamp_seconds(a DIV b))"
Row = tuple[int | None, int | None, int | None]

PARTS = """
state: state
streams:
  visits:
    format: csv
    path: data
    options: {header: true}
    columns: {y: INT, mo: INT, d: INT, x: INT, ts: {type: TIMESTAMP, as: "make_timestamp(y, mo, d, 0, 0, 0)"}}
    time: ts
"""


def test_a_row_whose_time_fails_is_invalid_and_every_query_goes_on(
    penstock: Penstock, spark: SparkSession, tmp_path: Path
) -> None:
    queries = {name: f"SELECT {name}(x) AS n FROM visits [RANGE 1 d SLIDE 1 d]" for name in ("count", "sum")}
    project = write_project(tmp_path / "p", PARTS, **queries)
    (project / "data").mkdir()
    file = project / "data" / "a b+c%20.csv"
    file.write_text("y,mo,d,x\n2024,1,1,1\n2024,13,1,2\n2024,1,3,3\n2024,,4,4\n2199,1,1,5\n2024,1,five,6\n")
    done = penstock("run", project, "--once", "--flush", "--end-stream")
    assert done.code == 0, done.err
    assert "6 rows (0 late, 4 invalid) through 2 queries, 6 answers" in done.out
    example = (
        "ts = make_timestamp(`y`, `mo`, `d`, 0, 0, 0): [DATETIME_FIELD_OUT_OF_BOUNDS.WITHOUT_SUGGESTION] "
        f"Invalid value for MonthOfYear (valid values 1 - 12): 13, in {file}"
    )
    [line] = [line for line in done.out.splitlines() if line.startswith("  invalid: ")]
    assert line.startswith("  invalid: 2 without a time; 1 ahead of the clock by up to ")
    assert "and max_ahead is 10 min; " in line
    assert f"1 whose time is a failed expression: {example}; kept in " in line
    found = json.loads(penstock("status", project, "--json").out)["streams"][0]
    reasons = found["invalid_reasons"]
    assert {k: reasons[k] for k in ("no_time", "ahead", "failed", "too_early", "unknown")} == {
        "no_time": 2, "ahead": 1, "failed": 1, "too_early": 0, "unknown": 0,
    }  # fmt: skip
    assert (reasons["example"], reasons["max_ahead_us"]) == (example, 600_000_000)
    assert " ".join(penstock("status", project).out.split()).count(f"1 whose time is a failed expression: {example}")
    kept = pq.read_table(project / "state" / "invalid" / "visits" / f"{0:012d}").to_pylist()
    told = {row["x"]: (row["__reason"], row["__detail"], row["__record"]) for row in kept}
    assert told.pop(5)[0] == "ahead of the clock"
    assert told == {
        2: (
            "failed expression",
            'ts = make_timestamp(`y`, `mo`, `d`, 0, 0, 0) failed for {"d":1,"mo":13,"y":2024}',
            None,
        ),
        4: ("no time", None, None),
        6: ("no time", "the record does not parse", "2024,1,five,6"),
    }
    assert {row["__file"] for row in kept} == {str(file)}


# -- every reason, in every shape of the job -------------------------------------------------------------------------


def reason_of(row: Row) -> str:
    """Judge a row as the contract does."""
    a, b, _ = row
    if a is None or b is None:
        return "no_time"
    if b == 0:
        return "failed"
    seconds = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    if seconds * 1_000_000 <= -(1 << 62):
        return "too_early"
    return "ahead" if seconds > LIMIT else "valid"


def told_by(rows: list[Row]) -> Invalid:
    """Count rows by reason, and find how far ahead of the clock they are."""
    reasons = [reason_of(row) for row in rows]
    furthest = max((a // b - NOW for a, b, _ in rows if a and b and reason_of((a, b, 0)) == "ahead"), default=0)
    no_time, ahead, failed, too_early = map(reasons.count, ("no_time", "ahead", "failed", "too_early"))
    return Invalid(no_time, ahead, failed, too_early, furthest * 1_000_000)


def open_bed(spark: SparkSession, **options: Any) -> TestBed:
    bed = TestBed(spark, clock=CLOCK, **options)
    bed.stream("s", SECONDS)
    return bed


MIXED: list[list[Row]] = [
    [(1, 1, 1), (None, 1, 2), (5, 0, 3), (LIMIT, 1, 4), (LIMIT + 1, 1, 5), (None, 0, 6), (-5 * 10**12, 1, 7)],
    [(9, 0, 1), (9 * LIMIT, 1, 2), (7 * LIMIT, 2, None), (4, 2, 0), (8, None, 1), (8, 0, 9), (700, 1, 3)],
]
SHAPES = {
    "no query": [],
    "one": ["SELECT count(*) AS n FROM s [RANGE 10 s SLIDE 10 s]"],
    "keys, conditions, revisions": [
        "SELECT x, sum(a) AS n FROM s [RANGE 12 s SLIDE 5 s] WHERE x > 1 GROUP BY x",
        "SELECT count(*) AS n FROM s [RANGE 7 s SLIDE 3 s] WITH (late = 'revise', revise_for = '1 h')",
    ],
    "joined": [
        "SELECT name, count(*) AS n FROM s [RANGE 5 s SLIDE 5 s] JOIN t USING (x) GROUP BY name",
        "SELECT max(x) AS n FROM s [RANGE 5 s SLIDE 5 s] WHERE x BETWEEN 1 AND 3",
    ],
    "searched": [
        f"SELECT x, count(*) AS n FROM s [RANGE {n + 2} s SLIDE {n} s] GROUP BY x" for n in (47, 53, 59, 61, 67)
    ],
    "trees": [f"SELECT count(*) AS n FROM s [RANGE {n} s SLIDE {n} s]" for n in range(1, 18)],
}


@pytest.mark.parametrize("shape", SHAPES)
def test_every_reason_is_counted_on_its_own(spark: SparkSession, shape: str) -> None:
    strategy = "unshared paired" if shape == "trees" else "shared paired"
    with open_bed(spark, strategy=strategy) as bed:
        bed.table("t", [(x, f"n{i}") for x in range(4) for i in range(2)], schema="x INT, name STRING")
        for number, text in enumerate(SHAPES[shape]):
            bed.query(f"q{number}", text)
        bed.feed("s", MIXED[0])
        check_reasons(bed, MIXED[0])


def test_reasons_outlive_a_restart_and_stand_beside_the_rows(spark: SparkSession, tmp_path: Path) -> None:
    words = {"no_time": "no time", "ahead": "ahead of the clock", "failed": "failed expression"}
    for number, rows in enumerate(MIXED):
        with open_bed(spark, state=tmp_path) as bed:
            bed.feed("s", rows)
            check_reasons(bed, [row for batch in MIXED[: number + 1] for row in batch])
        kept = pq.read_table(tmp_path / "invalid" / "s" / f"{number:012d}", columns=["__reason"]).to_pylist()
        expected = [words.get(reason, "too early") for reason in map(reason_of, rows) if reason != "valid"]
        assert sorted(row["__reason"] for row in kept) == sorted(expected)


def check_reasons(bed: TestBed, rows: list[Row]) -> None:
    """Hold what a stream says of its invalid rows against the rows themselves."""
    progress = bed.engine.stream("s").pipeline.progress
    assert progress.clock.counts.whole
    assert progress.clock.counts.invalid == progress.clock.invalid.rows
    example = "ts = timestamp_seconds(`a` DIV `b`): [DIVIDE_BY_ZERO] Division by zero"
    assert progress.clock.invalid == replace(told_by(rows), example=example)


def test_rows_of_files_are_kept_whole_and_name_their_files(spark: SparkSession, tmp_path: Path) -> None:
    rows = [row for batch in MIXED for row in batch if reason_of(row) != "too_early"]
    with Engine(tmp_path / "state", spark=spark, clock=CLOCK) as engine:
        for format_ in ("parquet", "csv", "json"):
            folder = tmp_path / format_
            folder.mkdir()
            for number, row in enumerate(rows):
                write_row(folder / f"{number}.{format_}", row)
            options = f"(path = '{folder}') WATERMARK FOR ts"
            engine.execute(f"CREATE STREAM s_{format_} ({SECONDS}) USING {format_} OPTIONS {options}")
        engine.process_available()
    for format_ in ("parquet", "csv", "json"):
        kept = pq.read_table(tmp_path / "state" / "invalid" / f"s_{format_}" / f"{0:012d}").to_pylist()
        found = {Path(row["__file"]): (row["a"], row["b"], row["x"]) for row in kept}
        named = {tmp_path / format_ / f"{number}.{format_}": row for number, row in enumerate(rows)}
        assert found == {file: row for file, row in named.items() if reason_of(row) != "valid"}


def write_row(path: Path, row: Row) -> None:
    """Write a file of one row."""
    named = dict(zip("abx", row, strict=True))
    if path.suffix == ".parquet":
        types = {"a": pa.int64(), "b": pa.int64(), "x": pa.int32()}
        pq.write_table(pa.table({n: pa.array([v], types[n]) for n, v in named.items()}), path)
    elif path.suffix == ".csv":
        path.write_text(",".join("" if v is None else str(v) for v in row) + "\n")
    else:
        path.write_text(json.dumps(named) + "\n")


def test_where_files_have_changed_meanwhile_the_rows_of_the_batch_are_kept(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_bed(spark, state=tmp_path) as bed:
        other = spark.sql("SELECT CAST(NULL AS BIGINT) AS a, 1L AS b, 8 AS x, TIMESTAMP '2020-01-01 00:00:00' AS ts")
        columns = bed.engine.catalog.known_stream("s").columns
        monkeypatch.setattr(intake, "read_whole", lambda *_: marked(other, columns))
        bed.feed("s", MIXED[0])
    kept = pq.read_table(tmp_path / "invalid" / "s" / f"{0:012d}")
    assert sorted(kept["x"].to_pylist()) == [2, 3, 5, 6, 7]


# -- columns that are not the time ------------------------------------------------------------------------------------

QUOTIENT = "ts TIMESTAMP, kind STRING, a INT, b INT, q INT GENERATED ALWAYS AS (a DIV b)"
HARMED = {
    "bare": "SELECT sum(q) AS n FROM s [RANGE 10 s SLIDE 10 s]",
    "keys": "SELECT q, count(*) AS n FROM s [RANGE 10 s SLIDE 10 s] WHERE q > 1 GROUP BY q",
    "joined": "SELECT count(*) AS n FROM s [RANGE 10 s SLIDE 10 s] JOIN t ON s.q = t.q",
}
SPARED = {
    "other": "SELECT count(*) AS n, sum(a) AS a FROM s [RANGE 10 s SLIDE 10 s]",
    "guarded": "SELECT sum(q) AS n FROM s [RANGE 10 s SLIDE 10 s] WHERE kind = 'good' AND q > 1",
    "within": "SELECT sum(IF(kind = 'good', q, 0)) AS n FROM s [RANGE 10 s SLIDE 10 s]",
}


def quotients(first: int, *, bad: bool) -> list[tuple[Any, ...]]:
    """Make rows of ten seconds, of which one may have no quotient."""
    return [(first + i, "good", 6, 2) for i in range(9)] + [(first + 9, "bad" if bad else "good", 6, 0 if bad else 3)]


def test_a_column_that_fails_harms_only_the_queries_that_read_it(spark: SparkSession, tmp_path: Path) -> None:
    for batches in (((0, False), (10, True)), ((20, True), (30, True))):  # with a restart between
        with TestBed(spark, state=tmp_path) as bed:
            bed.stream("s", QUOTIENT)
            bed.table("t", [(3,), (2,)], schema="q INT")
            for name, text in (HARMED | SPARED).items():
                bed.query(name, text)
            for first, bad in batches:
                bed.feed("s", quotients(first, bad=bad))
            assert bed.counts("s") == Counts(ingested=batches[-1][0] + 10, on_time=batches[-1][0] + 10)
            harmed = {name: bed.paused(name) for name in HARMED}
            answers = {name: bed.timeline(name) for name in HARMED | SPARED}
    for name, why in harmed.items():
        assert why == f"[DIVIDE_BY_ZERO] Division by zero in column `q` = `a` DIV `b`, on a row of {at(19)}", name
    assert answers == {
        "bare": [(10, 29)],
        "keys": [(10, 2, 1), (10, 3, 9)],
        "joined": [(10, 10)],
        "other": [(10, 10, 60), (20, 10, 60), (30, 10, 60)],
        "guarded": [(10, 29), (20, 27), (30, 27)],
        "within": [(10, 29), (20, 27), (30, 27)],
    }


def test_after_a_column_failed_batches_need_one_job_again(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs: list[PartialsJob] = []
    run = PartialsJob.run

    def counted(job: PartialsJob, *given: Any, **more: Any) -> pa.Table:
        jobs.append(job)
        return run(job, *given, **more)

    monkeypatch.setattr(PartialsJob, "run", counted)
    with TestBed(spark) as bed:
        bed.stream("s", QUOTIENT)
        bed.query("guarded", SPARED["guarded"])
        for first, expected in ((0, 2), (10, 3), (20, 4)):
            bed.feed("s", quotients(first, bad=True))
            assert len(jobs) == expected
        assert bed.timeline("guarded") == [(10, 27), (20, 27)]


def test_rows_that_are_kept_or_numbered_still_tell_what_failed(spark: SparkSession, tmp_path: Path) -> None:
    with TestBed(spark, state=tmp_path) as bed:
        bed.stream("s", QUOTIENT, retain_rows="1 h")
        bed.query("rows", "SELECT sum(q) AS n FROM s [ROWS 5 SLIDE 5]")
        bed.feed("s", quotients(0, bad=True))
        bed.query("past", "SELECT max(q) AS n FROM s [RANGE 5 s SLIDE 5 s] WITH (from = 'beginning')")
        bed.feed("s", quotients(10, bad=False))
        assert bed.timeline("past") == [(5, 3)]
        assert "in column `q` = `a` DIV `b`" in str(bed.paused("past"))
        assert [n for _, n in bed.timeline("rows")] == [15]
        with pytest.raises(PenstockError, match="failed on a row"):
            bed.ask("SELECT sum(q) AS n FROM s [RANGE 12 s]")
        assert bed.ask("SELECT sum(q) AS n FROM s [RANGE 9 s]")[0]["n"] == 9 * 3


def at(seconds: float) -> str:
    """Write a time of the bed's."""
    return f"{EPOCH + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%S.%fZ}"
