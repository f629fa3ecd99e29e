"""Merges the sketches that Spark makes, in the same bytes, and reads estimates from them.

Apache DataSketches: HyperLogLog and Theta for distinct values, KLL for quantiles (Karnin, Lang and Liberty 2016),
frequent items after Misra and Gries. Java's and Python's library read each other's bytes, so a sketch that a slice
made in Spark is merged here, and what is merged here goes back to Spark's own functions.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from heapq import nlargest
from itertools import pairwise
from typing import Any, ClassVar, Final, cast

import datasketches as ds  # type: ignore[import-untyped]
import numpy as np
import pyarrow as pa

from penstock.evaluate.components.component import Column, Written
from penstock.evaluate.components.reading import whole
from penstock.evaluate.components.row_runs import RowColumn, RowRuns
from penstock.evaluate.components.states import State
from penstock.model.arrays import Int64Array

LG_K: Final = 12  # of HyperLogLog, as Spark's: a standard error of 1.6 %
HLL_MODE: Final = 7  # the byte of a HyperLogLog that tells how it is stored, in its lowest bits …
HLL_MODES: Final = 3  # … which these are: as a list or a set of items, from whose number alone it estimates …
HLL_BUCKETS: Final = 2  # … or as buckets: then its estimates depend on how it was made
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
    def empty(self) -> bytes:
        """Return the sketch of nothing."""
        return self.sketch_of(())

    @abstractmethod
    def item(self, x: str) -> str:
        """Write the SQL of what the sketch takes of an argument."""

    @abstractmethod
    def taking(self, item: str) -> str:
        """Write the SQL that makes a sketch of items."""

    @abstractmethod
    def sketch_of(self, items: Sequence[Any]) -> bytes:
        """Make a sketch of items here, as Spark would."""

    @property
    def items_are_plain(self) -> bool:
        """Tell whether Python's library takes the items that Spark's takes."""
        return True

    def lift_state(self, value: Written, time: str) -> str:
        """Let Spark make the sketch."""
        assert self.argument is not None
        return self.taking(self.item(value(self.argument)))

    def row_texts(self, value: Written, time: str) -> list[str] | None:
        """Write what the sketch takes."""
        assert self.argument is not None
        return [self.item(value(self.argument))] if self.items_are_plain else None

    def aggregate(self, columns: Sequence[RowColumn], runs: RowRuns) -> list[pa.Array]:
        """Make a sketch of the items of each run."""
        (column,) = columns
        order, lengths = runs.order, runs.lengths
        if column.valid is not None:
            order, lengths = order[column.valid[order]], runs.count(column.valid)
        items = self.listed(column.array.take(pa.array(order)))
        bounds, nothing = np.cumsum([0, *lengths]).tolist(), self.empty
        made = [self.sketch_of(items[lo:hi]) if hi > lo else nothing for lo, hi in pairwise(bounds)]
        return [pa.array(made, pa.binary())]

    def listed(self, items: pa.Array) -> Sequence[Any]:
        """Read items as Python's library takes them."""
        listed: list[Any] = items.to_pylist()
        return listed

    def read_states(self, column: Column) -> Iterator[bytes | None]:
        """Read bytes."""
        return iter(whole(column).to_pylist())


class HllSketch(Sketch):
    """A HyperLogLog of 2^size buckets."""

    __slots__ = ()
    kind: ClassVar = "hll"

    @property
    def items_are_plain(self) -> bool:
        """Tell that bytes are taken by Java alone."""
        return not pa.types.is_binary(self.type)

    def item(self, x: str) -> str:
        """Take numbers, strings and bytes as they are, and hashes of others."""
        if pa.types.is_integer(self.type):
            return f"cast({x} as bigint)"
        direct = pa.types.is_string(self.type) or pa.types.is_binary(self.type)
        return x if direct else f"nvl2({x}, xxhash64({x}), NULL)"

    def taking(self, item: str) -> str:
        """Let Spark make the sketch."""
        return f"hll_sketch_agg({item}, {self.size})"

    def sketch_of(self, items: Sequence[Any]) -> bytes:
        """Make the sketch here."""
        made = ds.hll_sketch(self.size, ds.tgt_hll_type.HLL_8)
        for item in items:
            made.update(item)
        found: bytes = made.serialize_compact()
        return found

    def aggregate(self, columns: Sequence[RowColumn], runs: RowRuns) -> list[pa.Array]:
        """Make a sketch of the items of each run; most runs hold one item, whose sketch is made once a batch."""
        (column,) = columns
        items, codes = column.kept(self, lambda: _told_apart(column.array))
        coded = codes[runs.order]
        least, most = np.minimum.reduceat(coded, runs.starts), np.maximum.reduceat(coded, runs.starts)
        alone = np.unique(least[least == most])
        sketches = {code: self._of_item(column, code, items) for code in alone.tolist()}
        made, ends = list[bytes](), (runs.starts + runs.lengths).tolist()
        for low, high, first, end in zip(least.tolist(), most.tolist(), runs.starts.tolist(), ends, strict=True):
            if low == high:
                made.append(sketches[low])
            else:
                made.append(self.sketch_of([items[code] for code in coded[first:end].tolist() if code]))
        return [pa.array(made, pa.binary())]

    def _of_item(self, column: RowColumn, code: int, items: Sequence[Any]) -> bytes:
        """Make the sketch of one item, once a batch; of none where its code is that of NULL."""
        return column.kept((self, code), lambda: self.sketch_of([items[code]] if code else []))

    def merge(self, states: Sequence[bytes]) -> bytes:
        """Unite sketches; those of the same few items are one already."""
        if states[0][HLL_MODE] & HLL_MODES < HLL_BUCKETS and states.count(states[0]) == len(states):
            return states[0]
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
    def items_are_plain(self) -> bool:
        """Tell that numbers and strings are taken by both libraries."""
        return bool(pa.types.is_integer(self.type) or pa.types.is_floating(self.type) or pa.types.is_string(self.type))

    def item(self, x: str) -> str:
        """Take values as they are."""
        return x

    def taking(self, item: str) -> str:
        """Let Spark make the sketch."""
        return f"theta_sketch_agg({item}, {self.size})"

    def sketch_of(self, items: Sequence[Any]) -> bytes:
        """Make the sketch here."""
        made = ds.update_theta_sketch(self.size)
        for item in items:
            made.update(item)
        found: bytes = made.compact().serialize()
        return found

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

    def item(self, x: str) -> str:
        """Take doubles."""
        return f"cast({x} as double)"

    def taking(self, item: str) -> str:
        """Let Spark make the sketch."""
        return f"kll_sketch_agg_double({item}, {self.size})"

    def listed(self, items: pa.Array) -> Sequence[Any]:
        """Read doubles as an array, which is taken at once; only one that may be written to is."""
        listed: Any = np.array(items.to_numpy(zero_copy_only=False))
        return cast("Sequence[Any]", listed)

    def sketch_of(self, items: Sequence[Any]) -> bytes:
        """Make the sketch here."""
        made = ds.kll_doubles_sketch(self.size)
        if len(items):
            made.update(items)
        found: bytes = made.serialize()
        return found

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

    def _new(self) -> Any:
        """Make an empty sketch; the one of strings is the library's own, without a call of Python for each item."""
        return (ds.frequent_strings_sketch if self._of_strings else ds.frequent_items_sketch)(tracked_map(self.size))

    @property
    def _of_strings(self) -> bool:
        """Tell strings from longs."""
        return bool(self.type == pa.string())

    def _written_out(self, sketch: Any) -> bytes:
        """Write a sketch as bytes; both kinds write strings alike."""
        found: bytes = sketch.serialize() if self._of_strings else sketch.serialize(ds.PyLongsSerDe())
        return found

    def _read_in(self, state: bytes) -> Any:
        """Read a sketch from bytes."""
        if self._of_strings:
            return ds.frequent_strings_sketch.deserialize(state)
        return ds.frequent_items_sketch.deserialize(state, ds.PyLongsSerDe())

    def item(self, x: str) -> str:
        """Take what stands for values."""
        return (_written if self.type == pa.string() else _whole_number)(x, self.types[0])

    def taking(self, item: str) -> str:
        """Let Spark make the sketch."""
        return f"approx_top_k_accumulate({item}, {self.size}).sketch"

    def sketch_of(self, items: Sequence[Any]) -> bytes:
        """Make the sketch here."""
        made = self._new()
        for item in items:
            made.update(item)
        return self._written_out(made)

    def merge(self, states: Sequence[bytes]) -> bytes:
        """Merge sketches."""
        merged = self._new()
        for part in states:
            merged.merge(self._read_in(part))
        return self._written_out(merged)

    def frequent(self, state: bytes | None, items: int) -> list[tuple[Any, int]]:
        """List the most frequent items with their estimated counts, most frequent first, then least value."""
        if state is None:
            return []
        found = _heaviest(self._read_in(state), items)
        least = nlargest(items, (estimate for _, estimate, *_ in found))[-1:] or [0]
        heavy = [(item, int(estimate)) for item, estimate, *_ in found if estimate >= least[0]]
        return sorted(heavy, key=lambda pair: (-pair[1], pair[0]))[:items]


def _heaviest(sketch: Any, items: int) -> list[tuple[Any, ...]]:
    """List at least so many of the items that a sketch follows, if there are, and all with as high an estimate.

    Most sketches follow thousands of items and are asked for a handful, so the others are not listed.
    """
    least = int(sketch.total_weight) // (2 * items) if items else 0
    while True:
        found: list[tuple[Any, ...]] = sketch.get_frequent_items(ds.frequent_items_error_type.NO_FALSE_NEGATIVES, least)
        if len(found) >= items or not least:
            return found
        least //= 4


def _told_apart(array: pa.Array) -> tuple[list[Any], Int64Array]:
    """List the distinct items of a column, None first, and the place of each row's item among them."""
    encoded = array.dictionary_encode()
    codes = encoded.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    return [None, *encoded.dictionary.to_pylist()], np.asarray(codes, np.int64) + 1


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
