"""Measures how fast this machine does what the engine's rates are made of, in pieces of a few milliseconds.

Rates that nobody has calibrated are those of one machine. On another one they are multiplied by how much longer the
same pieces of work take there: sorting and adding up arrays, reading memory at random, and making objects.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from penstock.share.weave.costs import DEFAULT_RATES, Rates
from penstock.store.rates import calibrated_rates, kept_speeds

ROWS: Final = 20_000
FAR: Final = 1 << 20  # numbers that memory is read from: more than a processor keeps near
LEAST: Final = 0.25  # factors beyond these are those of a disturbed measurement
MOST: Final = 4.0


def sort_rows() -> None:
    """Sort rows and add them up by group, as the driver aggregates them."""
    groups = np.random.default_rng(1).integers(0, 500, ROWS)
    order = np.argsort(groups, kind="stable")
    starts = np.flatnonzero(np.append(True, np.diff(groups[order]) != 0))
    np.add.reduceat(order, starts)


def read_memory() -> None:
    """Read numbers from all over memory, as rows find their groups."""
    numbers = np.arange(FAR)
    numbers[np.random.default_rng(1).integers(0, FAR, ROWS)].sum()


def make_objects() -> None:
    """Make and look up objects, as batches, trees and queries do."""
    found: dict[tuple[int, str], int] = {}
    for number in range(ROWS // 4):
        found[number % 97, "row"] = found.get((number % 89, "row"), 0) + number


PIECES: Final[Mapping[str, Callable[[], None]]] = {"rows": sort_rows, "memory": read_memory, "objects": make_objects}
USUAL_SECONDS: Final[Mapping[str, float]] = {"rows": 1.3e-3, "memory": 0.43e-3, "objects": 0.83e-3}  # as DEFAULT_RATES
OF_MEMORY: Final = ("crowded", "cell")
OF_OBJECTS: Final = ("window", "batch", "several", "query", "tree", "turn", "member")  # all others are of rows


def seconds_of(piece: str) -> float:
    """Return the processor time that a piece takes, which others on the machine do not add to."""
    began = time.thread_time()
    PIECES[piece]()
    return time.thread_time() - began


def rates_at(seconds: Mapping[str, float]) -> Rates:
    """Return the usual rates, as they are where pieces take so long."""
    factor = {piece: min(max(seconds[piece] / USUAL_SECONDS[piece], LEAST), MOST) for piece in PIECES}
    names = DEFAULT_RATES.__slots__
    piece_of = {name: "memory" if name in OF_MEMORY else "objects" if name in OF_OBJECTS else "rows" for name in names}
    return replace(DEFAULT_RATES, **{name: getattr(DEFAULT_RATES, name) * factor[piece_of[name]] for name in names})


def stored_rates() -> Rates:
    """Return the rates of this machine: as calibrated, or else as fast as it was seen to be, or else the usual ones."""
    if (rates := calibrated_rates()) is not None:
        return rates
    speeds = kept_speeds()
    return rates_at(speeds) if speeds is not None and speeds.keys() >= PIECES.keys() else DEFAULT_RATES
