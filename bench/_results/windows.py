"""Writes the section on windows: seconds by number of queries, against plain Spark and the bare limit."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from bench._results.section import Chart, Document, Section, Table, mebibytes, table, whole
from penstock.report.charts import Bar, bar_chart
from penstock.report.curves import Curve, curve_chart

ASKED = """\
How do the seconds grow with the number of queries, beside plain Structured Streaming and beside the least that
Spark can do? {rows:,} trades in {files} batches, until all answers are in the Parquet sink and the state on disk:
workload A of Krishnamurthy, Wu and Franklin (2006, §6: ranges of 600–900 s, slides of 300–600 s). Medians of
{repetitions} runs, in turns."""
WORDS = {
    "bare limit": "bare limit: the same batches, one ungrouped sum",
    "hand-tuned 1": "hand-tuned single query, by the second, no state",
    "penstock overlapping": "Penstock, one window of 3600 s / 60 s",
    "plain overlapping": "plain, one window of 3600 s / 60 s",
}
BESIDE_BARS = {"bare limit": "bare limit: one ungrouped sum", "hand-tuned 1": "hand-tuned single query, no state"}


def windows(document: Document) -> Section:
    """Make the section."""
    found = document["measurements"]
    return Section(
        title="Windows",
        asked=ASKED.format(**found["workload"]),
        command="penstock bench windows --full --json bench/results/windows.json",
        tables=(_times(found), _small(found), _operations(found), _memory(found)),
        charts=(by_number(found), _one_query(found)),
    )


def by_number(found: Mapping[str, Any]) -> Chart:
    """Draw the seconds over the number of queries, as far as plain Spark was measured."""
    plain, ours = (_points(found["times"], side) for side in ("plain", "penstock"))
    shown = tuple(point for point in ours if point[0] <= plain[-1][0])
    curves = [Curve("Penstock", shown), Curve("plain Structured Streaming", plain)]
    title = f"{found['workload']['rows'] / 1e6:g} million trades"
    drawing = curve_chart(title, curves, across="continuous queries", upward="seconds")
    return Chart("windows", "seconds over the number of queries, Penstock and plain Structured Streaming", drawing)


def _one_query(found: Mapping[str, Any]) -> Chart:
    """Draw the runs of one query."""
    names = ("bare limit", "hand-tuned 1", "penstock 1", "plain 1", "penstock overlapping", "plain overlapping")
    bars = [
        Bar(
            BESIDE_BARS.get(n, _said(n)),
            run["median_seconds"],
            f"{run['median_seconds']:.1f} s",
            colour=int(n.startswith("plain")),
        )
        for n in names
        if (run := found["times"].get(n)) is not None
    ]
    return Chart("windows-one", "seconds of one query", bar_chart("One query", bars, unit="seconds"))


def _points(times: Mapping[str, Any], side: str) -> tuple[tuple[float, float], ...]:
    """List the runs of a side without groups: number of queries, seconds."""
    found = ((re.fullmatch(rf"{side} (\d+)", name), run) for name, run in times.items())
    return tuple((float(match[1]), run["median_seconds"]) for match, run in found if match)


def _said(name: str) -> str:
    """Say what a run is."""
    if name in WORDS:
        return WORDS[name]
    number = int(name.split()[-1])
    side = "Penstock" if name.startswith("penstock") else "plain Structured Streaming"
    groups = " by symbol (3,000)" if "by symbol" in name else ", a folder for each" if "in folders" in name else ""
    return f"{side}, {number:,} {'query' if number == 1 else 'queries'}{groups}"


def _times(found: Mapping[str, Any]) -> Table:
    """List all runs."""
    bare = found["times"]["bare limit"]["median_seconds"]
    rows = [
        (
            _said(name),
            f"{run['median_seconds']:.2f}",
            f"{run['rows_per_second'] / 1e6:.2f}",
            f"{run['median_seconds'] / bare:.2f}",
            "" if "creating_seconds" not in run else f"{run['creating_seconds']:.2f}",
        )
        for name, run in found["times"].items()
    ]
    return table("", ("run", "seconds", "M rows/s", "× bare limit", "creating queries, s"), rows)


def _small(found: Mapping[str, Any]) -> Table:
    """List small batches."""
    load = found["workload"]
    batches = f"{load['small_batches']} batches of {load['small_rows']:,} rows"
    caption = f"Small batches: {load['small_queries']} queries, {batches}."
    rows = [(name, f"{s * 1000:.0f}") for name, s in found["small_batches"]["median_batch_seconds"].items()]
    return table(caption, ("run", "median batch, ms"), rows)


def _operations(found: Mapping[str, Any]) -> Table:
    """List counted operations beside the published ones."""
    rows = []
    for strategy, count in found["operations"].items():
        told = count["published"] or {"partial": None, "final": None}
        rows.append((strategy, *map(whole, (count["partial"], count["final"], told["partial"], told["final"]))))
    head = ("strategy", "partial", "final", "published partial", "published final")
    counted = found["workload"]["counted"]
    caption = f"Operations of {counted} queries, counted as the paper counts them (figure 13, over 1,138,636 rows)."
    return table(caption, head, rows)


def _memory(found: Mapping[str, Any]) -> Table:
    """List what a run holds, in few batches and in many."""
    keys = (
        "python_peak_bytes",
        "jvm_peak_bytes",
        "jvm_live_bytes",
        "python_bytes_after_a_third",
        "python_bytes_at_the_end",
    )
    rows = [(str(run["files"]), *(mebibytes(run[key]) for key in keys)) for run in found["memory"]]
    head = ("batches", "Python peak", "JVM peak", "JVM live", "Python after a third", "Python at the end")
    peak = found["peak_memory"]
    python, jvm = (mebibytes(peak[side]) for side in ("python_bytes", "jvm_bytes"))
    caption = (
        f"Memory in MiB, in processes of their own. The whole benchmark peaks at {python} (Python) and {jvm} (JVM)."
    )
    return table(caption, head, rows)
