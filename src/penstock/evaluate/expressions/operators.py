"""Computes SQL operators over whole Arrow columns, and marks the rows on which Spark would fail.

Every operator means what Spark SQL means by it in ANSI mode: three-valued logic, NaN equal to itself and above
all numbers, −0.0 equal to 0.0, overflow and division by zero as failures. An operand that Spark would not reach
(the right side of ``false AND …``, a branch not taken) cannot fail.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Mask = NDArray[np.bool_]
Numbers = NDArray[Any]
Overflowing = tuple[Numbers, Mask | None]


@dataclass(frozen=True, slots=True)
class Evaluated:
    """One value per row; ``failed`` marks rows on which Spark would raise, whose value is then null."""

    array: pa.Array
    failed: Mask | None = None


def constant(value: Any, type_: pa.DataType, count: int) -> Evaluated:
    """Repeat one value for every row."""
    return Evaluated(pa.repeat(pa.scalar(value, type_), count))


def convert(operand: Evaluated, type_: pa.DataType) -> Evaluated:
    """Widen to a type that holds every value, rounding long integers to the nearest double as Spark does."""
    return Evaluated(operand.array.cast(type_, safe=False), operand.failed)


def negate(operand: Evaluated) -> Evaluated:
    """Change the sign; the least integer has no opposite."""
    values, valid = _numbers(operand.array)
    with np.errstate(all="ignore"):
        return _checked(-values, _least(values), valid, operand.failed)


def absolute(operand: Evaluated) -> Evaluated:
    """Drop the sign; the least integer has no opposite."""
    values, valid = _numbers(operand.array)
    with np.errstate(all="ignore"):
        return _checked(np.abs(values), _least(values), valid, operand.failed)


def add(left: Evaluated, right: Evaluated) -> Evaluated:
    """Add numbers of one type."""
    return _arithmetic(left, right, _sum)


def subtract(left: Evaluated, right: Evaluated) -> Evaluated:
    """Subtract numbers of one type."""
    return _arithmetic(left, right, _difference)


def multiply(left: Evaluated, right: Evaluated) -> Evaluated:
    """Multiply numbers of one type."""
    return _arithmetic(left, right, _product)


def divide(left: Evaluated, right: Evaluated) -> Evaluated:
    """Divide doubles; a divisor of zero fails unless the dividend is null."""
    return _quotient(left, right, np.divide)


def remainder(left: Evaluated, right: Evaluated) -> Evaluated:
    """Take the remainder with the dividend's sign; a divisor of zero fails unless the dividend is null."""
    return _quotient(left, right, np.fmod)


def compare(symbol: str, left: Evaluated, right: Evaluated) -> Evaluated:
    """Compare values of one type; null if either is null."""
    failed = _either_failed(left, right)
    return Evaluated(_without(_compare(symbol, left.array, right.array), failed), failed)


def same(left: Evaluated, right: Evaluated) -> Evaluated:
    """Compare values of one type with null equal to null, never null itself; both sides are always evaluated."""
    failed = _union(left.failed, right.failed)
    equal = pc.fill_null(_compare("=", left.array, right.array), False)
    both_null = pc.and_(left.array.is_null(), right.array.is_null())
    return Evaluated(_without(pc.or_(equal, both_null), failed), failed)


def among(operand: Evaluated, members: pa.Array, has_null: bool) -> Evaluated:
    """Tell whether a value is one of the members; null if it is null, or is not found beside a null."""
    if pa.types.is_floating(operand.array.type):
        found = pa.array(np.zeros(len(operand.array), dtype=bool))
        for member in members:
            found = pc.or_(found, pc.fill_null(_compare("=", operand.array, member), False))
    else:
        found = pc.is_in(operand.array, value_set=members)
    unknown = pc.or_(operand.array.is_null(), pc.invert(found)) if has_null else operand.array.is_null()
    return Evaluated(pc.if_else(unknown, pa.scalar(None, pa.bool_()), found), operand.failed)


def both(left: Evaluated, right: Evaluated) -> Evaluated:
    """Conjoin; the right side is not reached where the left is false."""
    reached = None if right.failed is None else _true_or_null(left, otherwise=False)
    failed = _late(left.failed, right.failed, reached)
    return Evaluated(_without(pc.and_kleene(left.array, right.array), failed), failed)


def any_of(left: Evaluated, right: Evaluated) -> Evaluated:
    """Disjoin; the right side is not reached where the left is true."""
    reached = None if right.failed is None else _true_or_null(left, otherwise=True)
    failed = _late(left.failed, right.failed, reached)
    return Evaluated(_without(pc.or_kleene(left.array, right.array), failed), failed)


def invert(operand: Evaluated) -> Evaluated:
    """Turn true and false round; null stays null."""
    return Evaluated(pc.invert(operand.array), operand.failed)


def is_null(operand: Evaluated) -> Evaluated:
    """Tell whether a value is null; a failed one is neither."""
    return Evaluated(_without(operand.array.is_null(), operand.failed), operand.failed)


def choose(condition: Evaluated, then: Evaluated, otherwise: Evaluated) -> Evaluated:
    """Take the first where the condition is true, else the second; only the branch taken can fail."""
    taken = pc.fill_null(condition.array, False)
    taken_mask = _mask(taken)
    failed = _late(condition.failed, then.failed, taken_mask)
    failed = _late(failed, otherwise.failed, _but(~taken_mask, condition.failed))
    return Evaluated(_without(pc.if_else(taken, then.array, otherwise.array), failed), failed)


def first_known(operands: Sequence[Evaluated]) -> Evaluated:
    """Take the first value that is not null; those after it are not reached."""
    result = operands[0]
    for operand in operands[1:]:
        reached = _but(_mask(result.array.is_null()), result.failed)
        failed = _late(result.failed, operand.failed, reached)
        result = Evaluated(_without(pc.coalesce(result.array, operand.array), failed), failed)
    return result


def _arithmetic(left: Evaluated, right: Evaluated, step: Callable[[Numbers, Numbers], Overflowing]) -> Evaluated:
    """Compute row by row where both sides are known; the right side is not reached where the left is null."""
    (a, left_valid), (b, right_valid) = _numbers(left.array), _numbers(right.array)
    with np.errstate(all="ignore"):
        values, wrong = step(a, b)
    return _checked(values, wrong, left_valid & right_valid, _either_failed(left, right))


def _quotient(left: Evaluated, right: Evaluated, step: Callable[[Numbers, Numbers], Numbers]) -> Evaluated:
    """Compute where the divisor is not zero; Spark evaluates the divisor first, the dividend where that is known."""
    (a, left_valid), (b, right_valid) = _numbers(left.array), _numbers(right.array)
    zero = b == 0
    with np.errstate(all="ignore"):
        values = step(a, np.where(zero, np.ones_like(b), b))
    return _checked(values, zero, left_valid & right_valid, _either_failed(right, left))


def _sum(a: Numbers, b: Numbers) -> Overflowing:
    """Add; integers overflow when both operands differ in sign from the sum."""
    total = a + b
    return total, None if _floating(total) else ((a ^ total) & (b ^ total)) < 0


def _difference(a: Numbers, b: Numbers) -> Overflowing:
    """Subtract; integers overflow when the operands differ in sign and the result's differs from the first's."""
    rest = a - b
    return rest, None if _floating(rest) else ((a ^ b) & (a ^ rest)) < 0


def _product(a: Numbers, b: Numbers) -> Overflowing:
    """Multiply; an integer product overflowed when dividing it by one factor does not give the other back."""
    product = a * b
    if _floating(product):
        return product, None
    divisor = np.where(a == 0, np.ones_like(a), a)
    return product, (a != 0) & ((product // divisor != b) | ((a == -1) & (b == np.iinfo(b.dtype).min)))


def _least(values: Numbers) -> Mask | None:
    """Mark the integers that have no opposite."""
    return None if _floating(values) else values == np.iinfo(values.dtype).min


def _checked(values: Numbers, wrong: Mask | None, valid: Mask, failed: Mask | None) -> Evaluated:
    """Put values, nulls and failures together."""
    if wrong is not None and (wrong := wrong & valid).any():
        failed, valid = _union(failed, wrong), valid & ~wrong
    return Evaluated(pa.array(values, mask=~valid, from_pandas=False), failed)


COMPARISONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def _compare(symbol: str, left: pa.Array, right: pa.Array | pa.Scalar) -> pa.Array:
    """Compare by Arrow's order, with NaN put above all numbers and equal to itself."""
    ordered = COMPARISONS[symbol](left, right)
    if not pa.types.is_floating(left.type):
        return ordered
    left_nan, right_nan = pc.is_nan(left), pc.is_nan(right)
    either = pc.or_(left_nan, right_nan)
    # Among rows with a NaN, ordering by "is NaN" is ordering by value: false < true as number < NaN.
    return pc.if_else(either, COMPARISONS[symbol](left_nan, right_nan), ordered)


def _either_failed(first: Evaluated, second: Evaluated) -> Mask | None:
    """Unite failures of two operands when the second is not reached where the first is null."""
    reached = None if second.failed is None else _mask(first.array.is_valid())
    return _late(first.failed, second.failed, reached)


def _late(first: Mask | None, second: Mask | None, reached: Mask | None) -> Mask | None:
    """Add the second operand's failures on the rows where it is reached."""
    return first if second is None or reached is None else _union(first, second & reached)


def _union(first: Mask | None, second: Mask | None) -> Mask | None:
    """Unite two sets of failed rows."""
    if first is None or second is None:
        return second if first is None else first
    return first | second


def _but(rows: Mask, failed: Mask | None) -> Mask:
    """Leave failed rows out."""
    return rows if failed is None else rows & ~failed


def _without(array: pa.Array, failed: Mask | None) -> pa.Array:
    """Null the values of failed rows."""
    return array if failed is None else pc.if_else(pa.array(failed), pa.scalar(None, array.type), array)


def _true_or_null(condition: Evaluated, otherwise: bool) -> Mask:
    """Mark rows where AND (OR) goes on to its right side: not false (not true), and not failed."""
    undecided = pc.fill_null(pc.not_equal(condition.array, pa.scalar(otherwise)), True)
    return _but(_mask(undecided), condition.failed)


def _numbers(array: pa.Array) -> tuple[Numbers, Mask]:
    """Return the values, with some number in place of nulls, and which are valid."""
    if array.null_count == 0:
        return array.to_numpy(zero_copy_only=False), np.ones(len(array), dtype=np.bool_)
    return pc.fill_null(array, 0).to_numpy(zero_copy_only=False), _mask(array.is_valid())


def _mask(array: pa.Array) -> Mask:
    """Return an array of booleans without nulls as numpy."""
    mask: Mask = array.to_numpy(zero_copy_only=False)
    return mask


def _floating(values: Numbers) -> bool:
    """Tell doubles from integers."""
    return values.dtype.kind == "f"
