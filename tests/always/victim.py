"""The process that is killed: files of rows that every life of it reads on, what its sinks must hold, and its marks."""

from __future__ import annotations

import json
import mmap
import os
import random
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow.parquet as pq

from tests.always import chained
from tests.always.judged import SECOND, batch_of
from tests.always.model import Model
from tests.always.questions import Question, Row

if TYPE_CHECKING:
    from penstock.engine import Engine

PHASES: Final = ("starting", "recovering", "idle", "batch", "commit", "answers", "sinks", "catalog")
START_US: Final = 1_700_000_000 * SECOND
STEP_US: Final = 4 * SECOND  # of event time from file to file
LATENESS_US: Final = 2 * SECOND
STREAM: Final = (
    "CREATE STREAM s (id BIGINT, ts TIMESTAMP, k STRING, j INT, v BIGINT) USING parquet "
    "OPTIONS (path = '{path}', maxFilesPerTrigger = '1'{dedup}) WATERMARK FOR ts AS ts - INTERVAL 2 SECONDS"
)
# A life is short: compiling plans would be most of it.
INTERPRETED: Final = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
# Either duplicates are told apart as rows come, or a query comes that asks for the past, which duplicates rule out.
KINDS: Final = ("keys", "past")
# A third kind dies while windows wait to be answered: few rows are late, and the desk is slow.
LAGGING: Final = "lagging"
BATCHES: Final = "batches"  # a file: the number of each batch, and up to where it reads the source
LATE_EVERY: Final = 4  # files of that kind
SLOW_S: Final = 0.4  # that its desk may wait before it answers a window
QUESTIONS: Final = {
    "all": Question(10 * SECOND, 5 * SECOND, 0, (), ("count(*)", "sum(v)")),
    "odd": Question(13 * SECOND, 3 * SECOND, 1_500_000, (), ("max(v)",), "v > 3"),
    "keys": Question(20 * SECOND, 10 * SECOND, 0, ("k",), ("count(*)", "min(v)")),
    "pairs": Question(4 * SECOND, 4 * SECOND, 0, ("k", "j"), ("sum(v)",), None, "count(*) > 1"),
    "mended": Question(10 * SECOND, 10 * SECOND, 0, ("k",), ("count(*)", "sum(v)"), None, None, 30 * SECOND),
    "first": Question(10 * SECOND, 5 * SECOND, 0, ("k",), ("sum(v)",), None, None, 30 * SECOND, most=1),
}
URGENT: Final = {
    "odd": ("priority = 5", "deadline = '100 ms'"),
    "keys": ("priority = 2",),
    "all": ("deadline = '2 s'",),
}
# Entered on the way and answered from the first row on. Its rows are never late: when it came makes no difference.
BEHIND: Final = Question(15 * SECOND, 5 * SECOND, 0, (), ("count(*)",), "k = 'z'", options=("from = 'beginning'",))


# -- rows ----------------------------------------------------------------------------------------------------------


def rows_of(number: int, kind: str = "") -> list[Row]:
    """Make the rows of a file: most on time, some late, one without a time now and then, some twice."""
    draw, base = random.Random(number), START_US + number * STEP_US
    rows: list[Row] = [] if number else [_row(99, base - 16 * SECOND, None, draw)]  # no later row is earlier
    punctual = kind == LAGGING and number % LATE_EVERY > 0
    for place in range(draw.randint(6, 12)):
        far = draw.choice([draw.randint(-3_000_000, 5_000_000), draw.randint(-15_000_000, -3_000_000)])
        far = draw.randint(0, 5_000_000) if punctual else far
        ts = None if draw.random() < 0.03 else base + far
        rows.append(_row(number * 100 + place, ts, draw.choice([None, "a", "b", "c"]), draw))
    rows += [_row(number * 100 + 50 + i, base + draw.randint(0, 4_999_999), "z", draw) for i in range(3)]
    if number and not punctual and draw.random() < 0.5:
        rows.append(draw.choice([row for row in [*rows_of(number - 1, kind), *rows] if row["k"] != "z"]))
    return rows


def _row(number: int, ts: int | None, key: str | None, draw: random.Random) -> Row:
    value = None if draw.random() < 0.1 else draw.randint(-3, 12)
    return {"id": number, "ts": ts, "k": key, "j": draw.randint(0, 2), "v": value}


def write_file(folder: Path, number: int, kind: str = "") -> None:
    """Let a file appear, whole, and younger than the ones before it."""
    draft, path = folder / f".{number:06d}.draft", folder / f"{number:06d}.parquet"
    pq.write_table(batch_of(rows_of(number, kind)), draft)
    os.utime(draft, (START_US // SECOND + number, START_US // SECOND + number))
    draft.replace(path)


def batches_in(folder: Path) -> list[int]:
    """Read which file was the last of each batch.

    Nearly always a batch is a file. But a Spark that is killed after it has listed the next file, and before it has
    planned the batch, puts two into one.
    """
    lasts: dict[int, int] = {}
    for line in (folder / BATCHES).read_text().splitlines():
        number, position = line.split(" ", 1)
        lasts[int(number)] = int(json.loads(position)["logOffset"])
    return [lasts[number] for number in sorted(lasts)]


def batches_of(lasts: Iterable[int], kind: str) -> Iterator[list[Row]]:
    """Make the rows of batches that end with some files."""
    first = 0
    for last in lasts:
        yield [row for number in range(first, last + 1) for row in rows_of(number, kind)]
        first = last + 1


def expected(kind: str, lasts: Iterable[int]) -> Model:
    """Work out what the sinks should hold after batches that end with some files."""
    model = Model(LATENESS_US, 600 * SECOND, 0, ("id",) if kind == "keys" else ())
    for name, question in [*QUESTIONS.items(), *([("behind", BEHIND)] if kind == "past" else [])]:
        model.create(name, question, None)
    for rows in batches_of(lasts, kind):
        model.batch(rows, 1 << 60)
    model.flush()
    return model


# -- the engine's process ------------------------------------------------------------------------------------------


class Marks:
    """A few bytes that two processes share: what the engine does now, and how many batches it did in this life."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(16))
        self._file = path.open("r+b")
        self._bytes = mmap.mmap(self._file.fileno(), 16)

    @property
    def phase(self) -> str:
        return PHASES[self._bytes[0]]

    @phase.setter
    def phase(self, name: str) -> None:
        self._bytes[0] = PHASES.index(name)

    @property
    def batches(self) -> int:
        return int.from_bytes(self._bytes[8:16], "little")

    @batches.setter
    def batches(self, number: int) -> None:
        self._bytes[8:16] = number.to_bytes(8, "little")

    def clear(self) -> None:
        self._bytes[:] = bytes(16)

    def close(self) -> None:
        self._bytes.close()
        self._file.close()


def live(folder: Path, kind: str, *, add_behind: bool, life: int = 0) -> None:
    """Run an engine on the folder's files until it is killed, and mark what it does."""
    from penstock.spark.session.embedded import embedded
    from penstock.store import faults

    marks = Marks(folder / "marks")
    embedded(cores=2, memory="512m", settings=INTERPRETED)
    marks.phase = "recovering"
    faults.hook = lambda point: _note(marks, point)
    with opened(folder, kind, add_behind=add_behind) as engine:
        mark_batches(engine.stream("s").pipeline, marks, folder)
        if kind == LAGGING:
            _answer_slowly(engine, life)
        engine.start()
        while engine.running:
            time.sleep(0.1)


@contextmanager
def opened(folder: Path, kind: str, *, add_behind: bool) -> Iterator[Engine]:
    """Open an engine with its sinks on the folder, in the Spark of this process, and create what it lacks."""
    from penstock.engine import Engine
    from penstock.sinks.jsonl import JsonLinesSink
    from penstock.sinks.parquet import ParquetSink
    from penstock.sinks.protocol import Sink
    from penstock.spark.session.embedded import embedded

    sinks: list[Sink] = [
        JsonLinesSink(folder / "lines", roll_bytes=20_000),
        ParquetSink(folder / "tables", roll_seconds=1.0),
    ]
    with Engine(folder / "state", spark=embedded(settings=INTERPRETED), sinks=sinks) as engine:
        if "s" not in engine.catalog.stream_names():
            engine.execute(STREAM.format(path=folder / "files", dedup=", dedup = 'id'" if kind == "keys" else ""))
        known = {d.name for d in engine.catalog.definitions("s")}
        for name, question in QUESTIONS.items():
            if name not in known:
                urgent = URGENT.get(name, ()) if kind == LAGGING else ()
                engine.create_query(name, replace(question, options=urgent).sql())
        if kind == "keys":
            _create_chained(engine)
        if add_behind and kind == "past" and "behind" not in known:
            engine.create_query("behind", BEHIND.sql())
        yield engine


def _create_chained(engine: Engine) -> None:
    """Create streams of rows and pairs, and queries over them, that are not there yet."""
    streams = engine.catalog.stream_names()
    for name, select in chained.STREAMS.items():
        if name not in streams:
            engine.execute(f"CREATE STREAM {name} AS {select}")
    known = {d.name for stream in engine.catalog.stream_names() for d in engine.catalog.definitions(stream)}
    for name, select in chained.QUERIES.items():
        if name not in known:
            engine.create_query(name, select)


def _note(marks: Marks, point: str) -> None:
    """Tell by the durable write that the engine comes to what it does."""
    kind = point.split(".")[0]
    known = {"commit": "commit", "answers": "answers", "sink": "sinks", "catalog": "catalog"}
    if marks.phase != "recovering":
        marks.phase = known.get(kind, marks.phase)


def _answer_slowly(engine: Engine, life: int) -> None:
    """Let every life choose by another policy, window by window, and be slow: windows wait when it dies."""
    from penstock.schedule.ordering import LIVE
    from penstock.stream import evaluation_order

    draw, pipeline = random.Random(life), cast(Any, engine.stream("s").pipeline)
    engine.set_policy(draw.choice(sorted(LIVE)))
    cast(Any, evaluation_order).GROUP_S = 0.0
    answer_next: Callable[..., None] = pipeline.answer_next

    def slowly(keys: Any) -> None:
        time.sleep(draw.uniform(0, SLOW_S))
        answer_next(keys)

    pipeline.answer_next = slowly


def mark_batches(pipeline: Any, marks: Marks, folder: Path) -> None:
    """Note the beginning and the end of each batch, and which file is its last."""
    process: Callable[..., None] = pipeline.process

    def marking(batch: Any, number: int, snapshot: Any, source: str = "") -> None:
        marks.phase = "batch"
        with (folder / BATCHES).open("a") as noted:
            noted.write(f"{number} {source.splitlines()[-1]}\n")  # Spark's own record of the batch
        process(batch, number, snapshot, source)
        marks.batches += 1
        marks.phase = "idle"

    pipeline.process = marking
    marks.phase = "idle"
