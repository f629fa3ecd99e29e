"""``penstock run``: a project or script comes in; answers to all its queries and a report go out."""

from __future__ import annotations

import json
import logging
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from penstock.cli.arguments import Until, json_option, project_argument, read_until, strategy_option
from penstock.cli.progress import progressing
from penstock.cli.reporting import report, report_text, shown_answers, shown_text, table_text
from penstock.cli.working import Working, working

if TYPE_CHECKING:
    from penstock.engine import Engine
    from penstock.sinks.protocol import Sink
    from penstock.stream.pipeline import Pipeline


@click.command()
@project_argument
@click.option("--once", is_flag=True, help="Process what the sources hold now, then stop.")
@click.option("--flush", is_flag=True, help="With --once: end the streams and answer their last windows.")
@click.option(
    "--until",
    callback=read_until,
    metavar="WHEN",
    help="Stop after a duration by the clock ('10 min'), or once every stream's watermark has reached a time "
    "(2026-01-05T15:00:00, UTC unless it says otherwise).",
)
@click.option("--state", type=click.Path(path_type=Path), metavar="FOLDER", help="Keep state here; a restart goes on.")
@click.option(
    "--sink",
    "sinks",
    multiple=True,
    metavar="KIND:FOLDER",
    help="Another place for answers: parquet:FOLDER or jsonl:FOLDER; repeatable.",
)
@click.option(
    "--show", type=click.IntRange(0), default=0, metavar="N", help="Print the last N answers of every query at the end."
)
@json_option
@strategy_option
def run(
    project: Path,
    once: bool,
    flush: bool,
    until: Until | None,
    state: Path | None,
    sinks: tuple[str, ...],
    show: int,
    as_json: bool,
    strategy: str | None,
) -> None:
    """Answer all queries of PROJECT.

    PROJECT is a project folder (default: the current one) or a file of SQL statements. Without --once or --until the
    run goes on until Ctrl-C or SIGTERM; it always stops after the current batch. With a state folder, the next run
    goes on from there: queries whose files changed begin anew, queries whose files are gone are dropped. With --once
    it ends with 1 if an error in the data has paused a query; the others are answered all the same.

    \b
    Examples:
      penstock run --once --flush --show 3
      penstock run market --state state --sink parquet:answers
      penstock run --until '10 min'
      penstock run --until 2026-01-05T15:00:00
    """
    if flush and not once:
        raise click.UsageError("--flush needs --once: a stream that runs on has no end")
    if once and until is not None:
        raise click.UsageError("--once and --until exclude each other")
    extra = [_sink(text) for text in sinks]
    with working(project, state=state, sinks=extra, strategy=strategy, keep=True) as at_work:
        began, engine = time.perf_counter(), at_work.engine
        pipelines = [engine.stream(name).pipeline for name in engine.catalog.stream_names()]
        if once:
            with progressing(pipelines):
                engine.process_available(flush=flush)
        else:
            _run_on(engine, pipelines, until or Until())
        found = report(at_work, time.perf_counter() - began)
        if show and as_json:
            found["answers_shown"] = shown_answers(engine, show)
        click.echo(json.dumps(found) if as_json else _told(at_work, report_text(found) + shown_text(engine, show)))
    if once and any(stream["paused"] for stream in found["streams"]):
        raise click.exceptions.Exit(1)


def _told(at_work: Working, text: str) -> str:
    """Print what the statements of a script said before the report."""
    return "\n\n".join([*(table_text(table) for table in at_work.told), text])


def _sink(text: str) -> Sink:
    """Make a sink of ``kind:folder``."""
    from penstock.project.opening import make_sink
    from penstock.project.settings import SINK_OPTIONS, SinkSetting

    kind, _, folder = text.partition(":")
    if kind not in SINK_OPTIONS or not folder:
        raise click.UsageError(f"--sink {text}: write parquet:FOLDER or jsonl:FOLDER")
    return make_sink(SinkSetting(kind, Path(folder), {}))


def _run_on(engine: Engine, pipelines: Sequence[Pipeline], until: Until) -> None:
    """Run on until a signal, the end that was asked for, or until a stream stops by itself."""
    with _signalled() as ended, _logged():
        engine.start()
        click.echo("running; Ctrl-C stops after the current batch", err=True)
        began = time.monotonic()
        with progressing(pipelines):
            while not ended.wait(0.1) and engine.running and not _reached(until, pipelines, began):
                pass
            engine.stop()


@contextmanager
def _logged() -> Iterator[None]:
    """Print what users should know as it happens: a run that goes on has no report for long."""
    log, handler = logging.getLogger("penstock"), logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    handler.addFilter(lambda record: record.levelno < logging.ERROR)  # what stops a stream is printed in the end
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)


@contextmanager
def _signalled() -> Iterator[threading.Event]:
    """Turn SIGINT and SIGTERM into an event."""
    ended = threading.Event()
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, lambda *_: ended.set()) for number in numbers]
    try:
        yield ended
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def _reached(until: Until, pipelines: Sequence[Pipeline], began: float) -> bool:
    """Tell whether a run is to end."""
    if until.seconds is not None:
        return time.monotonic() - began >= until.seconds
    event = until.event_us
    return event is not None and all(_passed(p.progress.watermark_us, event) for p in pipelines)


def _passed(watermark_us: int | None, event_us: int) -> bool:
    """Tell whether a watermark has reached a time."""
    return watermark_us is not None and watermark_us >= event_us
