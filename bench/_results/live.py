"""Writes the section on the live order of answers: who waits for whom, how stale answers are, what choosing costs."""

from __future__ import annotations

import statistics
from typing import Any

from bench._results.section import Chart, Document, Section, Table, table
from penstock.report.charts import Bar, bar_chart

ASKED = """\
How long does a cheap alert wait beside dear reports? A stream runs in the background; a file of {rows:,} trades appears
every second. {alerts:,} alerts are answered alone, then beside {reports:,} percentiles by {symbols:,} symbols that all
fall due together, and a sink that sleeps {sleep:g} s for every batch of answers. Then {queries:,} queries of very
different cost fall due at once, and every policy orders the same work; a query's slowdown is its wait over what its
window takes by itself."""


def live(document: Document) -> Section:
    """Make the section."""
    load, night = (document["measurements"]["workload"][name] for name in ("neighbours", "midnight"))
    asked = ASKED.format(
        rows=load["rows"],
        alerts=load["alerts"],
        reports=load["reports"],
        symbols=load["symbols"],
        sleep=load["sleep_seconds"],
        queries=night["queries"],
    )
    return Section(
        title="Live order of answers",
        asked=asked,
        command="penstock bench live --json bench/results/live.json",
        tables=(
            _neighbours(document),
            _midnight(document),
            *_replay(document),
            *_freshness(document),
            *_desk(document),
            *_sweeps(document),
        ),
        charts=(_chart(document),),
    )


def _median(rounds: list[dict[str, Any]], name: str) -> float | None:
    """Return the median of a figure over all rounds."""
    known = [one[name] for one in rounds if one[name] is not None]
    return statistics.median(known) if known else None


def _range(rounds: list[dict[str, Any]], name: str) -> str:
    """Write the least and the greatest of a figure."""
    return f"{min(one[name] for one in rounds):.2f} to {max(one[name] for one in rounds):.2f}"


def _neighbours(document: Document) -> Table:
    """List how long alerts and reports wait."""
    rows = []
    for name, rounds in document["measurements"]["neighbours"].items():
        reports = _median(rounds, "reports_p50")
        rows.append(
            (
                name,
                f"{_median(rounds, 'p50'):.2f}",
                f"{_median(rounds, 'p99'):.2f}",
                _range(rounds, "p99"),
                "" if reports is None else f"{reports:.2f}",
            )
        )
    head = ("alerts", "p50", "p99", "p99, rounds", "reports, p50")
    return table("Seconds from the file that made a window final to its answer in a sink:", head, rows)


def _midnight(document: Document) -> Table:
    """List the slowdowns under each policy."""
    names = ("mean slowdown", "maximum slowdown", "l2 slowdown", "kept")
    rows = [
        (policy, *(f"{_median(rounds, name):,.2f}" for name in names))
        for policy, rounds in document["measurements"]["midnight"].items()
    ]
    return table("Queries that are due together, by policy:", ("policy", *names[:-1], "deadlines kept"), rows)


def _replay(document: Document) -> tuple[Table, ...]:
    """List what replays of traces predicted beside what came; a run from before traces were kept has none."""
    if "replay" not in document["measurements"]:
        return ()
    rows = [
        (
            row["ran"],
            row["replayed"],
            *(_seconds(row[name]) for name in ("live mean", "replayed mean", "live p95", "replayed p95")),
            *("" if row["ran"] == row["replayed"] else _percent(row[name]) for name in ("predicted", "came")),
        )
        for row in document["measurements"]["replay"]["rows"]
    ]
    head = ("trace of", "replayed under", "mean, live", "mean, replayed", "p95, live", "p95, replayed")
    what = "Seconds of response in a trace of what ran, and in its replay under that policy and others:"
    return (table(what, (*head, "predicted change of the mean", "the change that came"), rows),)


def _seconds(value: float | None) -> str:
    """Write seconds, or that they are not known."""
    return "unknown" if value is None else f"{value:.3f}"


def _percent(value: float | None) -> str:
    """Write a change, or that it is not known."""
    return "unknown" if value is None else f"{value:+.0%}"


def _freshness(document: Document) -> list[Table]:
    """List how stale dashboards were as exact and as fresh queries, in files that tell it."""
    found = document["measurements"].get("freshness")
    if found is None:
        return []
    names = ("staleness", "most stale", "unread", "answers", "skipped", "lost")
    rows = [(name, *(f"{_median(rounds, each):,.2f}" for each in names)) for name, rounds in found.items()]
    number = document["measurements"]["dashboards"]["number"]
    caption = (
        f"{number:,} dashboards that ask for twice of what can be answered. Staleness: how many seconds of the stream "
        "the end of a dashboard's newest answer is behind the watermark, averaged over time and dashboards; unread: "
        "seconds of the stream that have appeared and are not read; lost: windows that exact queries did not answer."
    )
    return [table(caption, ("dashboards", *names), rows)]


def _desk(document: Document) -> list[Table]:
    """List what the order of urgency costs, in files that tell it."""
    found = document["measurements"].get("desk")
    if found is None:
        return []
    load, chosen = document["measurements"]["workload"]["desk"], document["measurements"]["choosing"]
    rows = [(name, f"{_median(rounds, 'rows a second'):,.0f}") for name, rounds in found.items()]
    rows.append((f"choosing among {load['queries']:,} queries, a batch", f"{chosen['milliseconds a batch']:.2f} ms"))
    caption = f"What the order of urgency costs: {load['windows']:,} windows, and choosing by itself in processor time."
    return [table(caption, ("run", "rows a second"), rows)]


def _sweeps(document: Document) -> list[Table]:
    """List what was merged and answered under each technique, where that was measured."""
    measured = document["measurements"]
    if "sweeps" not in measured:
        return []
    load, tables = measured["workload"]["sweeps"], []
    for kernel, told in measured["sweeps"].items():
        title = (
            f"{load['queries']:,} percentiles over eight synopses (Golab, Bijay and Özsu 2006, §5), {kernel}; "
            f"{load['updates']:,} updates, and {load['share']:.0%} of the merges that No-S needs to keep up:"
        )
        names = ("answers", "operations an answer", "milliseconds an answer", "late")
        rows = [(technique, *(f"{values[name]:,.1f}" for name in names)) for technique, values in told.items()]
        tables.append(table(title, ("technique", *names[:-1], "updates late"), rows))
    return tables


def _chart(document: Document) -> Chart:
    """Draw the 99th percentiles of the alerts."""
    bars = [
        Bar(name, _median(rounds, "p99") or 0.0, f"{_median(rounds, 'p99'):.2f} s", colour=int(name != "Hybrid"))
        for name, rounds in document["measurements"]["neighbours"].items()
    ]
    drawing = bar_chart("An alert beside reports, 99th percentile", bars, unit="seconds")
    return Chart("live", "seconds that an alert waits, alone and beside reports under several policies", drawing)
