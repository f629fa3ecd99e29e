"""Writes the section on groupings: together and each alone, percentiles, and a million keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench._results.section import Chart, Document, Section, Table, mebibytes, table, whole
from penstock.report.charts import Bar, bar_chart

ASKED = """\
What does it save to group one stream in eight ways at once? 64 queries with 8 groupings run together, then the
queries of each grouping alone: real bars of option contracts, and trades of 3,000 symbols. The 240 percentile and
distinct-count queries of Golab, Bijay and Özsu (2006, §5.1) run shared and unshared over {packets:,} packets. Fifty
queries run over a hundred thousand and over a million keys, on two executors of 2 GB."""
SETS = {"option bars": "Option bars", "trades": "Trades"}


def groupings(document: Document) -> Section:
    """Make the section."""
    found = document["measurements"]
    load = found["workload"]
    return Section(
        title="Groupings and aggregates",
        asked=ASKED.format(packets=load["packet_seconds"] * load["packet_rate"]),
        command="penstock bench groupings --json bench/results/groupings.json",
        tables=(_sets(found), _steps(found), _alone(found), _packets(found), _keys(found)),
        charts=(_sharing(found),),
    )


def _sets(found: Mapping[str, Any]) -> Table:
    """List both data sets."""
    rows = []
    for key, name in SETS.items():
        one = found[key]
        alone, together = (one["times"][side]["median_seconds"] for side in ("each grouping alone", "together"))
        figures = (f"{alone:.2f}", f"{together:.2f}", whole(one["answers"]))
        rows.append((name, whole(one["rows"]), whole(one["queries"]), *figures, str(len(one["differing"]))))
    head = (
        "data",
        "rows",
        "queries",
        "each alone, s",
        "together, s",
        "answers",
        "answers that differ",
    )
    return table("", head, rows)


def _steps(found: Mapping[str, Any]) -> Table:
    """List where the time of the runs together goes."""
    names = list(found["trades"]["steps"])
    rows = [(name, *(f"{found[key]['steps'][step]:.2f}" for step in names)) for key, name in SETS.items()]
    return table("Seconds by step, together:", ("data", *names), rows)


def _alone(found: Mapping[str, Any]) -> Table:
    """List each grouping alone."""
    rows = [
        (name, ", ".join(each["by"]) or "no keys", f"{each['seconds']:.2f}")
        for key, name in SETS.items()
        for each in found[key]["each"]
    ]
    return table("Each grouping alone:", ("data", "grouped by", "seconds"), rows, words=(0, 1))


def _packets(found: Mapping[str, Any]) -> Table:
    """List percentiles and distinct counts."""
    one = found["percentiles and distinct counts"]
    rows = [
        (f"shared, {one['queries']} queries, seconds", f"{one['shared_seconds']:.1f}"),
        (f"unshared, {one['unshared_queries']} of them, seconds", f"{one['unshared_seconds']:.1f}"),
        (f"unshared, scaled to {one['queries']}, seconds", f"{one['unshared_seconds_of_all']:.1f}"),
        ("answers, in thousands", whole(one["answers"] / 1000)),
        ("answers that differ", str(len(one["differing"]))),
    ]
    return table("Percentiles and distinct counts over packets:", ("run", "figure"), rows)


def _keys(found: Mapping[str, Any]) -> Table:
    """List few and many keys."""
    rows = [
        (
            whole(one["crowd"]["keys"]),
            f"{one['seconds']:.0f}",
            whole(one["answers"]),
            f"{len(one['differing'])} of {one['compared']:,}",
            mebibytes(one["driver_heap_bytes"]),
            mebibytes(one["driver_python_bytes"]),
        )
        for one in found["many keys"]
    ]
    head = ("keys", "seconds", "answers", "sampled answers that differ", "driver's heap, MiB", "driver's Python, MiB")
    return table("Partials kept by the executors:", head, rows)


def _sharing(found: Mapping[str, Any]) -> Chart:
    """Draw together and alone."""
    bars = []
    for key, name in SETS.items():
        for side, colour in (("together", 0), ("each grouping alone", 1)):
            seconds = found[key]["times"][side]["median_seconds"]
            bars.append(Bar(f"{name}: {side}", seconds, f"{seconds:.1f} s", colour=colour))
    one = found["percentiles and distinct counts"]
    bars.append(Bar("Packets: shared", one["shared_seconds"], f"{one['shared_seconds']:.1f} s"))
    scaled = one["unshared_seconds_of_all"]
    unshared = Bar(
        "Packets: unshared", scaled, f"{scaled:.0f} s", measured=False, colour=1, instead="scaled from a tenth"
    )
    bars.append(unshared)
    drawing = bar_chart("Groupings together and alone", bars, unit="seconds")
    return Chart("groupings", "seconds of groupings together and alone", drawing)
