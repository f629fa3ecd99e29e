"""Sorted constants and a column in, the column's place among them out: a binary search in primitive arrays of the JVM.

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

from penstock.share.axes import AxisKind

_ARRAYS: Final = {"long": "[J", "double": "[D", "string": "[Ljava.lang.Object;", "decimal": "[Ljava.lang.Object;"}


@dataclass(frozen=True, slots=True)
class _Jvm:
    """What is looked up in the JVM once."""

    gateway: Any
    view: Any
    literal: Any
    invoke: Any
    object_type: Any
    classes: dict[str, Any]
    integers: Any
    longs: Any
    none: Any
    expression: Any
    column: Any


def search(kind: AxisKind, constants: Sequence[Any], value: Column) -> Column:
    """Return the index of the value among sorted constants, or −(insertion point) − 1; NULL of NULL."""
    jvm = _jvm()
    array = _array(jvm, kind, constants)
    held = jvm.literal(array, jvm.object_type(jvm.classes[_ARRAYS[kind]]))
    arguments = _sequence(jvm, [held, jvm.expression(value._jc)])
    nothing = _sequence(jvm, [])
    call = jvm.invoke(
        jvm.classes["java.util.Arrays"], jvm.integers, "binarySearch", arguments, nothing, True, False, True, jvm.none
    )
    return ClassicColumn(jvm.column(call))


def table(numbers: npt.NDArray[np.int64]) -> Column:
    """Return an array of bigints that generated code holds by reference."""
    jvm = _jvm()
    data = jvm.view.org.apache.spark.sql.catalyst.expressions.UnsafeArrayData
    return ClassicColumn(jvm.column(jvm.literal(data.fromPrimitiveArray(_array(jvm, "long", numbers)), jvm.longs)))


def _array(jvm: _Jvm, kind: AxisKind, constants: Sequence[Any] | npt.NDArray[np.int64]) -> Any:
    """Make an array in the JVM: numbers in one piece, other constants one by one."""
    if kind in ("long", "double"):
        packed = np.asarray(constants, ">i8" if kind == "long" else ">f8").tobytes()
        array = jvm.gateway.new_array(getattr(jvm.view, kind), len(constants))
        buffer = jvm.view.java.nio.ByteBuffer.wrap(packed)
        (buffer.asLongBuffer() if kind == "long" else buffer.asDoubleBuffer()).get(array)
        return array
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
        types.ObjectType,
        {name: named(name) for name in ("java.util.Arrays", *set(_ARRAYS.values()))},
        getattr(getattr(types, "IntegerType$"), "MODULE$"),
        types.ArrayType(getattr(longs, "MODULE$"), False),
        getattr(getattr(view.scala, "None$"), "MODULE$"),
        tools.expression,
        tools.column,
    )
