"""Writes and reads the trace of an engine: Arrow streams in a folder, the oldest of which go when they are too much.

A trace may be lost: nothing is synced, and what cannot be written is left out. A file that ends in the middle is read
as far as it is whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import StateError
from penstock.schedule.recorded import RecordedStep, RecordedWindows, Recording
from penstock.store.arrow_files import COMPRESSED
from penstock.store.files import remove
from penstock.store.folder import TRACE
from penstock.store.trace_schema import (
    ANSWERED,
    IN_ALL,
    LATER,
    NAMES,
    RUN,
    SCHEMA,
    STEP,
    VERSION,
    VERSION_NOW,
    schema_of,
)

TRACE_BYTES: Final = 64_000_000  # that all files together may have
PARTS: Final = 16  # into how many files they are cut, so that little is lost when the oldest goes
SUFFIX: Final = ".arrows"
NUMBERED: Final = re.compile(r"\d+")
NUMBERS: Final = ("priority", "expected_s", "spent_s", "selectivity")  # that are at least nothing
NAMES_BEFORE: Final = tuple(name for name in NAMES if name not in LATER)  # of the first files of this version
TraceRow = tuple[Any, ...]  # values of the columns, in their order


@dataclass(frozen=True, slots=True)
class TraceForm:
    """What the files of one kind hold, and how their names end."""

    schema: pa.Schema
    suffix: str


WINDOWS: Final = TraceForm(SCHEMA, SUFFIX)


def answered_row(one: RecordedWindows) -> TraceRow:
    """Write windows that were answered as a row."""
    times = one.final_us, one.began_us, one.ended_us
    ends = one.windows, one.first_end_us, one.last_end_us
    return (
        *(ANSWERED, one.stream, *times, one.policy, one.group, one.item, one.queries, *ends),
        *(one.due_us, one.priority, one.expected_s, one.spent_s, one.selectivity),
    )


def step_row(one: RecordedStep) -> TraceRow:
    """Write a step as a row."""
    known = STEP, one.stream, one.wanted_us, one.began_us, one.ended_us
    return *known, *(None for _ in NAMES[len(known) :])


class TraceWriter:
    """Appends rows to the newest file of a trace; one thread uses it."""

    def __init__(self, folder: Path, run: int, most_bytes: int = TRACE_BYTES, form: TraceForm = WINDOWS) -> None:
        """Write for an engine that began at ``run``, a file of its own; nothing is there before the first row."""
        self.folder, self.most_bytes, self.form = folder, most_bytes, form
        self._schema = schema_of(run, form.schema)
        self._file: pa.OSFile | None = None
        self._stream: pa.RecordBatchStreamWriter | None = None

    def append(self, rows: Sequence[TraceRow]) -> None:
        """Write rows, visible at once to whoever reads the file."""
        columns = zip(*rows, strict=True)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, self._schema, strict=True)]
        if self._stream is None:
            self._begin()
        assert self._stream is not None
        assert self._file is not None
        self._stream.write_batch(pa.RecordBatch.from_arrays(arrays, schema=self._schema))
        self._file.flush()
        if self._file.tell() * PARTS >= self.most_bytes:
            self.close()

    def close(self) -> None:
        """End the file; the next row begins another one."""
        stream, file, self._stream, self._file = self._stream, self._file, None, None
        try:
            if stream is not None:
                stream.close()
        finally:
            if file is not None:
                file.close()

    def _begin(self) -> None:
        """Begin a file, and remove the oldest ones if all are too much with it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        files = list(_files(self.folder, self.form))
        sizes = [path.stat().st_size for _, path in files]
        longest = max([self.most_bytes / PARTS, *sizes])  # what is written last may make a file longer than its part
        while files and sum(sizes) + longest > self.most_bytes:
            remove(files.pop(0)[1])
            sizes.pop(0)
        number = files[-1][0] + 1 if files else 0
        self._file = pa.OSFile(str(self.folder / f"{number}{self.form.suffix}"), "wb")
        self._stream = pa.ipc.new_stream(self._file, self._schema, options=COMPRESSED)


def read_trace(state: Path, since_us: int | None = None, until_us: int | None = None) -> Recording:
    """Read what the trace of a state folder tells of a time; files that end in the middle are named."""
    windows: list[RecordedWindows] = []
    steps: list[RecordedStep] = []
    torn: list[str] = []
    for _, path in _files(state / TRACE):
        for run, row in _rows(path, torn):
            if (since_us is None or row["ended_us"] >= since_us) and (until_us is None or row["since_us"] < until_us):
                if row["kind"] == STEP:
                    steps.append(_step(run, row))
                else:
                    windows.append(_windows(run, row))
    if not windows:
        raise _nothing(state, since_us is not None or until_us is not None)
    windows.sort(key=lambda one: (one.began_us, one.run, one.group))
    return Recording(windows, sorted(steps, key=lambda one: one.wanted_us), torn)


def trace_files(folder: Path, form: TraceForm) -> list[Path]:
    """List the files of one kind, the oldest first."""
    return [path for _, path in _files(folder, form)]


def _files(folder: Path, form: TraceForm = WINDOWS) -> Iterator[tuple[int, Path]]:
    """List the files of a trace with their numbers, the oldest first."""
    named = [(path.name.removesuffix(form.suffix), path) for path in folder.glob(f"*{form.suffix}")]
    yield from sorted((int(number), path) for number, path in named if NUMBERED.fullmatch(number) and path.is_file())


def rows_in(path: Path, form: TraceForm) -> Iterator[tuple[Mapping[bytes, bytes], dict[str, Any]]]:
    """Read the rows of a file with what is said about it; one of another version, or that is torn, raises there."""
    with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as reader:
        about = reader.schema.metadata or {}
        if about.get(VERSION) != VERSION_NOW or tuple(reader.schema.names) != tuple(form.schema.names):
            raise ValueError("it is of another version")
        for batch in reader:
            batch.validate(full=True)
            yield from ((about, row) for row in batch.to_pylist())


def _rows(path: Path, torn: list[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Read the rows of a file, each with its run, as far as the file is whole; name one that is not."""
    try:
        with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as reader:
            about = reader.schema.metadata or {}
            if about.get(VERSION) != VERSION_NOW or tuple(reader.schema.names) not in (NAMES, NAMES_BEFORE):
                raise ValueError("it is of another version")
            for batch in reader:
                batch.validate(full=True)
                batch = _as_now(batch)
                _check_filled(batch)
                yield from ((int(about[RUN]), row) for row in batch.to_pylist())
    except (pa.ArrowException, OSError, KeyError, ValueError):
        torn.append(path.name)


def _as_now(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Write rows of the first files of this version as those of now: smaller numbers of queries, fewer columns."""
    if "selectivity" not in batch.schema.names:  # every window was expected to have rows
        answered = pc.equal(batch["kind"], ANSWERED)
        batch = batch.append_column("selectivity", pc.if_else(answered, 1.0, pa.scalar(None, pa.float64())))
    return batch.cast(SCHEMA)


def _check_filled(batch: pa.RecordBatch) -> None:
    """Refuse rows that lack what every row has, or every row of windows, or that no engine would write."""
    steps, answered = (batch.filter(pc.equal(batch["kind"], kind)) for kind in (STEP, ANSWERED))
    filled = [*(steps[name] for name in IN_ALL), *answered.columns]
    if len(answered) + len(steps) < len(batch) or any(column.null_count for column in filled):
        raise ValueError("it lacks values")
    each = answered["windows"], pc.list_value_length(answered["queries"])
    fine = [pc.all(pc.greater_equal(column, 1)) for column in each]
    fine += [pc.all(pc.and_(pc.is_finite(answered[name]), pc.greater_equal(answered[name], 0))) for name in NUMBERS]
    if not all(one.as_py() is not False for one in fine):
        raise ValueError("it holds what no engine writes")


def _step(run: int, row: dict[str, Any]) -> RecordedStep:
    """Read a step."""
    return RecordedStep(run, row["stream"], row["since_us"], row["began_us"], row["ended_us"])


def _windows(run: int, row: dict[str, Any]) -> RecordedWindows:
    """Read windows that were answered."""
    group = run, row["group"], row["stream"], row["policy"], row["began_us"], row["ended_us"]
    ends = row["windows"], row["first_end_us"], row["last_end_us"]
    asked = row["since_us"], row["due_us"], row["priority"]
    known = row["expected_s"], row["spent_s"], row["selectivity"]
    return RecordedWindows(*group, row["item"], tuple(row["queries"]), *ends, *asked, *known)


def _nothing(state: Path, limited: bool) -> StateError:
    """Word the error for a state folder without a trace, or with none of a time."""
    if limited and any(_files(state / TRACE)):
        return StateError(f"the trace of {state} tells nothing of that time", hint="Leave --since and --until out.")
    what = f"the state folder {state} has no trace of what ran"
    hint = "An engine with this state folder records one while it answers windows, unless trace_bytes is 0."
    return StateError(what, hint=hint)
