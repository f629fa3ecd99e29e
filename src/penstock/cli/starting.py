"""``penstock init``: a folder's name comes in; a small project that runs goes out."""

from __future__ import annotations

from pathlib import Path

import click


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
    shown = [path.relative_to(folder).as_posix() for path in written]
    click.echo(f"made {folder}: {', '.join(name for name in shown if '/' not in name)}")
    for part in ("queries", "tests", "data"):
        click.echo(f"  {part}/  {', '.join(name.partition('/')[2] for name in shown if name.startswith(part + '/'))}")
    into = "" if folder.resolve() == Path.cwd() else f"cd {folder}\n  "
    click.echo(f"next:\n  {into}penstock check\n  penstock test\n  penstock run --once --flush --show 3")
