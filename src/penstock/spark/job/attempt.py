"""Wraps a column so that it is NULL where Spark would raise.

Spark's own TryEval catches what an expression throws while a row is evaluated. Three steps of Spark take parts of
an expression out of it, where nothing catches: subexpression elimination (parts that occur twice), the rewriting of
BETWEEN and NULLIF (a projection below), and constant folding (while planning). None of them reaches into a CASE
branch that may not be taken, so the attempted expression is put into one whose condition is always true, in a way
that the optimizer cannot see.

Two attempts in one projection that differ only in the order of AND, OR, + or * are one to subexpression elimination,
which evaluates the first for both; where one guards and the other does not, turn that elimination off.

Errors in a constant that generated code prepares before the first row (a malformed regular expression or date
pattern) are not caught: they concern the statement rather than the data.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, cast

from pyspark import SparkContext
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.classic.column import Column as ClassicColumn

# Without these, Spark may evaluate a part before its guard: eliminating subexpressions takes a part that occurs
# twice out of its condition, and factoring `(g AND e) OR (h AND e)` gives `e AND (g OR h)`.
GUARDS_KEPT: Final = {
    "spark.sql.subexpressionElimination.enabled": "false",
    "spark.sql.optimizer.excludedRules": "org.apache.spark.sql.catalyst.optimizer.BooleanSimplification",
}


@dataclass(frozen=True, slots=True)
class Catalyst:
    """The JVM's functions used here; looking one up costs several round trips, so they are kept."""

    try_eval: Any
    expression: Any
    column: Any
    always: Column

    def attempted(self, column: Column) -> Column:
        """Wrap a column whose failing parts are all inside a guarded branch."""
        return ClassicColumn(self.column(self.try_eval(self.expression(cast(Any, column)._jc))))


def attempt(column: Column) -> Column:
    """Give NULL instead of raising."""
    catalyst = _catalyst()
    return catalyst.attempted(F.when(catalyst.always, column))


def attempt_struct(column: Column) -> Column:
    """Give NULL instead of raising, and otherwise a struct whose field ``v`` is the value, NULL or not.

    The guard also makes the field nullable: Arrow refuses a field without nulls inside a struct that is one.
    """
    catalyst = _catalyst()
    return catalyst.attempted(F.struct(F.when(catalyst.always, column).alias("v")))


@lru_cache(maxsize=4_096)
def attempt_text(text: str, name: str) -> Column:
    """Attempt an expression as a named struct; what stays the same when queries come and go is made once."""
    return attempt_struct(F.expr(text)).alias(name)


def always_true() -> Any:
    """Return the condition that guards attempts, as the JVM's expression."""
    catalyst = _catalyst()
    return catalyst.expression(cast(Any, catalyst.always)._jc)


def _catalyst() -> Catalyst:
    """Return the functions of the running JVM."""
    context = SparkContext._active_spark_context
    assert context is not None, "an attempt needs a running Spark"
    return _connect(context._jvm)


@lru_cache(maxsize=1)
def _connect(jvm: Any) -> Catalyst:
    """Look the functions up once per JVM."""
    sql = jvm.org.apache.spark.sql
    tools = sql.classic.ExpressionUtils
    always = ClassicColumn(tools.column(_always(jvm)))
    return Catalyst(sql.catalyst.expressions.TryEval, tools.expression, tools.column, always)


def _always(jvm: Any) -> Any:
    """Make a condition that is true, deterministic, nearly free and not a constant to the optimizer.

    A static call that yields a Java object is never folded, because objects cannot become literals.
    """
    of_class = jvm.java.lang.Class.forName
    empty = jvm.PythonUtils.toSeq(jvm.java.util.ArrayList())
    object_type = jvm.org.apache.spark.sql.types.ObjectType(of_class("java.util.List"))
    none = getattr(getattr(jvm.scala, "None$"), "MODULE$")
    expressions = jvm.org.apache.spark.sql.catalyst.expressions
    call = expressions.objects.StaticInvoke(
        of_class("java.util.Collections"), object_type, "emptyList", empty, empty, True, True, True, none
    )
    return expressions.IsNotNull(call)
