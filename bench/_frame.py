"""Runs a benchmark: saves what is known after every step, and prints it at the end."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Concatenate, Final, Generic, ParamSpec, Self, TypeVar

from pyspark.sql import SparkSession
from rich.console import Console

from bench._measure import Figures, Progress, saving
from bench._report import print_targets

W = TypeVar("W")
P = ParamSpec("P")
Save = Callable[[Figures], None]

# Spark keeps the code of its last 100 plans, fewer than one turn of all runs needs: whoever comes after many plain
# queries would compile again. With room for all, every side is measured with its code compiled.
SETTINGS: Final = {"spark.sql.codegen.cache.maxEntries": "5000"}


def do_not_save(figures: Figures) -> None:
    """Save nothing."""


@dataclass(slots=True)
class Bench(Generic[W]):
    """One benchmark on its way: what to do, with what, and what was found."""

    workload: W
    session: SparkSession
    scratch: Path
    say: Progress
    figures: Figures = field(default_factory=Figures)
    save: Save = do_not_save

    def __post_init__(self) -> None:
        workload: Any = self.workload
        self.figures.measurements["workload"] = asdict(workload)

    def take(self, step: Callable[Concatenate[Self, P], None], *arguments: P.args, **options: P.kwargs) -> None:
        """Take a step, and save what is known after it."""
        step(self, *arguments, **options)
        self.save(self.figures)


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Make a folder that goes when it is not needed any more."""
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        yield Path(folder)


def print_all_targets(figures: Figures) -> None:
    """Print every target with its figure."""
    print_targets(Console(), figures.targets)


def run_benchmark(
    path: Path | None,
    measure: Callable[[Progress, Save], Figures],
    show: Callable[[Figures], None] = print_all_targets,
) -> None:
    """Measure, print the figures, and write them to a file if one is named; the machine is described before."""
    save = saving(path)
    figures = measure(Progress(), save)
    save(figures)
    show(figures)


def tell_quick_look(rows: int, usual: int) -> None:
    """Say that the targets are not meant for so few rows."""
    if rows != usual:
        print(f"A quick look: the targets are meant for {usual:,} rows.")
