"""Implements ``penstock init``, which creates a small project that runs."""

from __future__ import annotations

from pathlib import Path

import click

from penstock.cli.printing import say
from penstock.printable import shown


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), default=".")
@click.option(
    "--from",
    "data",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Propose streams, queries and a test for the files in FOLDER, or for one file: Parquet, CSV or JSON.",
)
@click.option("--force", is_flag=True, help="Overwrite files of the same names.")
def init(folder: Path, data: Path | None, force: bool) -> None:
    """Make a small project that runs as it is.

    FOLDER (default: the current one) gets penstock.yml, five queries, tests, and a made-up sample of trades. Nothing
    that is there already is overwritten.

    With --from, the project is about files that you have: it proposes streams with their columns, event time and
    lateness, tables, five queries and a test, and says what it guessed.

    \b
    Examples:
      penstock init market
      penstock init flights --from /data/flights
    """
    from penstock.project.starting import start_from, start_project

    guesses: tuple[str, ...] = ()
    if data is None:
        written = start_project(folder, force=force)
    else:
        written, guesses = start_from(folder, data, force=force)
    names = [path.relative_to(folder).as_posix() for path in written]
    say(f"made {shown(str(folder))}: {', '.join(name for name in names if '/' not in name)}")
    for part in ("queries", "tests", "data"):
        inside = [name.partition("/")[2] for name in names if name.startswith(f"{part}/")]
        if inside:
            say(f"  {part}/  {', '.join(inside)}")
    for guess in guesses:
        say(f"  guessed  {shown(guess)}")
    into = "" if folder.resolve() == Path.cwd() else f"cd {shown(str(folder))}\n  "
    say(f"next:\n  {into}penstock check\n  penstock test\n  penstock run --once --flush --show 3")
