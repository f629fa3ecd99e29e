"""Implements ``penstock init``, which creates a small project that runs."""

from __future__ import annotations

from pathlib import Path

import click

from penstock.cli.printing import say
from penstock.printable import shown


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), default=".")
@click.option("--force", is_flag=True, help="Overwrite files of the same names.")
def init(folder: Path, force: bool) -> None:
    """Make a small project that runs as it is.

    FOLDER (default: the current one) gets penstock.yml, five queries, tests, and a made-up sample of trades. Nothing
    that is there already is overwritten.

    \b
    Example:
      penstock init market
    """
    from penstock.project.starting import start_project

    written = start_project(folder, force=force)
    names = [path.relative_to(folder).as_posix() for path in written]
    say(f"made {shown(str(folder))}: {', '.join(name for name in names if '/' not in name)}")
    for part in ("queries", "tests", "data"):
        say(f"  {part}/  {', '.join(name.partition('/')[2] for name in names if name.startswith(part + '/'))}")
    into = "" if folder.resolve() == Path.cwd() else f"cd {shown(str(folder))}\n  "
    say(f"next:\n  {into}penstock check\n  penstock test\n  penstock run --once --flush --show 3")
