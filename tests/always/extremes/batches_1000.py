"""A thousand tiny batches through thirty queries and two sinks: neither time nor memory nor files may grow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

from penstock.engine import Engine
from tests.always.extremes.fields import (
    expected,
    judge,
    mixed,
    prepare,
    session,
    sinks_in,
    write_files,
    wrong,
    wrongly_delivered,
)
from tests.always.extremes.trial import Trial, flatness, memory_mb

QUERIES = 30
BATCHES = 1_000


def run(trial: Trial, batches: int = BATCHES) -> None:
    """Process the files in one go; compare the last tenth of the batches with the second."""
    questions, files, state = mixed(QUERIES), trial.folder / "files", trial.folder / "state"
    write_files(files, range(batches))
    seconds: list[float] = []
    apart: list[float] = []
    held: list[dict[str, int]] = []
    counted: list[int] = []
    with Engine(state, spark=session(), sinks=sinks_in(trial.folder)) as engine:
        prepare(engine, files, questions)

        def note(inside: float, between: float) -> None:
            seconds.append(inside)
            apart.append(between)
            if len(seconds) % 10 == 0:
                held.append(memory_mb())
                counted.append(files_in(state))
            if len(seconds) % 100 == 0:
                trial.say(f"{len(seconds)} batches, {inside:.3f} s, {held[-1]}, {counted[-1]} files")

        watch(engine.stream("s").pipeline, note)
        engine.process_available(flush=True)
        judge(trial, "the answers are the model's", wrong(engine, expected(batches, questions)))
    judge(trial, "both sinks hold each answer once", wrongly_delivered(trial.folder, expected(batches, questions)))
    tenth = batches // 10
    early, late = slice(tenth, 2 * tenth), slice(batches - tenth, batches)
    trial.measure("batch_s", sorted(seconds)[batches // 2])
    for name, values, most in (("batch", seconds, 1.5), ("between_batches", apart, 2.5)):
        ratio = flatness(values, early, late)
        trial.measure(f"{name}_s_last_to_second_tenth", ratio)
        trial.claim(f"{name}: seconds stay flat (at most {most} times)", ratio <= most, f"{ratio:.2f}")
    few_early, few_late = slice(tenth // 10, 2 * tenth // 10), slice(-max(1, tenth // 10), None)
    for part, most in (("python", 1.15), ("jvm", 1.3)):
        values = [float(one[part]) for one in held]
        ratio = flatness(values, few_early, few_late)
        trial.measure(f"{part}_mb", [values[0], *values[few_early][:1], values[-1]])
        trial.measure(f"{part}_mb_last_to_second_tenth", ratio)
        trial.claim(f"memory of {part} stays flat (at most {most} times)", ratio <= most, f"{ratio:.2f}")
    trial.measure("files", [counted[0], counted[len(counted) // 2], counted[-1], max(counted)])
    trial.measure("files_of_invalid_rows", sum(1 for path in (state / "invalid").rglob("*.parquet")))
    ratio = max(counted[len(counted) // 2 :]) / max(counted[: len(counted) // 2])
    trial.claim("files of the state folder stay as many", ratio <= 1.5, f"{ratio:.2f}")


def watch(pipeline: Any, note: Callable[[float, float], None]) -> None:
    """Note after each batch how long it took, and how long ago the one before had ended."""
    process, ended = pipeline.process, [perf_counter()]

    def watching(*arguments: Any, **options: Any) -> None:
        began = perf_counter()
        between = began - ended[0]
        process(*arguments, **options)
        ended[0] = perf_counter()
        note(ended[0] - began, between)

    pipeline.process = watching


def files_in(folder: Path) -> int:
    """Count the files of a state folder but those by which Spark knows what it has read, and invalid rows."""
    return sum(1 for path in folder.rglob("*") if path.is_file() and not {"checkpoint", "invalid"} & {*path.parts})
