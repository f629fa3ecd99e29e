"""Words figures of replays: numbers, spreads, and the queries that a policy would change most."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.cli.reporting import columns_text

if TYPE_CHECKING:
    from penstock.sim.replay_figures import Spread

MOST_QUERIES: Final = 10  # that are listed in the text: those that a policy changes most


def number_text(value: float | None) -> str:
    """Write a number, or that it is not known."""
    return "unknown" if value is None else f"{value:,.3g}"


def spread_text(measure: Spread) -> list[str]:
    """Write mean, median, 95th percentile and maximum."""
    return [number_text(value) for value in (measure.mean, measure.p50, measure.p95, measure.maximum)]


def queries_text(queries: Mapping[int, Mapping[str, float]], names: Mapping[int, str], policies: Sequence[str]) -> str:
    """Print the mean responses of the queries that a policy would change most."""

    def change(number: int) -> float:
        some = queries[number]
        return max(abs(value - some["live"]) for value in some.values())

    most = sorted(queries, key=lambda number: (-change(number), number))[:MOST_QUERIES]
    rows = [[names.get(n, f"#{n}"), *(number_text(queries[n][name]) for name in ("live", *policies))] for n in most]
    which = "these queries" if len(most) < len(queries) else "each query"
    return columns_text([f"mean response of {which}", "live", *policies], rows)


def names_of(state: Path, numbers: Iterable[int]) -> dict[int, str]:
    """Name queries; of one that the catalog has forgotten, only the number is left."""
    from penstock.control.reading import read_catalog
    from penstock.errors import PenstockError

    try:
        catalog = read_catalog(state)
        return {number: catalog.name_of(number) for number in numbers}
    except (PenstockError, KeyError):
        return {}
