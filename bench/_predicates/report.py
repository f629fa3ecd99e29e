"""Turns figures of the predicates benchmark into readable tables, on the terminal and for the page of results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from bench._measure import Figures
from bench._report import print_targets

Rows = list[tuple[str, ...]]


def print_predicates(figures: Figures) -> None:
    """Print the times, the counts beside the paper's, and the targets."""
    console, found = Console(), figures.measurements
    _print(console, "Times, medians of one run", TIMES, times(found))
    _print(console, "What the data asks for", PARAMETERS, parameters(found))
    _print(console, "Operations and seconds beside the paper's, an hour of event time", BESIDE, beside(found))
    _print(console, "Thousands of queries", ("", "figure"), thousands(found))
    print_targets(console, figures.targets)


TIMES: Final = ("run", "seconds", "M rows/s", "partials", "MB to the driver", "cells", "signatures")
PARAMETERS: Final = ("queries", "slices", "rows a slice, T", "fragments a slice, k", "alpha", "beta")
BESIDE: Final = ("workload", "unshared s", "shared s", "unshared partial", "final", "shared partial", "final")


def times(found: Mapping[str, Any]) -> Rows:
    """List the runs; a rival that was measured on fewer files is marked."""
    rows: Rows = []
    for name, each in found["times"].items():
        work, counts = each.get("work", {}), found.get("counts", {}).get(name.removesuffix(", unshared"), {})
        mark = f" (from {each['scaled_from_files']} of {each['of_files']} files)" if "of_files" in each else ""
        sent = work.get("bytes_to_driver")
        rows.append(
            (
                name + mark,
                f"{each['median_seconds']:.2f}",
                f"{each['rows_per_second'] / 1e6:.2f}",
                _number(work.get("partials")),
                "" if sent is None else f"{sent / 1e6:.1f}",
                _number(work.get("cells")),
                _number(counts.get("fragments_in_all")) if work else "",
            )
        )
    return rows


def parameters(found: Mapping[str, Any]) -> Rows:
    """List the paper's parameters for every query set, its own last."""
    rows = [_parameters(name, counts) for name, counts in found["counts"].items()]
    return [*rows, _parameters("B 256, published", found["published"]["B"] | {"slices": 6})]


def beside(found: Mapping[str, Any]) -> Rows:
    """Put our counted operations and times at the greatest common size beside figures 14 to 16, by the hour."""
    at = found["workload"]["at"]
    rows: Rows = []
    for kind, published in found["published"].items():
        counts = found["counts"].get(f"{kind} {at}")
        if counts is None:
            continue
        hours = counts["hours"]
        seconds = [found["times"][name]["median_seconds"] for name in (f"{kind} {at}, unshared", f"{kind} {at}")]
        ours = [f"{each / hours:.2f}" for each in seconds]
        operations = [counts[way][step] for way in ("unshared", "shared") for step in ("partial", "final")]
        rows.append((f"{kind} {at}", *ours, *(_number(round(each / hours)) for each in operations)))
        theirs = [published[way][step] for way in ("unshared", "shared") for step in ("partial", "final")]
        told = [f"{published[way]['seconds']:.2f}" for way in ("unshared", "shared")]
        rows.append((f"{kind} 256, published (figure {published['figure']})", *told, *map(_number, theirs)))
    return rows


def thousands(found: Mapping[str, Any]) -> Rows:
    """List what living with thousands of queries costs."""
    each = found["thousands"]
    return [
        ("queries", _number(each["queries"])),
        ("created in, seconds", f"{each['creating_seconds']:.1f}"),
        (f"batch of {each['batch_rows']:,} rows, seconds", f"{each['quiet_batch_seconds']:.3f}"),
        ("batch after one query more", f"{each['quiet_batch_seconds'] + each['extra_ms'] / 1000:.3f}"),
    ]


def _parameters(name: str, counts: Mapping[str, Any]) -> tuple[str, ...]:
    """Write one row of parameters."""
    means = (f"{counts['rows_a_slice']:,.0f}", f"{counts['fragments_a_slice']:,.0f}")
    return name, _number(counts["slices"]), *means, f"{counts['alpha']:.1f}", f"{counts['beta']:.1f}"


def _number(value: int | None) -> str:
    """Write a whole number, or nothing."""
    return "" if value is None else f"{value:,}"


def _print(console: Console, title: str, head: Sequence[str], rows: Rows) -> None:
    """Print a table."""
    table = Table(title=title, title_justify="left")
    for place, name in enumerate(head):
        table.add_column(name, justify="right" if place else "left")
    for row in rows:
        table.add_row(*row)
    console.print(table)
