"""Writes the section on predicates: seconds, counts beside the paper's, and thousands of queries at once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from bench._predicates import report
from bench._results.section import Chart, Document, Section, table
from penstock.report.charts import Bar, bar_chart
from penstock.report.curves import Curve, curve_chart

ASKED = """\
What do hundreds of different predicates cost, shared, each alone, and as one CASE per query? {rows:,} trades,
{hours:.1f} hours of event time in {files} batches, joined with two tables, until all answers are in the Parquet
sink and the state on disk: workloads B (n predicates, one window of 600 s), C regular (√n predicates × √n windows)
and C low (n predicates, n windows) of Krishnamurthy, Wu and Franklin (2006, §6). Medians of {repetitions} runs.
Constants are values of random trades. CASE is one CASE per query in a plain Spark job, on a JVM that compiles large
methods and on one with default options."""
COUNTED = "Operations, counted as the paper counts them, and seconds, by the hour of event time, beside its figures:"
KINDS = ("B", "C regular", "C low")


def predicates(document: Document) -> Section:
    """Make the section."""
    found = document["measurements"]
    hours = next(iter(found["counts"].values()))["hours"]
    crowd = f"{found['thousands']['queries']:,} queries at once"
    return Section(
        title="Predicates",
        asked=ASKED.format(**found["workload"], hours=hours),
        command="penstock bench predicates --json bench/results/predicates.json",
        tables=(
            table("", report.TIMES, report.times(found)),
            table(
                "The paper's parameters (§4.3.3), counted on these trades:", report.PARAMETERS, report.parameters(found)
            ),
            table(COUNTED, report.BESIDE, report.beside(found)),
            table("", (crowd, "figure"), report.thousands(found)[1:]),
        ),
        charts=(_by_number(found), _at(found)),
    )


def _by_number(found: Mapping[str, Any]) -> Chart:
    """Draw the seconds over the number of predicates."""
    curves = [Curve(kind, _points(found["times"], kind)) for kind in KINDS]
    drawing = curve_chart("Shared predicates", curves, across="queries, each with its predicate", upward="seconds")
    return Chart("predicates", "seconds over the number of queries with different predicates", drawing)


def _points(times: Mapping[str, Any], kind: str) -> tuple[tuple[float, float], ...]:
    """List the shared runs of a workload."""
    found = ((re.fullmatch(rf"{kind} (\d+)", name), run) for name, run in times.items())
    return tuple((float(match[1]), run["median_seconds"]) for match, run in found if match)


def _at(found: Mapping[str, Any]) -> Chart:
    """Draw what sharing saves at the size at which all sides are measured."""
    at, times = found["workload"]["at"], found["times"]
    names = [n for kind in KINDS for n in (f"{kind} {at}", f"{kind} {at}, unshared")]
    names += [f"CASE {at}, compiled", f"CASE {at}, default JVM"]
    bars = [
        Bar(
            name if "CASE" in name or "unshared" in name else f"{name}, shared",
            times[name]["median_seconds"],
            f"{times[name]['median_seconds']:.1f} s",
            measured="scaled_from_rows" not in times[name],
            instead="scaled",
            colour=1 if "unshared" in name else 3 * ("CASE" in name),
        )
        for name in names
        if name in times
    ]
    drawing = bar_chart(f"{at} queries, each with its predicate", bars, unit="seconds")
    return Chart("predicates-sharing", f"seconds of {at} queries, shared, unshared and as CASE", drawing)
