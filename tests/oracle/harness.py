"""Runs a case through the engine, batch by batch, and compares its answers with the oracle's."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.model.aggregation import AGGREGATIONS
from penstock.testing import TestBed
from tests.oracle.cases import SCHEMA, Case, QuerySpec
from tests.oracle.duck import Oracle, answered_ends

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def check_case(spark: SparkSession, case: Case, *, compiled: bool = True) -> None:
    """Feed the batches to the stream's callback and compare every query."""
    with open_bed(spark, case, compiled=compiled) as bed:
        for query in case.queries:
            bed.query(query.name, query.text)
        for batch in case.batches:
            bed.feed("s", batch)
        if case.flush:
            bed.flush()
        check_counts(bed, case)
        oracle = Oracle(case)
        for query in case.queries:
            ends = answered_ends(query, case)
            compare(case, query, bed.results(query.name), oracle.answers(query, ends))


def open_bed(spark: SparkSession, case: Case, **options: Any) -> TestBed:
    """Declare a case's stream and table."""
    place = AGGREGATIONS[case.seed % len(AGGREGATIONS)]
    bed = TestBed(spark, strategy=case.strategy, kernel=case.kernel, aggregation=place, **options)  # type: ignore[arg-type]
    bed.stream("s", SCHEMA, lateness=f"{case.lateness_us} us")
    bed.table("t", case.table)
    return bed


def check_counts(bed: TestBed, case: Case) -> None:
    """Every row is on time, late or invalid, each counted on its own."""
    late, watermark, greatest = 0, None, None
    for batch in case.batches:
        times = batch["ts"].drop_null().cast(pa.int64()).to_pylist()
        late += sum(1 for t in times if watermark is not None and t < watermark)
        greatest = max([*times, *([] if greatest is None else [greatest])], default=greatest)
        watermark = None if greatest is None else greatest - case.lateness_us
    counts = bed.counts("s")
    rows = sum(len(b) for b in case.batches)
    invalid = sum(b["ts"].null_count for b in case.batches)
    assert (counts.ingested, counts.late, counts.invalid) == (rows, late, invalid), f"seed {case.seed}"
    assert counts.ingested == counts.on_time + counts.late + counts.invalid


def compare(case: Case, query: QuerySpec, found: pa.Table, expected: list[dict[str, Any]]) -> None:
    """Compare answers row by row, in their order."""
    where = f"seed {case.seed}, {case.strategy}, {case.kernel}, {query.name}: {query.text}"
    rows = found.to_pylist()
    ends = found["window_end"].cast(pa.int64()).to_pylist()
    starts = found["window_start"].cast(pa.int64()).to_pylist()
    assert ends == [e["window_end"] for e in expected], where
    assert starts == [e - query.range_us for e in ends], where
    for row, wanted in zip(rows, expected, strict=True):
        for name in row.keys() - {"window_start", "window_end"}:
            magnitude = wanted.get(name.replace("agg", "mag")) if name.startswith("agg") else None
            close = same(row[name], wanted[name], magnitude or 0.0)
            assert close, f"{where}\n  {name}: {row[name]!r} is not {wanted[name]!r} in {row}"


def same(found: Any, wanted: Any, magnitude: float = 0.0) -> bool:
    """Compare two values: exact, but for doubles that were added in another order (within 1e-9 · Σ|x|)."""
    if found is None or wanted is None:
        return found is None and wanted is None
    if isinstance(found, float) or isinstance(wanted, float):
        a, b = float(found), float(wanted)
        if math.isnan(a) or math.isnan(b):
            return math.isnan(a) and math.isnan(b)
        return a == b or math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9 + 1e-9 * magnitude)
    if isinstance(found, Decimal) or isinstance(wanted, Decimal):
        return Decimal(found) == Decimal(wanted)
    return bool(found == wanted)
