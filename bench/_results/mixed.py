"""Writes the section on mixed loads: an airline's queries, an encyclopedia's, and drawn ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench._results.section import Chart, Document, Section, Table, mebibytes, table, whole
from penstock.report.charts import Bar, bar_chart

ASKED = """\
What do queries cost that have little in common, as in real projects? 34 queries of 13 groupings (counts, averages,
percentiles, distinct counts, top lists, windows of rows) run over {flights:,} flights of a year, together, one by one,
and some of them as Structured Streaming queries of their own and in DuckDB (scaled to all 34). 90 queries of 7
groupings and 14 predicates run over batches of {edits:,} edits, beside micro-batches in which nothing is done. Up
to {drawn:,} queries are drawn by a grammar. All rows are generated with a seed."""


def mixed(document: Document) -> Section:
    """Make the section."""
    found = document["measurements"]
    load = found["workload"]
    edits = load["edits"] // load["edit_batches"]
    return Section(
        title="Mixed loads",
        asked=ASKED.format(flights=load["flights"], edits=edits, drawn=max(load["drawn"])),
        command="penstock bench mixed --json bench/results/mixed.json",
        tables=(_flights(found["flights"]), *_strategies(found), *_alike(found), _steps(found), _batches(found)),
        charts=(_chart(found["flights"]),),
    )


def _flights(found: Mapping[str, Any]) -> Table:
    """List the ways in which the flights' queries were run."""
    together, alone = found["together"], found["alone_seconds"]
    dearest = max(alone, key=lambda name: alone[name])
    rows = [
        (
            "together",
            f"{together['seconds']:.1f}",
            f"{together['cpu_seconds']:.0f}",
            mebibytes(together["state_bytes"]),
        ),
        (
            "together, nothing shared",
            f"{found['unshared']['seconds']:.1f}",
            f"{found['unshared']['cpu_seconds']:.0f}",
            "",
        ),
        (f"the most expensive one alone ({dearest})", f"{alone[dearest]:.1f}", "", ""),
        ("one by one, all that were run, summed", f"{sum(alone.values()):.1f}", whole(found["alone_cpu_seconds"]), ""),
        ("Structured Streaming, scaled from a sample", f"{found['plain_seconds_of_all']:.1f}", "", ""),
        ("DuckDB over all rows at once, scaled from a sample", f"{found['duckdb_seconds_of_all']:.2f}", "", ""),
    ]
    return table("Flights:", ("run", "seconds", "processor seconds", "state, MiB"), rows)


def _strategies(found: Mapping[str, Any]) -> tuple[Table, ...]:
    """List what other strategies take, if they were measured."""
    if "strategies" not in found["flights"]:
        return ()
    usual = "by cost, as usual"
    flights = {usual: found["flights"]["together"]["seconds"], **found["flights"]["strategies"]}
    edits = {usual: found["edits"]["batch_seconds"], **found["edits"]["strategies"]}
    rows = [(name, f"{flights[name]:.1f}", f"{edits[name]:.3f}") for name in flights]
    head = ("strategy", "flights, seconds", "edits, seconds a batch")
    return (table("With other strategies:", head, rows),)


def _alike(found: Mapping[str, Any]) -> tuple[Table, ...]:
    """List what strategies take where queries are alike, if they were measured."""
    measured = found.get("alike", {})
    if not measured:
        return ()
    names = list(next(iter(measured.values())))
    rows = [(load, *(f"{seconds[name]:.2f}" for name in names)) for load, seconds in measured.items()]
    return (table("Where queries are alike, processor seconds:", ("load", *names), rows),)


def _steps(found: Mapping[str, Any]) -> Table:
    """List where the time goes."""
    names = ["job", "ingest", "commit", "answer"]
    rows = []
    for name in ("flights", "edits"):
        ran = found[name]["together"]
        rows.append((name, *(f"{ran['steps'][step]:.2f}" for step in names), f"{ran['seconds']:.2f}"))
    return table(
        "Seconds by step, of the stream's own windows; the rest is Spark's and that of windows of rows:",
        ("load", *names, "all"),
        rows,
    )


def _batches(found: Mapping[str, Any]) -> Table:
    """List what a batch takes."""
    edits = found["edits"]
    rows = [
        ("edits, 90 queries", whole(edits["batch_rows"]), f"{edits['batch_seconds']:.3f}"),
        ("nothing is done", whole(edits["batch_rows"]), f"{edits['empty_batch_seconds']:.3f}"),
        ("rows are counted", whole(edits["batch_rows"]), f"{edits['counted_batch_seconds']:.3f}"),
    ]
    size = found["workload"]["drawn_batch"]
    rows += [
        (f"{int(count):,} drawn queries", whole(size), f"{ran['steady_seconds']:.3f}")
        for count, ran in found["drawn"].items()
    ]
    rows += [
        (f"{found['workload']['drawn'][1]} drawn queries", whole(int(size)), f"{ran['steady_seconds']:.3f}")
        for size, ran in found["sizes"].items()
    ]
    return table("Seconds of a batch, medians after the first ones:", ("run", "rows a batch", "seconds"), rows)


def _chart(found: Mapping[str, Any]) -> Chart:
    """Draw the flights' queries together, unshared and in Spark alone."""
    seconds = {"together": found["together"]["seconds"], "nothing shared": found["unshared"]["seconds"]}
    bars = [Bar(name, value, f"{value:.1f} s", colour=place) for place, (name, value) in enumerate(seconds.items())]
    scaled = found["plain_seconds_of_all"]
    words = f"{scaled:.0f} s"
    bars.append(Bar("Structured Streaming", scaled, words, measured=False, colour=2, instead="scaled from a sample"))
    drawing = bar_chart("34 mixed queries over a year of flights", bars, unit="seconds")
    return Chart("mixed", "seconds of 34 mixed queries together, unshared, and as queries of Spark", drawing)
