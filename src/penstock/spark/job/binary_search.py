"""Searches a column's values among sorted constants, in primitive arrays of the JVM.

Spark's own search copies its array for every row; ``java.util.Arrays.binarySearch`` on an array that generated code
holds by reference does not, and new constants leave the generated code as it is (decision 0018).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from pyspark import SparkContext
from pyspark.sql import Column
from pyspark.sql.classic.column import Column as ClassicColumn

from penstock.share.conditions.axes import AxisKind
from penstock.spark.job.jvm_columns import written

KEPT: Final = 128  # columns that stay in the JVM for the next plan
_ARRAYS: Final = {"long": "[J", "double": "[D", "string": "[Ljava.lang.Object;", "decimal": "[Ljava.lang.Object;"}


@dataclass(frozen=True, slots=True)
class _Jvm:
    """What is looked up in the JVM once."""

    gateway: Any
    view: Any
    literal: Any
    invoke: Any
    array_data: Any
    offset: int  # of the first byte of an array
    object_types: dict[str, Any]  # of arrays, by the kind of their axis
    arrays: Any
    integers: Any
    longs: Any
    none: Any
    nothing: Any
    expression: Any
    column: Any


@lru_cache(maxsize=KEPT)
def search(kind: AxisKind, constants: tuple[Any, ...], text: str, name: str) -> Column:
    """Return the index of a value, as SQL, among sorted constants, or −(insertion point) − 1; NULL of NULL."""
    jvm = _jvm()
    held = jvm.literal(_array(jvm, kind, constants), jvm.object_types[kind])
    arguments = _sequence(jvm, [held, jvm.expression(written(text)._jc)])
    call = jvm.invoke(jvm.arrays, jvm.integers, "binarySearch", arguments, jvm.nothing, True, False, True, jvm.none)
    return ClassicColumn(jvm.column(call)).alias(name)


def table(numbers: npt.NDArray[np.int64], name: str) -> Column:
    """Return a named array of bigints that generated code holds by reference."""
    return _table(np.ascontiguousarray(numbers, "<i8").tobytes(), name)


@lru_cache(maxsize=KEPT)
def _table(packed: bytes, name: str) -> Column:
    """Make a table; most stay the same when a query comes or goes."""
    jvm = _jvm()
    return ClassicColumn(jvm.column(jvm.literal(_numbers(jvm, packed), jvm.longs))).alias(name)


def _numbers(jvm: _Jvm, packed: bytes) -> Any:
    """Hand over numbers of eight bytes in one piece, as Spark's own arrays lie in memory: count, null bits, values."""
    count = len(packed) // 8
    laid_out = count.to_bytes(8, "little") + bytes(-(-count // 64) * 8) + packed
    array = jvm.array_data()
    array.pointTo(laid_out, jvm.offset, len(laid_out))
    return array


def _array(jvm: _Jvm, kind: AxisKind, constants: Sequence[Any]) -> Any:
    """Make an array in the JVM: numbers in one piece, other constants one by one."""
    if kind == "long":
        return _numbers(jvm, np.array(constants, "<i8").tobytes()).toLongArray()
    if kind == "double":
        return _numbers(jvm, np.array(constants, "<f8").tobytes()).toDoubleArray()
    array = jvm.gateway.new_array(jvm.view.java.lang.Object, len(constants))
    for place, constant in enumerate(constants):
        array[place] = _object(jvm, constant)
    return array


def _object(jvm: _Jvm, constant: bytes | Fraction) -> Any:
    """Make a string or a decimal as Spark holds it."""
    if isinstance(constant, bytes):
        return jvm.view.org.apache.spark.unsafe.types.UTF8String.fromBytes(constant)
    with localcontext(prec=100):
        exact = Decimal(constant.numerator) / Decimal(constant.denominator)
    return jvm.view.org.apache.spark.sql.types.Decimal.apply(jvm.view.java.math.BigDecimal(format(exact, "f")))


def _sequence(jvm: _Jvm, items: Sequence[Any]) -> Any:
    """Make a Scala sequence."""
    listed = jvm.view.java.util.ArrayList()
    for item in items:
        listed.add(item)
    return jvm.view.PythonUtils.toSeq(listed)


def _jvm() -> _Jvm:
    """Return what was looked up in the running JVM."""
    context = SparkContext._active_spark_context
    assert context is not None, "a search is built in a running JVM"
    return _connect(context._gateway, context._jvm)


@lru_cache(maxsize=1)
def _connect(gateway: Any, view: Any) -> _Jvm:
    """Look everything up once per JVM."""
    expressions, types = view.org.apache.spark.sql.catalyst.expressions, view.org.apache.spark.sql.types
    named = view.java.lang.Class.forName
    tools = view.org.apache.spark.sql.classic.ExpressionUtils
    longs = getattr(types, "LongType$")
    return _Jvm(
        gateway,
        view,
        expressions.Literal,
        expressions.objects.StaticInvoke,
        expressions.UnsafeArrayData,
        view.org.apache.spark.unsafe.Platform.BYTE_ARRAY_OFFSET,
        {kind: types.ObjectType(named(name)) for kind, name in _ARRAYS.items()},
        named("java.util.Arrays"),
        getattr(getattr(types, "IntegerType$"), "MODULE$"),
        types.ArrayType(getattr(longs, "MODULE$"), False),
        getattr(getattr(view.scala, "None$"), "MODULE$"),
        view.PythonUtils.toSeq(view.java.util.ArrayList()),
        tools.expression,
        tools.column,
    )
