"""Measures the first batches of a process that restarts with many mixed queries, and those of plain Spark alone."""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame

from bench._apart import run_apart
from bench._batch_ends import BatchEnds
from bench._frame import SETTINGS
from bench._mixed.drawn import drawn_queries
from bench._mixed.workloads import Load
from bench._noting import NotingSink
from penstock.engine import Engine
from penstock.spark.session.embedded import embedded

BEFORE: Final = 2  # batches before the restart: queries have begun, and there is something to recover


def restarted(load: Load, scratch: Path, queries: int, seed: int) -> dict[str, Any]:
    """Return when each batch after a restart was answered, in seconds, and each of plain Spark's over the same files.

    All processes are fresh; their clocks begin when Spark runs. The engine's also recovers, plans and opens its source.
    """
    asked = replace(load, folder=scratch / "offered", queries=drawn_queries(queries, seed))
    files = sorted(load.folder.glob("*.parquet"))
    _offer(asked.folder, files[:BEFORE])
    _in_process("begin", asked, scratch)
    _offer(asked.folder, files[BEFORE:])
    ours = _in_process("restart", asked, scratch)
    later = scratch / "later"
    _offer(later, files[BEFORE:])
    plain = _in_process("plain", replace(asked, folder=later), scratch)
    return {"restarted": ours["seconds"], "plain": plain["seconds"], "recovered_seconds": ours["opened"]}


def _offer(folder: Path, files: list[Path]) -> None:
    """Let a source see some files."""
    folder.mkdir(exist_ok=True)
    for file in files:
        os.link(file, folder / file.name)


def _in_process(what: str, load: Load, scratch: Path) -> dict[str, Any]:
    """Run one part in a process of its own."""
    asked = {"load": asdict(load) | {"folder": str(load.folder)}, "scratch": str(scratch)}
    return run_apart("bench._mixed.restarting", what, asked=asked)


def _run_engine(load: Load, scratch: Path) -> dict[str, Any]:
    """Answer what is offered with a state folder, and note when each batch was answered."""
    session, ends = embedded(settings=SETTINGS), BatchEnds()
    began = time.perf_counter()
    sink = NotingSink(scratch / "answers", ends.note, "s")
    with Engine(scratch / "state", spark=session, sinks=[sink]) as engine:
        if "s" not in engine.catalog.stream_names():
            engine.execute(load.script())
        engine.stream("s").delivery.wait()
        ends.watch(engine, "s")
        opened = time.perf_counter() - began
        engine.process_available()
    return {"seconds": [end - began for end in ends.ends()], "opened": opened}


def _run_plain(load: Load, scratch: Path) -> dict[str, Any]:
    """Let one streaming query of Spark aggregate the same files, and note when each batch was done."""
    session, seconds = embedded(settings=SETTINGS), list[float]()
    began = time.perf_counter()

    def take(batch: DataFrame, batch_id: int) -> None:
        batch.groupBy("wiki").agg({"delta": "sum", "*": "count"}).collect()
        seconds.append(time.perf_counter() - began)

    stream = session.readStream.schema(load.columns).option("maxFilesPerTrigger", 1).parquet(str(load.folder))
    writer = stream.writeStream.foreachBatch(take).option("checkpointLocation", str(scratch / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    return {"seconds": seconds}


def _main() -> None:
    asked = json.load(sys.stdin)
    load = Load(**{**asked["load"], "folder": Path(asked["load"]["folder"])})
    run = _run_plain if sys.argv[1] == "plain" else _run_engine
    print(json.dumps(run(load, Path(asked["scratch"]))))


if __name__ == "__main__":
    _main()
