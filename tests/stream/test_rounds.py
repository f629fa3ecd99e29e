"""What is due is answered in rounds that fit into memory: the same answers, in results, sinks and after restarts."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from penstock.sinks.jsonl import JsonLinesSink
from penstock.sinks.parquet import ParquetSink
from penstock.sinks.protocol import Sink
from penstock.store.verifying import verify_state
from penstock.testing import TestBed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("interpreted")
QUERIES = {
    "plain": "SELECT count(*) AS n, sum(v) AS x FROM s [RANGE 4 s SLIDE 100 ms]",
    "same": "SELECT sum(v) AS x, count(*) AS n FROM s [RANGE 4 s SLIDE 300 ms]",
    "keyed": "SELECT k, sum(v) AS x FROM s [RANGE 3 s SLIDE 200 ms] GROUP BY k HAVING sum(v) > 3",
    "states": "SELECT k, median(v) AS x, count(DISTINCT v) AS n FROM s [RANGE 6 s SLIDE 500 ms] GROUP BY k",
    "revised": "SELECT k, sum(v) x FROM s [RANGE 5 s SLIDE 250 ms] GROUP BY k WITH (late='revise', revise_for='1 h')",
    "briefly": "SELECT sum(v) x FROM s [RANGE 5 s SLIDE 250 ms] WITH (late = 'revise', revise_for = '2 s')",
    "changes": "SELECT max(v) AS x FROM s [RANGE 4 s SLIDE 100 ms] WITH (emit = 'change')",
    "top": "SELECT k, sum(v) AS x FROM s [RANGE 3 s SLIDE 200 ms] GROUP BY k ORDER BY x DESC LIMIT 1",
    "led": "SELECT k, sum(v) x FROM s [RANGE 5 s SLIDE 250 ms] GROUP BY k ORDER BY x LIMIT 1 "
    "WITH (late = 'revise', revise_for = '1 h')",
    "rolled": "SELECT k, count(*) AS n FROM s [RANGE 3 s SLIDE 500 ms] GROUP BY ROLLUP (k)",
    "spark": "SELECT conv(sum(v), 10, 2) AS x FROM s [RANGE 2 s SLIDE 400 ms]",
    "fails": "SELECT 10 div (count(*) - 3) AS x FROM s [RANGE 4 s SLIDE 100 ms]",
    "rows": "SELECT sum(v) AS x FROM s [ROWS 5 SLIDE 1]",
    "parts": "SELECT k, sum(v) AS x FROM s [PARTITION BY k ROWS 3 SLIDE 2] GROUP BY k",
}


def run(spark: SparkSession, folder: Path, size: int | None, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Feed the same rows, answered in rounds of so many bytes, with a restart in the middle."""
    if size is not None:
        monkeypatch.setattr("penstock.kernel.pending.Rounds.__init__.__defaults__", (1_000, size))
        monkeypatch.setattr("penstock.stream.corrections.MOST_PLACES", 7)
    draw, bed = random.Random(5), _open(spark, folder)
    for name, text in QUERIES.items():
        bed.query(name, text)
    for clock in (0, 4, 9, 16):
        if clock == 9:
            bed.close()
            bed = _open(spark, folder)
        times = [clock - 2 + draw.random() * 7 for _ in range(25)]
        bed.feed("s", [{"ts": t, "k": draw.choice("abc"), "v": draw.randrange(9)} for t in times])
    bed.flush()
    found = {
        name: bed.engine.results(name, "rows", revisions=name in ("revised", "briefly", "led")) for name in QUERIES
    }
    found |= {"paused": {name: bed.paused(name) for name in QUERIES}, "counts": bed.counts("s")}
    bed.close()
    found["jsonl"] = Counter(line for file in (folder / "j").iterdir() for line in file.read_text().splitlines())
    tables = [pq.read_table(file, partitioning=None) for file in (folder / "p").rglob("*.parquet")]
    found["parquet"] = Counter(repr(sorted(row.items())) for table in tables for row in table.to_pylist())
    assert not verify_state(folder / "state").problems
    return found


def _open(spark: SparkSession, folder: Path) -> TestBed:
    sinks: list[Sink] = [JsonLinesSink(folder / "j"), ParquetSink(folder / "p")]
    bed = TestBed(spark, state=folder / "state", sinks=sinks)
    if not bed.engine.catalog.has("stream", "s"):
        bed.stream("s", "ts TIMESTAMP, k STRING, v INT", lateness="1 s")
    return bed


def test_answers_in_many_rounds_are_those_of_one(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run(spark, tmp_path / "whole", None, monkeypatch)
    cut = run(spark, tmp_path / "cut", 4_000, monkeypatch)
    assert list((tmp_path / "cut" / "state" / "answers").rglob("*.spread"))  # rounds before the last one wait in files
    assert not list((tmp_path / "whole" / "state" / "answers").rglob("*.spread"))
    for name, said in whole.items():
        assert cut[name] == said, name
    assert all(whole[name] for name in QUERIES)
    assert whole["paused"]["fails"] is not None


def test_answers_in_many_groups_are_those_of_one(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run(spark, tmp_path / "whole", None, monkeypatch)
    monkeypatch.setattr("penstock.stream.evaluation_order.GROUP_S", 0.0)
    cut = run(spark, tmp_path / "cut", None, monkeypatch)
    for name, said in whole.items():
        assert cut[name] == said, name
    numbers = [
        [int(path.stem[-12:]) for path in (tmp_path / one / "state" / "answers" / "s").glob("*.answers")]
        for one in ("whole", "cut")
    ]
    assert max(numbers[1]) > 10 * max(numbers[0])  # a group has a number of its own


def test_one_row_in_a_million_windows_takes_rounds_of_bounded_size(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from penstock.kernel.answering import Answering

    sizes: list[int] = []
    answer = Answering.answer

    def noted(self: Answering, due: Any) -> Any:
        sizes.append(sum(len(one.ends) for one in due))
        return answer(self, due)

    monkeypatch.setattr(Answering, "answer", noted)
    monkeypatch.setattr("penstock.kernel.pending.Rounds.__init__.__defaults__", (20_000, 256 << 20))
    with TestBed(spark, state=tmp_path / "state") as bed:
        bed.stream("s", "ts TIMESTAMP, v BIGINT")
        bed.query("u", "SELECT sum(v) AS v FROM s [RANGE 100 ms SLIDE 1 us]")
        bed.feed("s", [{"ts": 1.0, "v": 1}, {"ts": 1.01, "v": 2}, {"ts": 3.0, "v": 3}])
        found = bed.results("u")
    assert sum(sizes) == 110_000 + 10_000  # those that hold a row, and the first empty ones
    assert max(sizes) <= 20_000
    assert found["v"].value_counts().to_pylist() == [
        {"values": 1, "counts": 10_000},
        {"values": 3, "counts": 90_000},
        {"values": 2, "counts": 10_000},
        {"values": None, "counts": 10_000},
    ]


def test_how_many_windows_may_hold_a_row_is_a_setting_that_the_error_names(spark: SparkSession, tmp_path: Path) -> None:
    from penstock.engine import Engine
    from penstock.errors import InvalidWindow

    create = f"CREATE STREAM s (ts TIMESTAMP, v BIGINT) USING parquet OPTIONS (path = '{tmp_path}') WATERMARK FOR ts"
    with Engine(spark=spark, windows_at_a_time=100) as engine:
        engine.execute(create)
        engine.create_query("fits", "SELECT sum(v) AS v FROM s [RANGE 10 s SLIDE 100 ms]")
        with pytest.raises(InvalidWindow) as refused:
            engine.create_query("q", "SELECT sum(v) AS v FROM s [RANGE 10 s SLIDE 99 ms]")
        assert str(refused.value).splitlines() == [
            "error[InvalidWindow]: each row is in 102 windows of the query, and in so many answers",
            "  SELECT sum(v) AS v FROM s [RANGE 10 s SLIDE 99 ms]",
            "                            ^^^^^^^^^^^^^^^^^^^^^^^^",
            "detail: at most 100 windows at a time",
            "hint: Slide further, or raise windows_at_a_time of the engine, or in penstock.yml under defaults, "
            "if the machine bears it.",
        ]
