"""Writes the section on the planner: what weaving costs, and how its plans do beside sharing all and nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench._results.section import Chart, Document, Section, Table, table, whole
from penstock.report.charts import Bar, bar_chart
from penstock.report.columns import named_columns
from penstock.report.curves import Curve

ASKED = """\
How long does Weave Share (Guirguis, Sharaf, Chrysanthis and Labrinidis 2011) take, are its plans good, and are its
predictions? {queries:,} queries are woven and {added} added; then live workloads run woven, all shared and
unshared, in turns, at {low:g} and {high:,g} rows a second. Medians of {repetitions} runs, timed from the third
batch on, when trees have been chosen."""
WORDS = {"k06-c": "K06 C", "w11": "W11", "w11-mixed": "W11 mixed"}
SIDES = {"weave": "woven", "shared paired": "shared paired", "unshared paired": "unshared paired"}


def planner(document: Document) -> Section:
    """Make the section."""
    found = document["measurements"]
    return Section(
        title="What to share",
        asked=ASKED.format(**found["workload"]),
        command="penstock bench planner --json bench/results/planner.json",
        tables=(_live(found), _planning(found), _evidence(found), _rates(found)),
        charts=(_ratios(found), _operations(found)),
    )


def _said(name: str) -> str:
    """Say which workload it is."""
    workload, _, rate = name.partition(" at ")
    return f"{WORDS.get(workload, workload)} at {rate}"


def _live(found: Mapping[str, Any]) -> Table:
    """List the live runs."""
    rows = [
        (
            f"{_said(name)}: {SIDES[side]}",
            str(run["trees"]),
            f"{run['median_seconds']:.2f}",
            f"{run['predicted_seconds']:.2f}",
            whole(run["partials"]),
        )
        for name, sides in found["live"].items()
        for side, run in sides.items()
    ]
    return table("", ("workload", "trees", "seconds", "predicted", "partials"), rows)


def _planning(found: Mapping[str, Any]) -> Table:
    """List what planning costs, and how good plans of small workloads are."""
    small, load = found["small"], found["workload"]
    rows = [
        (f"{load['queries']:,} queries woven, seconds", f"{found['planning']['seconds']:.2f}"),
        (f"{load['added']} more added, seconds", f"{found['planning']['adding_seconds']:.2f}"),
        ("trees", str(found["planning"]["trees"])),
        *((f"operations of {load['counted']} queries: {_step(n)}", whole(o)) for n, o in found["operations"].items()),
        (
            "unions of edges outside the 99.9 % bound",
            f"{found['sampler']['outside']} of {found['sampler']['unions']:,}",
        ),
        ("small plans as cheap as the best of all", f"{small['equal']} of {small['of']}"),
        ("the worst of them is dearer by", f"{small['worst_dearer']:.1%}"),
    ]
    return table("Planning alone:", ("what", "figure"), rows)


def _step(name: str) -> str:
    """Say which optimizations are on; each adds to those before it."""
    return name if name == "naive" else f"and {name}"


def _evidence(found: Mapping[str, Any]) -> Table:
    """List how near one tree for all comes to the best plan, where no plan should beat it."""
    rows = []
    for name, one in found["evidence"].items():
        fastest = min(plan["median_seconds"] for plan in one["plans_run"])
        shared = next(p for p in one["plans_run"] if len(p["plan"]) == 1)["median_seconds"]
        tried = str(len(one["plans_run"]))
        rows.append(
            (_said(name), str(one["classes"]), f"{one['shared_to_best_priced']:.2f}", tried, f"{shared / fastest:.2f}")
        )
    head = ("workload", "classes", "shared / best priced", "plans run", "shared / fastest run")
    return table("One tree for all beside all plans of a few classes of queries:", head, rows)


def _rates(found: Mapping[str, Any]) -> Table:
    """List the rates that the run measured first."""
    micros = {name: seconds * 1e6 for name, seconds in found["rates_seconds"].items()}
    rows = [(name, whole(rate) if rate >= 100 else f"{rate:.4g}") for name, rate in micros.items()]
    return table("Rates measured first, as by `penstock calibrate`:", ("rate", "µs"), rows)


def _ratios(found: Mapping[str, Any]) -> Chart:
    """Draw how much slower sharing all is than the woven plan."""
    bars = []
    for name, sides in found["live"].items():
        ratio = sides["shared paired"]["median_seconds"] / sides["weave"]["median_seconds"]
        bars.append(Bar(_said(name), ratio, f"{ratio:.2f} ×", colour=2 if ratio > 1.1 else 0))
    drawing = bar_chart("One tree for all / woven trees", bars, unit="ratio of seconds; above 1 weaving pays")
    return Chart("planner", "seconds of one tree for all, divided by those of woven trees", drawing)


def _operations(found: Mapping[str, Any]) -> Chart:
    """Draw the operations by optimization."""
    names = [_step(name) for name in found["operations"]]
    values = Curve("operations", tuple((float(i), float(o)) for i, o in enumerate(found["operations"].values())))
    drawing = named_columns("Operations of planning", names, values, upward="operations", powers=True)
    return Chart("planner-operations", "operations of planning, by optimization", drawing)
