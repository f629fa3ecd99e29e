"""Prints the lines that close the demo on the terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Final

from rich.console import Console

from penstock.demo.alerts import latest_alerts
from penstock.demo.figures import Figures
from penstock.demo.folder import ANSWERS, QUERIES, REPORT, SAMPLE, DemoFolder
from penstock.demo.words import row_text, top_of_last_window, whole_windows
from penstock.model.counts import counted
from penstock.model.duration import about
from penstock.printable import shown
from penstock.report.ticks import short_number
from penstock.report.wording import saving_words

FEW_ALERTS: Final = 3


def print_summary(console: Console, figures: Figures, folder: DemoFolder) -> None:
    """Print result, answers, sharing, comparison and files, each under its heading."""
    parts = {
        "Result": _result(figures),
        "One more query": _one_more(figures),
        "Answers of the last whole windows": _answers(figures),
        "A wall of alerts": _alerts(figures),
        "What sharing saves": _sharing(figures),
        "Spark alone": _alone(figures),
        f"Files in {shown(str(folder.path))}": _files(folder),
    }
    for heading, lines in parts.items():
        wrapped = [piece for line in lines for piece in _wrapped(line, console.width)]
        if wrapped:
            console.print(heading, style="bold", markup=False)
            console.print("\n".join(wrapped), markup=False, soft_wrap=True)
            console.print()


def _wrapped(line: str, width: int) -> list[str]:
    """Indent a line; what does not fit goes on under it."""
    return textwrap.wrap(line, min(width, 110), initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)


def _result(figures: Figures) -> Iterator[str]:
    """Tell rows, answers and pace."""
    late = f" ({figures.late:,} late)" if figures.late else ""
    queries = counted(len(figures.asked), "query", "queries")
    yield f"{figures.rows:,} rows{late}, {figures.answers:,} answers of {queries}"
    yield f"{figures.rows_per_second:,.0f} rows a second once warm, in the median batch"
    yield f"{figures.measured_rows:,} rows and the end of the stream in {figures.seconds:.1f} s, warm-up left out"
    yield from figures.paused


def _one_more(figures: Figures) -> Iterator[str]:
    """Tell what a query cost that came while the others ran."""
    if (more := figures.more) is not None:
        yield f"entered in {more.seconds:.2f} s while the others ran; {more.answers:,} answers by the end"
        yield f"a batch took {more.before:.2f} s before it came and {more.after:.2f} s after (medians)"


def _answers(figures: Figures) -> Iterator[str]:
    """Tell the last answers of some queries."""
    for query in figures.shown:
        end, rows = top_of_last_window(whole_windows(figures.results[query.name]), query, 2)
        yield f"{query.name}: {query.template.asks} {query.window}"
        for row in rows:
            yield f"  {end}  {row_text(row, query.keys)}"


def _alerts(figures: Figures) -> Iterator[str]:
    """Tell how many rules ran without a window, and the latest alerts."""
    if (found := figures.alerts) is not None:
        alerts = f"{found.alerts:,} alerts on {found.rows:,} trades"
        yield f"{found.rules:,} rules without a window over all rows in {found.seconds:.1f} s: {alerts}"
        for at, trade, rules, one in latest_alerts(found)[:FEW_ALERTS]:
            yield f"  {at}  {trade}: {counted(rules, 'rule', 'rules')}, {one} among them"


def _sharing(figures: Figures) -> Iterator[str]:
    """Tell what the queries have in common, and how much less work that is."""
    plan = figures.plan
    tree = plan.trees[0]
    conditions = sum(len(g.conditions) for g in tree.groupings)
    every = about(tree.mean_slice_us or 1)
    windows = counted(len(tree.windows), "window", "windows")
    yield f"one pass over the rows instead of {len(plan.queries):,}; {windows} share slices, one every {every}"
    groupings = counted(len(tree.groupings), "grouping", "groupings")
    yield f"{counted(conditions, 'condition', 'conditions')} under {groupings}, each evaluated once a row"
    if plan.work is not None:
        shared, alone = short_number(plan.work.planned), short_number(plan.work.alone)
        times = saving_words(plan.work.saving)
        yield f"operations per second of market time: {shared} shared, {alone} alone: {times} fewer"


def _alone(figures: Figures) -> Iterator[str]:
    """Tell the comparison; what is a guess is called one."""
    alone, queries = figures.alone, len(figures.asked)
    if alone is None:
        return
    some = len(alone.names)
    few, all_of_them = f"{some} of {queries:,}", f"all {queries:,}"
    yield f"measured  {few} as separate Spark queries: {alone.seconds:.1f} s, answers thrown away"
    yield f"measured  {all_of_them} in one Penstock pipeline: {figures.seconds:.1f} s, answers kept in files"
    yield "          same rows, same batches, both warmed up before; Penstock first"
    if queries > some:
        yield f"a guess   {queries:,} separate Spark queries at that pace: {alone.pace(queries):,.0f} s, not measured"
    agreed = "equal Spark's" if not alone.different else f"compared with Spark's: {alone.different:,} DIFFER"
    yield f"checked   {alone.compared:,} answers of {counted(some, 'query', 'queries')} {agreed}"


def _files(folder: DemoFolder) -> Iterator[str]:
    """Tell what was written."""
    number = len(list(folder.answers.rglob("*.parquet")))
    yield f"{REPORT}: open it in a browser"
    files = counted(number, "Parquet file", "Parquet files")
    yield f"{ANSWERS}/: all answers, a folder for each query, {files}; {SAMPLE}: some of them as JSON"
    yield f"{QUERIES}: the queries"
