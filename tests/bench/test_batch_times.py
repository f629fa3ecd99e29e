"""A benchmark times batches, however many groups their answers come in."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from bench._noting import BatchTimes
from tests.stream.made import MadeStream, row


def test_a_batch_ends_when_the_sink_has_the_last_group_of_its_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.stream.evaluation_order.GROUP_S", 0.0)  # a group for every window of a lane
    made, times, told = MadeStream(tmp_path), BatchTimes(), 0
    for name, keys in zip("abc", ("k", "j", "k, j"), strict=True):
        made.create(name, f"SELECT {keys}, count(*) AS n FROM s [RANGE 10 s SLIDE 5 s] GROUP BY {keys}")
    times.watch(made.pipeline)
    made.feed(row(1))
    after = [time.perf_counter()]
    for second in (30, 60):
        made.feed(row(second))
        for number, _ in made.delivered[told:]:
            times.note(number, ())
        told = len(made.delivered)
        after.append(time.perf_counter())
    made.pipeline.flush(made.runner.snapshot())
    for number, _ in made.delivered[told:]:
        times.note(number, ())
    ends = times.ends()
    assert len(made.delivered) > len(ends) == 3
    assert ends[0] < after[0] < ends[1] < after[1] < ends[2] < after[2]
