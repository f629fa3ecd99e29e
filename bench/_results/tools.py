"""Writes the sections on the tools: cold starts of the command line, and the simulator beside SimPy."""

from __future__ import annotations

import statistics

from bench._results.section import Chart, Document, Section, table, whole
from penstock.report.charts import Bar, bar_chart
from penstock.report.columns import named_columns
from penstock.report.curves import Curve

CLI = """\
How long does a person wait for the command line? Each command starts in a fresh process, its files in the disk
cache; the project that is checked has {queries} queries. Medians of {repetitions} starts."""
SIM = """\
How many scheduling points a second does the simulator decide, beside the same scenario in SimPy? {tuples} recorded
packets, {queries} queries, a load of {load:g}; both must give the same responses. Medians of {repetitions} runs."""


def cli(document: Document) -> Section:
    """Make the section on cold starts."""
    found = document["measurements"]
    medians = {f"penstock {name}": run["median_seconds"] for name, run in found["times"].items()}
    bars = [Bar(name, seconds, f"{seconds:.2f} s") for name, seconds in medians.items()]
    return Section(
        title="Command line",
        asked=CLI.format(**found["workload"]),
        command="penstock bench cli --json bench/results/cli.json",
        tables=(table("", ("command", "seconds"), [(n, f"{s:.2f}") for n, s in medians.items()]),),
        charts=(Chart("cli", "seconds of cold starts", bar_chart("Cold starts", bars, unit="seconds")),),
    )


def sim(document: Document) -> Section:
    """Make the section on the simulator."""
    found = document["measurements"]
    policies = [name for name, one in found.items() if isinstance(one, dict) and "points_per_second" in one]
    rates = {side: rate for name in policies for side, rate in found[name]["points_per_second"].items()}
    seconds = {side: statistics.median(s) for name in policies for side, s in found[name]["seconds"].items()}
    values = Curve("points a second", tuple((float(i), rate) for i, rate in enumerate(rates.values())))
    drawing = named_columns("Simulator", list(rates), values, upward="scheduling points a second", powers=True)
    rows = [(side, whole(rate), f"{seconds[side]:.3f}") for side, rate in rates.items()]
    return Section(
        title="Simulator",
        asked=SIM.format(**found["workload"]),
        command="penstock bench sim --json bench/results/sim.json",
        tables=(table("", ("run", "points a second", f"seconds for {found['points']:,} points"), rows),),
        charts=(Chart("sim", "scheduling points a second, Penstock and SimPy", drawing),),
    )
