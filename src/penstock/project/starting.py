"""Creates a small project that runs as it is, with generated sample data."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from penstock.errors import ProjectError

LISTED: Final = (  # symbol, sector, small, opening price, how often it trades
    ("ORCA", "Shipping", "true", 12.4, 3),
    ("IBIS", "Paper", "false", 48.0, 8),
    ("LYNX", "Optics", "false", 131.5, 9),
    ("MOTH", "Textiles", "true", 7.2, 4),
    ("HERON", "Paper", "true", 22.9, 3),
    ("BISON", "Foods", "false", 64.1, 7),
    ("CORAL", "Shipping", "false", 37.3, 5),
    ("FINCH", "Foods", "true", 15.8, 2),
)
ROWS: Final = 600
MINUTES: Final = 30
START: Final = datetime(2026, 1, 5, 14, 30, tzinfo=UTC)
SEED: Final = 7
NAMED_OTHERWISE: Final = {"gitignore": ".gitignore"}  # a template must not be taken for the package's own


def start_project(folder: Path, *, force: bool = False) -> list[Path]:
    """Write the files of a new project; what is there already is kept unless forced. Return what was written."""
    return _written(project_files(folder.absolute().name or "project"), folder, force)


def start_from(folder: Path, data: Path, *, force: bool = False) -> tuple[list[Path], tuple[str, ...]]:
    """Write a project for the files of a folder; return what was written, and what was guessed."""
    from penstock.project.guessed_project import propose_project

    proposal = propose_project(folder.absolute().name or "project", folder, data)
    return _written(proposal.files, folder, force), proposal.guesses


def _written(contents: dict[str, str], folder: Path, force: bool) -> list[Path]:
    """Write files that are not there yet."""
    taken = [name for name in contents if (folder / name).exists()]
    if taken and not force:
        more = f" and {len(taken) - 1} more" if len(taken) > 1 else ""
        raise ProjectError(
            f"{folder / taken[0]}{more} would be overwritten", hint="Choose another folder, or add --force."
        )
    try:
        for name, text in contents.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise ProjectError(f"cannot write into {folder}: {error.strerror}") from None
    return [folder / name for name in contents]


def project_files(name: str) -> dict[str, str]:
    """Return the text of every file of a new project by its path."""
    template = resources.files("penstock.project") / "template"
    texts = {path: file.read_text(encoding="utf-8") for path, file in _walk(template, "")}
    named = {
        path: text.replace("{name}", _quoted(name) if path.endswith(".yml") else name) for path, text in texts.items()
    }
    return {**dict(sorted(named.items())), **sample_data()}


def _walk(folder: Traversable, prefix: str) -> list[tuple[str, Traversable]]:
    """List the template's files with their paths."""
    found: list[tuple[str, Traversable]] = []
    for entry in folder.iterdir():
        path = prefix + NAMED_OTHERWISE.get(entry.name, entry.name)
        found += _walk(entry, f"{path}/") if entry.is_dir() else [(path, entry)]
    return found


def _quoted(name: str) -> str:
    """Write a name as YAML text, whatever is in it."""
    return "'" + name.replace("'", "''") + "'"


def sample_data() -> dict[str, str]:
    """Make up trades in order of arrival, and the listing; the same every time."""
    draw = random.Random(SEED)
    lines = [line for _, line in sorted(_trade(draw) for _ in range(ROWS))]
    trades = "\n".join(["ts,symbol,price,volume,side", *lines]) + "\n"
    listing = [f"{symbol},{sector},{small}" for symbol, sector, small, _, _ in LISTED]
    return {"data/trades/sample.csv": trades, "data/listing.csv": "\n".join(["symbol,sector,small", *listing]) + "\n"}


def _trade(draw: random.Random) -> tuple[float, str]:
    """Make up one trade: when it arrives, and its line; a few arrive late."""
    second = round(draw.random() * MINUTES * 60, 3)
    symbol, _, _, opening, _ = draw.choices(LISTED, weights=[weight for *_, weight in LISTED])[0]
    price = opening * (1 + 0.02 * draw.gauss(0, 1))
    volume = max(1, round(draw.lognormvariate(6.5, 1.3)))
    arrives = second + (draw.random() * 4 if draw.random() < 0.05 else 0)
    when = START + timedelta(seconds=second)
    stamp = when.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return arrives, f"{stamp},{symbol},{price:.2f},{volume},{draw.choice('BS')}"
