"""Times cold starts of the command line: ``--help``, and ``check`` of a project of 200 queries.

Files are in the disk cache and compiled to bytecode by one untimed start: what is measured is what a user waits for the
second time a command is typed.
"""

from __future__ import annotations

import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench._frame import run_benchmark, scratch_folder
from bench._measure import Figures, interleave
from penstock.project.starting import start_project

HELP_S = 0.6
CHECK_S = 2.0
PROBE = """
import sys
from penstock.cli import cli
try:
    cli(["check", sys.argv[1]], standalone_mode=False)
finally:
    print("pyspark" in sys.modules, file=sys.stderr)
"""


@dataclass(frozen=True, slots=True)
class Workload:
    """How many queries are checked, and how often everything is started."""

    queries: int = 200
    repetitions: int = 5
    warm: bool = True
    seed: int = 1


def main(path: Path | None, *, full: bool = False, rows: int | None = None) -> None:
    """Run the benchmark, print it, and write it to a file if one is named; it reads no rows."""
    workload = Workload(repetitions=15 if full else 5)
    run_benchmark(path, lambda say, save: measure(workload, say), _print)


def measure(workload: Workload, say: Callable[[str], None]) -> Figures:
    """Time every command in turns."""
    figures = Figures()
    with scratch_folder() as scratch:
        folder = make_project(scratch / "project", workload)
        runs: dict[str, Callable[[], float]] = {
            "--help": lambda: _seconds("--help"),
            "--version": lambda: _seconds("--version"),
            "check --help": lambda: _seconds("check", "--help"),
            f"check {workload.queries} queries": lambda: _seconds("check", str(folder)),
        }
        for run in runs.values() if workload.warm else ():
            run()  # compiles the bytecode
        seconds = interleave(runs, workload.repetitions, say)
        sparkless = _without_spark(folder)
    times = {name: {"median_seconds": round(statistics.median(s), 4), "seconds": s} for name, s in seconds.items()}
    figures.measurements |= {"workload": asdict(workload), "times": times}
    figures.expect("--help, seconds", statistics.median(seconds["--help"]), "<=", HELP_S)
    checked = f"check {workload.queries} queries"
    figures.expect(f"{checked}, seconds", statistics.median(seconds[checked]), "<=", CHECK_S)
    figures.expect_true("check does not import pyspark", sparkless)
    return figures


def make_project(folder: Path, workload: Workload) -> Path:
    """Write a project with many queries of several kinds."""
    start_project(folder)
    for query in (folder / "queries").glob("*.sql"):
        query.unlink()
    for case in (folder / "tests").glob("*.yml"):
        case.unlink()
    draw = random.Random(workload.seed)
    for number in range(workload.queries):
        (folder / "queries" / f"q{number:04d}.sql").write_text(_query(draw, number), encoding="utf-8")
    return folder


def _query(draw: random.Random, number: int) -> str:
    """Write one query; windows and constants vary."""
    range_min, slide_min, volume = draw.randint(2, 30), draw.randint(1, 10), draw.randint(1, 99) * 100
    window = f"[RANGE {range_min} MIN SLIDE {slide_min} MIN]"
    kinds = (
        f"SELECT count(*) AS n, sum(volume) AS shares FROM trades {window}",
        f"SELECT symbol, sum(price * volume) / sum(volume) AS vwap FROM trades {window} GROUP BY symbol",
        f"SELECT side, max(price) AS high FROM trades {window} WHERE volume > {volume} AND price > 0 GROUP BY side",
        f"SELECT sector, avg(price) AS mean, count(*) AS n FROM trades {window} JOIN listing USING (symbol) "
        f"WHERE listing.small OR volume > {volume} GROUP BY sector HAVING n > {number % 20}",
    )
    return f"-- query number {number}\n{kinds[number % len(kinds)]}\n"


def _seconds(*arguments: str) -> float:
    """Time one command in a process of its own."""
    began = time.perf_counter()
    subprocess.run([*_command(), *arguments], check=True, stdout=subprocess.DEVNULL)
    return round(time.perf_counter() - began, 4)


def _command() -> list[str]:
    """Return the installed command, or the module where it is not installed."""
    script = Path(sys.executable).with_name("penstock")
    return [str(script)] if script.exists() else [sys.executable, "-m", "penstock.cli"]


def _without_spark(folder: Path) -> bool:
    """Tell whether a check leaves pyspark alone."""
    done = subprocess.run([sys.executable, "-c", PROBE, str(folder)], capture_output=True, text=True, check=True)
    return done.stderr.strip() == "False"


def _print(figures: Figures) -> None:
    """Print the times and targets as tables."""
    console = Console()
    table = Table(title="Cold starts, medians", title_justify="left")
    table.add_column("command")
    table.add_column("seconds", justify="right")
    for name, run in figures.measurements["times"].items():
        table.add_row(f"penstock {name}", f"{run['median_seconds']:.2f}")
    console.print(table)
    targets = Table(title="Targets", title_justify="left")
    for name in ("figure", "value", "target", "met"):
        targets.add_column(name, justify="left" if name in ("figure", "met") else "right")
    for target in figures.targets:
        targets.add_row(target.name, f"{target.value:,.2f}", target.target, "yes" if target.met else "NO")
    console.print(targets)
