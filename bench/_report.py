"""Prints the tables of the windows benchmark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from bench._measure import Figures, Target


def print_windows(figures: Figures) -> None:
    """Print the times, the operations and the targets."""
    times, bare = figures.measurements["times"], figures.measurements["times"]["bare limit"]["median_seconds"]
    table = Table(title="Times, medians of one run", title_justify="left")
    for name in ("run", "seconds", "M rows/s", "× bare limit", "creating s"):
        table.add_column(name, justify="left" if name == "run" else "right")
    for name, run in times.items():
        middle, creating = run["median_seconds"], run.get("creating_seconds")
        table.add_row(
            name,
            f"{middle:.2f}",
            f"{run['rows_per_second'] / 1e6:.2f}",
            f"{middle / bare:.2f}",
            "" if creating is None else f"{creating:.2f}",
        )
    console = Console()
    console.print(table)
    _print_operations(console, figures.measurements["operations"])
    peak = figures.measurements["peak_memory"]
    console.print(f"Peak memory: Python {peak['python_bytes'] >> 20} MiB, JVM {peak['jvm_bytes'] >> 20} MiB\n")
    print_targets(console, figures.targets)


def _print_operations(console: Console, operations: dict[str, dict[str, Any]]) -> None:
    """Print counted operations beside the published ones."""
    table = Table(title="Counted operations, slice scan", title_justify="left")
    for name in ("strategy", "partial", "final", "published partial", "published final"):
        table.add_column(name, justify="left" if name == "strategy" else "right")
    for strategy, count in operations.items():
        published = count["published"] or {"partial": None, "final": None}
        numbers = (count["partial"], count["final"], published["partial"], published["final"])
        table.add_row(strategy, *("" if n is None else f"{n:,}" for n in numbers))
    console.print(table)


def print_targets(console: Console, targets: Sequence[Target]) -> None:
    """Print targets and figures as a table."""
    table = Table(title="Targets", title_justify="left")
    table.add_column("figure")
    table.add_column("value", justify="right")
    table.add_column("target", justify="right")
    table.add_column("met")
    for target in targets:
        table.add_row(target.name, f"{target.value:,.2f}", target.target, "yes" if target.met else "NO")
    console.print(table)
