"""Implements ``penstock run``, which answers all queries of a project or script and reports."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from penstock.cli.arguments import Until, json_option, project_argument, read_size, read_until, strategy_option
from penstock.cli.exits import INTERRUPTED
from penstock.cli.logs import FORMS, LEVELS, LOG, Form, logged
from penstock.cli.printing import say, say_json
from penstock.cli.progress import progressing
from penstock.cli.reporting import counted_rows, report, report_text, shown_answers, shown_text, table_text
from penstock.cli.stopping import interruptible, signalled
from penstock.cli.working import Working, working
from penstock.errors import SinkError
from penstock.model.counts import counted
from penstock.printable import shown, visible
from penstock.sinks.delivery import raise_lacking
from penstock.sinks.registry import declared_by, written_kinds

if TYPE_CHECKING:
    from penstock.engine import Engine
    from penstock.sinks.protocol import Sink
    from penstock.stream.pipeline import Pipeline


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What a run is asked for, by the options of its command."""

    once: bool
    flush: bool
    end_stream: bool
    until: Until | None
    state: Path | None
    sinks: tuple[str, ...]
    show: int
    log: Form | None
    log_file: Path | None
    log_level: str
    as_json: bool
    strategy: str | None
    policy: str | None
    synchronize: str | None
    memory: str | None
    queue_bytes: str | None

    @property
    def is_quiet(self) -> bool:
        """Tell whether there is no log: a run to the end has none unless it is asked for."""
        return self.once and self.log is None and self.log_file is None


@click.command()
@project_argument
@click.option("--once", is_flag=True, help="Process what the sources hold now, then stop.")
@click.option("--flush", is_flag=True, help="With --once: end the streams and answer their last windows.")
@click.option("--end-stream", is_flag=True, help="With --flush and a state folder: end the streams without asking.")
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
    help=f"Another sink for answers: {written_kinds()}; repeatable.",
)
@click.option(
    "--show", type=click.IntRange(0), default=0, metavar="N", help="Print the last N answers of every query at the end."
)
@click.option("--log", type=click.Choice(FORMS), help="Write the log as text (by default) or as JSON lines.")
@click.option("--log-file", type=click.Path(path_type=Path), metavar="FILE", help="Write the log to this file.")
@click.option(
    "--log-level", type=click.Choice(LEVELS), default="info", show_default=True, help="The lowest level to log."
)
@json_option
@strategy_option
@click.option("--policy", metavar="NAME", help="Which answers come first when much is due; by default Hybrid.")
@click.option("--synchronize", metavar="NAME", help="Which evaluations run together to share work; by default C-LP.")
@click.option("--memory", metavar="SIZE", callback=read_size, help="Cap what streams hold in the driver, as '4 GB'.")
@click.option("--queue-bytes", metavar="SIZE", callback=read_size, help="Cap what waits for functions in each stream.")
def run(project: Path, **options: Any) -> None:
    """Answer all queries of PROJECT.

    PROJECT is a project folder (default: the current one) or a file of SQL statements. Without --once or --until the
    run goes on until Ctrl-C or SIGTERM; it always stops after the current batch, and a second signal stops it at once.
    With a state folder, the next run goes on from there: queries whose files changed are altered (windows that have
    begun are answered as before), queries whose files are gone are dropped; and penstock status, add, drop, pause,
    resume and ask reach the engine while it runs. The log goes to standard error; with --once there is none unless it
    is asked for. With --once it ends with 1 if an error in the data has paused a query, and with 130 if a signal
    stopped it before the end.

    --flush ends the streams. With a state folder they end for good, later rows are refused; so it asks first, and where
    nobody can be asked it wants --end-stream.

    \b
    Examples:
      penstock run --once --flush --show 3
      penstock run market --state state --sink parquet:answers
      penstock run --until '10 min'
      penstock run --until 2026-01-05T15:00:00
      penstock run market --log json --log-file penstock.log
      penstock run market --policy HNR
    """
    _run(project, RunOptions(**options))


def _run(project: Path, asked: RunOptions) -> None:
    """Answer all queries of a project, report, and end with the code that says how it went."""
    _refuse_what_does_not_fit(asked)
    logging: AbstractContextManager[None] = nullcontext()
    if not asked.is_quiet:
        logging = logged(asked.log or "text", asked.log_file, asked.log_level)
    sinks = [_sink(text) for text in asked.sinks]
    opened = working(project, state=asked.state, sinks=sinks, strategy=asked.strategy, keep=True)
    with logging, interruptible(), opened as at_work:
        if asked.flush and at_work.state is not None and not asked.end_stream:
            _agree_to_end(at_work.state)
        for note in at_work.project.notes if at_work.project is not None else ():
            say(f"note: {shown(note)}", err=True)
        began, before = time.perf_counter(), counted_rows(at_work.engine)
        was_stopped, lacking = False, list[SinkError]()
        try:
            was_stopped = _answer_all(at_work, asked)
        except SinkError as error:  # every stream has been read: what they did is told before
            lacking.append(error)
        found = report(at_work, time.perf_counter() - began, before)
        _tell(at_work, asked, found)
        raise_lacking(lacking)
    if asked.once and was_stopped:
        raise click.exceptions.Exit(INTERRUPTED)
    if asked.once and any(stream["failed"] for stream in found["streams"]):
        raise click.exceptions.Exit(1)


def _refuse_what_does_not_fit(asked: RunOptions) -> None:
    """Refuse options that make no sense together."""
    if asked.flush and not asked.once:
        raise click.UsageError("--flush needs --once: a stream that runs on has no end")
    if asked.end_stream and not asked.flush:
        raise click.UsageError("--end-stream says that --flush may end the streams; it needs --flush")
    if asked.once and asked.until is not None:
        raise click.UsageError("--once and --until exclude each other")


def _answer_all(at_work: Working, asked: RunOptions) -> bool:
    """Run the streams until they are to stop; tell whether a signal said so."""
    engine = at_work.engine
    if asked.policy is not None:
        engine.set_policy(asked.policy)
    if asked.synchronize is not None:
        engine.set_synchronization(asked.synchronize)
    if asked.memory is not None:
        engine.set_memory(asked.memory)
    if asked.queue_bytes is not None:
        engine.set_queue_bytes(asked.queue_bytes)
    pipelines = [engine.stream(name).pipeline for name in engine.catalog.stream_names()]
    lines = asked.is_quiet and not asked.as_json
    with signalled() as ended, _events(at_work), progressing(pipelines, lines=lines):
        if asked.once:
            _run_once(at_work, asked.flush, ended)
        else:
            _run_on(engine, pipelines, asked.until or Until(), ended)
    return ended.is_set()


def _tell(at_work: Working, asked: RunOptions, found: dict[str, Any]) -> None:
    """Print the report, with the last answers if they are wanted."""
    if not asked.as_json:
        say(_told(at_work, report_text(found) + shown_text(at_work.engine, asked.show)))
        return
    if asked.show:
        found["answers_shown"] = shown_answers(at_work.engine, asked.show)
    say_json(found)


def _agree_to_end(state: Path) -> None:
    """Ask whether streams that a state folder keeps may end for good; refuse where nobody can be asked."""
    what = f"--flush ends the streams of the state folder {state} for good: rows that come later are refused"
    if not sys.stdin.isatty():
        raise click.UsageError(f"{what}. Leave --flush out, or add --end-stream if that is wanted")
    click.confirm(f"{visible(what)}. End them?", abort=True, err=True)


def _told(at_work: Working, text: str) -> str:
    """Print what the statements of a script said before the report."""
    return "\n\n".join([*(table_text(table) for table in at_work.told), text])


def _sink(text: str) -> Sink:
    """Make a sink of ``kind:where``."""
    try:
        return declared_by(text).make()
    except SinkError as error:
        hint = "" if error.hint is None else f". {error.hint}"
        raise click.UsageError(f"--sink {text}: {error.what}{hint}") from None


@contextmanager
def _events(at_work: Working) -> Iterator[None]:
    """Log when work begins and ends."""
    catalog = at_work.engine.catalog
    streams = counted(len(catalog.stream_names()), "stream", "streams")
    queries = counted(len(catalog.query_names()), "query", "queries")
    for change in at_work.changes:
        LOG.info(change, extra={"event": "plan changed"})
    LOG.info(f"started: {queries} over {streams}", extra={"event": "started"})
    try:
        yield
    except Exception as error:
        LOG.error(error, extra={"event": "failed"})
        raise
    LOG.info("stopped", extra={"event": "stopped"})


def _run_once(at_work: Working, flush: bool, ended: threading.Event) -> None:
    """Process what is there, on another thread: this one hears signals, and stops the work after the current batch."""
    engine = at_work.engine
    with _served(at_work), ThreadPoolExecutor(1, "penstock-once") as pool:
        work = pool.submit(engine.process_available, flush=flush)
        while not work.done():
            wait_for([work], 0.1)
            if ended.is_set() and not work.done():
                engine.stop()
        work.result()


@contextmanager
def _served(at_work: Working) -> Iterator[None]:
    """Take requests during a single run, too."""
    if at_work.state is None:
        yield
        return
    from penstock.control.serving import Serving

    serving = Serving(at_work.engine, at_work.state)
    serving.start()
    try:
        yield
    finally:
        serving.stop()


def _run_on(engine: Engine, pipelines: Sequence[Pipeline], until: Until, ended: threading.Event) -> None:
    """Run on until a signal, the end that was asked for, or until a stream stops by itself."""
    engine.start()
    say("running; Ctrl-C stops after the current batch", err=True)
    began = time.monotonic()
    while not ended.wait(0.1) and engine.running and not _reached(until, pipelines, began):
        pass
    engine.stop()


def _reached(until: Until, pipelines: Sequence[Pipeline], began: float) -> bool:
    """Tell whether a run is to end."""
    if until.seconds is not None:
        return time.monotonic() - began >= until.seconds
    event = until.event_us
    return event is not None and all(_passed(p.progress.clock.watermark_us, event) for p in pipelines)


def _passed(watermark_us: int | None, event_us: int) -> bool:
    """Tell whether a watermark has reached a time."""
    return watermark_us is not None and watermark_us >= event_us
