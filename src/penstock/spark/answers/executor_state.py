"""Lets executors write partials and answers to files, for groupings too large for the driver.

A job of partials ends in a step that writes the partials of these groupings to files, by bucket of their keys, and
sends the rest to the driver: the other groupings' partials, and for each slice the counts that the stream's progress
needs. A job of answers has a task for each bucket: it reads the bucket's partials, runs the kernel that the driver
runs, and writes the answers.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from penstock.evaluate.finishing import FinishRequest
from penstock.kernel.answering import Answering, Failure
from penstock.kernel.defect_bisection import answer_apart
from penstock.kernel.defects import Defect, defect_of
from penstock.kernel.pending import Pending, Rounds
from penstock.kernel.signing import Sent, Signing
from penstock.kernel.synopsis import Kernel, Synopsis
from penstock.share.layout import Layout
from penstock.share.partial_schema import (
    BUCKET,
    COUNTS,
    FIRST_TIME,
    GROUPING,
    LABEL,
    LAST_TIME,
    is_failure,
    is_word,
    key_name,
)
from penstock.spark.job.jvm_columns import map_in_arrow
from penstock.store.answer_files import AnswerPart, write_parts
from penstock.store.buckets import BucketFile, read_bucket, write_buckets
from penstock.store.executor_state import ExecutorFiles
from penstock.store.invalid import FAILED

SENT: Final = "kind string, payload binary"


def bucket_text(layout: Layout, buckets: int) -> str:
    """Write the bucket of a partial: a hash of its own keys, the same in every layout."""
    cases = []
    for member in layout.members:
        space = layout.plan.trees[member.tree].space
        for fed in member.feeds:
            if (space, fed.grouping.keys) in layout.spread:
                keys = ", ".join(key_name(member.slots[i]) for i in fed.keys)
                cases.append((member.number, f"pmod(xxhash64({keys}), {buckets}L)"))
    if len(layout.members) == 1:
        return cases[0][1]
    return f"CASE {' '.join(f'WHEN grouping = {number} THEN {text}' for number, text in cases)} ELSE -1L END"


@dataclass(frozen=True)
class WritePartials:
    """The last step of a job of partials, as workers run it."""

    layout: Layout
    signing: Signing | None  # None: signatures are there already
    folder: Path
    number: int  # of the commit

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write what is spread, send on the rest."""
        given = list(batches)
        if not given:
            return
        table = pa.Table.from_batches(given)
        if self.signing is not None:
            table = self.signing.sign(table)
        buckets = np.asarray(table[BUCKET].to_numpy(), np.int64)
        table = table.drop_columns([BUCKET])
        away = (buckets >= 0) & (table[LABEL].fill_null(FAILED).to_numpy() > FAILED)  # invalid rows are counted here
        if away.any():
            name = f"{self.number:012d}-{uuid.uuid4().hex[:12]}.arrow"
            file = write_buckets(self.folder, name, table.filter(pa.array(away)), buckets[away], self.layout.spread)
            yield _sent("file", json.dumps(file.to_record()).encode())
            table = pa.concat_tables([table.filter(pa.array(~away)), counted(table.filter(pa.array(away)))])
        yield _sent("rows", _stream(table))


def counted(table: pa.Table) -> pa.Table:
    """Sum up by slice what the stream is told by, without keys, signatures and partials."""
    by = [name for name in (LABEL, GROUPING) if name in table.column_names]
    how = {FIRST_TIME: "min", LAST_TIME: "max"}
    counts = [n for n in table.column_names if n in COUNTS or n in how or is_failure(n)]
    ways = {n: how.get(n) or how.get(n.rpartition("_")[2], "sum") for n in counts}
    grouped = table.select([*by, *counts]).group_by(by).aggregate(list(ways.items()))
    columns = []
    for field in table.schema:
        name = f"{field.name}_{ways[field.name]}" if field.name in ways else field.name
        if name in grouped.column_names:
            columns.append(grouped[name].cast(field.type))
        elif is_word(field.name):
            columns.append(pa.chunked_array([np.zeros(grouped.num_rows, np.int64)]))
        else:
            columns.append(pa.chunked_array([pa.nulls(grouped.num_rows, field.type)]))
    return pa.table(columns, schema=table.schema)


class Collecting:
    """Runs a job of partials to its end and collects the files that it wrote."""

    def __init__(self, folder: Path, number: int, buckets: int) -> None:
        """Prepare for the files of one commit."""
        self.folder, self.number, self.buckets = folder, number, buckets
        self.files: list[BucketFile] = []

    def run(self, frame: DataFrame, layout: Layout, signing: Signing | None) -> pa.Table:
        """Return all partials but those of spread groupings; without ``signing``, signatures are there already."""
        labelled = frame.selectExpr("*", f"{bucket_text(layout, self.buckets)} AS {BUCKET}")
        write = WritePartials(layout, signing, self.folder, self.number)
        sent = map_in_arrow(labelled, write, SENT).toArrow()
        tables = []
        for kind, payload in zip(sent["kind"].to_pylist(), sent["payload"].to_pylist(), strict=True):
            if kind == "file":
                self.files.append(BucketFile.from_record(json.loads(payload)))
            else:
                tables.append(pa.ipc.open_stream(payload).read_all())
        if not tables:  # a batch without rows
            empty = labelled.limit(0).toArrow()
            tables = [(signing.sign(empty) if signing is not None else empty).drop_columns([BUCKET])]
        table = pa.concat_tables(tables).combine_chunks()
        if signing is not None:
            signing.sent = Sent(table.num_rows, bytes=table.nbytes)
        return table


# -- answers -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Answered:
    """What the executors answered: where the answers are, and the windows that could not be answered."""

    parts: tuple[AnswerPart, ...]
    failures: tuple[Failure, ...]
    evaluations: int
    shared: int


@dataclass(frozen=True)
class AnswerBuckets:
    """The job of answers, as workers run it: a row is the number of a bucket."""

    entries: tuple[ExecutorFiles, ...]  # laid out, in order
    layout: Layout  # of now
    due: tuple[Pending, ...]
    kernel: Kernel
    partials: Path
    answers: Path
    number: int  # of the commit

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Answer each bucket."""
        for batch in batches:
            for bucket in batch.column(0).to_pylist():
                yield _sent("answers", json.dumps(self.answered(bucket)).encode())

    def answered(self, bucket: int) -> dict[str, Any]:
        """Answer the due windows of one bucket's keys and write the answers."""
        synopsis = Synopsis(self.kernel, in_driver=False)
        answering, rounds = Answering(synopsis, cannot_ask, threads=1), Rounds(synopsis)
        parts: list[AnswerPart] = []
        failures: list[Failure] = []
        try:
            self._read(synopsis, bucket)
            for listed in rounds.cut(self.due):
                before = answering.rows
                tables, failed = answer_apart(answering, listed)
                rounds.note(answering.rows - before)
                name = f"{self.number:012d}-{bucket:04d}-{uuid.uuid4().hex[:12]}.spread"
                parts, failures = parts + write_parts(self.answers, name, tables), failures + failed
        except Exception as error:  # where it is not told whose it is, it is everybody's
            defect = defect_of(error, "the executors read their partials")
            failures += [Failure(one.definition.id, one.ends.first_us, defect.reason, defect) for one in self.due]
        return {
            "parts": [part.to_record() for part in parts],
            "failures": [asdict(failure) for failure in failures],
            "evaluations": answering.evaluations,
            "shared": answering.shared,
        }

    def _read(self, synopsis: Synopsis, bucket: int) -> None:
        """Read the partials of one bucket."""
        for entry in self.entries:
            for file in entry.files:
                table = read_bucket(self.partials, file, bucket)
                if table is not None:
                    assert entry.layout is not None
                    synopsis.prepare(entry.layout)
                    synopsis.spread = frozenset(file.groupings)
                    synopsis.ingest(entry.layout, table, {int(tree): times for tree, times in entry.edges.items()})
        synopsis.prepare(self.layout)


def cannot_ask(requests: Sequence[FinishRequest]) -> NoReturn:
    """Refuse: a worker has no Spark to ask, and groupings with such queries are not spread."""
    raise RuntimeError("an expression that only Spark can compute was sent to a worker")


def answer_buckets(session: SparkSession, task: AnswerBuckets, buckets: int) -> Answered:
    """Let the executors answer, one task a bucket."""
    sent = map_in_arrow(session.range(0, buckets, 1, buckets), task, SENT).toArrow()
    told = [json.loads(payload) for payload in sent["payload"].to_pylist()]
    each = [_failure(record) for one in told for record in one["failures"]]
    failures = {(failure.definition, failure.window_end_us): failure for failure in each}
    return Answered(
        tuple(AnswerPart.from_record(part) for one in told for part in one["parts"]),
        tuple(failures[place] for place in sorted(failures)),
        max((one["evaluations"] for one in told), default=0),
        max((one["shared"] for one in told), default=0),
    )


def _failure(record: dict[str, Any]) -> Failure:
    """Read a failure that a worker told of."""
    defect = record["defect"]
    return Failure(**{**record, "defect": None if defect is None else Defect(**defect)})


def _sent(kind: str, payload: bytes) -> pa.RecordBatch:
    """Write one row of what goes to the driver."""
    return pa.record_batch([pa.array([kind]), pa.array([payload], pa.binary())], names=["kind", "payload"])


def _stream(table: pa.Table) -> bytes:
    """Write a table as bytes."""
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    return bytes(out.getvalue())
