"""Writes the section on latency: a batch with many mixed queries until its answers are in a sink."""

from __future__ import annotations

from bench._results.section import Chart, Document, Section, Table, table
from penstock.report.charts import Bar, bar_chart

ASKED = """\
How long does a batch take with 100 and 1,000 mixed queries, from when Spark offers it to when all answers are in a
Parquet sink and the state is on disk? Beside it stand micro-batches of plain Spark over the same files, {rows:,} rows
each. Then a fresh process goes on with all queries after a restart; its first answers stand beside the first batch of
a fresh process in which Spark aggregates the same rows by one key."""


def latency(document: Document) -> Section:
    """Make the section."""
    found = document["measurements"]
    tables = (_batches(document), *((_restart(document),) if "restart" in found else ()))
    return Section(
        title="Latency",
        asked=ASKED.format(rows=found["workload"]["batch"]),
        command="penstock bench latency --json bench/results/latency.json",
        tables=tables,
        charts=(_chart(document),),
    )


def _named(document: Document) -> dict[str, dict[str, float]]:
    """List what was measured, by name."""
    found = document["measurements"]
    bare = {f"plain Spark: {name}": one for name, one in found["bare"].items()}
    return bare | {f"{int(count):,} mixed queries": one for count, one in found["queries"].items()}


def _batches(document: Document) -> Table:
    """List medians and 99th percentiles."""
    rows = [(name, f"{one['p50']:.3f}", f"{one['p99']:.3f}") for name, one in _named(document).items()]
    return table("Seconds of a batch, after the first ones:", ("run", "p50", "p99"), rows)


def _restart(document: Document) -> Table:
    """List when the first batches of fresh processes were done."""
    found = document["measurements"]["restart"]
    names = {f"{found['queries']:,} mixed queries after a restart": found["restarted"], "plain Spark": found["plain"]}
    places = (1, 2, 3, 10)
    rows = [
        (name, *(f"{ends[place - 1]:.2f}" if place <= len(ends) else "" for place in places))
        for name, ends in names.items()
    ]
    head = ("process", *(f"batch {place}" for place in places))
    return table("Seconds from Spark's start to the end of a batch, in a fresh process:", head, rows)


def _chart(document: Document) -> Chart:
    """Draw the medians."""
    named = _named(document)
    bars = [
        Bar(name, one["p50"], f"{one['p50']:.2f} s", colour=int(name.startswith("plain")))
        for name, one in named.items()
    ]
    drawing = bar_chart("A batch of mixed queries, median", bars, unit="seconds")
    return Chart("latency", "seconds of a batch with many mixed queries, and of plain Spark", drawing)
