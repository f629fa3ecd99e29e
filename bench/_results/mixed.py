"""Writes the section on mixed loads: an airline's queries, an encyclopedia's, and drawn ones."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from bench._results.section import Chart, Document, Section, Table, mebibytes, table, whole
from penstock.model.strategy import DEFAULT_STRATEGY
from penstock.report.charts import Bar, bar_chart

ASKED = """\
What do queries cost that have little in common, as in real projects? 34 queries of 13 groupings (counts, averages,
percentiles, distinct counts, top lists, windows of rows) run over {flights:,} flights of a year, together, one by one,
and some of them as Structured Streaming queries of their own and in DuckDB (scaled to all 34). 90 queries of 7
groupings and 14 predicates run over batches of {edits:,} edits, beside micro-batches in which nothing is done. Where
they are at hand, an hour of real packets (LBL-PKT-4; Paxson and Floyd 1995) is asked 44 queries. Up to {drawn:,}
queries are drawn by a grammar. All other rows are generated with a seed."""


def mixed(document: Document) -> Section:
    """Make the section."""
    found = document["measurements"]
    load = found["workload"]
    edits = load["edits"] // load["edit_batches"]
    return Section(
        title="Mixed loads",
        asked=ASKED.format(flights=load["flights"], edits=edits, drawn=max(load["drawn"])),
        command="penstock bench mixed --json bench/results/mixed.json",
        tables=(
            _flights(found["flights"]),
            *_strategies(found),
            _steps(found),
            *spark_steps_table(found),
            _batches(found),
        ),
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
    """List what other strategies take, if they were measured in turns."""
    loads = {name: found.get(name, {}).get("strategies", {}) for name in ("flights", "edits", "packets")}
    loads |= {"drawn": found.get("drawn_strategies", {}), **found.get("alike", {})}
    sides = {name: side for name, side in loads.items() if "seconds" in side}
    names = list(dict.fromkeys(name for side in sides.values() for name in side["seconds"]))
    if not names:
        return ()
    rows = [
        (load, *(_middle(side["seconds"].get(name, [])) for name in names), f"{side['noise']:.2f}")
        for load, side in sides.items()
    ]
    headings = ["by cost, as usual" if name == DEFAULT_STRATEGY else name for name in names]
    said = "Processor seconds with each strategy (edits and drawn: of the batches after the first ones), middle runs"
    return (table(f"{said}; at the end, the dearest run by cost / the cheapest:", ("load", *headings, "spread"), rows),)


def _middle(seconds: Sequence[float]) -> str:
    """Write the middle of some times, if there are any."""
    return f"{statistics.median(seconds):.3g}" if seconds else ""


def _runs(found: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """List the runs of all queries together, by load."""
    loads = {name: found[name] for name in ("flights", "edits", "packets") if "together" in found.get(name, {})}
    return {name: load["together"] for name, load in loads.items()}


def _steps(found: Mapping[str, Any]) -> Table:
    """List where the time goes."""
    names = ["job", "ingest", "commit", "answer", "log", "sink"]
    runs = _runs(found)
    rows = [
        (name, *(f"{ran['steps'].get(step, 0):.2f}" for step in names), f"{ran['seconds']:.2f}")
        for name, ran in runs.items()
    ]
    said = "Seconds by step, of the stream's own windows (log and sink are parts of answer); the rest is Spark's"
    return table(f"{said} and that of windows of rows:", ("load", *names, "all"), rows)


def spark_steps_table(found: Mapping[str, Any]) -> tuple[Table, ...]:
    """List where Spark's own time goes, and what it sends, if these were measured."""
    runs = {name: ran for name, ran in _runs(found).items() if ran.get("spark_steps")}
    if not runs:
        return ()
    names = list(next(iter(runs.values()))["spark_steps"])
    rows = [(name, *(f"{ran['spark_steps'][step]:.2f}" for step in names)) for name, ran in runs.items()]
    said = "Seconds that Spark itself tells, tasks of both cores together"
    if "transfer" in names:
        names, said = [*names, "MiB sent"], f"{said}; transfer is what results take beyond that to be in the driver"
        rows = [(*row, mebibytes(ran["transferred_bytes"])) for row, ran in zip(rows, runs.values(), strict=True)]
    return (table(f"{said}:", ("load", *names), rows),)


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
