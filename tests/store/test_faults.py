"""A disk that is full or may not be written to is an error with what to do, at every write, and nothing is lost."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.errors import PenstockError, SinkError, StateError
from penstock.sinks.delivery import for_sinks
from penstock.sinks.jsonl import JsonLinesSink
from penstock.sinks.parquet import ParquetSink
from penstock.sinks.protocol import Sink, SinkWriter
from penstock.store import faults
from penstock.store.answers import DEFINITION, DiskAnswerLog, answers_of
from penstock.store.commits import Commit, Counts, DiskCommitLog
from penstock.store.compaction import FAN
from penstock.store.files import read_record, write_record
from penstock.store.folder import StateFolder
from tests.store.dying import dying_at

FULL = OSError(errno.ENOSPC, "No space left on device")
DENIED = PermissionError(errno.EACCES, "Permission denied")
STEPS = FAN + 3


@dataclass
class Recorded:
    """A sink's memory in a file, as a state folder has it."""

    path: Path
    owner: str = "0f"

    def read(self) -> dict[str, object]:
        return read_record(self.path) if self.path.exists() else {}

    def write(self, progress: dict[str, object]) -> None:
        write_record(self.path, progress, "sink.progress")


@dataclass
class Work:
    """Everything that is written for a batch, by commit number; it is opened anew as a restart does."""

    folder: Path
    commits: DiskCommitLog = field(init=False)
    answers: DiskAnswerLog = field(init=False)
    sinks: list[SinkWriter] = field(init=False)

    def __post_init__(self) -> None:
        self.open()

    def open(self) -> None:
        state = StateFolder(self.folder / "state")
        try:
            state.catalog.write_text("here")
            self.commits, self.answers = DiskCommitLog(state.commits("s")), DiskAnswerLog(state.answers("s"))
            state.sinks.mkdir(exist_ok=True)
            kinds: list[Sink] = [JsonLinesSink(self.folder / "lines", roll_bytes=300)]
            kinds.append(ParquetSink(self.folder / "files", roll_seconds=0))
            memories = (Recorded(state.sinks / f"s-{i}.json") for i in range(2))
            self.sinks = [sink.open("s", memory) for sink, memory in zip(kinds, memories, strict=True)]
            self.catch_up()
        finally:
            state.release()

    def catch_up(self) -> None:
        for sink in self.sinks:
            for number, tables in self.answers.batches(sink.delivered):
                sink.deliver(number, [for_sinks(table, str, int) for table in tables])

    def step(self) -> None:
        """Go on with the first number that is not committed, or not answered."""
        last = self.commits.last()
        number = 0 if last is None else last.number
        if last is None or self.answers.last() == number:
            number = 0 if last is None else number + 1
            plain = Commit(number, number, 1, number, number, 0, 0, Counts(number), "", highest=number)
            self.commits.append(plain, pa.table({"label": [number]}))
        self.answers.append(
            number, [pa.table({DEFINITION: [1], "n": [number]}), pa.table({DEFINITION: [2], "m": [number]})]
        )
        self.catch_up()
        self.commits.compact()
        self.answers.compact(number)

    def go_on(self) -> None:
        while self.answers.last() != STEPS - 1:
            self.step()
        self.catch_up()

    def check(self) -> None:
        every = list(range(STEPS))
        assert [v for _, t in self.commits.replay() if t is not None for v in t["label"].to_pylist()] == every
        assert [t["n"].to_pylist()[0] for _, (t, _) in self.answers.batches(-1)] == every
        assert [v for t in answers_of(self.answers, [2]) for v in t["m"].to_pylist()] == every
        lines = [
            json.loads(text) for p in sorted((self.folder / "lines").iterdir()) for text in p.read_text().splitlines()
        ]
        assert [line["n"] for line in lines if "n" in line] == every
        assert [line["m"] for line in lines if "m" in line] == every
        rows = [row for p in (self.folder / "files").rglob("*.parquet") for row in pq.read_table(p).to_pylist()]
        assert sorted(row["n"] for row in rows if "n" in row) == sorted(row["m"] for row in rows if "m" in row) == every


@contextmanager
def saying(told: list[PenstockError]) -> Iterator[None]:
    """Keep the error of a state or sink that is raised."""
    try:
        yield
    except (StateError, SinkError) as error:
        told.append(error)


def test_every_write_has_a_name_and_is_reached(tmp_path: Path) -> None:
    with dying_at(-1) as reached:
        work = Work(tmp_path)
        work.go_on()
    work.check()
    names = {name.rpartition(".")[0] for name in reached}
    assert names <= set(faults.POINTS)
    assert names >= {"format", "commit", "answers", "sink.jsonl", "sink.parquet", "sink.progress"}
    assert names >= {"compaction.partials", "compaction.record", "compaction.answers", "compaction.list"}
    for name in names:
        assert {f"{name}.{moment}" for moment in faults.MOMENTS} <= set(reached)


OURS = ("sink.jsonl", "sink.parquet", "sink.progress")  # the sinks of this work; others: tests/sinks/test_sink_kills.py
POINTS = [p for p in faults.POINTS if p.startswith(("format", "commit", "answers", *OURS, "compaction"))]


@pytest.mark.parametrize("moment", faults.MOMENTS)
@pytest.mark.parametrize("point", POINTS)
def test_a_write_that_fails_is_told_and_nothing_is_lost(point: str, moment: str, tmp_path: Path) -> None:
    told: list[PenstockError] = []
    work: Work | None = None
    for error in (FULL, DENIED):  # after the first one the process restarts, after the second one it tries again
        with dying_at(0, f"{point}.{moment}", error), saying(told):
            work = work or Work(tmp_path)
            work.go_on()
        if error is FULL or work is None:
            work = Work(tmp_path)
    assert work is not None
    work.go_on()
    work.check()
    Work(tmp_path).check()
    assert told
    for one in told:
        assert isinstance(one, SinkError) == point.startswith(("sink.jsonl", "sink.parquet"))
        assert one.what.endswith(("No space left on device", "Permission denied"))
        assert one.hint


def test_a_device_without_space_is_told(tmp_path: Path) -> None:
    os.symlink("/dev/full", tmp_path / ".record.draft")
    with pytest.raises(StateError, match="No space left on device") as raised:
        write_record(tmp_path / "record", {"a": 1})
    assert "nothing that was committed is lost" in (raised.value.hint or "")
    assert not (tmp_path / "record").exists()


def test_without_a_test_nothing_is_told() -> None:
    assert faults.hook is None
    faults.reached("commit.before")
    assert issubclass(StateError, PenstockError)
