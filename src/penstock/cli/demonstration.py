"""Implements ``penstock demo``, which answers many queries over a generated market."""

from __future__ import annotations

from pathlib import Path

import click


@click.command(short_help="Run 200 queries over a made-up market.")
@click.option("--rows", type=click.IntRange(1000), default=1_000_000, show_default=True, help="Trades to generate.")
@click.option("--queries", type=click.IntRange(1, 5000), default=200, show_default=True, help="Continuous queries.")
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of the generated market.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default="penstock-demo",
    show_default=True,
    metavar="FOLDER",
    help="Where answers and the report go.",
)
@click.option("--plain", is_flag=True, help="Plain lines instead of a live view.")
def demo(rows: int, queries: int, seed: int, out: Path, plain: bool) -> None:
    """Run many queries over a generated market and show what sharing saves.

    Starts an embedded Spark, answers all queries together, runs a few of them as separate Spark queries for
    comparison, and leaves the answers and report.html in a folder. Takes a minute or two.

    \b
    Examples:
      penstock demo
      penstock demo --queries 1000 --rows 4000000
    """
    from penstock.demo import run_demo

    run_demo(rows, queries, seed, out=out, plain=plain)
