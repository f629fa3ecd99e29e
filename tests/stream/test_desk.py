"""Streams that run in the background answer while Spark works on, and say what streams say that wait."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.engine import Engine
from penstock.sinks.jsonl import JsonLinesSink
from penstock.spark.market import Market, write_trades
from penstock.stream.desk import Desk
from penstock.stream.evaluation_order import EvaluationItem
from tests.shell import PATIENCE_S
from tests.stream.made import SECOND, MadeStream, row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCRIPT = """CREATE STREAM trades (ts TIMESTAMP, symbol STRING, price DOUBLE, volume INT)
    USING parquet OPTIONS (path = '{path}', maxFilesPerTrigger = '1') WATERMARK FOR ts AS ts - INTERVAL 2 SECONDS"""
QUERIES = {
    "alert": "SELECT max(price) AS high FROM trades [RANGE 10 s SLIDE 5 s] WITH (priority = 5, deadline = '1 s')",
    "report": "SELECT symbol, percentile(price, 0.9) AS p FROM trades [RANGE 60 s SLIDE 10 s] GROUP BY symbol",
    "flow": "SELECT symbol, sum(volume) AS n FROM trades [RANGE 30 s SLIDE 10 s] WHERE volume > 9000 GROUP BY symbol",
}


def wait_until_read(engine: Engine, last_us: int) -> None:
    """Wait until a running stream has seen a time."""
    until = time.monotonic() + PATIENCE_S
    while (engine.stream("trades").pipeline.progress.clock.last_us or 0) < last_us:
        assert engine.running
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.mark.parametrize(("policy", "technique"), [("Hybrid", "C-LP"), ("HNR", "No-S")])
def test_a_stream_in_the_background_says_what_one_says_that_waits(
    spark: SparkSession, tmp_path: Path, policy: str, technique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.stream.evaluation_order.GROUP_S", 0.0)  # as many choices as there can be
    files = write_trades(spark, Market(rows=6_000, symbols=20, rate=20.0), tmp_path / "made", files=6)
    found: dict[str, dict[str, Any]] = {}
    last_us = 0
    for name in ("waits", "lags"):
        arrived = tmp_path / name
        arrived.mkdir()
        with Engine(tmp_path / f"{name}-state", spark=spark, sinks=[JsonLinesSink(tmp_path / f"{name}-out")]) as engine:
            engine.set_policy(policy)
            engine.set_synchronization(technique)
            engine.execute(SCRIPT.format(path=arrived))
            engine.create_queries(QUERIES)
            if name == "lags":
                engine.start()
            for file in files:
                time.sleep(0.02)  # files of one millisecond are read in any order
                (arrived / file.name).write_bytes(file.read_bytes())
                if name == "waits":
                    engine.process_available()
            if name == "lags":
                wait_until_read(engine, last_us)
                engine.stop()
            last_us = engine.stream("trades").pipeline.progress.clock.last_us or 0
            found[name] = {query: engine.results(query) for query in QUERIES}
        texts = [path.read_text() for path in sorted((tmp_path / f"{name}-out").glob("*.jsonl"))]
        found[name]["sink"] = sorted(line for text in texts for line in text.splitlines())
    assert found["lags"] == found["waits"]
    assert all(table.num_rows for table in (found["lags"][query] for query in QUERIES))


def test_the_desk_answers_what_is_most_urgent_and_ends_with_its_last_stream(tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    made, desk = MadeStream(tmp_path / "made"), Desk()
    made.create("q", "SELECT count(*) AS n FROM s [RANGE 10 s SLIDE 10 s]")
    made.runner.let_answers_lag()
    made.feed(row(1), row(25))
    assert made.timeline("q") == []
    desk.join(made.pipeline)
    desk.wake()
    until = time.monotonic() + PATIENCE_S
    while made.pipeline.committer.unanswered and time.monotonic() < until:
        time.sleep(0.01)
    desk.leave(made.pipeline)
    assert made.timeline("q") == [(10.0, 1), (20.0, 0)]
    assert made.pipeline.progress.windows.unanswered == {}
    assert not desk.is_running


def test_what_an_answer_raises_stops_its_stream_at_the_next_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "made").mkdir()
    made, desk = MadeStream(tmp_path / "made"), Desk()
    made.create("q", "SELECT count(*) AS n FROM s [RANGE 10 s SLIDE 10 s]")
    made.runner.let_answers_lag()
    made.feed(row(1), row(13))

    def broken(*_: object, **__: object) -> None:
        raise OSError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(made.pipeline.answers, "append", broken)
        desk.join(made.pipeline)
        desk.wake()
        until = time.monotonic() + PATIENCE_S
        while made.pipeline.failure is None and time.monotonic() < until:
            time.sleep(0.01)
        desk.leave(made.pipeline)
    with pytest.raises(OSError, match="the disk is full"):
        made.feed(row(25))
    made.feed(row(25))  # what was not answered is, and the stream goes on
    assert made.timeline("q")[0] == (10.0, 1)
    assert made.pipeline.progress.clock.last_us == 25 * SECOND


# -- a batch that is being taken ---------------------------------------------------------------------------------


def item(made: MadeStream, seconds: float, *, soon_s: float) -> EvaluationItem:
    """Describe a window that became final just now and takes so long."""
    one = next(p for items in made.pipeline.committer.unanswered.items.values() for p in items.members)
    now_us = made.clock()
    return EvaluationItem((one,), seconds, 1.0, now_us, now_us + round(soon_s * SECOND))


@pytest.fixture
def lagging(tmp_path: Path) -> MadeStream:
    """Return a stream with a window that waits, and a batch before that took a tenth of a second."""
    (tmp_path / "made").mkdir()
    made = MadeStream(tmp_path / "made")
    made.create("alert", "SELECT count(*) AS n FROM s [RANGE 10 s SLIDE 10 s] WITH (deadline = '500 ms')")
    made.runner.let_answers_lag()
    made.feed(row(1), row(25))
    with made.pipeline.committer.order.under_way.taken():
        made.clock.advance(0.1)
    return made


@pytest.mark.parametrize(
    ("policy", "soon_s", "gives_way"),
    [
        ("Hybrid", 5.0, True),  # a report has time until the alerts of the batch are answered
        ("EDF", 5.0, True),
        ("Hybrid", 0.3, False),  # it has not
        ("EDF", 0.3, False),
        ("FCFS", 5.0, False),  # it came before the batch
        ("SRPT", 5.0, False),  # it takes less time than the batch
    ],
)
def test_the_desk_gives_way_to_a_batch_that_is_more_urgent(
    lagging: MadeStream, policy: str, soon_s: float, gives_way: bool
) -> None:
    lagging.pipeline.given.settings.policy.change(policy)
    order, report = lagging.pipeline.committer.order, item(lagging, 0.02, soon_s=soon_s)
    lagging.clock.advance(0.01)
    with order.under_way.taken():
        assert order.first([report], [order.under_way]) == ([] if gives_way else [0])
    assert order.first([report], [order.under_way]) == [0]  # no batch is being taken


def test_the_desk_goes_on_when_a_batch_takes_longer_than_its_alerts_can_wait(lagging: MadeStream) -> None:
    order, report = lagging.pipeline.committer.order, item(lagging, 0.02, soon_s=5.0)
    with order.under_way.taken():
        assert order.first([report], [order.under_way]) == []
        lagging.clock.advance(4.99)  # now the report is late too, and takes less time
        assert order.first([report], [order.under_way]) == [0]
