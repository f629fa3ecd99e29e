"""Figures of a stream that Spark runs: shares add up to what the stream has measured."""

from __future__ import annotations

import json
import random
from dataclasses import astuple
from typing import TYPE_CHECKING

import pytest

from penstock.testing import TestBed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERIES = {
    "all": "SELECT count(*) AS n FROM s [RANGE 10 s SLIDE 5 s]",
    "again": "SELECT count(*) AS n FROM s [RANGE 10 s SLIDE 5 s]",
    "large": "SELECT sum(x) AS x FROM s [RANGE 6 s SLIDE 3 s] WHERE x > 50",
    "by_k": "SELECT k, max(x) AS x FROM s [RANGE 10 s SLIDE 5 s] GROUP BY k",
    "median": "SELECT k, percentile(x, 0.5) AS m FROM s [RANGE 20 s SLIDE 10 s] GROUP BY k",
    "rows": "SELECT count(*) AS n FROM s [ROWS 20 SLIDE 10]",
    "revised": "SELECT k, sum(x) AS x FROM s [RANGE 5 s SLIDE 5 s] GROUP BY k "
    "WITH (late = 'revise', revise_for = '1 h')",
}


def test_shares_of_seconds_bytes_and_memory_add_up_to_the_whole(spark: SparkSession) -> None:
    draw = random.Random(5)
    with TestBed(spark) as bed:
        bed.stream("s", "ts TIMESTAMP, k STRING, x INT", lateness="2 s")
        for name, text in QUERIES.items():
            bed.query(name, text)
        for batch in range(4):
            times = [10 * batch + draw.uniform(0, 10) for _ in range(50)] + [max(0.0, 10 * batch - 5.0)]
            bed.feed("s", [{"ts": t, "k": draw.choice("abcd"), "x": draw.randrange(100)} for t in times])
        found = bed.engine.metrics()
        pipelines = [bed.engine.stream(one.stream).pipeline for one in found.streams]
    json.dumps(found.as_dict())
    for stream, pipeline in zip(found.streams, pipelines, strict=True):
        lined = [one for one in found.queries if (one.query == "rows") == ("#" in stream.stream)]
        measured, sent = pipeline.metrics, sum(one.bytes_sent for one in lined)
        whole = measured.job, measured.ingest, measured.commit, measured.answer
        shares = [sum(step) for step in zip(*(astuple(one.seconds) for one in lined), strict=True)]
        assert shares == pytest.approx(whole, rel=0.02)
        assert sent == pytest.approx(measured.bytes, rel=0.02)
        assert sum(one.memory_bytes for one in lined) == pytest.approx(stream.memory_bytes, rel=0.02)
    assert all(min(astuple(one.seconds)) > 0 and one.windows > 0 for one in found.queries)
    assert found.query("rows").deadline_s is None
    assert found.query("median").memory_bytes > found.query("all").memory_bytes > 0
