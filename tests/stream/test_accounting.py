"""What streams hold is accounted for, in memory and on disk, and the parts of the queries add up to the whole."""

from __future__ import annotations

import json
import random
import threading
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from penstock.evaluate.groups import Groups
from penstock.sinks.callback import sink
from penstock.stream.accounting.accounts import ACCOUNTS
from penstock.stream.accounting.holding import Balance, Holding
from penstock.testing import TestBed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERIES = {
    "by_k": "SELECT k, sum(x) AS x FROM a [RANGE 10 s SLIDE 5 s] GROUP BY k",
    "again": "SELECT k, sum(x) AS x FROM a [RANGE 10 s SLIDE 5 s] GROUP BY k",
    "median": "SELECT percentile(x, 0.5) AS m FROM a [RANGE 20 s SLIDE 10 s]",
    "numbered": "SELECT sum(x) AS x FROM a [ROWS 20 SLIDE 10]",
    "each": "SELECT k, x FROM a WHERE x > 50",
    "revised": "SELECT k, sum(x) AS x FROM a [RANGE 5 s SLIDE 5 s] GROUP BY k "
    "WITH (late = 'revise', revise_for = '1 h')",
    "changed": "SELECT k, max(x) AS x FROM a [RANGE 5 s SLIDE 5 s] GROUP BY k WITH (emit = 'change')",
    "kept": "SELECT count(*) AS n FROM a [RANGE 5 s SLIDE 5 s] WITH (retain_rows = '1 h')",
    "met": "SELECT count(*) AS n FROM pairs [RANGE 10 s SLIDE 10 s]",
}
ELSEWHERE = {"unsent", "windows", "answers", "queued"}  # kinds in memory that are not held in this test
IN_THIS_TEST = {*(("memory", kind) for kind in ELSEWHERE), ("disk", "spread"), ("disk", "queued")}


def fed(bed: TestBed, draw: random.Random, batches: int) -> None:
    for batch in range(batches):
        rows = [
            {"ts": 10 * batch + draw.uniform(0, 10), "k": draw.choice("abcdef"), "x": draw.randrange(100)}
            for _ in range(60)
        ]
        bed.feed("a", rows)
        bed.feed("b", rows[:20])


def test_every_kind_is_divided_and_all_shares_are_the_whole(spark: SparkSession, tmp_path: Path) -> None:
    with TestBed(spark, state=tmp_path / "state") as bed:
        bed.stream("a", "ts TIMESTAMP, k STRING, x INT", lateness="4 s", dedup=["ts", "k"])
        bed.stream("b", "ts TIMESTAMP, k STRING, x INT", lateness="4 s")
        bed.engine.execute("CREATE STREAM pairs AS SELECT a.k, a.x FROM a [RANGE 5 s] JOIN b [RANGE 5 s] ON a.k = b.k")
        for name, text in QUERIES.items():
            bed.query(name, text)
        fed(bed, random.Random(3), 4)
        found = bed.engine.metrics()
    json.dumps(found.as_dict())
    for place in ("memory", "disk"):
        shares = sum(getattr(one, f"{place}_bytes") for one in found.queries)
        whole = sum(getattr(one, f"{place}_bytes") for one in found.streams)
        nobodys = sum(getattr(one, f"unshared_{place}_bytes") for one in found.streams)
        assert shares + nobodys == pytest.approx(whole, rel=0.001)
        assert shares == pytest.approx(whole, rel=0.02)
        assert all(sum(getattr(one, place).values()) == pytest.approx(getattr(one, f"{place}_bytes"), abs=20)
                   for one in found.streams)  # fmt: skip
    held = {(place, kind) for one in found.streams for place in ("memory", "disk") for kind in getattr(one, place)}
    assert held == {(one.place, one.kind) for one in ACCOUNTS} - IN_THIS_TEST
    assert found.query("by_k").memory_bytes == found.query("again").memory_bytes  # whose lane is the same
    assert found.query("kept").disk_bytes > 2 * found.query("by_k").disk_bytes  # rows are kept for it alone
    assert found.query("each").disk_bytes > 0
    assert found.query("numbered").disk_bytes > 0
    assert found.query("met").memory_bytes > 0


def test_answers_that_a_sink_has_not_taken_belong_to_their_queries(spark: SparkSession) -> None:
    taking, written = threading.Event(), list[Any]()

    @sink
    def slow(rows: Any) -> None:
        """Wait before it takes anything."""
        taking.wait(60)
        written.append(rows)

    with TestBed(spark, sinks=[slow]) as bed:
        bed.stream("a", "ts TIMESTAMP, k STRING, x INT")
        bed.query("many", "SELECT k, sum(x) AS x FROM a [RANGE 1 s SLIDE 1 s] GROUP BY k")
        bed.query("few", "SELECT sum(x) AS x FROM a [RANGE 10 s SLIDE 10 s]")
        waits = threading.Thread(
            target=bed.feed, args=("a", [{"ts": i / 10, "k": f"k{i % 50}", "x": i} for i in range(300)])
        )
        waits.start()
        try:
            stream = bed.engine.stream("a")
            for _ in range(600):
                if any(thread.held_bytes for thread in stream.delivery.threads):
                    break
                threading.Event().wait(0.1)
            found = bed.engine.metrics()
            [whole] = found.streams
            held = sum(thread.held_bytes for thread in stream.delivery.threads)
            assert whole.memory["unsent"] == pytest.approx(held, abs=2)
            assert found.query("many").memory_bytes > found.query("few").memory_bytes
        finally:
            taking.set()
            waits.join()
        assert "unsent" not in bed.engine.metrics().streams[0].memory
        assert bed.engine.metrics().streams[0].memory["answers"] > 0  # without a state folder


@pytest.mark.parametrize("columns", [1, 2])
def test_the_keys_of_groups_take_about_what_is_said(columns: int) -> None:
    """Against what Python itself allocates, within a third."""
    types, count = [pa.string(), pa.int64()][:columns], 40_000
    tables = [
        [pa.chunked_array([[f"a key of some length {i}" for i in range(count)]]), pa.chunked_array([range(count)])]
    ]
    tracemalloc.start()
    try:
        groups, before = Groups(types), tracemalloc.get_traced_memory()[0]
        for table in tables:
            groups.encode(table[:columns])
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert groups.nbytes == pytest.approx(grown, rel=0.34)


def test_what_nobody_uses_is_told_apart() -> None:
    balance = Balance()
    balance.add(
        "rows", iter([Holding(100, [1, 2]), Holding(50, []), Holding(30, [2, 3], [2, 1]), Holding(8, [3], [0])])
    )
    assert balance.by_query == {1: 50, 2: 70, 3: 18}
    assert (balance.total, balance.unshared) == (188, 50)


def test_the_page_lists_every_kind() -> None:
    page = (Path(__file__).parents[2] / "docs" / "overload.md").read_text(encoding="utf-8")
    told = [tuple(cell.strip() for cell in line.split("|")[1:4]) for line in page.splitlines() if line.startswith("| ")]
    assert {(one.kind, one.place, one.meaning) for one in ACCOUNTS} <= set(told)
