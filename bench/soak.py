"""Checks over half an hour of churn that memory, files and threads do not grow.

As in ``churn``, queries come and go on a running stream all the time; every ten seconds it is noted what the process,
its JVM and the state folder hold. The means of the last third are compared with those of the middle third.
"""

from __future__ import annotations

import os
import random
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

import psutil

from bench._frame import Save, run_benchmark, scratch_folder
from bench._living import Coming, Pace, Watched, query, running, stream
from bench._measure import Figures, Progress, memory_now
from penstock.engine import Engine
from penstock.report.charts import Series, line_chart
from penstock.report.page import page
from penstock.sinks.parquet import ParquetSink
from penstock.spark.session.embedded import embedded

GROWTH = 1.1  # of the last third over the middle third
KEEP = " WITH (keep = '10 min')"  # answers; without it they are kept for ever, which is no leak
SHOWN = {
    "python_bytes": ("Memory of Python", "MiB", 1 << 20),
    "jvm_bytes": ("Memory of the JVM", "MiB", 1 << 20),
    "state_files": ("Files in the state folder", "files", 1),
    "state_bytes": ("Size of the state folder", "MiB", 1 << 20),
    "threads": ("Threads of Python and the JVM", "threads", 1),
}


@dataclass(frozen=True, slots=True)
class Workload:
    """How long it runs, with how many queries, and how many of them come and go at a time."""

    minutes: float = 30.0
    staying: int = 100
    passing: int = 5
    sample_seconds: float = 10.0
    seed: int = 1
    pace: Pace = field(default_factory=Pace)


@dataclass(frozen=True, slots=True)
class Sample:
    """What there was at a moment."""

    at_us: int
    python_bytes: int
    jvm_bytes: int
    state_files: int
    state_bytes: int
    threads: int
    batches: int
    queries_passed: int


def main(path: Path | None, *, full: bool = False, rows: int | None = None, minutes: float | None = None) -> None:
    """Run the soak, print it, and write figures and a page of plots beside them if a file is named."""
    usual = Workload()
    workload = Workload(minutes=minutes or usual.minutes * (2 if full else 1), pace=Pace(rows=rows or usual.pace.rows))

    def measure_and_plot(say: Progress, save: Save) -> Figures:
        figures, samples = measure(workload, say)
        if path is not None:
            save(figures)  # makes the folder
            path.with_suffix(".html").write_text(plots(samples), encoding="utf-8")
        return figures

    run_benchmark(path, measure_and_plot)


def measure(workload: Workload, say: Callable[[str], None]) -> tuple[Figures, list[Sample]]:
    """Run the stream with churn, and note every few seconds what it holds."""
    draw, watched, samples = random.Random(workload.seed), Watched(), list[Sample]()
    with scratch_folder() as scratch:
        files, state = scratch / "files", scratch / "state"
        files.mkdir()
        sinks = [ParquetSink(scratch / "answers", layout="columns")]
        with Engine(state, spark=embedded(memory="1g"), sinks=sinks) as engine:
            engine.execute(stream(files))
            engine.execute("; ".join(f"CREATE QUERY stays{n} AS {query(draw, KEEP)}" for n in range(workload.staying)))
            watched.watch(engine.stream("trades"))
            with Coming(files, workload.pace, watched), running(engine):
                watched.wait_for(1)
                _soak(engine, watched, workload, draw, lambda passed: _note(samples, state, watched, passed, say))
    return _sum_up(workload, samples), samples


def _soak(
    engine: Engine, watched: Watched, workload: Workload, draw: random.Random, note: Callable[[int], None]
) -> None:
    """Let queries come and go until the time is over."""
    began, passed, noted = time.monotonic(), 0, -workload.sample_seconds
    while (elapsed := time.monotonic() - began) < workload.minutes * 60:
        if elapsed - noted >= workload.sample_seconds:
            note(passed)
            noted = elapsed
        names = [f"passes{passed + n}" for n in range(workload.passing)]
        for name in names:
            engine.create_query(name, query(draw, KEEP))
        watched.wait_for(1)
        for name in names:
            engine.drop_query(name)
        passed += len(names)
    note(passed)


def _note(samples: list[Sample], state: Path, watched: Watched, passed: int, say: Callable[[str], None]) -> None:
    """Look at the process, its JVM and its folder."""
    memory, sizes = memory_now(), _sizes(state)
    sample = Sample(
        time.time_ns() // 1_000,
        memory.python_bytes,
        memory.jvm_bytes,
        len(sizes),
        sum(sizes),
        _threads(),
        len(watched.batches),
        passed,
    )
    samples.append(sample)
    say(
        f"{passed} queries passed, {sample.batches} batches: Python {memory.python_bytes >> 20} MiB, "
        f"JVM {memory.jvm_bytes >> 20} MiB, {sample.state_files} files, {sample.threads} threads"
    )


def _sizes(folder: Path) -> list[int]:
    """Return the sizes of all files below a folder, which come and go meanwhile."""
    found = []
    for at, _, names in os.walk(folder):
        for name in names:
            try:
                found.append(os.stat(os.path.join(at, name)).st_size)
            except FileNotFoundError:
                continue
    return found


def _threads() -> int:
    """Count the threads of this process and of those it started, some of which may just be ending."""
    process = psutil.Process()
    counted = process.num_threads()
    for child in process.children(recursive=True):
        with suppress(psutil.Error):
            counted += child.num_threads()
    return counted


def _sum_up(workload: Workload, samples: Sequence[Sample]) -> Figures:
    """Compare the last third with the middle third."""
    figures = Figures({"workload": asdict(workload), "samples": [asdict(sample) for sample in samples]})
    third = len(samples) // 3
    middle, last = samples[third : 2 * third], samples[2 * third :]
    for name in SHOWN:
        means = [statistics.fmean(getattr(sample, name) for sample in part) for part in (middle, last)]
        figures.measurements[name] = {"middle_third": round(means[0]), "last_third": round(means[1])}
        figures.expect(f"{name}, last third / middle third", means[1] / means[0], "<=", GROWTH)
    return figures


def plots(samples: Sequence[Sample]) -> str:
    """Draw what was noted as a page."""
    charts = []
    for name, (title, unit, scale) in SHOWN.items():
        points = tuple((sample.at_us, getattr(sample, name) / scale) for sample in samples)
        charts.append(f"<section>{line_chart(title, [Series(title, points)], unit=unit)}</section>")
    last = samples[-1]
    lead = f"{last.queries_passed:,} queries came and went in {last.batches:,} batches."
    return page("Soak with churn", charts, lead=lead)
