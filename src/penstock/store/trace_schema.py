"""Names and types the columns of a trace: a row for each time that windows of an item were answered, or a step ran.

The file beside it is :mod:`penstock.store.trace_files`; what rows mean is said by :mod:`penstock.schedule.recorded`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

VERSION: Final = b"penstock.trace"  # in the metadata of a file: the version of this schema
RUN: Final = b"penstock.run"  # in the metadata of a file: when the engine began, in microseconds
VERSION_NOW: Final = b"1"

RULED: Final = "2⁴⁰ and more: the times of the windows of rows of the query that the rest names"
STEP: Final = "step"
ANSWERED: Final = "answered"


@dataclass(frozen=True, slots=True)
class TraceColumn:
    """One column; of a step, those from ``policy`` on are NULL."""

    name: str
    type: pa.DataType
    meaning: str


COLUMNS: Final = (
    TraceColumn("kind", pa.string(), "`answered`: windows of one lane and shape; `step`: rows were filed, or the like"),
    TraceColumn("stream", pa.string(), "the stream"),
    TraceColumn("since_us", pa.int64(), "when the windows became final, or since when the step waited for its turn"),
    TraceColumn("began_us", pa.int64(), "when the group of windows, or the step, began"),
    TraceColumn("ended_us", pa.int64(), "when its answers had been left for the sinks, or the step ended"),
    TraceColumn("policy", pa.string(), "by which the group was chosen; NULL for a step, as are all that follow"),
    TraceColumn("group", pa.int64(), "number of the group since the engine began"),
    TraceColumn("item", pa.int32(), "number of the lane and shape since the engine began"),
    TraceColumn("queries", pa.list_(pa.int64()), f"definitions (see `catalog.db`), all with the same windows; {RULED}"),
    TraceColumn("windows", pa.int32(), "windows of each of them"),
    TraceColumn("first_end_us", pa.int64(), "end of the first window"),
    TraceColumn("last_end_us", pa.int64(), "end of the last window"),
    TraceColumn("due_us", pa.int64(), "when they were wanted"),
    TraceColumn("priority", pa.float64(), "the queries' priority"),
    TraceColumn("expected_s", pa.float64(), "seconds that they were expected to take when they were chosen"),
    TraceColumn("spent_s", pa.float64(), "seconds measured for merging and finishing them"),
    TraceColumn("selectivity", pa.float64(), "the part of them that was expected to have rows: 1 where all have"),
)
LATER: Final = ("selectivity",)  # columns that the first files of this version do not have
IN_ALL: Final = ("kind", "stream", "since_us", "began_us", "ended_us")  # of which no row lacks a value
NAMES: Final = tuple(column.name for column in COLUMNS)
SCHEMA: Final = pa.schema([(column.name, column.type) for column in COLUMNS])


def schema_of(run: int, schema: pa.Schema = SCHEMA) -> pa.Schema:
    """Return the schema of a file that an engine writes which began at a time."""
    return schema.with_metadata({VERSION: VERSION_NOW, RUN: str(run).encode()})
