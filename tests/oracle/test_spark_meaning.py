"""NULL, types, overflow, casts and functions mean what plain Spark says, in one pipeline for all queries."""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from penstock.testing import TestBed
from tests.oracle.meanings import CUTS, FAILING, PLAIN, SCHEMA, SECONDS, make_rows
from tests.oracle.spark_batch import INSTANT, Expected, Meaning, SparkBatch, instants, rows_at, seconds_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = make_rows(seed=1)


@dataclass(frozen=True)
class Run:
    """One engine that answered every query, and what Spark says to each."""

    bed: TestBed
    expected: dict[str, Expected]


@pytest.fixture(scope="module")
def run(spark: SparkSession) -> Iterator[Run]:
    batch = SparkBatch(spark, ROWS, SECONDS, harmless=30)
    with ThreadPoolExecutor(2) as pool:
        asked = {q.name: pool.submit(batch.answers, q, may_fail=q in FAILING) for q in (*PLAIN, *FAILING)}
        expected = {name: answer.result() for name, answer in asked.items()}
    with TestBed(spark, compiled=True) as bed:
        bed.stream("r", SCHEMA)
        for query in (*PLAIN, *FAILING):
            bed.query(query.name, query.text)
        feed(bed, ROWS, CUTS)
        yield Run(bed, expected)


def feed(bed: TestBed, rows: pa.Table, cuts: tuple[int, ...]) -> None:
    """Cut rows into batches at some seconds; in front of the first they fail nothing, later ones do."""
    times = rows["ts"].to_pylist()
    places = [0, *(sum(t < cut for t in times) for cut in instants(*cuts)), len(rows)]
    bed.feed_in_cuts("r", rows, [end - start for start, end in pairwise(places)])
    bed.flush()


@pytest.mark.parametrize("query", PLAIN, ids=lambda q: q.name)
def test_a_query_answers_as_spark_does(run: Run, query: Meaning) -> None:
    assert run.expected[query.name].failed is None
    assert run.bed.paused(query.name) is None
    compare(query, run.bed.results(query.name), run.expected[query.name].table)


@pytest.mark.parametrize("query", FAILING, ids=lambda q: q.name)
def test_a_query_answers_up_to_the_window_that_spark_cannot(run: Run, query: Meaning) -> None:
    expected = run.expected[query.name]
    assert (run.bed.paused(query.name) is None) == (expected.failed is None), query.text
    compare(query, run.bed.results(query.name), expected.table)


def test_failures_are_many_and_guards_too(run: Run) -> None:
    failed = [q for q in FAILING if run.expected[q.name].failed]
    assert len(failed) >= 20
    assert len(FAILING) - len(failed) >= 8
    reports = run.bed.reports("r")
    assert sorted(r.split('"')[1] for r in reports) == [q.name for q in failed]


def compare(query: Meaning, found: pa.Table, expected: pa.Table) -> None:
    """Compare types, windows and values; answers come by window, then by key as Spark orders keys."""
    answers = found.drop_columns(["window_start"])
    types = [(field.name, field.type) for field in answers.schema]
    assert types == [(field.name, field.type) for field in expected.schema], query.text
    assert seconds_of(answers) == seconds_of(expected), query.text
    for row, wanted in zip(answers.to_pylist(), expected.to_pylist(), strict=True):
        for name, value in wanted.items():
            assert same(row[name], value), f"{query.text}\n  {name}: {row[name]!r} is not {value!r}"


# The doubles whose sums are compared are below 100, in at most 70 rows; other results are compared by their own size.
ADDED = 1e-9 * 100 * 70


def same(found: Any, wanted: Any) -> bool:
    """Compare two values: exact but for doubles, which may have been added in another order."""
    if found is None or wanted is None:
        return found is wanted
    if isinstance(wanted, dict):
        return all(same(found[key], value) for key, value in wanted.items())
    if isinstance(wanted, float):
        if math.isnan(wanted):
            return math.isnan(found)
        return found == wanted or math.isclose(found, wanted, rel_tol=1e-9, abs_tol=ADDED)
    return bool(found == wanted)


SUMS = pa.schema([("ts", INSTANT), ("n", pa.int64()), ("w", pa.decimal128(38, 0))])


def addends(top: int) -> list[list[int]]:
    """List what six windows add; Spark, adding row by row, would fail in all but the first and the last."""
    return [
        [top],
        [top, top, -top],
        [-top, -1, top, top],
        [top, 1, -top, -top, 2, top, top, -top],
        [top, -top, top, 1],  # one more than fits
        [1],
    ]


@pytest.mark.parametrize("kernel", ["fast", "scan"])
def test_a_sum_fails_only_if_the_true_sum_does_not_fit(spark: SparkSession, kernel: Any) -> None:
    integers, decimals = addends(2**63 - 1), addends(10**38 - 1)
    rows = [
        {"ts": 10 * window + place / 10, "n": n, "w": Decimal(w)}
        for window, pair in enumerate(zip(integers, decimals, strict=True))
        for place, (n, w) in enumerate(zip(*pair, strict=True))
    ]
    with TestBed(spark, kernel=kernel) as bed:
        bed.stream("r", SUMS)
        for name in ("sum(n)", "sum(w)", "avg(n)"):
            bed.query(name, f"SELECT {name} AS a FROM r [RANGE 10 s SLIDE 10 s]")
        feed(bed, rows_at(SUMS, rows), (25, 45))
        assert bed.results("sum(n)")["a"].to_pylist() == [sum(window) for window in integers[:4]]
        assert [int(a) for a in bed.results("sum(w)")["a"].to_pylist()] == [sum(window) for window in decimals[:4]]
        averages = [sum(window) / len(window) for window in integers]
        assert bed.results("avg(n)")["a"].to_pylist() == pytest.approx(averages, rel=1e-15)
