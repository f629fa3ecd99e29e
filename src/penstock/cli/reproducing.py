"""Implements ``penstock reproduce``, which makes the figures of a paper again, as a page and as JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from penstock.cli.printing import say


@click.command(short_help="Make the figures of the papers again.")
@click.argument("paper", metavar="s07|b04|g06|w11|k06|all")
@click.argument("figure", required=False)
@click.option(
    "--tuples", type=click.IntRange(100, 60_000), default=5_000, show_default=True, help="Tuples to simulate."
)
@click.option("--queries", type=click.IntRange(10, 5_000), default=500, show_default=True, help="Queries over them.")
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of all that is drawn.")
@click.option("--html", type=click.Path(path_type=Path), metavar="FILE", help="Where the page goes.")
@click.option("--json", "path", type=click.Path(path_type=Path), metavar="FILE", help="Where claims and numbers go.")
def reproduce(
    paper: str, figure: str | None, tuples: int, queries: int, seed: int, html: Path | None, path: Path | None
) -> None:
    """Simulate the experiments of a paper and compare its claims with what comes out.

    \b
    Examples:
      penstock reproduce s07 7 --tuples 1000
      penstock reproduce all --html papers.html --json papers.json
    """
    from penstock.reproduce.figure import Size
    from penstock.reproduce.papers import makers
    from penstock.reproduce.report import as_json, report

    size = Size(tuples, queries, seed, _say)
    made = []
    for make in makers(paper, figure, size).values():
        made.append(make())
        say(made[-1])
        for claim in made[-1].claims:
            say(
                f"  {claim.verdict:7} {claim.stated}: {claim.measured}" + (f" ({claim.reason})" if claim.reason else "")
            )
    if html is not None:
        html.write_text(report(made, size), encoding="utf-8")
    if path is not None:
        path.write_text(json.dumps(as_json(made, size), indent=1) + "\n", encoding="utf-8")


def _say(words: str) -> None:
    """Tell what is simulated, to a terminal only."""
    if sys.stderr.isatty():
        say(f"  simulating {words}", err=True)
