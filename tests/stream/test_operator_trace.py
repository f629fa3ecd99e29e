"""What expensive functions did is recorded: who waited, how many rows, how long; and it can be replayed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from penstock.model.instants import wall_clock_us
from penstock.schedule.registry import policy_named
from penstock.sim.operator_costs import OperatorCosts, recorded_answers
from penstock.sim.operator_replay import live_queues, replay_operators
from penstock.store.operator_trace import OPERATORS, read_operators
from penstock.store.trace_files import trace_files
from penstock.testing import ManualClock
from tests.stream.operated import QUERIES, answers, bed_with, expected, finish, queue, rows_from

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class WallClock(ManualClock):
    def __call__(self) -> int:
        return wall_clock_us()


def test_steps_and_answers_are_recorded_and_replayed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.kernel.operator_block.BLOCK_ROWS", 25)
    given = rows_from(0, 120)
    with bed_with(spark, tmp_path, clock=WallClock()) as bed:
        for name, (text, _) in QUERIES.items():
            bed.query(name, f"{text} WITH (deadline = '3 s', priority = 2)" if name == "scored" else text)
        bed.engine.set_operator_policy("HNR")
        for first in range(0, 120, 40):
            queue(bed, given[first : first + 40])
            finish(bed)
        numbers = {name: bed.engine.catalog.query(name).id for name in QUERIES}
        found = {name: len(answers(bed, name)) for name in QUERIES}
    recording = read_operators(tmp_path)
    steps = recording.steps
    assert {one.policy for one in steps} == {"HNR"}
    assert {one.block for one in steps} == {0, 1}  # 40 rows, in blocks of 25
    assert all(one.since_us <= one.began_us <= one.ended_us and one.seconds >= 0 for one in steps)
    assert all(0 <= one.left <= 25 and sum(one.wanted) >= one.rows and one.bytes > 0 for one in steps)
    rows = Counter[str]()
    for one in steps:
        rows[one.operator] += one.rows
    assert rows["weight(w, name)"] == 120  # of query "every"; computed once for all
    assert 0 < rows["score(v)"] <= 120  # not where other conjuncts rule rows out before
    taken = Counter[int]()
    for told in recorded_answers(recording):
        taken[told.query] += told.rows
        assert told.due_us - told.since_us == (3_000_000 if told.query == numbers["scored"] else 60_000_000)
    assert {name: taken[number] for name, number in numbers.items() if name != "plain"} == {
        name: count for name, count in found.items() if name != "plain"
    }
    assert found["scored"] == len(expected("scored", given))
    costs = OperatorCosts.of(recording)
    assert costs.paths[numbers["scored"]].weight == 2.0
    for policy in ("HNR", "Chain"):
        again = replay_operators(recording, policy_named(policy), costs)
        key = sorted((one.commit, one.query, one.rows) for one in again.answers)
        assert key == sorted((one.commit, one.query, one.rows) for one in recorded_answers(recording))
        assert again.busy_s == pytest.approx(live_queues(recording).busy_s)


def test_what_is_torn_or_senseless_in_a_trace_of_operators_is_named_and_left_out(tmp_path: Path) -> None:
    folder = tmp_path / "trace"
    folder.mkdir()
    (folder / "0.operators.arrows").write_bytes(b"torn")
    other = OPERATORS.schema.with_metadata({"penstock.trace": "1", "penstock.run": "1"})
    with pa.OSFile(str(folder / "1.operators.arrows"), "wb") as file, pa.ipc.new_stream(file, other) as writer:
        row = {name: None for name in other.names} | {"kind": "step", "stream": "s"}
        writer.write_table(pa.Table.from_pylist([row], schema=other))
    assert len(trace_files(folder, OPERATORS)) == 2
    recording = read_operators(tmp_path)
    assert (recording.steps, recording.answers) == ([], [])
    assert recording.torn == ["0.operators.arrows", "1.operators.arrows"]
