"""Merges the sketches that Spark makes, in the same bytes, and reads estimates from them.

Apache DataSketches: HyperLogLog and Theta for distinct values, KLL for quantiles (Karnin, Lang and Liberty 2016),
frequent items after Misra and Gries. Java's and Python's library read each other's bytes, so a sketch that a slice
made in Spark is merged here, and what is merged here goes back to Spark's own functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import datasketches as ds  # type: ignore[import-untyped]
import pyarrow as pa

from penstock.evaluate.components.component import Component

LG_K: Final = 12  # of HyperLogLog, as Spark's: a standard error of 1.6 %
LG_NOMINAL: Final = 12  # of Theta
K: Final = 200  # of KLL: a rank is 1.3 % off at most, with a confidence of 99 %
TRACKED: Final = 10_000  # items


def lg_k_for(deviation: float) -> int:
    """Return the size of a HyperLogLog whose relative standard deviation is at most this, merged or not."""
    return min(21, max(4, math.ceil(2 * math.log2(1.04 / deviation))))


def k_for(accuracy: float) -> int:
    """Return the size of a KLL sketch whose ranks are off by at most 1 / accuracy, with a confidence of 99 %."""
    exact: float = (2.296 * accuracy) ** (1 / 0.9021)
    return min(65_535, max(8, math.ceil(exact)))


def tracked_map(tracked: int) -> int:
    """Return the binary logarithm of the map that follows so many items, as Spark chooses it."""
    return max(3, math.ceil(math.log2(tracked / 0.75)))


def merge_sketches(component: Component, parts: Sequence[bytes]) -> bytes:
    """Merge sketches of one kind."""
    return parts[0] if len(parts) == 1 else _MERGES[component.kind](component, parts)


def _merge_hll(component: Component, parts: Sequence[bytes]) -> bytes:
    """Unite HyperLogLog sketches."""
    union = ds.hll_union(component.size)
    for part in parts:
        union.update(ds.hll_sketch.deserialize(part))
    found: bytes = union.get_result(ds.tgt_hll_type.HLL_8).serialize_compact()
    return found


def _merge_theta(component: Component, parts: Sequence[bytes]) -> bytes:
    """Unite Theta sketches."""
    union = ds.theta_union(component.size)
    for part in parts:
        union.update(ds.compact_theta_sketch.deserialize(part))
    found: bytes = union.get_result().serialize()
    return found


def _merge_kll(component: Component, parts: Sequence[bytes]) -> bytes:
    """Merge KLL sketches."""
    whole = ds.kll_doubles_sketch(component.size)
    for part in parts:
        whole.merge(ds.kll_doubles_sketch.deserialize(part))
    found: bytes = whole.serialize()
    return found


def _merge_items(component: Component, parts: Sequence[bytes]) -> bytes:
    """Merge sketches of frequent items."""
    whole = ds.frequent_items_sketch(tracked_map(component.size))
    for part in parts:
        whole.merge(ds.frequent_items_sketch.deserialize(part, serde_of(component)))
    found: bytes = whole.serialize(serde_of(component))
    return found


def serde_of(component: Component) -> Any:
    """Return how the items of a component are written: as longs or as strings."""
    return ds.PyStringsSerDe() if component.type == pa.string() else ds.PyLongsSerDe()


_MERGES: Final[dict[str, Callable[[Component, Sequence[bytes]], bytes]]] = {
    "hll": _merge_hll,
    "theta": _merge_theta,
    "kll": _merge_kll,
    "items": _merge_items,
}


def empty_sketch(component: Component) -> bytes:
    """Return the sketch of nothing."""
    match component.kind:
        case "hll":
            empty: bytes = ds.hll_sketch(component.size, ds.tgt_hll_type.HLL_8).serialize_compact()
        case "theta":
            empty = ds.update_theta_sketch(component.size).compact().serialize()
        case _:
            empty = ds.kll_doubles_sketch(component.size).serialize()
    return empty


def distinct_in(state: bytes | None) -> int:
    """Estimate how many distinct values a HyperLogLog has seen."""
    return 0 if state is None else round(ds.hll_sketch.deserialize(state).get_estimate())


def quantiles_in(state: bytes | None, ranks: Sequence[float]) -> list[float] | None:
    """Estimate quantiles, the least items with at least such a part of all at or below them; None of nothing."""
    sketch = None if state is None else ds.kll_doubles_sketch.deserialize(state)
    if sketch is None or sketch.is_empty():
        return None
    return [float(sketch.get_quantile(rank, True)) for rank in ranks]


def frequent_in(component: Component, state: bytes | None, items: int) -> list[tuple[Any, int]]:
    """List the most frequent items with their estimated counts, most frequent first, then least value."""
    if state is None:
        return []
    sketch = ds.frequent_items_sketch.deserialize(state, serde_of(component))
    found = sketch.get_frequent_items(ds.frequent_items_error_type.NO_FALSE_NEGATIVES)
    ordered = sorted(((item, int(estimate)) for item, estimate, *_ in found), key=lambda pair: (-pair[1], pair[0]))
    return ordered[:items]
