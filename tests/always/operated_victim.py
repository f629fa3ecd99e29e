"""The process that is killed while rows wait for its functions and are sampled: its rows, its queries, its doings.

Its functions are slow, its queues are small, and in every other life its memory is, so that batches wait, levels of
sampling go up and down, and rows wait in files and in memory when it dies.
"""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from tests.always.delivered import Delivered, counted, lines_in, tables_in
from tests.always.victim import BATCHES, INTERPRETED, START_US, Marks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.engine import Engine

SECOND: Final = 1_000_000
STEP_US: Final = 4 * SECOND  # of event time from file to file
ROWS: Final = 80  # of a file
WINDOW_US: Final = 10 * SECOND
SLOW_S: Final = 0.003  # that a function takes for a row
QUEUE_BYTES: Final = 70_000
STREAM: Final = (
    "CREATE STREAM s (id BIGINT, ts TIMESTAMP, k STRING, v INT, name STRING) USING parquet "
    "OPTIONS (path = '{path}', maxFilesPerTrigger = '1') WATERMARK FOR ts AS ts - INTERVAL 1 SECOND"
)
HASHED: Final = "xxhash64(id, ts, k, v, name)"
EXPLODED: Final = "WITH (explode = true)"
QUERIES: Final = {
    "scored": f"SELECT id, slow(v) AS p FROM s WHERE v > 1 AND slow(v) > 3 {EXPLODED}",
    "chosen": f"SELECT id, k FROM s WHERE slow(v) < 9 AND length_of(name) > 190 {EXPLODED}",
    "plain": f"SELECT id, v FROM s WHERE v = 7 {EXPLODED}",
    "whole": "SELECT k, count(*) AS n, sum(v) AS x FROM s [RANGE 10 s SLIDE 10 s] GROUP BY k",
    "shed": "SELECT k, count(*) AS n, sum(v) AS x FROM s [RANGE 10 s SLIDE 10 s] GROUP BY k WITH (shed = 'sample')",
}
Row = dict[str, Any]


def slow(v: int) -> int:
    time.sleep(SLOW_S)
    return v * v % 17


def length_of(name: str) -> int:
    return len(name)


# -- rows, and what comes of them ----------------------------------------------------------------------------------


def rows_of(number: int) -> list[Row]:
    """Make the rows of a file, none of them late."""
    draw, first = random.Random(number), START_US + number * STEP_US
    times = sorted(first + draw.randrange(STEP_US) for _ in range(ROWS))
    return [
        {
            "id": number * ROWS + place,
            "ts": ts,
            "k": draw.choice("ab"),
            "v": draw.randint(0, 9),
            "name": "".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(180, 200))),
        }
        for place, ts in enumerate(times)
    ]


def write_file(folder: Path, number: int) -> None:
    """Let a file appear, whole, and younger than the ones before it."""
    types = [("id", pa.int64()), ("ts", pa.timestamp("us", "UTC")), ("k", pa.string()), ("v", pa.int32())]
    table = pa.Table.from_pylist(rows_of(number), pa.schema([*types, ("name", pa.string())]))
    draft, path = folder / f".{number:06d}.draft", folder / f"{number:06d}.parquet"
    pq.write_table(table, draft)
    os.utime(draft, (START_US // SECOND + number, START_US // SECOND + number))
    draft.replace(path)


def levels_in(folder: Path) -> list[int]:
    """Read at which level the rows of each file were sampled; a batch that came again had the same level."""
    lasts, levels = dict[int, int](), dict[int, int]()
    for line in (folder / BATCHES).read_text().splitlines():
        told, level, position = line.split(" ", 2)
        assert levels.setdefault(int(told), int(level)) == int(level), "a batch came again at another level"
        lasts[int(told)] = int(json.loads(position)["logOffset"])
    found: list[int] = []
    for number, last in sorted(lasts.items()):
        found += [levels[number]] * (last + 1 - len(found))
    return found


def hashes_in(spark: SparkSession, folder: Path) -> dict[int, int]:
    """Let Spark hash all rows, by their number."""
    found = spark.read.parquet(str(folder / "files")).selectExpr("id", f"{HASHED} AS h").toArrow()
    return dict(zip(found["id"].to_pylist(), found["h"].to_pylist(), strict=True))


def wanted(levels: Sequence[int], hashes: dict[int, int]) -> Delivered:
    """Work out row by row what sinks should hold."""
    said: list[Row] = []
    windows: dict[tuple[str, int, str], list[tuple[int, int]]] = {}
    for file, level in enumerate(levels):
        for row in rows_of(file):
            score = row["v"] * row["v"] % 17
            said += [_said("scored", id=row["id"], p=score)] if row["v"] > 1 and score > 3 else []
            said += [_said("chosen", id=row["id"], k=row["k"])] if score < 9 and len(row["name"]) > 190 else []
            said += [_said("plain", id=row["id"], v=7)] if row["v"] == 7 else []
            end = (row["ts"] // WINDOW_US + 1) * WINDOW_US
            windows.setdefault(("whole", end, row["k"]), []).append((1, row["v"]))
            if not hashes[row["id"]] & ((1 << level) - 1):
                windows.setdefault(("shed", end, row["k"]), []).append((1 << level, row["v"]))
    for (name, end, key), taken in windows.items():
        sums = {"n": sum(w for w, _ in taken), "x": sum(w * v for w, v in taken)}
        share = {"sampled": len(taken) / sums["n"]} if name == "shed" else {}
        said.append(_said(name, window_start=end - WINDOW_US, window_end=end, k=key, **sums, **share))
    return counted(said)


def held_in(folder: Path) -> dict[str, Delivered]:
    """Read what the sinks hold, without bounds, which are sums of doubles."""
    found = {"lines": lines_in(folder / "lines"), "tables": tables_in(folder / "tables")}
    return {name: _unbounded(held) for name, held in found.items()}


def _unbounded(held: Delivered) -> Delivered:
    kept: Delivered = Counter()
    for fields, times in held.items():
        kept[tuple(one for one in fields if not one[0].endswith("_bound"))] += times
    return kept


def _said(name: str, **fields: Any) -> Row:
    return {"query_name": name, "query_version": 1, **fields}


# -- the engine's process ------------------------------------------------------------------------------------------


class QueueMarks(Marks):
    """Marks that also tell how many commits wait for functions, and how many steps were done in this life."""

    @property
    def waiting(self) -> int:
        return self._bytes[1]

    @waiting.setter
    def waiting(self, number: int) -> None:
        self._bytes[1] = min(255, number)

    @property
    def steps(self) -> int:
        return int.from_bytes(self._bytes[2:6], "little")

    @steps.setter
    def steps(self, number: int) -> None:
        self._bytes[2:6] = number.to_bytes(4, "little")


def live(folder: Path, life: int) -> None:
    """Run an engine on the folder's files until it is killed, and mark what it does."""
    from penstock.spark.session.embedded import embedded
    from penstock.store import faults

    marks, draw = QueueMarks(folder / "marks"), random.Random(life)
    embedded(cores=2, memory="512m", settings=INTERPRETED)
    marks.phase = "recovering"
    faults.hook = lambda point: _note(marks, point)
    with opened(folder) as engine:
        engine.set_operator_policy(draw.choice(["FCFS", "Chain", "HNR", "LSF", "RR"]))
        engine.set_memory(1_000 if life % 2 else None)
        mark_batches(engine, marks, folder)
        threading.Thread(target=_look, args=(engine, marks), daemon=True).start()
        engine.start()
        while engine.running:
            time.sleep(0.1)


@contextmanager
def opened(folder: Path) -> Iterator[Engine]:
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
    spark = embedded(settings=INTERPRETED)
    with Engine(folder / "state", spark=spark, sinks=sinks, queue_bytes=QUEUE_BYTES) as engine:
        if "s" not in engine.catalog.stream_names():
            engine.execute(STREAM.format(path=folder / "files"))
        known = {d.name for d in engine.catalog.definitions("s")}
        functions = {function.name for function in engine.catalog.python_functions()}
        for function in (slow, length_of):
            if function.__name__ not in functions:
                engine.create_function(function.__name__, function, expensive=True)
        for name, text in QUERIES.items():
            if name not in known:
                engine.create_query(name, text)
        yield engine


def mark_batches(engine: Engine, marks: QueueMarks, folder: Path) -> None:
    """Note the beginning and the end of each batch, its level and last file."""
    pipeline: Any = engine.stream("s").pipeline
    process: Callable[..., None] = pipeline.process

    def marking(batch: Any, number: int, snapshot: Any, source: str = "") -> None:
        marks.phase = "batch"
        if number > pipeline.progress.clock.batch:
            with (folder / BATCHES).open("a") as noted:
                noted.write(f"{number} {pipeline.progress.clock.sampling} {source.splitlines()[-1]}\n")
        process(batch, number, snapshot, source)
        marks.batches += 1
        marks.phase = "idle"

    pipeline.process = marking
    marks.phase = "idle"


def _look(engine: Engine, marks: QueueMarks) -> None:
    """Note now and then what waits, and how often functions were called."""
    while True:
        queues = engine.stream("s").pipeline.continuous.operators
        marks.waiting = len(queues.commits)
        marks.steps = queues.steps
        time.sleep(0.002)


def _note(marks: QueueMarks, point: str) -> None:
    """Tell by the durable write that the engine comes to what it does."""
    kinds = {"partials": "commit", "commit": "commit", "taken": "commit", "answers": "answers", "sink": "sinks"}
    if marks.phase != "recovering":
        marks.phase = kinds.get(point.split(".")[0], marks.phase)
