"""Implements ``penstock bench``, which runs a benchmark of a source checkout."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Final

import click

from penstock.errors import EnvironmentProblem

FOLDER: Final = Path(__file__).resolve().parents[3] / "bench"


def benchmarks() -> list[str]:
    """List the benchmarks of a source checkout; none elsewhere."""
    if not FOLDER.is_dir():
        return []
    return sorted(path.stem for path in FOLDER.glob("*.py") if not path.stem.startswith("_"))


@click.command()
@click.argument("name", shell_complete=lambda ctx, param, begun: [b for b in benchmarks() if b.startswith(begun)])
@click.option("--json", "path", type=click.Path(path_type=Path), metavar="FILE", help="Write the figures to this file.")
@click.option("--full", is_flag=True, help="Also the slowest comparisons.")
@click.option("--rows", type=click.IntRange(1000), metavar="N", help="Another number of rows, for a quick look.")
@click.option("--minutes", type=click.FloatRange(0.05), metavar="M", help="How long the soak runs (30).")
def bench(name: str, path: Path | None, full: bool, rows: int | None, minutes: float | None) -> None:
    """Run the benchmark NAME of a source checkout, or write the page of all results: ``report``.

    \b
    Examples:
      penstock bench cli
      penstock bench report
      penstock bench windows --json bench/results/windows.json
      penstock bench soak --minutes 5
    """
    known = benchmarks()
    if name not in known:
        raise EnvironmentProblem(
            f'there is no benchmark "{name}"',
            detail=f"benchmarks: {', '.join(known) or 'none'}",
            hint="Benchmarks run from a source checkout, installed with pip install -e .",
        )
    if minutes is not None and name != "soak":
        raise click.UsageError("--minutes is for the soak: the others end by themselves")
    if name == "report" and (path is not None or full or rows is not None):
        raise click.UsageError("the report takes no options: it reads bench/results/*.json and measures nothing")
    sys.path.insert(0, str(FOLDER.parent))
    options = {} if minutes is None else {"minutes": minutes}
    import_module(f"bench.{name}").main(path, full=full, rows=rows, **options)
