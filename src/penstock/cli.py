"""The command line: ``penstock run | explain | demo | bench``.

Exit codes: 0 done, 1 an error of the user's input or environment, 2 a wrong command line, 130 interrupted.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from penstock import __version__
from penstock.errors import EnvironmentProblem, PenstockError, SourceError

if TYPE_CHECKING:
    from penstock.engine import Engine
    from penstock.sinks.protocol import Sink

STRATEGIES = ("shared paired", "shared paned", "unshared paired", "unshared paned")

strategy_option = click.option(
    "--strategy",
    type=click.Choice(STRATEGIES),
    default="shared paired",
    show_default=True,
    help="How queries share slices.",
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="penstock")
def cli() -> None:
    """Run hundreds of continuous queries over shared streams as one Spark pipeline."""


@cli.command()
@click.argument("script", type=click.Path(path_type=Path))
@click.option("--state", type=click.Path(path_type=Path), help="Keep state in this folder; a restart goes on from it.")
@click.option("--once", is_flag=True, help="Process what the sources hold now, then stop.")
@click.option("--flush", is_flag=True, help="With --once: end the streams and answer their last windows.")
@click.option(
    "--sink",
    "sinks",
    multiple=True,
    metavar="KIND:FOLDER",
    help="Where answers go: parquet:FOLDER or jsonl:FOLDER; repeatable.",
)
@click.option(
    "--show", type=click.IntRange(0), default=0, metavar="N", help="Print the last N answers of every query at the end."
)
@click.option("--json", "as_json", is_flag=True, help="Print the closing report as JSON.")
@strategy_option
def run(
    script: Path,
    state: Path | None,
    once: bool,
    flush: bool,
    sinks: tuple[str, ...],
    show: int,
    as_json: bool,
    strategy: str,
) -> None:
    """Run the statements of SCRIPT (CREATE STREAM, TABLE, QUERY …) and answer the queries."""
    if flush and not once:
        raise click.UsageError("--flush needs --once: a stream that runs on has no end")
    text = _read(script)
    with _engine(state, strategy, [_sink(s) for s in sinks]) as engine:
        engine.execute(text)
        began = time.perf_counter()
        if once:
            _progressing(engine, lambda: engine.process_available(flush=flush))
        else:
            _run_until_signalled(engine)
        report = _report(engine, time.perf_counter() - began)
        click.echo(json.dumps(report) if as_json else _report_text(report))
        if show:
            _show_answers(engine, show)


@cli.command()
@click.argument("script", type=click.Path(path_type=Path))
@strategy_option
def explain(script: Path, strategy: str) -> None:
    """Show which queries of SCRIPT share which slices, edge rates, and counted operations shared and alone."""
    text = _read(script)
    with _engine(None, strategy, []) as engine:
        engine.execute(text)
        click.echo(engine.explain())


@cli.command()
@click.option("--rows", type=click.IntRange(1000), default=1_000_000, show_default=True, help="Trades to generate.")
@click.option("--queries", type=click.IntRange(1, 5000), default=200, show_default=True, help="Continuous queries.")
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of the generated market.")
def demo(rows: int, queries: int, seed: int) -> None:
    """Run many queries over a generated market on an embedded Spark and show what sharing saves."""
    from penstock.demo import run_demo

    run_demo(rows, queries, seed)


@cli.command()
@click.argument("name")
@click.option("--json", "path", type=click.Path(path_type=Path), help="Write the figures to this file.")
@click.option("--full", is_flag=True, help="Also the slowest comparisons.")
@click.option("--rows", type=click.IntRange(1000), help="Another number of rows, for a quick look.")
def bench(name: str, path: Path | None, full: bool, rows: int | None) -> None:
    """Run the benchmark NAME of the source checkout's bench/ folder."""
    folder = Path(__file__).resolve().parents[2] / "bench"
    known = sorted(p.stem for p in folder.glob("*.py") if not p.stem.startswith("_")) if folder.is_dir() else []
    if name not in known:
        raise EnvironmentProblem(
            f'there is no benchmark "{name}"',
            detail=f"benchmarks: {', '.join(known) or 'none'}",
            hint="Benchmarks run from a source checkout, installed with pip install -e .",
        )
    sys.path.insert(0, str(folder.parent))
    import_module(f"bench.{name}").main(path, full=full, rows=rows)


def main() -> None:
    """Run the command line; an error is printed as users see it, never as a stack trace."""
    try:
        cli.main(standalone_mode=False)
    except click.exceptions.Abort:
        click.echo("interrupted", err=True)
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except PenstockError as error:
        click.echo(str(error), err=True)
        sys.exit(1)


def _read(script: Path) -> str:
    """Read a script, or say why not."""
    try:
        return script.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise SourceError(f"{script} does not exist", hint="Name a file of SQL statements.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError(f"cannot read {script}: {error}") from None


def _engine(state: Path | None, strategy: str, sinks: list[Sink]) -> Engine:
    """Open an engine on the embedded Spark."""
    from penstock.engine import Engine

    return Engine(state, strategy=strategy, sinks=sinks)  # type: ignore[arg-type]


def _sink(text: str) -> Sink:
    """Make a sink of ``kind:folder``."""
    from penstock.sinks.jsonl import JsonLinesSink
    from penstock.sinks.parquet import ParquetSink

    kind, _, folder = text.partition(":")
    kinds: dict[str, Any] = {"parquet": ParquetSink, "jsonl": JsonLinesSink}
    if kind not in kinds or not folder:
        raise click.UsageError(f"--sink {text}: write parquet:FOLDER or jsonl:FOLDER")
    sink: Sink = kinds[kind](folder)
    return sink


def _progressing(engine: Engine, work: Any) -> None:
    """Do long work with a line of progress on a terminal, and none elsewhere."""
    if not sys.stderr.isatty():
        work()
        return
    from rich.console import Console

    done = threading.Event()
    with Console(stderr=True).status("starting") as status:

        def watch() -> None:
            while not done.wait(0.25):
                counts = [engine.stream(n).pipeline for n in engine.catalog.stream_names()]
                rows, answers = sum(p.progress.counts.ingested for p in counts), sum(p.metrics.answers for p in counts)
                status.update(f"{rows:,} rows, {answers:,} answers")

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            work()
        finally:
            done.set()
            watcher.join()


def _run_until_signalled(engine: Engine) -> None:
    """Run on until SIGINT or SIGTERM, or until a stream stops by itself."""
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    engine.start()
    click.echo("running; Ctrl-C stops after the current batch", err=True)
    while not ended.wait(0.2) and engine.running:
        pass
    engine.stop()


def _report(engine: Engine, seconds: float) -> dict[str, Any]:
    """Collect what a run did."""
    streams = []
    for name in engine.catalog.stream_names():
        at_work = engine.stream(name)
        pipeline, counts = at_work.pipeline, at_work.pipeline.progress.counts
        streams.append(
            {
                "stream": name,
                "queries": len(engine.catalog.definitions(name)),
                "ingested": counts.ingested,
                "on_time": counts.on_time,
                "late": counts.late,
                "invalid": counts.invalid,
                "answers": pipeline.metrics.answers,
                "open_windows": at_work.open_windows(),
                "reports": pipeline.reports,
            }
        )
    return {"seconds": round(seconds, 3), "streams": streams}


def _report_text(report: dict[str, Any]) -> str:
    """Word a run's report."""
    lines = []
    for s in report["streams"]:
        lines.append(
            f"{s['stream']}: {s['ingested']:,} rows ({s['late']:,} late, {s['invalid']:,} invalid) "
            f"through {_number(s['queries'], 'query', 'queries')}, "
            f"{_number(s['answers'], 'answer', 'answers')} in {report['seconds']:.1f} s"
        )
        if s["open_windows"]:
            lines.append(f"  {s['open_windows']:,} windows stay open; --once --flush ends the stream and answers them")
        lines += [f"  {text}" for text in s["reports"]]
    return "\n".join(lines)


def _show_answers(engine: Engine, number: int) -> None:
    """Print the last answers of every query."""
    for name in engine.catalog.query_names():
        table = engine.results(name)
        click.echo(f"\n{name}: {_number(table.num_rows, 'answer', 'answers')}")
        for row in table.slice(max(0, table.num_rows - number)).to_pylist():
            click.echo("  " + "  ".join(f"{k}={v}" for k, v in row.items()))


def _number(number: int, one: str, many: str) -> str:
    """Write a number of things."""
    return f"{number:,} {one if number == 1 else many}"
