"""Tells from the trace of an engine at which load it would fall behind, and what more rows, queries or keys would take.

Processor time is counted, not guessed: between the first and the last batch of a run. What grows with the rows is told
from what does not by batches of different sizes, or by the rates of this machine where all are alike. The stream's own
time is the measure of speed: an engine keeps up if an hour of the stream takes less than an hour.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import expm1, inf
from typing import Final

import numpy as np

from penstock.errors import StateError
from penstock.model.arrays import FloatArray
from penstock.schedule.recorded import RecordedWindows
from penstock.schedule.recorded_operators import RecordedOperatorStep, workers_at_once
from penstock.share.weave.costs import Rates
from penstock.store.batch_trace import RecordedBatch, known_shares

WARM: Final = 2  # batches of a run that are left out: in them code is generated
FEWEST: Final = 3  # batches beyond these
VARIED: Final = 0.15  # deviation over mean of batches' rows, from which on their costs tell a line
THREADS: Final = 2  # that are at work while Spark plans and compiles a batch's job, which takes as long without rows
BUSY: Final = 0.8  # of a core's time that is to be used at most
MOST: Final = 1e6  # times the rows, beyond which nobody asks


@dataclass(frozen=True, slots=True)
class LoadGrowth:
    """How many times the rows, queries and keys of now."""

    rows: float = 1.0
    queries: float = 1.0
    keys: float = 1.0


@dataclass(frozen=True, slots=True)
class RunCost:
    """Seconds of a run: those that do not depend on its rows, and those that do."""

    fixed: float
    by_rows: float

    def at(self, rows: float) -> float:
        """Return the seconds at so many times the rows."""
        return self.fixed + self.by_rows * rows


@dataclass(frozen=True, slots=True)
class MeasuredLoad:
    """What a run did, after its first batches, as seconds for the whole of it."""

    batches: int
    rows: int
    stream_s: float  # of the stream's time
    cores: int
    spark: RunCost  # processor time
    driver: RunCost  # but for filing, committing and answering
    filing: float  # processor time of the driver
    answering: float
    elapsed: Mapping[str, tuple[RunCost, float]]  # by stream: of jobs, and of filing and committing
    answered_s: float  # elapsed, of all streams: one is answered at a time
    fill: tuple[tuple[float, float], ...]  # rows and partials of each grouping, of a mean batch
    memory: tuple[float, float, float]  # bytes: partials, keys of groups, and the rest
    told_by: str  # what told the fixed part of a batch: "batches" or "rates"
    functions: RunCost = RunCost(0.0, 0.0)  # expensive ones, of all workers
    workers: int = 1

    def partials(self, growth: LoadGrowth) -> float:
        """Return how many times the partials there would be."""
        before = sum(made for _, made in self.fill)
        return sum(made * _filled(rows, made, growth) for rows, made in self.fill) / before if before else 1.0

    def processor_s(self, growth: LoadGrowth) -> float:
        """Return the processor time that a load would take."""
        answers = self.answering * growth.queries * growth.keys
        made = self.filing * self.partials(growth) * growth.queries
        return self.spark.at(growth.rows) + self.driver.at(growth.rows) + made + answers + self.functions_s(growth)

    def functions_s(self, growth: LoadGrowth) -> float:
        """Return the seconds that expensive functions would take, of all workers."""
        return self.functions.at(growth.rows) * growth.queries

    def elapsed_s(self, growth: LoadGrowth) -> float:
        """Return how long the batches of the busiest stream would take, one after the other."""
        made = self.partials(growth) * growth.queries
        return max((job.at(growth.rows) + rest * made for job, rest in self.elapsed.values()), default=0.0)

    def uses(self, growth: LoadGrowth) -> dict[str, float]:
        """Tell for each thing that may run out which part of it a load would use: 1 is all."""
        answers = self.answered_s * growth.queries * growth.keys
        cores = self.processor_s(growth) / self.cores
        seconds = {"cores": cores, "batches": self.elapsed_s(growth), "answers": answers}
        seconds["functions"] = self.functions_s(growth) / self.workers
        return {name: used / self.stream_s for name, used in seconds.items()}

    def memory_bytes(self, growth: LoadGrowth) -> float:
        """Return how much of the driver's memory would be held."""
        partials, groups, rest = self.memory
        return partials * self.partials(growth) * growth.queries + groups * growth.keys + rest * growth.queries

    def cores_needed(self, growth: LoadGrowth) -> float:
        """Return how many cores would be used at four fifths of their time."""
        return self.processor_s(growth) / self.stream_s / BUSY

    def falls_behind_at(self) -> tuple[float, str]:
        """Return at how many times the rows something runs out first, and what; infinite: not at a million."""
        low, high = 0.0, 1.0
        while high < MOST and max(self.uses(LoadGrowth(high)).values()) < 1:
            low, high = high, high * 2
        if high >= MOST:
            return inf, "nothing"
        for _ in range(50):
            middle = (low + high) / 2
            late = max(self.uses(LoadGrowth(middle)).values()) >= 1
            low, high = (low, middle) if late else (middle, high)
        uses = self.uses(LoadGrowth(high))
        return high, max(uses, key=lambda name: uses[name])


def _filled(rows: float, partials: float, growth: LoadGrowth) -> float:
    """Return how many times the groups of a batch would be filled: rows fall into groups that are alike at random."""
    if partials <= 0:
        return 1.0
    load = _rows_a_group(rows / partials)
    groups = growth.keys / -expm1(-load)
    return groups * -expm1(-load * growth.rows / growth.keys)


def _rows_a_group(mean: float) -> float:
    """Return how many rows fall on a group if those that have some have so many: x / (1 − e⁻ˣ) is the mean."""
    low, high = 1e-9, max(1.0, mean)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if middle / -expm1(-middle) < mean else (low, middle)
    return high


def measured_load(
    batches: Sequence[RecordedBatch],
    windows: Sequence[RecordedWindows],
    rates: Rates,
    steps: Sequence[RecordedOperatorStep] = (),
) -> tuple[MeasuredLoad, list[RecordedBatch]]:
    """Take the newest run that has enough batches; also return those that were measured."""
    run, before = _newest(batches)
    cores, told = run[-1].cores, [*before[-1:], *run]
    rows = np.array([one.rows for one in run], np.float64)
    spark = np.array([_step(one.spark_s, other.spark_s) for one, other in pairwise(told)])
    driver = np.array([_step(one.driver_s, other.driver_s) for one, other in pairwise(told)])
    groups = {(one.group, one.stream): one for one in windows if one.run == run[-1].run}
    since, until = before[-1].ended_us, run[-1].ended_us
    took = [one.ended_us - one.began_us for one in groups.values() if since < one.ended_us <= until]
    answered = sum(took) / 1e6
    filing = sum(one.ingest_s + one.commit_s for one in run)
    whole = float(driver.sum())
    scale = min(1.0, whole * 0.95 / (filing + answered)) if filing + answered else 0.0  # what waits is no work
    line, told_by = _line(rows, spark, rates, THREADS)
    rest = max(0.0, whole - (filing + answered) * scale)
    sent = sum(one.rows_sent for one in run) / max(1.0, float(rows.sum()))
    mean = _mean_fill(run)
    last = run[-1]
    held = last.partials_bytes, last.groups_bytes, last.memory_bytes - last.partials_bytes - last.groups_bytes
    mine = [one for one in steps if one.run == run[-1].run and since < one.ended_us <= until]
    load = MeasuredLoad(
        batches=len(run),
        rows=int(rows.sum()),
        stream_s=_stream_s(told),
        cores=cores,
        spark=line,
        driver=RunCost(rest * (1 - sent), rest * sent),
        filing=filing * scale,
        answering=answered * scale,
        elapsed={name: _elapsed([b for b in run if b.stream == name], rates) for name in {b.stream for b in run}},
        answered_s=answered,
        fill=mean,
        memory=held,
        told_by=told_by,
        functions=RunCost(sum(one.set_up_s for one in mine), sum(one.seconds for one in mine)),
        workers=workers_at_once(mine),
    )
    return load, run


def _newest(batches: Sequence[RecordedBatch]) -> tuple[list[RecordedBatch], list[RecordedBatch]]:
    """Return the batches of the newest run that has enough of them, and its first ones apart."""
    for run in sorted({one.run for one in batches}, reverse=True):
        mine = [one for one in batches if one.run == run]
        if len(mine) >= WARM + FEWEST and all(one.spark_s is not None for one in mine):
            return mine[WARM:], mine[:WARM]
    known = max(sum(one.run == run for one in batches) for run in {one.run for one in batches})
    if any(one.spark_s is None for one in batches):
        what = "the trace does not tell Spark's processor time: its Java process was not started by the engine"
        raise StateError(what, hint="Record a trace on a machine where the engine starts Spark itself (local mode).")
    what = f"the trace has {known} batches of one run; {WARM + FEWEST} are needed, as the first {WARM} generate code"
    smaller = "options: {maxFilesPerTrigger: 1} of the stream in penstock.yml, or in OPTIONS of CREATE STREAM"
    raise StateError(what, hint=f"Let the engine run on, or read a source in smaller batches: {smaller}.")


def _step(before: float | None, after: float | None) -> float:
    """Return the processor seconds between two batches."""
    return max(0.0, (after or 0.0) - (before or 0.0))


def _line(rows: FloatArray, seconds: FloatArray, rates: Rates, threads: int) -> tuple[RunCost, str]:
    """Tell what of some batches' seconds depends on their rows; where all are alike, a batch takes the usual time."""
    total, mean = float(seconds.sum()), float(rows.mean())
    if len(rows) >= 2 * FEWEST and mean > 0 and float(rows.std()) / mean >= VARIED:
        slope = float(np.cov(rows, seconds, bias=True)[0, 1] / rows.var())
        by_rows = min(max(0.0, slope * float(rows.sum())), total)
        return RunCost(total - by_rows, by_rows), "batches"
    least = threads * float(rows.sum()) * (rates.scanned + rates.sliced + rates.copied + rates.keyed)
    by_rows = min(total, max(least, total - threads * len(rows) * (rates.batch + rates.several)))
    return RunCost(total - by_rows, by_rows), "rates"


def _elapsed(batches: Sequence[RecordedBatch], rates: Rates) -> tuple[RunCost, float]:
    """Tell how long a stream's jobs took, and the rest of its batches."""
    rows = np.array([one.rows for one in batches], np.float64)
    line, _ = _line(rows, np.array([one.job_s for one in batches]), rates, 1)
    return line, sum(one.ingest_s + one.commit_s for one in batches)


def _stream_s(batches: Sequence[RecordedBatch]) -> float:
    """Return how much of the stream's time has passed: the most of all streams, or the clock's if none tells."""
    found = [0.0]
    for name in {one.stream for one in batches}:
        marks = [one.watermark_us for one in batches if one.stream == name and one.watermark_us is not None]
        found.append((max(marks) - min(marks)) / 1e6 if marks else 0.0)
    clock = (batches[-1].ended_us - batches[0].ended_us) / 1e6
    return max(max(found) or clock, 1e-6)


def _mean_fill(batches: Sequence[RecordedBatch]) -> tuple[tuple[float, float], ...]:
    """Return rows and partials of each grouping in a mean batch."""
    found: list[tuple[float, float]] = []
    for name in sorted({one.stream for one in batches}):
        mine = [one for one in batches if one.stream == name]
        mine = [one for one in mine if len(one.partials) == len(mine[-1].partials)]
        rows = sum(one.rows for one in mine) / len(mine)
        made = np.array([one.partials for one in mine], np.float64).mean(axis=0).tolist()
        found += [(max(rows, each), each) for each in made if each > 0]
    return tuple(found)


def seconds_by_query(
    batches: Sequence[RecordedBatch],
    every: Sequence[RecordedBatch],
    windows: Sequence[RecordedWindows],
    steps: Sequence[RecordedOperatorStep] = (),
) -> dict[int, float]:
    """Charge queries with the seconds of the batches that were measured, of answers and of functions meanwhile."""
    found: dict[int, float] = {}
    measured = {(one.run, one.stream, one.number) for one in batches}
    for one, shares in known_shares(every):
        for query, share in shares.items() if (one.run, one.stream, one.number) in measured else ():
            found[query] = found.get(query, 0.0) + one.seconds * share
    since, until = min(one.began_us for one in batches), max(one.ended_us for one in batches)
    for some in windows:
        if some.run == batches[-1].run and since < some.ended_us <= until:
            for query in some.queries:
                found[query] = found.get(query, 0.0) + some.spent_s / len(some.queries)
    for one_step in steps:
        if one_step.run == batches[-1].run and since < one_step.ended_us <= until:
            for query in one_step.queries:
                took_s = (one_step.ended_us - one_step.began_us) / 1e6
                found[query] = found.get(query, 0.0) + took_s / len(one_step.queries)
    return found
