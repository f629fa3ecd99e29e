"""Prints the ratios between two files of figures: ``python -m bench._compare BEFORE AFTER``."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table


def ratios(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[tuple[str, float, float]]:
    """List the figures that both files have: median seconds of every run, and the value of every target."""
    old, new = before["measurements"]["times"], after["measurements"]["times"]
    yield from ((n, old[n]["median_seconds"], new[n]["median_seconds"]) for n in old if n in new)
    known = {target["name"]: target["value"] for target in before["targets"]}
    yield from ((t["name"], known[t["name"]], t["value"]) for t in after["targets"] if t["name"] in known)


def _main(before: str, after: str) -> None:
    table = Table()
    for name in ("figure", "before", "after", "after / before"):
        table.add_column(name, justify="left" if name == "figure" else "right")
    files = (json.loads(Path(path).read_text(encoding="utf-8")) for path in (before, after))
    for name, old, new in ratios(*files):
        table.add_row(name, f"{old:,.2f}", f"{new:,.2f}", f"{new / old:.2f}" if old else "")
    Console().print(table)


if __name__ == "__main__":
    _main(*sys.argv[1:])
