"""Adds integers beyond 64 bits exactly, as arrays of int64 limbs, and converts them from and to Arrow.

A number is Σ limb[i]·2^(32·i): adding two is adding their limbs, and 2^31 partials may be added before a limb is full.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Int64Array: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]

LOW: Final = np.int64(0xFFFFFFFF)
TEN_TO_19: Final = (10**19 & 0xFFFFFFFF, 10**19 >> 32)


def add_carries(limbs: Int64Array) -> Int64Array:
    """Bring all limbs but the last into 0 … 2^32 - 1."""
    out = limbs.copy()
    for i in range(out.shape[1] - 1):
        out[:, i + 1] += out[:, i] >> 32
        out[:, i] &= LOW
    return out


def limbs_of_halves(low: Int64Array, high: Int64Array) -> Int64Array:
    """Make limbs of low + high·2^32."""
    return add_carries(np.stack([low, high], axis=1))


def limbs_of_decimal(array: pa.Array, scale: int) -> Int64Array:
    """Split unscaled 128-bit decimals of the given scale into four limbs, 0 for NULL."""
    if array.type.scale != scale or not pa.types.is_decimal128(array.type):
        array = array.cast(pa.decimal128(38, scale))
    if not len(array):
        return np.zeros((0, 4), np.int64)
    words = np.frombuffer(array.buffers()[1], "<u4")[4 * array.offset : 4 * (array.offset + len(array))]
    limbs = words.reshape(-1, 4).astype(np.int64)
    limbs[:, 3] = limbs[:, 3].astype(np.int32)
    if array.null_count:
        limbs[np.asarray(array.is_null().to_numpy(zero_copy_only=False))] = 0
    return limbs


def times_ten_to_19(limbs: Int64Array) -> Int64Array:
    """Multiply four-limb numbers below 2^127 by 10^19; the result's last limb may exceed 32 bits."""
    negative = limbs[:, 3] < 0
    size = add_carries(np.where(negative[:, None], -limbs, limbs)).astype(np.uint64)
    product = np.zeros((len(limbs), 6), np.uint64)
    for i in range(4):
        for j, digit in enumerate(TEN_TO_19):
            part = size[:, i] * np.uint64(digit)  # below 2^64, hence exact
            product[:, i + j] += part & np.uint64(LOW)
            product[:, i + j + 1] += part >> np.uint64(32)
    carried = add_carries(product.astype(np.int64))
    # |Σx| < 10^38 · 2^31 < 2^158: what is above the fourth limb fits into its upper half.
    out = carried[:, :4].copy()
    out[:, 3] += carried[:, 4] << 32
    return np.where(negative[:, None], -out, out)


def int64_of(limbs: Int64Array) -> tuple[Int64Array, BoolArray]:
    """Return numbers as int64, and which of them do not fit."""
    if limbs.shape[1] == 1:
        return limbs[:, 0], np.zeros(len(limbs), bool)
    carried = add_carries(limbs)
    numbers = (carried[:, 1] << 32) | carried[:, 0]
    # The number fits if its sign, spread over the limbs above, is all that they hold.
    expected = [numbers & LOW, numbers >> 32, *(numbers >> 63 for _ in range(limbs.shape[1] - 2))]
    fits = np.ones(len(limbs), bool)
    for i, limb in enumerate(expected):
        fits &= carried[:, i] == (limb if i == limbs.shape[1] - 1 else limb & LOW)
    return numbers, ~fits


def float64_of(limbs: Int64Array) -> npt.NDArray[np.float64]:
    """Return numbers as the nearest double, to within the rounding of one addition per limb."""
    carried = add_carries(limbs)
    total = np.zeros(len(limbs))
    for i in reversed(range(limbs.shape[1])):
        total += np.ldexp(carried[:, i].astype(np.float64), 32 * i)
    return total


def decimals_of(limbs: Int64Array, type_: pa.Decimal128Type, null: BoolArray) -> tuple[pa.Array, BoolArray]:
    """Return four-limb unscaled numbers as Arrow decimals, and which of them the type cannot hold (NULL there)."""
    carried = add_carries(limbs)
    overflow = ~_below_ten_to(carried, type_.precision) & ~null
    words = carried.astype(np.uint32)
    words[overflow | null] = 0
    validity = pa.array(~(overflow | null)).buffers()[1] if len(limbs) else None
    return pa.Array.from_buffers(type_, len(limbs), [validity, pa.py_buffer(words.tobytes())]), overflow


def _below_ten_to(carried: Int64Array, precision: int) -> BoolArray:
    """Tell which carried numbers are between -10^precision and 10^precision, both excluded."""
    negative = carried[:, 3] < 0
    size = add_carries(np.where(negative[:, None], -carried, carried))
    bound = [(10**precision >> (32 * i)) & 0xFFFFFFFF for i in range(4)]
    below = np.zeros(len(carried), bool)
    for i, digit in enumerate(bound):  # the highest limb that differs decides
        below = (size[:, i] < digit) | ((size[:, i] == digit) & below)
    return below
