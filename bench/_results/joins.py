"""Writes the section on joins of two streams: own step against Spark's stream–stream joins, one join and many."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from bench._results.section import Chart, Document, Section, Table, table
from penstock.report.charts import Bar, bar_chart

ASKED: Final = """\
What do joins of two streams cost, beside stream–stream joins of Spark's that answer the same? Two streams of {each:,}
rows come in {files} batches each; rows are joined by one of {customers:,} keys and times within {ranges}. At the widest
range, half of all rows are retained. The joins equate the same column and differ in range and condition: Spark runs a
streaming query for each, Penstock carries them out as one. All run until pairs are counted and summed exactly and the
state is on disk. {repeated}"""
SIDES: Final = {
    "penstock": "Penstock",
    "spark, in memory": "Spark, state in memory",
    "spark, RocksDB": "Spark, state in RocksDB",
}
PARTS: Final = ("one join", "all joins")
PROCESSORS: Final = "processor_seconds"


def joins(document: Document) -> Section:
    """Make the section."""
    found = document["measurements"]
    sizes, parts = found["workload"], [found[name] for name in PARTS if name in found]
    alone, every = sizes["repetitions"], sizes.get("repetitions_of_all", sizes["repetitions"])
    repeated = _repeated(alone) if alone == every else f"one join: {_repeated(alone)} All joins: {_repeated(every)}"
    repeated = repeated[0].upper() + repeated[1:]
    reaches = [f"{seconds:,}" for seconds in sizes["ranges_s"]]
    ranges = f"{', '.join(reaches[:-1])} or {reaches[-1]} s" if len(reaches) > 1 else f"{reaches[0]} s"
    told = {name: sizes[name] for name in ("files", "customers")}
    return Section(
        title="Joins of two streams",
        asked=ASKED.format(**told, each=sizes["rows"] // 2, ranges=ranges, repeated=repeated),
        command="penstock bench joins --json bench/results/joins.json",
        tables=tuple(map(_seconds, parts)),
        charts=(_chart(parts[-1]),) if parts else (),
    )


def _repeated(runs: int) -> str:
    """Say of how many runs the best one is shown."""
    return "one run each." if runs == 1 else f"best of {runs} runs."


def _best(part: Mapping[str, Any], side: str, measure: str) -> float | None:
    """Return the least seconds of a side's runs."""
    runs = part["runs"].get(side)
    return min(run[measure] for run in runs) if runs else None


def _named(part: Mapping[str, Any]) -> str:
    """Say which joins a part has."""
    return "one join, within the widest range" if part["joins"] == 1 else f"{part['joins']} joins"


def _seconds(part: Mapping[str, Any]) -> Table:
    """List the seconds of all sides, by the clock and of processors, and how many times Penstock's they are."""
    rows = []
    for side, name in SIDES.items():
        cells = [name]
        for measure in ("seconds", PROCESSORS):
            value, ours = _best(part, side, measure), _best(part, "penstock", measure)
            least = "at least " if any(run.get("stopped") for run in part["runs"].get(side, ())) else ""
            told = ["", ""] if value is None or not ours else [f"{least}{value:.1f}", f"{least}{value / ours:.1f}"]
            cells += told
        rows.append(cells)
    named = _named(part)
    caption = f"{named[0].upper()}{named[1:]}, {part['pairs']:,} pairs:"
    return table(caption, ("run", "seconds", "times Penstock's", "processor seconds", "times Penstock's"), rows)


def _chart(part: Mapping[str, Any]) -> Chart:
    """Draw the processor seconds of all sides."""
    found = {name: _best(part, side, PROCESSORS) for side, name in SIDES.items()}
    bars = [
        Bar(name, value, f"{value:.1f} s", colour=int(name != SIDES["penstock"]))
        for name, value in found.items()
        if value is not None
    ]
    drawing = bar_chart(f"Two streams, {_named(part)}", bars, unit="processor seconds")
    return Chart("joins", "processor seconds of joins of two streams, in Penstock and in Spark", drawing)
