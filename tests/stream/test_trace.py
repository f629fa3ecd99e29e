"""What a stream does is recorded, and a replay under the policy that ran chooses and answers as the stream did."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.engine import Engine
from penstock.errors import StateError
from penstock.kernel.answering import Due, Spent
from penstock.schedule.live_policy import LivePolicy
from penstock.schedule.recorded import Recording
from penstock.schedule.registry import POLICIES
from penstock.sim.recorded_costs import RecordedCosts
from penstock.sim.replay import replay
from penstock.sim.replay_figures import live_figures, replayed_figures
from penstock.spark.market import Market, write_trades
from penstock.store.trace_files import read_trace
from penstock.stream.trace_recorder import TraceRecorder
from penstock.testing import ManualClock
from tests.shell import PATIENCE_S
from tests.stream.made import MadeStream, row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHOSEN = ["RR", "FCFS", "SRPT", "LSF", "HNR", "BSD", "EDF", "Hybrid"]
COSTS_S = {"reports": 0.3, "alerts": 0.02, "totals": 0.15, "marks": 0.05, "lows": 0.06}  # of a window
QUERIES = {
    "reports": "SELECT sum(v) AS s FROM s [RANGE 20 s SLIDE 10 s] WITH (deadline = '2 s')",
    "alerts": "SELECT count(*) AS n FROM s [RANGE 5 s SLIDE 5 s] WITH (deadline = '300 ms', priority = 3)",
    "totals": "SELECT k, count(*) AS n FROM s [RANGE 10 s SLIDE 10 s] GROUP BY k",
    "marks": "SELECT max(v) AS m FROM s [RANGE 2 s SLIDE 1 s] WITH (deadline = '1 s')",
    "lows": "SELECT min(v) AS m FROM s [RANGE 10 s SLIDE 2 s]",
}


class ScriptedStream:
    """A stream whose windows take what a script says, by its clock; somebody answers them as the desk does."""

    def __init__(self, folder: Path, policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock, self.live = ManualClock(0.0), LivePolicy(policy)
        self.recorder = TraceRecorder(folder / "state" / "trace", self.live.current)
        (folder / "made").mkdir()
        self.made = MadeStream(folder / "made", clock=self.clock, observers=(self.recorder,))
        self.pipeline = self.made.pipeline
        self.pipeline.given.settings.policy.change(policy)
        for name, text in QUERIES.items():
            self.made.create(name, text)
        self.made.runner.let_answers_lag()
        self._spent: list[Spent] = []
        answering, real = self.pipeline.committer.answering, self.pipeline.committer.answering.answer

        def answer(due: Sequence[Due]) -> Any:
            for one in due:
                took = COSTS_S[one.definition.name] * len(one.ends)
                self.clock.advance(took)
                self._spent.append(Spent(one.definition.id, len(one.ends), took))
            return real(due)

        def spent() -> list[Spent]:
            found, self._spent = self._spent, []
            return found

        monkeypatch.setattr(answering, "answer", answer)
        monkeypatch.setattr(answering, "spent", spent)

    def answer_next(self) -> None:
        """Answer what the desk would."""
        unanswered = self.pipeline.committer.unanswered
        keys = list(unanswered.items)
        places = self.pipeline.committer.order.first([unanswered.items[key] for key in keys])
        self.pipeline.answer_next([keys[place] for place in places])

    def run(self, *batches: tuple[float, float]) -> None:
        """Take batches, each at a time by the clock, which a step cannot do before a group has ended; then catch up."""
        for at, second in batches:
            while self.pipeline.committer.unanswered and self.clock() < epoch_us(at):
                self.answer_next()
            self.clock.set(max(self.clock.now, ManualClock(at).now))
            self.made.feed(row(second, k="ab"[int(second) % 2], v=int(second)))
        while self.pipeline.committer.unanswered:
            self.answer_next()

    def recorded(self, state: Path) -> Recording:
        """Read the trace."""
        self.recorder.close()
        return read_trace(state)


def epoch_us(second: float) -> int:
    return ManualClock(second)()


BATCHES = ((100.0, 30.5), (100.1, 31.5), (101.0, 40.5), (101.2, 44.5), (104.5, 50.5), (104.6, 55.5), (104.7, 60.5))


@pytest.mark.parametrize("policy", CHOSEN)
def test_a_replay_under_the_policy_that_ran_chooses_and_answers_as_the_stream_did(
    policy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = ScriptedStream(tmp_path, policy, monkeypatch)
    stream.run((0.0, 0.5), (1.0, 20.5), *BATCHES)
    recording = stream.recorded(tmp_path / "state")
    costs = RecordedCosts.of(recording)
    assert costs.group_us == pytest.approx(0.0, abs=1e-3)
    assert costs.gap_us == 0
    again = replay(recording, POLICIES[policy], costs)
    live: dict[int, set[int]] = {}
    for one in recording.windows:
        live.setdefault(one.group, set()).add(one.item)
    assert [{item for _, _, item in group} for group in again.groups] == list(live.values())
    assert len(live) > 10
    for part in again.answered:
        one = recording.windows[part.place]
        assert (part.final_us, part.due_us) == (one.final_us, one.due_us)
        assert abs(part.done_us - one.ended_us) <= 20
    same, lived = replayed_figures(recording, costs, again), live_figures(recording, costs)
    assert same.response.mean == pytest.approx(lived.response.mean)
    assert same.kept == lived.kept


def test_a_replay_tells_what_the_stream_does_under_another_policy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    means: dict[str, float] = {}
    recordings: dict[str, Recording] = {}
    for policy in ("FCFS", "EDF"):
        (tmp_path / policy).mkdir()
        stream = ScriptedStream(tmp_path / policy, policy, monkeypatch)
        stream.run((0.0, 0.5), (1.0, 20.5), *BATCHES)
        recordings[policy] = stream.recorded(tmp_path / policy / "state")
        live = live_figures(recordings[policy], RecordedCosts.of(recordings[policy]))
        means[policy] = live.response.mean or 0.0
    for policy, other in (("FCFS", "EDF"), ("EDF", "FCFS")):
        recording, costs = recordings[policy], RecordedCosts.of(recordings[policy])
        found = replayed_figures(recording, costs, replay(recording, POLICIES[other], costs))
        assert found.response.mean == pytest.approx(means[other], rel=0.05)
    assert means["EDF"] < 0.95 * means["FCFS"]


@pytest.mark.parametrize(
    ("asked", "items"),
    [
        ("SELECT k, sum(v) AS s FROM s [RANGE 20 s SLIDE 10 s] GROUP BY k", [0, 0]),
        ("SELECT sum(v) AS s FROM s [RANGE 20 s SLIDE 10 s]", [0, 1]),  # of a bundle: what is more urgent is by itself
    ],
)
def test_windows_of_one_item_that_are_alike_are_one_row_with_all_their_queries(
    tmp_path: Path, asked: str, items: list[int]
) -> None:
    recorder = TraceRecorder(tmp_path / "state" / "trace", LivePolicy().current)
    (tmp_path / "made").mkdir()
    made = MadeStream(tmp_path / "made", clock=ManualClock(0.0), observers=(recorder,))
    for number in range(3):
        made.create(f"q{number}", asked)
    made.create("other", f"{asked} WITH (deadline = '1 s')")
    made.feed(row(5.0), *(row(time) for time in (15.0, 25.0, 35.0, 45.0)))
    recorder.close()
    found = read_trace(tmp_path / "state").windows
    assert [len(one.queries) for one in found] == [3, 1]
    assert [one.item for one in found] == items
    assert {one.group for one in found} == {0}
    assert [one.windows for one in found] == [4, 4]
    assert [(one.first_end_us, one.last_end_us) for one in found] == [(10_000_000, 40_000_000)] * 2
    assert [one.due_us - one.final_us for one in found] == [10_000_000, 1_000_000]
    assert {one.policy for one in found} == {"Hybrid"}


def test_a_step_that_takes_long_is_recorded_with_since_when_it_waited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = ScriptedStream(tmp_path, "FCFS", monkeypatch)
    synopsis = stream.pipeline.synopsis
    real = synopsis.ingest

    def slowly(*args: Any) -> Any:
        stream.clock.advance(0.25)
        return real(*args)

    monkeypatch.setattr(synopsis, "ingest", slowly)
    stream.run((0.0, 0.5), (1.0, 20.5))
    stream.recorder.close()
    found = read_trace(tmp_path / "state")
    assert [(one.wanted_us, one.began_us, one.ended_us) for one in found.steps] == [
        (epoch_us(at), epoch_us(at), epoch_us(at + 0.25)) for at in (0.0, 1.0)
    ]
    assert all(one.final_us == epoch_us(1.25) for one in found.windows)


def test_a_trace_that_cannot_be_written_ends_with_a_warning_and_the_stream_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "trace").write_text("a file where the folder should be", encoding="utf-8")
    recorder = TraceRecorder(tmp_path / "trace", LivePolicy().current)
    (tmp_path / "made").mkdir()
    made = MadeStream(tmp_path / "made", observers=(recorder,))
    made.create("q", "SELECT count(*) AS n FROM s [RANGE 10 s SLIDE 10 s]")
    with caplog.at_level(logging.WARNING, "penstock"):
        made.feed(row(1.0), row(25.0))
        recorder.close()
        made.feed(row(35.0))
    assert made.timeline("q") == [(10.0, 1), (20.0, 0), (30.0, 1)]
    assert "no trace is recorded any more" in caplog.text
    assert isinstance(recorder.failure, OSError)
    recorder.close()


SCRIPT = """CREATE STREAM trades (ts TIMESTAMP, symbol STRING, price DOUBLE, volume INT)
    USING parquet OPTIONS (path = '{path}', maxFilesPerTrigger = '1') WATERMARK FOR ts AS ts - INTERVAL 2 SECONDS"""


def test_an_engine_in_the_background_leaves_a_trace_that_is_replayed(spark: SparkSession, tmp_path: Path) -> None:
    files = write_trades(spark, Market(rows=4_000, symbols=20, rate=20.0), tmp_path / "made", files=4)
    (tmp_path / "in").mkdir()
    with Engine(tmp_path / "state", spark=spark, policy="HNR") as engine:
        engine.execute(SCRIPT.format(path=tmp_path / "in"))
        engine.create_query("high", "SELECT max(price) AS high FROM trades [RANGE 10 s SLIDE 5 s]")
        engine.create_query(
            "report", "SELECT symbol, percentile(price, 0.9) AS p FROM trades [RANGE 60 s SLIDE 10 s] GROUP BY symbol"
        )
        engine.start()
        for file in files:
            time.sleep(0.02)  # files of one millisecond are read in any order
            (tmp_path / "in" / file.name).write_bytes(file.read_bytes())
        clock = engine.stream("trades").pipeline.progress.clock
        until = time.monotonic() + PATIENCE_S
        while clock.batch < 3 and time.monotonic() < until:
            assert engine.running
            time.sleep(0.02)
        engine.stop()
        answered = {name: engine.results(name) for name in ("high", "report")}
        numbers = {engine.catalog.query(name).id: name for name in answered}
        engine.backup(tmp_path / "backup")
    recording = read_trace(tmp_path / "state")
    seen = dict.fromkeys(answered, 0)
    for one in recording.windows:
        for number in one.queries:
            seen[numbers[number]] += one.windows
    assert seen["high"] == answered["high"].num_rows
    assert seen["report"] == len(answered["report"]["window_end"].unique())
    assert {one.policy for one in recording.windows} == {"HNR"}
    assert recording.steps
    costs = RecordedCosts.of(recording)
    for policy in ("HNR", "FCFS"):
        found = replayed_figures(recording, costs, replay(recording, POLICIES[policy], costs))
        assert found.answers == sum(seen.values())
    assert not (tmp_path / "backup" / "trace").exists()


def test_windows_of_rows_are_recorded_too(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_trades(spark, Market(rows=400, symbols=2, rate=20.0), tmp_path / "in", files=1)
    with Engine(tmp_path / "state", spark=spark) as engine:
        engine.execute(SCRIPT.format(path=tmp_path / "in"))
        engine.create_query("last", "SELECT max(price) AS high FROM trades [ROWS 100 SLIDE 50]")
        engine.process_available()
        answers, number = engine.results("last").num_rows, engine.catalog.query("last").id
    assert "no trace is recorded" not in caplog.text
    recording = read_trace(tmp_path / "state")
    assert sum(one.windows for one in recording.windows if number in one.queries) == answers > 0
    costs = RecordedCosts.of(recording)
    assert replayed_figures(recording, costs, replay(recording, POLICIES["HNR"], costs)).answers >= answers


def test_an_engine_that_is_told_so_leaves_no_trace(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    files = write_trades(spark, Market(rows=400, symbols=2, rate=20.0), tmp_path / "made", files=1)
    (tmp_path / "in" / files[0].name).write_bytes(files[0].read_bytes())
    with Engine(tmp_path / "state", spark=spark, trace_bytes=0) as engine:
        engine.execute(SCRIPT.format(path=tmp_path / "in"))
        engine.create_query("high", "SELECT max(price) AS high FROM trades [RANGE 10 s SLIDE 5 s]")
        engine.process_available()
        assert engine.results("high").num_rows
    assert not (tmp_path / "state" / "trace").exists()
    with pytest.raises(StateError, match="has no trace of what ran") as raised:
        read_trace(tmp_path / "state")
    assert "trace_bytes" in (raised.value.hint or "")
