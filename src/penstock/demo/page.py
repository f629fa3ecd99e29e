"""Writes the demo's page: headline, throughput, comparison, answers as charts, sharing, SQL."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import pyarrow as pa

from penstock.demo.alerts import latest_alerts
from penstock.demo.asked import DemoQuery
from penstock.demo.figures import Figures
from penstock.demo.words import whole_windows
from penstock.model.counts import counted
from penstock.report.charts import Bar, ChartColumn, Series, bar_chart, column_chart, line_chart
from penstock.report.markup import details, escaped, paragraph, section, table
from penstock.report.markup import figures as tiles
from penstock.report.page import page
from penstock.report.sharing import plan_figures, sharing_picture
from penstock.report.ticks import short_number

MOST_LINES = 5  # groups in one chart, the greatest
# Which column of which kind of query is charted, in which unit, and whether its axis begins at zero.
CHARTS = (
    ("turnover", "turnover", "price × shares", True),
    ("sector", "turnover", "price × shares", True),
    ("busiest", "trades", "trades", True),
    ("blocks", "blocks", "trades", True),
    ("vwap", "vwap", "price", False),
    ("pressure", "bought_net", "shares bought less shares sold", True),
)


def demo_page(figures: Figures) -> str:
    """Write the page."""
    lead = (
        f"{len(figures.asked):,} continuous queries over {figures.rows:,} trades of a made-up market, "
        f"answered by one Spark pipeline on one machine with {counted(figures.cores, 'core', 'cores')}."
    )
    sections = [
        _headline(figures),
        _throughput(figures),
        section("Answers", paragraph(_ANSWERS), f'<div class="charts">{"".join(_answer_charts(figures))}</div>'),
        *_alerts(figures),
        section("Who shares what", plan_figures(figures.plan), sharing_picture(figures.plan)),
        section("The queries", *_queries(figures)),
    ]
    return page("Penstock demo", sections, lead=lead)


_ANSWERS = "Windows by their ends, in UTC; only those that lie wholly within the hour. Of many groups, the greatest."


def _alerts(figures: Figures) -> Iterator[str]:
    """Show the wall of alerts."""
    if (found := figures.alerts) is not None:
        told = (
            f"{found.rules:,} rules without a window, over all trades in one pass of {found.seconds:.1f} s: "
            f"{found.alerts:,} alerts on {found.rows:,} trades, each of which is stored once. The latest:"
        )
        wall = table(("time", "trade", "rules", "one of them"), latest_alerts(found), numbers=(2,))
        yield section("A wall of alerts", paragraph(told), wall)


def _headline(figures: Figures) -> str:
    """Write the figures that matter most."""
    items = [
        (f"{len(figures.asked):,}", "queries, one pipeline"),
        (short_number(figures.rows_per_second), "rows a second, the median batch"),
        (f"{figures.answers:,}", "answers"),
        (f"{figures.seconds:.1f} s", f"for {figures.measured_rows:,} rows"),
    ]
    return tiles(items)


def _throughput(figures: Figures) -> str:
    """Chart the pace of each batch, and the comparison beside it."""
    columns = [ChartColumn(str(n), b.rows_per_second, apart=not b.measured) for n, b in enumerate(figures.batches, 1)]
    pace = column_chart("Rows a second in each batch", columns, unit="rows/s", across="batch")
    note = "The first batches, outlined, warmed up: Spark compiled the plan. They are left out of all other times."
    if figures.more is not None:
        note += (
            f" Midway one more query came: it was entered in {figures.more.seconds:.2f} s while the others ran, and a "
            f"batch took {figures.more.before:.2f} s before and {figures.more.after:.2f} s after (medians)."
        )
    if figures.alone is None:
        return section("Throughput", f'<div class="charts two">{pace}</div>', paragraph(note))
    charts = f'<div class="charts two">{pace}<div>{_comparison(figures)}</div></div>'
    return section("Throughput, and Spark alone", charts, paragraph(note), *map(paragraph, _told(figures)))


def _comparison(figures: Figures) -> str:
    """Chart seconds, shared and alone; what is a guess is outlined."""
    alone, queries = figures.alone, len(figures.asked)
    assert alone is not None
    some = len(alone.names)
    ours = Bar(f"Penstock, all {queries:,} queries", figures.seconds, f"{figures.seconds:.1f} s")
    theirs = Bar(f"Spark alone, {some} of them", alone.seconds, f"{alone.seconds:.1f} s", colour=1)
    measured = bar_chart("Measured: seconds for the same rows", [ours, theirs], unit="shorter is better")
    if queries <= some:
        return measured
    guess = alone.pace(queries)
    all_of_them = Bar(f"Spark alone, {queries:,} at that pace", guess, f"{guess:,.0f} s", measured=False, colour=1)
    return measured + bar_chart("A guess: all of them with Spark alone", [ours, all_of_them], unit="seconds")


def _told(figures: Figures) -> Iterator[str]:
    """Say how the comparison was made."""
    alone = figures.alone
    assert alone is not None
    yield (
        f"Measured in this run, on the same {figures.measured_rows:,} rows in the same batches: Penstock first, with "
        f"its answers written to files; then {', '.join(alone.names)} together, each a Structured Streaming query of "
        "its own, with answers thrown away. Both were warmed up on the first batches and took up from their "
        "checkpoints. The outlined bar was not measured: it is the pace of these few times the number of queries."
    )
    agreed = "All equal." if not alone.different else f"{alone.different:,} differ."
    yield f"{alone.compared:,} answers of these queries were compared with Spark's on all rows at once. {agreed}"


def _answer_charts(figures: Figures) -> Iterator[str]:
    """Chart the first query of some kinds."""
    for kind, column, unit, from_zero in CHARTS:
        query = next((q for q in figures.asked if q.template.name == kind and q.name in figures.results), None)
        if query is not None:
            series = _series(whole_windows(figures.results[query.name]), query, column)
            title = f"{query.name}: {query.template.asks}"
            chart = line_chart(title, series, unit=f"{unit}, {query.window}", from_zero=from_zero)
            yield f"<div>{chart}</div>"


def _series(answers: pa.Table, query: DemoQuery, column: str) -> list[Series]:
    """Make a line of each group's answers, the greatest groups only."""
    ends = answers["window_end"].cast(pa.int64()).to_pylist()
    values = [math.nan if v is None else float(v) for v in answers[column].to_pylist()]
    groups = [str(g) for g in answers[query.keys[0]].to_pylist()] if query.keys else [column] * len(ends)
    lines: dict[str, list[tuple[int, float]]] = {}
    for group, end, value in zip(groups, ends, values, strict=True):
        lines.setdefault(group, []).append((end, value))
    greatest = sorted(lines, key=lambda g: -sum(v for _, v in lines[g] if math.isfinite(v)))[:MOST_LINES]
    return [Series(name, tuple(lines[name])) for name in greatest]


def _queries(figures: Figures) -> Sequence[str]:
    """Show the first query of each kind, and all of them folded away."""
    first = [q for q in figures.asked if q.name in figures.results]
    shown = [f"<h3>{escaped(q.name)}: {escaped(q.template.asks)}</h3>{_sql(q.text)}" for q in first]
    rest = [q for q in figures.asked if q not in first]
    if rest:
        body = "".join(f"<p>{escaped(q.name)}</p>{_sql(q.text)}" for q in rest)
        shown.append(details(f"and {len(rest):,} more with other windows and constants", body))
    return shown


def _sql(text: str) -> str:
    """Show a query's text."""
    return f'<pre class="sql">{escaped(text)}</pre>'
