"""Queries over one synopsis cost its rows once, as Golab, Bijay and Özsu (2006, §2.2) say they can."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.evaluate.functions.binding import bind_aggregate
from penstock.model.query import Aggregate
from penstock.testing import TestBed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Lengths of packets, one a second, by protocol.
PACKETS = [(i + 0.5, "tcp" if i % 3 else "udp", (i * 37) % 101) for i in range(40)]


def longest(end: int, length: int, *protocols: str) -> int | None:
    return max((x for t, p, x in PACKETS if end - length <= t < end and p in protocols), default=None)


def bed_with(spark: SparkSession, queries: dict[str, str]) -> TestBed:
    bed = TestBed(spark)
    bed.stream("packets", "ts TIMESTAMP, protocol STRING, length INT")
    for name, text in queries.items():
        bed.query(name, text)
    bed.feed_in_cuts("packets", PACKETS, [7, 20, 13])
    return bed


def operations(bed: TestBed) -> int:
    return bed.engine.stream("packets").pipeline.synopsis.partial_operations


def test_one_synopsis_answers_all_shorter_windows(spark: SparkSession) -> None:
    lengths = (1, 2, 5, 6, 8)
    texts = {f"q{n}": f"SELECT max(length) AS m FROM packets [RANGE {n} s SLIDE 1 s]" for n in lengths}
    with bed_with(spark, texts) as bed:
        for n in lengths:
            found = bed.timeline(f"q{n}")
            assert len(found) == 39
            assert found == [(end, longest(end, n, "tcp", "udp")) for end in range(1, 40)]
        assert operations(bed) == len(PACKETS)


def test_an_average_needs_no_more_than_sum_and_count() -> None:
    total, many, mean = (bind_aggregate(Aggregate(f, ("`x`",)), (pa.int64(),)) for f in ("sum", "count", "avg"))
    assert set(mean.components) <= {*total.components, *many.components}


def test_the_maximum_over_two_disjoint_predicates_comes_from_their_own_partials(spark: SparkSession) -> None:
    window = "SELECT max(length) AS m FROM packets [RANGE 8 s SLIDE 2 s]"
    wanted = {"tcp": ("tcp",), "udp": ("udp",), "both": ("tcp", "udp")}
    texts = {n: f"{window} WHERE protocol IN ({', '.join(map(repr, p))})" for n, p in wanted.items()}
    with bed_with(spark, texts) as bed:
        for name, protocols in wanted.items():
            assert bed.timeline(name) == [(end, longest(end, 8, *protocols)) for end in range(2, 40, 2)]
        assert operations(bed) == len(PACKETS)
