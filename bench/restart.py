"""Times how soon a stopped engine answers again, against a bare Spark program on the same source.

A state folder is prepared with many queries and an hour of partials. Then a new file waits, and two programs are
started in turns, each in a fresh process: plain ``readStream`` with a ``foreachBatch`` that counts, to the end of its
first batch; and Penstock, to its first answer over the new file. Both are timed from the start of the process.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from bench._apart import run_apart
from bench._frame import run_benchmark, scratch_folder
from bench._living import COLUMNS, Pace, stream, write_file
from bench._measure import Figures, interleave

BEHIND_S = 5.0  # that Penstock's first answer may come after bare Spark's first batch


@dataclass(frozen=True, slots=True)
class Workload:
    """How many queries, how much of the past, and how often everything is restarted."""

    queries: int = 1_000
    files: int = 60  # a minute each
    repetitions: int = 5
    seed: int = 1
    pace: Pace = field(default_factory=lambda: Pace(rows=6_000, file_seconds=60.0))


def main(path: Path | None, *, full: bool = False, rows: int | None = None) -> None:
    """Run the benchmark, print it, and write it to a file if one is named."""
    usual = Workload()
    pace = Pace(rows=rows or usual.pace.rows, file_seconds=usual.pace.file_seconds)
    workload = Workload(repetitions=9 if full else usual.repetitions, pace=pace)
    run_benchmark(path, lambda say, save: measure(workload, say))


def measure(workload: Workload, say: Callable[[str], None]) -> Figures:
    """Prepare once, then restart both programs in turns."""
    steps: list[dict[str, float]] = []
    with scratch_folder() as folder:
        (folder / "files").mkdir()
        for number in range(workload.files):
            write_file(folder / "files", number, workload.pace)
        say(f"preparing {workload.queries:,} queries over {workload.files} files")
        prepared = _run(folder, "prepare", json.dumps(asdict(workload)))
        _run(folder, "bare", "checkpoint")
        write_file(folder / "files", workload.files, workload.pace)
        runs: dict[str, Callable[[], float]] = {
            "bare Spark": lambda: _restart(folder, "bare", "checkpoint")["seconds"],
            "Penstock": lambda: _noted(steps, _restart(folder, "penstock", "state")),
        }
        seconds = interleave(runs, workload.repetitions, say)
    return _sum_up(workload, prepared, seconds, steps)


def _noted(steps: list[dict[str, float]], found: dict[str, Any]) -> float:
    """Remember the steps of a restart."""
    steps.append(found["steps"])
    return float(found["seconds"])


def _sum_up(
    workload: Workload, prepared: dict[str, Any], seconds: dict[str, list[float]], steps: list[dict[str, float]]
) -> Figures:
    """Compare the medians."""
    medians = {name: statistics.median(each) for name, each in seconds.items()}
    times = {name: {"median_seconds": round(medians[name], 3), "seconds": each} for name, each in seconds.items()}
    figures = Figures({"workload": asdict(workload), "prepared": prepared, "times": times, "steps": steps})
    behind = medians["Penstock"] - medians["bare Spark"]
    figures.expect("first answer after bare Spark, seconds", behind, "<=", BEHIND_S)
    return figures


# -- processes of their own ----------------------------------------------------------------------------------------


def _restart(folder: Path, program: str, kept: str) -> dict[str, Any]:
    """Start a program on a copy of what it had kept, and time it from the outside."""
    copy = folder / f"{kept}-copy"
    shutil.copytree(folder / kept, copy)
    try:
        began = time.time()
        found = _run(folder, program, copy.name)
        return found | {"seconds": round(float(found["done"]) - began, 3)}
    finally:
        shutil.rmtree(copy)


def _run(folder: Path, program: str, argument: str) -> dict[str, Any]:
    """Run one of the programs below; its last line says what it found."""
    return run_apart("bench.restart", program, str(folder), argument)


def _prepare(folder: Path, argument: str) -> dict[str, Any]:
    """Fill a state folder: the queries need all of the last hour, each in its own way."""
    from penstock.engine import Engine
    from penstock.spark.session.embedded import embedded

    workload = json.loads(argument)
    draw = random.Random(workload["seed"])
    began = time.perf_counter()
    with Engine(folder / "state", spark=embedded()) as engine:
        engine.execute(stream(folder / "files"))
        queries = (f"CREATE QUERY q{n} AS {_query(draw)}" for n in range(workload["queries"]))
        engine.execute("; ".join(queries))
        engine.process_available()
    files = [path.stat().st_size for path in (folder / "state").rglob("*") if path.is_file()]
    return {"seconds": round(time.perf_counter() - began, 1), "files": len(files), "bytes": sum(files)}


def _query(draw: random.Random) -> str:
    """Draw a query over up to an hour; some window of it ends with every file."""
    window = f"[RANGE {draw.randint(30, 60)} MIN SLIDE 1 MIN]"
    where = f"WHERE volume > {draw.randint(0, 90) * 100}"
    kinds = (
        f"SELECT sum(price * volume) AS value, count(*) AS n FROM trades {window} {where}",
        f"SELECT max(price) AS high, min(price) AS low FROM trades {window}",
        f"SELECT symbol, avg(price) AS mean FROM trades {window} GROUP BY symbol",
    )
    return draw.choice(kinds)


def _penstock(folder: Path, state: str) -> dict[str, Any]:
    """Open an engine and let it run to its first answer over new rows."""
    moments = {"process": time.time()}
    from bench._noting import NotingMemory
    from penstock.engine import Engine
    from penstock.spark.session.embedded import embedded

    moments["imported"] = time.time()
    session = embedded()
    moments["spark"] = time.time()
    answered: list[float] = []

    def deliver(number: int, tables: Any) -> None:
        if any(table.num_rows for table in tables):
            answered.append(time.time())

    engine = Engine(folder / state, spark=session, sinks=[NotingMemory(deliver)])
    engine.stream("trades").delivery.wait()
    answered.clear()  # of what the log held
    moments["recovered"] = time.time()
    engine.start()
    while not answered:
        time.sleep(0.002)
        if not engine.running:
            engine.stop()
    moments["answered"] = answered[0]
    engine.close()
    names = list(moments)
    steps = {name: round(moments[name] - moments[before], 3) for before, name in pairwise(names)}
    return {"done": answered[0], "steps": steps}


def _bare(folder: Path, checkpoint: str) -> dict[str, Any]:
    """Count rows with nothing but Spark: those of one batch, or of all there are, to make a checkpoint."""
    from pyspark.sql import DataFrame

    from penstock.spark.session.embedded import embedded

    ends: list[float] = []

    def count(batch: DataFrame, number: int) -> None:
        batch.count()
        ends.append(time.time())

    rows = embedded().readStream.schema(COLUMNS).option("maxFilesPerTrigger", "1").parquet(str(folder / "files"))
    writer = rows.writeStream.foreachBatch(count).option("checkpointLocation", str(folder / checkpoint))
    if checkpoint == "checkpoint":
        writer.trigger(availableNow=True).start().awaitTermination()
        return {"batches": len(ends)}
    query = writer.start()
    while not ends and query.isActive:
        time.sleep(0.002)
    query.stop()
    return {"done": ends[0]}


def _main() -> None:
    parser = argparse.ArgumentParser()
    programs = {"prepare": _prepare, "penstock": _penstock, "bare": _bare}
    parser.add_argument("program", choices=list(programs))
    parser.add_argument("folder", type=Path)
    parser.add_argument("argument")
    given = parser.parse_args()
    print(json.dumps(programs[given.program](given.folder, given.argument)), flush=True)


if __name__ == "__main__":
    _main()
