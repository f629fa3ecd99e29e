"""Writes the section on filters: seconds by their number and by takers, the rivals, and bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench._results.section import Chart, Document, Section, table, whole
from penstock.report.curves import Curve, curve_chart

ASKED = """\
What do thousands of queries without a window cost over one stream? {rows:,} trades in {files} batches, until all
rows are in the Parquet sink, each once with the list of its queries, and in the state folder. A filter is a range of
prices, or a symbol with a range of prices or volumes; *takers* says how many of them take a row on average. Beside
them one Spark query with a CASE for each filter, exploded, on a JVM that compiles large methods; a streaming query for
each filter; and Esper with the trades in memory, in one thread, which counts what it answers and keeps nothing."""
BYTES = """\
Bytes of the rows that some filter takes: in the state folder, in the sink, and written once with nothing else. For a
query of their own each, and exploded, rows are written for every filter that takes them:"""
TIMES = ("run", "seconds", "processor s", "creating s", "answers", "rows")
ACTIONS = """\
A batch has one Spark action for windows and one for rows; below, what one action for both would take: all rows come to
the driver, which chooses. The median of seven, the state and sinks left out:"""
ESPER = "Processor seconds of Penstock over those of Esper, which neither stores nor writes anything:"


def filters(document: Document) -> Section:
    """Make the section."""
    found = document["measurements"]
    runs, workload = found["runs"], found["workload"]
    beside = found.get("esper", {})
    return Section(
        title="Filters",
        asked=ASKED.format(**workload),
        command="penstock bench filters --json bench/results/filters.json",
        tables=(
            table(
                "",
                ("run", "seconds", "processor s", "creating s", "answers", "rows"),
                [_times(*r) for r in runs.items()],
            ),
            table(BYTES, ("run", "state", "sink", "once", "state / once"), [_bytes(*run) for run in runs.items()]),
            *_skipped(found),
            *_actions(found),
            *([table(ESPER, ("filters", "ratio"), [(n, f"{r:.1f}") for n, r in beside.items()])] if beside else ()),
        ),
        charts=(_chart(runs, workload),),
    )


def _times(name: str, run: Mapping[str, float]) -> tuple[str, ...]:
    """Write what a run took and answered."""
    seconds = [f"{run[kind]:.2f}" for kind in ("seconds", "processor_s", "creating_s")]
    return (name, *seconds, whole(run["answers"]), whole(run["rows"] or None))


def _bytes(name: str, run: Mapping[str, float]) -> tuple[str, ...]:
    """Write what a run stored."""
    sizes = [run[kind] for kind in ("taken_bytes", "sink_bytes", "once_bytes")]
    ratio = f"{sizes[0] / sizes[2]:.2f}" if sizes[2] else ""
    return (name, *(f"{size / 2**20:,.1f} MiB" if size else "" for size in sizes), ratio)


def _actions(found: Mapping[str, Any]) -> list[Any]:
    """Compare the two actions of a batch with one."""
    names = ("two_s", "one_s", "two_processor_s", "one_processor_s")
    rows = [
        (whole(one["rows"]), f"{one['taken']:.0%}", *(f"{one[name]:.3f}" for name in names))
        for one in found.get("actions", ())
    ]
    head = ("rows", "taken", "two: seconds", "one: seconds", "two: processor s", "one: processor s")
    return [table(ACTIONS, head, rows)] if rows else []


def _skipped(found: Mapping[str, Any]) -> list[Any]:
    """Say who was not measured, and why."""
    rows = [(name, why) for name, why in found.get("skipped", {}).items()]
    return [table("Not measured:", ("rival", "reason"), rows, words=(0, 1))] if rows else []


def _chart(runs: Mapping[str, Mapping[str, float]], workload: Mapping[str, Any]) -> Chart:
    """Draw seconds over the number of filters."""
    curves = [
        Curve(
            f"{takers:g} takers a row",
            tuple((float(n), runs[name]["seconds"]) for n in workload["filters"] if (name := _ours(n, takers)) in runs),
        )
        for takers in workload["takers"]
    ]
    for side, numbers in (("one CASE each", workload["by_case"]), ("separate queries", workload["separate"])):
        points = tuple((float(n), runs[f"{side}, {n}"]["seconds"]) for n in numbers if f"{side}, {n}" in runs)
        curves.append(Curve(side, points))
    drawing = curve_chart("Filters", [c for c in curves if c.points], across="filters", upward="seconds")
    return Chart("filters", "seconds over the number of filters", drawing)


def _ours(number: int, takers: float) -> str:
    """Name a run of Penstock's."""
    return f"Penstock {number}, {takers:g} takers"
