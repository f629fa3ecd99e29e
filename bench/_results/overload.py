"""Writes the section on overload: operators behind queues by policy, replays of them, and a burst with caps."""

from __future__ import annotations

import statistics
from typing import Any

from bench._results.section import Chart, Document, Section, Table, mebibytes, table
from penstock.report.charts import Bar, bar_chart

ASKED = """\
What do policies do for functions that cost a thousand times a comparison, and what happens when rows come too fast?
{operators:,} operators in {classes:,} classes of cost, from 1 to {most:,} times {rounds:,} rounds of a hash, take rows
at a load of {load:g}; then three operators in a row, of which the last one lets {passed:.0%} pass. Arrivals are
{packets:,} packets of LBL-PKT-4, from its largest burst on. A query's slowdown is its wait over what its rows take by
themselves. Last, twice of what the worker can take arrives for {twice:,} ticks, four times of it for {four:,}, then
nothing more: five minutes of that would take a quarter of an hour to be worked off."""


def overload(document: Document) -> Section:
    """Make the section."""
    classes, row, burst = (document["measurements"]["workload"][name] for name in ("classes", "in_a_row", "burst"))
    asked = ASKED.format(
        operators=classes["operators"],
        classes=classes["classes"],
        most=2 ** (classes["classes"] - 1),
        rounds=classes["rounds"],
        load=classes["load"],
        passed=row["passed"],
        packets=classes["arrivals"]["packets"],
        twice=burst["twice"],
        four=burst["four_times"],
    )
    return Section(
        title="Overload",
        asked=asked,
        command="penstock bench overload --json bench/results/overload.json",
        tables=(_classes(document), _replay(document), _in_a_row(document), _burst(document)),
        charts=(_slowdowns(document), _peaks(document)),
    )


def _median(rounds: list[dict[str, Any]], name: str) -> float:
    """Return the median of a figure over all rounds."""
    return float(statistics.median(one[name] for one in rounds))


def _range(rounds: list[dict[str, Any]], name: str) -> str:
    """Write the least and the greatest of a figure."""
    return f"{min(one[name] for one in rounds):,.1f} to {max(one[name] for one in rounds):,.1f}"


def _classes(document: Document) -> Table:
    """List the slowdowns under each policy."""
    names = ("mean response", "mean slowdown", "maximum slowdown", "l2 slowdown")
    rows = [
        (policy, *(f"{_median(rounds, name):,.2f}" for name in names), _range(rounds, "mean slowdown"))
        for policy, rounds in document["measurements"]["classes"].items()
    ]
    what = f"Operators in classes of cost, a tick of {document['measurements']['tick of classes']:.2f} s:"
    return table(what, ("policy", *names, "mean slowdown, rounds"), rows)


def _replay(document: Document) -> Table:
    """List what replays of traces predicted beside what came."""
    names = ("live mean", "replayed mean", "live p95", "replayed p95")
    rows = [
        (
            *(row[name] for name in ("ran", "replayed")),
            *("unknown" if row[name] is None else f"{row[name]:.3f}" for name in names),
            *(
                "" if row["ran"] == row["replayed"] or row[n] is None else f"{row[n]:+.0%}"
                for n in ("predicted", "came")
            ),
        )
        for row in document["measurements"]["replay"]
    ]
    head = ("trace of", "replayed under", "mean, live", "mean, replayed", "p95, live", "p95, replayed")
    what = "Seconds of response in a trace of what ran, and in its replay under that policy and others:"
    return table(what, (*head, "predicted change of the mean", "the change that came"), rows, words=(0, 1))


def _in_a_row(document: Document) -> Table:
    """List the most bytes in queues, and the latency, under each policy."""
    rows = [
        (
            policy,
            mebibytes_of(_median(rounds, "peak bytes")),
            f"{_median(rounds, 'mean response'):.2f}",
            f"{_median(rounds, 'maximum response'):.2f}",
        )
        for policy, rounds in document["measurements"]["in a row"].items()
    ]
    bound = document["measurements"].get("bound of Chain-Flush")
    what = "Three operators in a row, the selective one last; seconds of response"
    what += ":" if bound is None else f", and a bound of {bound:.2f} s for Chain-Flush:"
    return table(what, ("policy", "peak of queues, MiB", "mean", "maximum"), rows)


def mebibytes_of(value: float) -> str:
    """Write few bytes as MiB."""
    return f"{value / 2**20:,.2f}" if value < 2**24 else mebibytes(round(value))


def _burst(document: Document) -> Table:
    """List what came of the burst."""
    rows = []
    for name, value in document["measurements"]["burst"].items():
        if isinstance(value, dict):
            text = ", ".join(f"{stage} {times:,}" for stage, times in value.items()) or "none"
        else:
            text = f"{value:,}"
        rows.append((name, text))
    return table(
        "What came of the burst; times are in seconds, stages with how often each was entered:", ("", ""), rows
    )


def _slowdowns(document: Document) -> Chart:
    """Draw the mean slowdowns."""
    bars = [
        Bar(policy, _median(rounds, "mean slowdown"), f"{_median(rounds, 'mean slowdown'):,.1f}")
        for policy, rounds in document["measurements"]["classes"].items()
    ]
    drawing = bar_chart("Mean slowdown of operators in classes of cost", bars, unit="times")
    return Chart("overload", "mean slowdown of operators in classes of cost, by policy", drawing)


def _peaks(document: Document) -> Chart:
    """Draw the peaks of what queues hold."""
    bars = [
        Bar(policy, _median(rounds, "peak bytes") / 1024, f"{_median(rounds, 'peak bytes') / 1024:,.0f} KiB", colour=1)
        for policy, rounds in document["measurements"]["in a row"].items()
    ]
    drawing = bar_chart("Peak of queue bytes, three operators in a row", bars, unit="KiB")
    return Chart("overload-queues", "the most bytes in queues of three operators in a row, by policy", drawing)
