"""Writes and reads what operators with queues did: files beside the trace, for ``penstock sim --trace``.

As the trace, it may be lost: nothing is synced, and a file that ends in the middle is read as far as it is whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from penstock.errors import StateError
from penstock.schedule.recorded_operators import ByQuery, OperatorRecording, RecordedOperatorStep, RecordedQueueAnswer
from penstock.store.batch_trace import read_batches
from penstock.store.folder import TRACE
from penstock.store.trace_files import TraceForm, TraceRow, rows_in, trace_files
from penstock.store.trace_schema import RUN, STEP, TraceColumn

QUEUE_ANSWERED: Final = "answered"
OPERATOR_COLUMNS: Final = (
    TraceColumn("kind", pa.string(), "`step`: a worker computed rows; `answered`: queued rows were answered"),
    TraceColumn("stream", pa.string(), "the stream"),
    TraceColumn("commit", pa.int64(), "that queued the rows"),
    TraceColumn("since_us", pa.int64(), "when it queued them"),
    TraceColumn("ended_us", pa.int64(), "when the step ended, or the answers had been left for the sinks"),
    TraceColumn("queries", pa.list_(pa.int64()), "definitions (see `catalog.db`) that waited, or have answered"),
    TraceColumn("rows", pa.list_(pa.int64()), "that each of them waited with, or answered"),
    TraceColumn("dues_us", pa.list_(pa.int64()), "when the answer of each is wanted"),
    TraceColumn("priorities", pa.list_(pa.float64()), "of each"),
    TraceColumn("policy", pa.string(), "by which the step was chosen; NULL for answers, as are all that follow"),
    TraceColumn("began_us", pa.int64(), "when the step began"),
    TraceColumn("block", pa.int64(), "of the commit's rows, by its place"),
    TraceColumn("operator", pa.string(), "the function with its arguments"),
    TraceColumn("computed", pa.int64(), "rows that the step computed"),
    TraceColumn("left", pa.int64(), "rows of the block that some query still takes after it"),
    TraceColumn("bytes", pa.int64(), "of the block before it"),
    TraceColumn("bytes_left", pa.int64(), "of the block after it"),
    TraceColumn("seconds", pa.float64(), "that the function took in its worker"),
)
OPERATOR_SCHEMA: Final = pa.schema([(column.name, column.type) for column in OPERATOR_COLUMNS])
OPERATORS: Final = TraceForm(OPERATOR_SCHEMA, ".operators.arrows")
OF_STEPS: Final = tuple(column.name for column in OPERATOR_COLUMNS[9:])  # NULL for answers
BY_QUERY: Final = ("queries", "rows", "dues_us", "priorities")


def operator_step_row(one: RecordedOperatorStep) -> TraceRow:
    """Write a step as a row."""
    shared = one.queries, one.wanted, one.dues_us, one.priorities
    place = one.policy, one.began_us, one.block, one.operator
    amounts = one.rows, one.left, one.bytes, one.bytes_left, one.seconds
    return STEP, one.stream, one.commit, one.since_us, one.ended_us, *shared, *place, *amounts


def queue_answer_row(one: RecordedQueueAnswer) -> TraceRow:
    """Write answers of queued rows as a row."""
    shared = one.queries, one.taken, one.dues_us, one.priorities
    known = QUEUE_ANSWERED, one.stream, one.commit, one.since_us, one.ended_us, *shared
    return *known, *(None for _ in OF_STEPS)


def read_operators(state: Path, since_us: int | None = None, until_us: int | None = None) -> OperatorRecording:
    """Read what the trace of a state folder tells of operators in a time; it is empty where there were none."""
    steps: list[RecordedOperatorStep] = []
    answers: list[RecordedQueueAnswer] = []
    torn: list[str] = []
    for path in trace_files(state / TRACE, OPERATORS):
        for run, row in _rows(path, torn):
            if (since_us is None or row["ended_us"] >= since_us) and (until_us is None or row["since_us"] < until_us):
                if row["kind"] == STEP:
                    steps.append(_step(run, row))
                else:
                    answers.append(_answer(run, row))
    holds: list[tuple[int, str, int, int]] = []
    with suppress(StateError):  # batches may be recorded no more
        batches = read_batches(state, since_us) if steps else ()
        holds = [(one.run, one.stream, one.began_us, one.ended_us) for one in batches]
    steps.sort(key=lambda one: (one.began_us, one.ended_us))
    answers.sort(key=lambda one: (one.ended_us, one.commit))
    return OperatorRecording(steps, answers, holds, torn)


def _rows(path: Path, torn: list[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Read the rows of a file, each with its run, as far as it is whole and holds what an engine writes."""
    try:
        for about, row in rows_in(path, OPERATORS):
            _check(row)
            yield int(about[RUN]), row
    except (pa.ArrowException, OSError, KeyError, ValueError, TypeError):
        torn.append(path.name)


def _check(row: dict[str, Any]) -> None:
    """Refuse a row that lacks something, or that no engine would write."""
    needed = [name for name in OPERATOR_SCHEMA.names if name not in OF_STEPS or row["kind"] == STEP]
    if row["kind"] not in (STEP, QUEUE_ANSWERED) or any(row[name] is None for name in needed):
        raise ValueError("it lacks values")
    if len({len(row[name]) for name in BY_QUERY}) != 1 or not row["queries"] or None in row["queries"]:
        raise ValueError("it holds what no engine writes")
    if row["kind"] == STEP and not (row["seconds"] >= 0 and row["ended_us"] >= row["began_us"]):
        raise ValueError("it holds what no engine writes")


def _step(run: int, row: dict[str, Any]) -> RecordedOperatorStep:
    """Read a step."""
    times = row["commit"], row["since_us"], row["began_us"], row["ended_us"]
    amounts = row["computed"], row["left"], row["bytes"], row["bytes_left"], row["seconds"]
    place = row["block"], row["operator"]
    return RecordedOperatorStep(run, row["stream"], row["policy"], *times, *_by_query(row), *place, *amounts)


def _answer(run: int, row: dict[str, Any]) -> RecordedQueueAnswer:
    """Read answers of queued rows."""
    return RecordedQueueAnswer(run, row["stream"], row["commit"], row["since_us"], row["ended_us"], *_by_query(row))


def _by_query(row: dict[str, Any]) -> ByQuery:
    """Read what is told of each query."""
    return tuple(row["queries"]), tuple(row["rows"]), tuple(row["dues_us"]), tuple(row["priorities"])
