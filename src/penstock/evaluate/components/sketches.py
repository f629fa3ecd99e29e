"""Merges the sketches that Spark makes, in the same bytes, and reads estimates from them.

Apache DataSketches: HyperLogLog and Theta for distinct values, KLL for quantiles (Karnin, Lang and Liberty 2016),
frequent items after Misra and Gries. Java's and Python's library read each other's bytes, so a sketch that a slice
made in Spark is merged here, and what is merged here goes back to Spark's own functions.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Final

import datasketches as ds  # type: ignore[import-untyped]
import pyarrow as pa

from penstock.evaluate.components.component import Column, Written
from penstock.evaluate.components.reading import whole
from penstock.evaluate.components.states import State

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


class Sketch(State):
    """The bytes of a sketch."""

    __slots__ = ()

    @property
    @abstractmethod
    def empty(self) -> bytes:
        """Return the sketch of nothing."""

    @abstractmethod
    def taking(self, x: str) -> str:
        """Write the SQL that makes a sketch of an argument."""

    def lift_state(self, value: Written, time: str) -> str:
        """Let Spark make the sketch."""
        assert self.argument is not None
        return self.taking(value(self.argument))

    def read_states(self, column: Column) -> Iterator[bytes | None]:
        """Read bytes."""
        return iter(whole(column).to_pylist())


class HllSketch(Sketch):
    """A HyperLogLog of 2^size buckets."""

    __slots__ = ()
    kind: ClassVar = "hll"

    @property
    def empty(self) -> bytes:
        """Return the sketch of nothing."""
        found: bytes = ds.hll_sketch(self.size, ds.tgt_hll_type.HLL_8).serialize_compact()
        return found

    def taking(self, x: str) -> str:
        """Take numbers, strings and bytes as they are, and hashes of others."""
        direct = pa.types.is_string(self.type) or pa.types.is_binary(self.type)
        hashed = x if direct else f"nvl2({x}, xxhash64({x}), NULL)"
        taken = f"cast({x} as bigint)" if pa.types.is_integer(self.type) else hashed
        return f"hll_sketch_agg({taken}, {self.size})"

    def merge(self, states: Sequence[bytes]) -> bytes:
        """Unite sketches."""
        union = ds.hll_union(self.size)
        for part in states:
            union.update(ds.hll_sketch.deserialize(part))
        found: bytes = union.get_result(ds.tgt_hll_type.HLL_8).serialize_compact()
        return found


class ThetaSketch(Sketch):
    """A Theta sketch of nominally 2^size values."""

    __slots__ = ()
    kind: ClassVar = "theta"

    @property
    def empty(self) -> bytes:
        """Return the sketch of nothing."""
        found: bytes = ds.update_theta_sketch(self.size).compact().serialize()
        return found

    def taking(self, x: str) -> str:
        """Take values as they are."""
        return f"theta_sketch_agg({x}, {self.size})"

    def merge(self, states: Sequence[bytes]) -> bytes:
        """Unite sketches."""
        union = ds.theta_union(self.size)
        for part in states:
            union.update(ds.compact_theta_sketch.deserialize(part))
        found: bytes = union.get_result().serialize()
        return found


class KllSketch(Sketch):
    """A KLL sketch of doubles, ``size`` is its k."""

    __slots__ = ()
    kind: ClassVar = "kll"

    @property
    def empty(self) -> bytes:
        """Return the sketch of nothing."""
        found: bytes = ds.kll_doubles_sketch(self.size).serialize()
        return found

    def taking(self, x: str) -> str:
        """Take doubles."""
        return f"kll_sketch_agg_double(cast({x} as double), {self.size})"

    def merge(self, states: Sequence[bytes]) -> bytes:
        """Merge sketches."""
        merged = ds.kll_doubles_sketch(self.size)
        for part in states:
            merged.merge(ds.kll_doubles_sketch.deserialize(part))
        found: bytes = merged.serialize()
        return found


class FrequentItems(Sketch):
    """A sketch that follows ``size`` items: strings, or longs, which stand for values of the one type in ``types``."""

    __slots__ = ()
    kind: ClassVar = "items"

    @property
    def _serde(self) -> Any:
        """Return how items are written: as longs or as strings."""
        return ds.PyStringsSerDe() if self.type == pa.string() else ds.PyLongsSerDe()

    @property
    def empty(self) -> bytes:
        """Return the sketch of nothing."""
        found: bytes = ds.frequent_items_sketch(tracked_map(self.size)).serialize(self._serde)
        return found

    def taking(self, x: str) -> str:
        """Take what stands for values."""
        item = (_written if self.type == pa.string() else _whole_number)(x, self.types[0])
        return f"approx_top_k_accumulate({item}, {self.size}).sketch"

    def merge(self, states: Sequence[bytes]) -> bytes:
        """Merge sketches."""
        merged = ds.frequent_items_sketch(tracked_map(self.size))
        for part in states:
            merged.merge(ds.frequent_items_sketch.deserialize(part, self._serde))
        found: bytes = merged.serialize(self._serde)
        return found

    def frequent(self, state: bytes | None, items: int) -> list[tuple[Any, int]]:
        """List the most frequent items with their estimated counts, most frequent first, then least value."""
        if state is None:
            return []
        sketch = ds.frequent_items_sketch.deserialize(state, self._serde)
        found = sketch.get_frequent_items(ds.frequent_items_error_type.NO_FALSE_NEGATIVES)
        ordered = sorted(((item, int(estimate)) for item, estimate, *_ in found), key=lambda pair: (-pair[1], pair[0]))
        return ordered[:items]


def distinct_in(state: bytes | None) -> int:
    """Estimate how many distinct values a HyperLogLog has seen."""
    return 0 if state is None else round(ds.hll_sketch.deserialize(state).get_estimate())


def quantiles_in(state: bytes | None, ranks: Sequence[float]) -> list[float] | None:
    """Estimate quantiles, the least items with at least such a part of all at or below them; None of nothing."""
    sketch = None if state is None else ds.kll_doubles_sketch.deserialize(state)
    if sketch is None or sketch.is_empty():
        return None
    return [float(sketch.get_quantile(rank, True)) for rank in ranks]


def _written(x: str, type_: pa.DataType) -> str:
    """Write a value as a string that tells it from others; -0.0 is 0.0, and strings need not be UTF-8."""
    if pa.types.is_string(type_) or pa.types.is_binary(type_):
        return f"hex({x})"
    return f"cast(cast({x} as double) + 0.0D as string)" if pa.types.is_floating(type_) else f"cast({x} as string)"


def _whole_number(x: str, type_: pa.DataType) -> str:
    """Write a date, time or whole number as a bigint."""
    if pa.types.is_date32(type_):
        return f"cast(unix_date({x}) as bigint)"
    if pa.types.is_timestamp(type_):
        return f"unix_micros(cast({x} as timestamp))"
    return f"cast({x} as bigint)"
