"""Writes the section on peers: seconds of the same windows in Penstock, Flink, Spark and DuckDB."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from bench._results.section import Chart, Document, Section, Table, table, whole
from penstock.report.curves import Curve, curve_chart

ASKED = """\
How long do others take for the same answers? {rows:,} trades are read from {files} CSV files; every query sums price *
volume and counts rows over a window of 600–900 s that slides by a whole, a half or a third of its range. All peers run
in one go, each until its answers are in files, and the answers are compared. Flink runs all queries as one job, plain
Structured Streaming has a query for each window, the expert's is one Spark query with slices made by hand for these
windows, and DuckDB loads all rows and runs one query after the other. {repeated}"""
PEERS: Final = {
    "Penstock": "Penstock",
    "Flink": "Flink",
    "plain": "plain Structured Streaming",
    "expert": "expert's slices in Spark",
    "DuckDB": "DuckDB",
    "DuckDB, slices by hand": "DuckDB, slices by hand",
}
PARTS: Final = {
    "Penstock": ("creating_seconds", "Penstock: creating the queries"),
    "Flink": ("creating_seconds", "Flink: planning the job and starting its local cluster"),
    "DuckDB": ("loading_seconds", "DuckDB: loading the files, which its seconds contain"),
}


def peers(document: Document) -> Section:
    """Make the section."""
    found, repetitions = document["measurements"], document["measurements"]["workload"]["repetitions"]
    repeated = "One run each." if repetitions == 1 else f"Medians of {repetitions} runs."
    kinds = {"keyless": "Seconds without groups, by number of queries:", "by_symbol": "Seconds by symbol (3,000):"}
    tables = [_seconds(found, kind, caption) for kind, caption in kinds.items() if found["workload"][kind]]
    tables += [_parts(found), _answers(found)]
    return Section(
        title="Peers",
        asked=ASKED.format(**found["workload"], repeated=repeated),
        command="penstock bench peers --json bench/results/peers.json",
        tables=(*tables, *([_flights(found)] if "flights" in found else [])),
        charts=(_chart(found),),
    )


def _run(found: Mapping[str, Any], peer: str, kind: str, number: int) -> Mapping[str, Any]:
    """Return the figures of a peer and a number of queries; none if it was skipped."""
    run: Mapping[str, Any] = found["times"].get(f"{peer} {'by symbol ' if kind == 'by_symbol' else ''}{number}", {})
    return run


def _seconds(found: Mapping[str, Any], kind: str, caption: str) -> Table:
    """List the seconds of all peers."""
    numbers = found["workload"][kind]
    rows = []
    for peer in PEERS:
        runs = [_run(found, peer, kind, number) for number in numbers]
        cells = [f"{run['median_seconds']:.2f}" if run else "" for run in runs]
        if not any(cells) and peer in found["skipped"]:
            cells[0] = f"skipped: {found['skipped'][peer]}"
        rows.append((PEERS[peer] + _scaled(runs), *cells))
    rows += [
        (f"{name}: skipped: {reason}", *[""] * len(numbers))
        for name, reason in found["skipped"].items()
        if name not in PEERS and ("by symbol" in name) == (kind == "by_symbol") and "flights" not in name
    ]
    return table(caption, ("queries", *map(whole, numbers)), rows)


def _scaled(runs: list[Mapping[str, Any]]) -> str:
    """Say from which number of queries larger ones are scaled, if they are."""
    return next((f", more than {n} scaled" for run in runs if (n := run.get("scaled_from_queries"))), "")


def _parts(found: Mapping[str, Any]) -> Table:
    """List what comes before the first row."""
    numbers = found["workload"]["keyless"]
    rows = []
    for peer, (part, words) in PARTS.items():
        cells = [_run(found, peer, "keyless", number).get(part) for number in numbers]
        if any(cell is not None for cell in cells):
            rows.append((words, *("" if cell is None else f"{cell:.2f}" for cell in cells)))
    caption = "Seconds before the first row, without groups; of Penstock and Flink they are not in the seconds above:"
    return table(caption, ("queries", *map(whole, numbers)), rows)


def _answers(found: Mapping[str, Any]) -> Table:
    """List how many answers were compared with Penstock's, and how many of them differ."""
    rows = []
    for peer, words in PEERS.items():
        names = [
            f"{peer} {by}{n}"
            for kind, by in (("keyless", ""), ("by_symbol", "by symbol "))
            for n in found["workload"][kind]
        ]
        compared = [found["answers_compared"][name] for name in names if name in found["answers_compared"]]
        if peer != "Penstock" and compared:
            rows.append((words, *(whole(sum(one[key] for one in compared)) for key in ("answers", "differing"))))
    return table("Answers compared with Penstock's:", ("peer", "answers", "answers that differ"), rows)


def _flights(found: Mapping[str, Any]) -> Table:
    """List the airline's queries."""
    one = found["flights"]
    rows = [
        (f"Penstock, all {one['queries']} together", f"{one['penstock_seconds']:.1f}", ""),
        (
            f"plain Structured Streaming, {one['plain_sample']} one by one",
            f"{one['plain_seconds']:.1f}",
            f"{one['plain_seconds_of_all']:.1f}",
        ),
        (
            f"DuckDB, {one['plain_sample']} one by one",
            f"{one['duckdb_seconds']:.2f}",
            f"{one['duckdb_seconds_of_all']:.2f}",
        ),
        (f"Penstock, the {one['flink_sample']} that Flink runs", f"{one['penstock_seconds_of_flinks']:.1f}", ""),
    ]
    if "flink_seconds" in one:
        cells = (f"{one['flink_seconds']:.1f}", f"{one['flink_seconds_of_all']:.1f}")
        rows.append((f"Flink, {one['flink_sample']} as one job", *cells))
    caption = f"The {one['queries']} queries of Mixed loads over {one['rows']:,} flights:"
    return table(caption, ("run", "seconds", f"scaled to {one['queries']}"), rows)


def _chart(found: Mapping[str, Any]) -> Chart:
    """Draw the seconds without groups over the number of queries."""
    curves = []
    for peer, words in PEERS.items():
        runs = {number: _run(found, peer, "keyless", number) for number in found["workload"]["keyless"]}
        points = tuple((float(number), run["median_seconds"]) for number, run in runs.items() if run)
        said = _scaled(list(runs.values())).replace(", more than", " (>").replace("scaled", "scaled)")
        name = words.replace("Structured Streaming", "Spark") + said
        curves += [Curve(name, points)] if points else []
    title = f"{found['workload']['rows'] / 1e6:g} million trades from CSV"
    drawing = curve_chart(title, curves, across="continuous queries", upward="seconds", powers=True)
    return Chart("peers", "seconds over the number of queries, Penstock and its peers", drawing)
