"""Queries join and leave a running stream: what they answer is whole, and the others do not notice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from penstock.evaluate.windows.scan import ScanLane
from penstock.kernel import synopsis
from penstock.testing import TestBed
from tests.cases import sweep
from tests.oracle.cases import Case, QuerySpec, make_case
from tests.oracle.duck import Oracle, answered_ends, moments
from tests.oracle.harness import compare, open_bed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run_with_churn(spark: SparkSession, case: Case, *, compiled: bool) -> dict[str, pa.Table]:
    """Create and drop queries between batches; remember a dropped query's answers."""
    answers: dict[str, pa.Table] = {}
    with open_bed(spark, case, compiled=compiled) as bed:
        for number in range(len(case.batches) + 1):
            for query in case.queries:
                if case.joins_at.get(query.name, 0) == number:
                    bed.query(query.name, query.text)
                if case.leaves_at.get(query.name) == number:
                    answers[query.name] = bed.results(query.name)
                    bed.engine.drop_query(query.name)
            if number < len(case.batches):
                bed.feed("s", case.batches[number])
        if case.flush:
            bed.flush()
        for query in case.queries:
            if query.name not in answers:
                answers[query.name] = bed.results(query.name)
    return answers


def check_churn(spark: SparkSession, case: Case, *, compiled: bool) -> None:
    answers, oracle = run_with_churn(spark, case, compiled=compiled), Oracle(case)
    times = moments(case.batches, case.lateness_us)
    for query in case.queries:
        found = answers[query.name]
        expected = oracle.answers(query, expected_ends(case, query, found, times))
        compare(case, query, found, expected)


def expected_ends(case: Case, query: QuerySpec, found: pa.Table, times: list) -> list[int]:
    """List the windows a query has to answer, given the one it began with; it may not begin late."""
    joined, left = case.joins_at.get(query.name, 0), case.leaves_at.get(query.name, len(times))
    if joined >= left:
        return []
    seen = [m for m in times[:left] if m.watermark is not None]
    last = seen[-1].watermark if seen else None
    before = times[joined - 1].last if joined else None
    if before is None:  # as if it were there from the first row
        shown = Case(
            **{**vars(case), "flush": case.flush and query.name not in case.leaves_at, "batches": case.batches[:left]}
        )
        return answered_ends(query, shown)
    if last is None:
        return []
    wholly = before + 1 + query.range_us
    latest_first = wholly + (query.offset_us - wholly) % query.slide_us
    ends = found["window_end"].cast(pa.int64()).to_pylist()
    first = min([latest_first, *ends])
    until = last
    if case.flush and query.name not in case.leaves_at:
        stamps = [t for b in case.batches for t in b["ts"].drop_null().cast(pa.int64()).to_pylist()]
        held = [t + query.range_us - (t + query.range_us - query.offset_us) % query.slide_us for t in stamps]
        until = max([last, *(h for h, t in zip(held, stamps, strict=True) if h > t)])
    return list(range(first, until + 1, query.slide_us))


@pytest.mark.parametrize("seed", sweep(range(2000, 2012), 3))
def test_answers_are_whole_while_queries_come_and_go(spark: SparkSession, seed: int) -> None:
    check_churn(spark, make_case(seed, most_queries=12, churn=True), compiled=seed % 4 == 0)


def test_groups_that_are_long_gone_are_forgotten(spark: SparkSession) -> None:
    with TestBed(spark) as bed:
        bed.stream("s", "ts TIMESTAMP, k STRING")
        bed.query("q", "SELECT k, count(*) AS n FROM s [RANGE 10 s SLIDE 10 s] GROUP BY k")
        for batch in range(18):
            bed.feed("s", [{"ts": 10 * batch + i / 100, "k": f"{batch}-{i}"} for i in range(300)])
        synopsis = bed.engine.stream("s").pipeline.synopsis
        [lane] = synopsis.lanes
        assert len(synopsis.groups(lane)) <= 1_000
        assert bed.timeline("q")[-1] == (170, "16-99", 1)


@pytest.mark.parametrize("keys", ["k", ""])
@pytest.mark.parametrize("kernel", ["fast", "scan"])
def test_a_query_joins_others_whose_first_window_begins_after_its_own(
    spark: SparkSession, kernel: str, keys: str
) -> None:
    grouped, also = (" GROUP BY k", "k, ") if keys else ("", "")
    with TestBed(spark, kernel=kernel) as bed:  # type: ignore[arg-type]
        bed.stream("s", "ts TIMESTAMP, k STRING, v INT")
        bed.query("whole", "SELECT count(*) AS n FROM s [RANGE 1 s SLIDE 1 s]")
        bed.feed("s", [(29.999999, "a", 1)])
        bed.query("before", f"SELECT {also}min(v) AS x FROM s [RANGE 20 s SLIDE 3 s]{grouped}")  # from 31 s on
        bed.feed("s", [(29.5, "a", 1)])  # and nothing before 31 s is kept for it
        bed.query("after", f"SELECT {also}sum(v) AS x FROM s [RANGE 10 s SLIDE 10 s]{grouped}")  # from 30 s on
        bed.feed("s", [(30.5, "c", 7)])
        bed.flush()
        assert [row["x"] for row in bed.results("after").to_pylist()] == [7]


@pytest.mark.parametrize("where", [" WHERE v > {}", ""])
def test_conditions_that_fill_too_many_cells_together_go_on_apart(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    monkeypatch.setattr(synopsis, "MOST_CELLS", 5)
    with TestBed(spark) as bed:
        bed.stream("s", "ts TIMESTAMP, v INT")
        for number in range(4):
            text = f"SELECT count(*) AS n FROM s [RANGE {4 + number} s SLIDE 2 s]" + where.format(number)
            bed.query(f"q{number}", text)
        for start in (0, 6, 12):
            bed.feed("s", [(start + i, i) for i in range(6)])
        bed.flush()
        lanes = bed.engine.stream("s").pipeline.synopsis.lanes.values()
        assert {type(lane) for lane in lanes} == {ScanLane}
        for number in range(4):
            least = number if where else -1
            for end, n in bed.timeline(f"q{number}"):
                rows = [t for t in range(18) if end - 4 - number <= t < end and t % 6 > least]
                assert n == len(rows)
