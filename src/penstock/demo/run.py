"""Runs the whole demo: a market, many queries at once, a few with Spark alone, files and a page."""

from __future__ import annotations

import signal
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from penstock.demo.alerts import RULES, Alerts, show_alerts
from penstock.demo.alone import Alone, choose_alone, run_alone
from penstock.demo.asked import TEMPLATES, DemoQuery, draw_queries, script_of
from penstock.demo.figures import Figures
from penstock.demo.folder import QUERIES, REPORT, SAMPLE, DemoFolder
from penstock.demo.market import Files, enter_market, make_market
from penstock.demo.one_more import OneMore, compared, enter_one_more
from penstock.demo.page import demo_page
from penstock.demo.story import Story
from penstock.demo.summary import print_summary
from penstock.demo.view import make_console, make_view
from penstock.demo.watching import Watching
from penstock.engine import Engine
from penstock.model.counts import counted
from penstock.printable import json_text
from penstock.sinks.parquet import ParquetSink
from penstock.sinks.row_values import plain_rows

BATCHES: Final = 12
ROWS: Final = 1_000_000
FEWEST_COMPARED: Final = 2  # batches before and after one more query
SHOWN: Final = 4  # queries whose answers are on the screen
CHARTED: Final = len(TEMPLATES)  # queries whose answers are kept for the page
SAMPLED: Final = 20  # answers of each of these in the JSON sample


@dataclass(frozen=True, slots=True)
class Wishes:
    """What a demo should be like."""

    rows: int
    queries: int
    seed: int
    compare: bool


def run_demo(
    rows: int = ROWS,
    queries: int = 200,
    seed: int = 1,
    *,
    out: str | Path = "penstock-demo",
    plain: bool = False,
    compare: bool = True,
    spark: Any = None,
) -> Figures:
    """Generate a market, answer all queries together, compare with Spark alone, and write the files and the page."""
    folder, wishes = DemoFolder(Path(out)), Wishes(rows, queries, seed, compare)
    story = _story(wishes)
    console = make_console(plain=plain)
    with make_view(console, story, plain=plain) as view:
        story.view, story.watching.noticed = view, view.noticed
        figures = _run(story, wishes, folder, spark)
        with story.step("report", "writing the page") as step:
            folder.write(REPORT, demo_page(figures))
            step.text = str(folder.report)
    folder.mark(figures.to_dict())
    print_summary(console, figures, folder)
    return figures


def _story(wishes: Wishes) -> Story:
    """Draw the queries and choose those that are watched."""
    asked = draw_queries(wishes.queries, wishes.seed)
    batches = max(2, min(BATCHES, wishes.rows // 1_000))
    return Story(asked, wishes.rows, wishes.seed, Watching([q.name for q in asked[:SHOWN]], batches))


def _run(story: Story, wishes: Wishes, folder: DemoFolder, spark: Any) -> Figures:
    """Go through the steps, and leave nothing running."""
    with story.step("Spark", "starting") as step:
        engine = Engine(spark=spark, sinks=[ParquetSink(folder.answers), story.watching])
        step.text = "started in this process" if spark is None else "the session that was given"
    with tempfile.TemporaryDirectory(prefix="penstock-demo-", ignore_cleanup_errors=True) as scratch, _closing(engine):
        files = _prepare(engine, story, wishes, Path(scratch), folder)
        seconds, more = _process(engine, story, files)
        alone = _compare(engine, story, files) if wishes.compare else None
        figures = replace(_figures(engine, story, seconds, alone, more), alerts=_alert(engine, story, files))
        folder.write(SAMPLE, "".join(_sample(figures)))
        return figures


@contextmanager
def _closing(engine: Engine) -> Iterator[None]:
    """Close the engine; when interrupted, let the current batch end and stop what Spark still runs."""
    with _interruptible():
        try:
            with engine:
                yield
        except BaseException:
            for query in engine.session.streams.active:
                with suppress(Exception):
                    query.stop()
            raise


@contextmanager
def _interruptible() -> Iterator[None]:
    """Interrupt as Python does: PySpark's own way cancels the jobs of a batch that could end in peace."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _prepare(engine: Engine, story: Story, wishes: Wishes, scratch: Path, folder: DemoFolder) -> Files:
    """Make the market and enter the queries."""
    batches = story.watching.planned
    with story.step("market", "an hour of trades") as step:
        files = make_market(engine, scratch, wishes.rows, wishes.seed, batches)
        enter_market(engine, files)
        step.text = f"an hour of trades in {batches} batches, and a table of symbols"
    queries = counted(len(story.asked), "query", "queries")
    with story.step("queries", queries) as step:
        folder.write(QUERIES, script_of(list(story.asked)) + ";\n")
        engine.execute(script_of(list(story.asked)))
        tree = engine.explain().streams[0].trees[0]
        step.text = f"{queries}, {counted(len(tree.windows), 'window', 'different windows')}, one pipeline"
    return files


def _process(engine: Engine, story: Story, files: Files) -> tuple[float, OneMore | None]:
    """Let the first batches warm up, then time the others and the end of the stream; one more query comes midway."""
    watching, warm = story.watching, files.warm
    watching.ingested = lambda: engine.stream("trades").pipeline.progress.clock.counts.ingested
    with story.step("warm-up", "the first batches") as step:
        files.let_in("shared", files.written[:warm])
        watching.begin(measured=False)
        engine.process_available()
        step.text = f"{counted(warm, 'batch', 'batches')}: Spark compiles the plan, and Java its code"
    half = (len(files.written) - warm) // 2
    midway = warm + half if half >= FEWEST_COMPARED else len(files.written)
    with story.step("together", "all queries together") as step:
        seconds = _timed(engine, story, files, warm, midway)
        step.text = f"{watching.rows:,} rows, {watching.answers:,} answers"
    if midway == len(files.written):
        return seconds, None
    with story.step("one more", "a query that nobody had asked before") as step:
        entered = enter_one_more(engine)
        seconds += _timed(engine, story, files, midway, len(files.written))
        more = compared(engine, watching, half, entered)
        step.text = f"entered in {entered:.2f} s while the others ran, {more.answers:,} answers"
    return seconds, more


def _timed(engine: Engine, story: Story, files: Files, first: int, last: int) -> float:
    """Let some files in and time their batches; with the last file the stream ends."""
    files.let_in("shared", files.written[first:last])
    began = time.perf_counter()
    story.watching.begin(measured=True)
    engine.process_available(flush=last == len(files.written))
    return time.perf_counter() - began


def _compare(engine: Engine, story: Story, files: Files) -> Alone:
    """Run a few of the queries as separate Spark queries."""
    chosen = choose_alone(story.asked)
    with story.step("alone", f"{len(chosen)} of the queries as separate Spark queries") as step:
        alone = run_alone(engine, files, chosen)
        step.text = f"{counted(len(chosen), 'separate Spark query', 'separate Spark queries')}: {alone.seconds:.1f} s"
    return alone


def _alert(engine: Engine, story: Story, files: Files) -> Alerts:
    """Run a thousand rules without a window."""
    with story.step("alerts", f"{RULES:,} rules without a window over the same trades") as step:
        found = show_alerts(engine, files)
        step.text = f"{RULES:,} rules: {found.alerts:,} alerts on {found.rows:,} trades, {found.seconds:.1f} s"
    return found


def _figures(engine: Engine, story: Story, seconds: float, alone: Alone | None, more: OneMore | None) -> Figures:
    """Collect what the run gave."""
    pipeline = engine.stream("trades").pipeline
    return Figures(
        story.seed,
        engine.session.sparkContext.defaultParallelism,
        tuple(story.asked),
        tuple(story.shown),
        tuple(story.watching.batches),
        pipeline.progress.clock.counts.late,
        pipeline.metrics.answers,
        seconds,
        engine.explain(),
        {q.name: engine.results(q.name) for q in story.asked[:CHARTED]},
        alone,
        more,
        tuple(pipeline.reports),
    )


def _sample(figures: Figures) -> Iterator[str]:
    """Write some answers of some queries as JSON lines, from the middle, where windows are full."""
    for query in _charted(figures):
        answers = figures.results[query.name]
        middle = answers.slice(max(0, answers.num_rows // 2 - SAMPLED // 2), SAMPLED)
        for row in plain_rows(middle):
            yield json_text({"query_name": query.name, **row}) + "\n"


def _charted(figures: Figures) -> Sequence[DemoQuery]:
    """List the queries whose answers were kept."""
    return [q for q in figures.asked if q.name in figures.results]
