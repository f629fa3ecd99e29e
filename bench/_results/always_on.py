"""Writes the sections on what runs for long: restarts, queries that come and go, half an hour of both."""

from __future__ import annotations

from bench._results.section import Chart, Document, Section, mebibytes, table, whole
from penstock.report.charts import Bar, Series, bar_chart, line_chart

RESTART = """\
How soon does a stopped engine answer again? A state folder holds {queries:,} queries and an hour of partials. Two
programs are started in turns, each in a fresh process: bare Spark to the end of its first batch, and Penstock to
its first answer over a new file. Medians of {repetitions} starts."""
CHURN = """\
What do {staying} queries notice while {passing:,} others come and go? Quiet stretches alternate with stretches in
which queries are added and dropped between the batches. A latency is the time from the moment Spark hands the batch
over until its answers are there."""
SOAK = """\
Does anything grow? Queries come and go on a running stream for {minutes:g} minutes. Every {sample_seconds:g}
seconds it is noted what the process, its JVM and the state folder hold. The means of the last third are compared
with those of the middle third."""


def restart(document: Document) -> Section:
    """Make the section on restarts."""
    found = document["measurements"]
    medians = {name: run["median_seconds"] for name, run in found["times"].items()}
    made = found["prepared"]
    rows = [(name, f"{seconds:.2f}") for name, seconds in medians.items()]
    rows += [("files in the state folder", whole(made["files"])), ("MiB in the state folder", mebibytes(made["bytes"]))]
    bars = [Bar(name, s, f"{s:.1f} s", colour=int(name != "Penstock")) for name, s in medians.items()]
    return Section(
        title="Restart",
        asked=RESTART.format(**found["workload"]),
        command="penstock bench restart --json bench/results/restart.json",
        tables=(table("", ("from the start of the process", "seconds"), rows),),
        charts=(Chart("restart", "seconds to the first answer", bar_chart("First answer", bars, unit="seconds")),),
    )


def churn(document: Document) -> Section:
    """Make the section on queries that come and go."""
    found = document["measurements"]
    sides = ("quiet", "churn")
    keys = {"median_seconds": "median", "p95_seconds": "95 % are faster", "max_seconds": "slowest"}
    rows = [(name, *(f"{found[side][key]:.3f}" for side in sides)) for key, name in keys.items()]
    rows += [("batches", *(str(found[side]["batches"]) for side in sides))]
    rows += [("batches over twice the quiet median", *(str(found[side]["over_twice"]) for side in sides))]
    rows += [("queries that came and went", "0", whole(found["queries_passed"]))]
    rows += [("restart for a new column", "", f"{found['new_column_restart_seconds']:.3f}")]
    for kind, one in found.get("entered", {}).items():
        rows += [(f"{found['workload']['entered']:,} queries entered at once, {kind}", "", f"{one['seconds']:.1f}")]
    bars = [
        Bar(f"{side}: {name}", found[side][key], f"{found[side][key] * 1000:.0f} ms", colour=sides.index(side))
        for key, name in keys.items()
        for side in sides
    ]
    return Section(
        title="Queries that come and go",
        asked=CHURN.format(**found["workload"]),
        command="penstock bench churn --json bench/results/churn.json",
        tables=(table("", ("latency, seconds", *sides), rows),),
        charts=(
            Chart("churn", "latency, quiet and in churn", bar_chart("Latency of a batch", bars, unit="milliseconds")),
        ),
    )


def soak(document: Document) -> Section:
    """Make the section on half an hour of churn."""
    found = document["measurements"]
    rows = []
    for key in ("python_bytes", "jvm_bytes", "state_files", "state_bytes", "threads"):
        middle, last = (found[key][part] for part in ("middle_third", "last_third"))
        words = [mebibytes(value) if key.endswith("bytes") else whole(value) for value in (middle, last)]
        rows.append((key.replace("_bytes", ", MiB").replace("_", " "), *words, f"{last / middle:.2f}"))
    last = found["samples"][-1]
    caption = f"{last['batches']:,} batches; {last['queries_passed']:,} queries came and went."

    def series(key: str, name: str) -> Series:
        return Series(name, tuple((s["at_us"], s[key] / 2**20) for s in found["samples"]))

    memory = [series("python_bytes", "Python"), series("jvm_bytes", "JVM")]
    return Section(
        title="Half an hour of churn",
        asked=SOAK.format(**found["workload"]),
        command="penstock bench soak --json bench/results/soak.json",
        tables=(table(caption, ("means", "middle third", "last third", "last / middle"), rows),),
        charts=(
            Chart("soak-memory", "memory over time", line_chart("Resident memory", memory, unit="MiB")),
            Chart(
                "soak-state",
                "bytes in the state folder over time",
                line_chart("State folder", [series("state_bytes", "state folder")], unit="MiB"),
            ),
        ),
    )
