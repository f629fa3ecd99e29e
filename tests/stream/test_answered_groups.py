"""What observers are told of a stream's work: every group of answers, every batch, and background work."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.stream.answered_groups import AnsweredGroup, BackgroundWork, ProcessedBatch, Work
from penstock.testing import ManualClock
from tests.stream.made import MadeStream, row

SECOND = 1_000_000
SUM = "SELECT sum(v) AS s FROM s [RANGE 10 s SLIDE 10 s]"
BY_K = "SELECT k, count(*) AS n FROM s [RANGE 20 s SLIDE 5 s] GROUP BY k"


class Noted:
    """Keeps all that it is told."""

    def __init__(self) -> None:
        self.work: list[Work] = []

    def observe(self, work: Work) -> None:
        self.work.append(work)

    @property
    def groups(self) -> list[AnsweredGroup]:
        return [one for one in self.work if isinstance(one, AnsweredGroup)]

    @property
    def batches(self) -> list[ProcessedBatch]:
        return [one for one in self.work if isinstance(one, ProcessedBatch)]


@pytest.fixture
def noted() -> Noted:
    return Noted()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock("2026-01-05")


@pytest.fixture
def stream(tmp_path: Path, noted: Noted, clock: ManualClock) -> MadeStream:
    made = MadeStream(tmp_path, lateness_us=100 * SECOND, max_ahead_us=1 << 60, clock=clock, observers=(noted,))
    made.create("total", SUM)
    made.create("by_k", BY_K)
    return made


def test_a_group_tells_which_windows_were_answered_and_since_when_they_were_final(
    stream: MadeStream, noted: Noted, clock: ManualClock
) -> None:
    stream.feed(row(1), row(2))
    began = clock()
    stream.feed(row(125))  # the watermark is at 25 s
    [group] = noted.groups
    runs = {one.definition: one for one in group.runs()}
    total, by_k = (stream.catalog.query(name).id for name in ("total", "by_k"))
    assert {number: one.windows for number, one in runs.items()} == {total: 2, by_k: 4}
    assert {one.final_us for one in runs.values()} == {began}
    assert runs[total].due_us == began + 10 * SECOND
    assert runs[by_k].due_us == began + 5 * SECOND
    assert (group.kind, group.number, group.rows) == ("windows", 1, 6)
    assert group.began_s < group.ended_s


def test_what_was_measured_is_divided_among_all_queries_of_a_group(stream: MadeStream, noted: Noted) -> None:
    stream.create("again", SUM)
    stream.feed(row(1), row(125))
    [group] = noted.groups
    seconds = group.seconds_by_query()
    assert set(seconds) == {stream.catalog.query(name).id for name in ("total", "by_k", "again")}
    assert sum(seconds.values()) == pytest.approx(sum(one.seconds for one in group.spent))
    assert 0 < sum(seconds.values()) < group.seconds
    assert sum(one.seconds for one in group.runs()) == pytest.approx(sum(seconds.values()))


def test_windows_of_several_batches_in_one_group_know_when_each_became_final(
    stream: MadeStream, noted: Noted, clock: ManualClock
) -> None:
    stream.pipeline.lags = True
    stream.feed(row(1))
    finals = []
    for second in (112, 122):
        stream.feed(row(second))
        finals.append(clock())
        clock.advance("3 s")
    stream.pipeline.drain()
    total = stream.catalog.query("total").id
    runs = [one for group in noted.groups for one in group.runs() if one.definition == total]
    assert [one.final_us for one in runs] == finals
    assert {group.began_us for group in noted.groups} == {clock()}


def test_batches_are_told_with_their_rows_and_the_partials_of_each_grouping(
    stream: MadeStream, noted: Noted, clock: ManualClock
) -> None:
    stream.feed(row(1, k="a"), row(2, k="b"), row(3, k="b"))
    [batch] = noted.batches
    assert (batch.number, batch.batch, batch.rows, batch.offered_us) == (0, 0, 3, clock())
    assert len(batch.partials) == len(batch.layout.members)
    assert sum(batch.partials) == 3  # one slice: one partial without keys, and two with
    assert 0 < batch.job_s + batch.ingest_s + batch.commit_s <= batch.committed_s - batch.offered_s


def test_revisions_are_a_kind_of_their_own(tmp_path: Path, noted: Noted) -> None:
    stream = MadeStream(tmp_path, max_ahead_us=1 << 60, observers=(noted,))
    stream.create("q", SUM + " WITH (late = 'revise', revise_for = '1 h')")
    stream.feed(row(5), row(25))
    stream.feed(row(6))
    assert [group.kind for group in noted.groups] == ["windows", "revisions"]
    assert set(noted.groups[1].seconds_by_query()) == {stream.catalog.query("q").id}


def test_windows_that_were_final_before_a_restart_count_from_the_time_of_the_restart(
    stream: MadeStream, noted: Noted, clock: ManualClock
) -> None:
    stream.pipeline.lags = True
    stream.feed(row(1), row(125))
    clock.advance("1 h")
    stream.reopen()
    [group] = noted.groups
    assert {one.final_us for one in group.runs()} == {clock()}


def test_upkeep_is_told_as_background_work(stream: MadeStream, noted: Noted) -> None:
    stream.pipeline.lags = True
    stream.feed(row(125))
    assert not any(isinstance(one, BackgroundWork) for one in noted.work)
    stream.pipeline.drain()
    done = [one.name for one in noted.work if isinstance(one, BackgroundWork)]
    assert done == ["compaction", "tidying", "answers", "expiry"]


def test_an_observer_that_fails_is_told_no_more_and_the_stream_goes_on(
    tmp_path: Path, noted: Noted, caplog: pytest.LogCaptureFixture
) -> None:
    class Failing:
        def observe(self, work: Work) -> None:
            raise ValueError("a defect")

    stream = MadeStream(tmp_path, max_ahead_us=1 << 60, observers=(Failing(), noted))
    stream.create("q", SUM)
    stream.feed(row(1))
    stream.feed(row(25))
    assert [len(noted.batches), len(noted.groups)] == [2, 1]
    assert [one.message for one in caplog.records if "told no more" in one.message] == [
        "Failing failed and is told no more: ValueError('a defect')"
    ]
