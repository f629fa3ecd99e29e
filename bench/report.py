"""Writes bench/RESULTS.md and its charts from the figures in bench/results: ``penstock bench report``."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from bench._results.page import page_and_charts, read_results

FOLDER: Final = Path(__file__).resolve().parent


def main(path: Path | None, *, full: bool = False, rows: int | None = None) -> None:
    """Write the page and the charts, and print which files they are; it measures nothing."""
    for name, text in made().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
        print(f"bench/{name}")


def made(folder: Path = FOLDER) -> dict[str, str]:
    """Make all texts from the figures and notes of a folder."""
    return page_and_charts(read_results(folder / "results", folder / "notes"))
