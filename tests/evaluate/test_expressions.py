"""Expressions over aggregates mean in Arrow what they mean in Spark: type, value and failure, row by row."""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Iterator, Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from penstock.evaluate.expressions.compile import compile_expression
from penstock.spark.job.attempt import attempt_struct

LEAST, MOST = -(2**63), 2**63 - 1
ROWS = 48

# The optimizer may drop a failing part (NULL + 1/0) or evaluate one before its guard, and subexpression elimination
# takes `a OR b` for `b OR a`; what is compared here is what the expressions themselves say.
EXCLUDED = ",".join(
    f"org.apache.spark.sql.catalyst.optimizer.{rule}"
    for rule in (
        "BooleanSimplification",
        "ConstantFolding",
        "ConvertToLocalRelation",
        "NullPropagation",
        "OptimizeIn",
        "PushFoldableIntoBranches",
        "SimplifyBinaryComparison",
        "SimplifyConditionals",
    )
)


def test_random_expressions_equal_spark_in_type_value_and_failure(spark: SparkSession) -> None:
    own = (
        spark.newSession()
    )  # interpreted, because compiling hundreds of expressions takes far longer than running them
    own.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    own.conf.set("spark.sql.codegen.wholeStage", "false")
    texts = list(dict.fromkeys(_Grammar(random.Random(11)).texts(380)))
    assert _compare_with_spark(own, _table(random.Random(7)), texts) >= 300


@pytest.mark.parametrize("mode", ["CODEGEN_ONLY", "NO_CODEGEN"])
def test_chosen_expressions_equal_spark_generated_and_interpreted(spark: SparkSession, mode: str) -> None:
    own = spark.newSession()
    own.conf.set("spark.sql.codegen.factoryMode", mode)
    own.conf.set("spark.sql.codegen.wholeStage", str(mode == "CODEGEN_ONLY").lower())
    assert _compare_with_spark(own, _table(random.Random(3)), CHOSEN) == len(CHOSEN)


@pytest.mark.parametrize(
    "text",
    [
        "round(`d0`, 2)",
        "`l0` * 1.5",
        "`l0` / 2.0",
        "`m0` + `m0`",
        "`m0` > `d0`",
        "`s0` = 1",
        "`s0` || 'x'",
        "'it\\'s'",
        "NULL",
        "`l0` DIV 2",
        "CAST(`d0` AS BIGINT)",
        "CAST(`s0` AS INT)",
        "`l0` IN (`i0`, 1)",
        "`nosuch` + 1",
        "`l0` +",
        "`b0` IS TRUE",
        "upper(`s0`)",
        "map(`l0`)",
        "nvl(`l0`)",
        "1.5BD",
        "`t0` > '2020-01-01'",
        "CASE WHEN `b0` THEN 1 ELSE 'x' END",
        "99999999999999999999",
        "`d0` IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)",
        "(" * 70 + "`l0`" + ")" * 70,
    ],
)
def test_what_is_not_listed_is_left_to_spark(text: str) -> None:
    assert compile_expression(text, _types(_table(random.Random(0)))) is None


def test_a_guard_keeps_the_division_behind_it_from_failing() -> None:
    columns = {"a0": pa.array([6.0, 6.0, 6.0, None]), "a1": pa.array([2, 0, None, 0])}
    compiled = compile_expression("`a1` <> 0 AND `a0` / `a1` > 2", {name: c.type for name, c in columns.items()})
    assert compiled is not None
    result = compiled(columns)
    assert result.array.to_pylist() == [True, False, None, False]
    assert result.failed is None or not result.failed.any()


def test_a_division_before_its_guard_fails() -> None:
    columns = {"a0": pa.array([6.0, 6.0]), "a1": pa.array([2, 0])}
    compiled = compile_expression("`a0` / `a1` > 2 AND `a1` <> 0", {name: c.type for name, c in columns.items()})
    assert compiled is not None
    result = compiled(columns)
    assert result.failed is not None
    assert result.failed.tolist() == [False, True]
    assert result.array.to_pylist() == [True, None]


def test_a_literal_has_one_value_per_row() -> None:
    compiled = compile_expression("42", {"a0": pa.int64()})
    assert compiled is not None
    assert compiled(pa.table({"a0": [1, 2, 3]})).array.to_pylist() == [42, 42, 42]


def test_no_rows_give_no_values() -> None:
    compiled = compile_expression("`a0` / 2 > 1 OR `a0` IN (1, 2)", {"a0": pa.int64()})
    assert compiled is not None
    assert len(compiled(pa.table({"a0": pa.array([], pa.int64())})).array) == 0


CHOSEN = [
    "`l0` + `l1`",
    "`l0` - `l1`",
    "`l0` * `l1`",
    "`i0` * `i1`",
    "`i0` + 1",
    "-`l0`",
    "-`i0`",
    "- `d0`",
    "-2147483648",
    "-9223372036854775808",
    "abs(`l0`)",
    "abs(`d0`)",
    "`l0` / `i0`",
    "`d0` / `d1`",
    "`d0` / `l0`",
    "`l0` % `l1`",
    "`d0` % `d1`",
    "`i0` % 3",
    "`d0` > 10.5",
    "`d0` * 0.1",
    "`l0` > 10.5",
    "`l0` >= 9223372036854775806.5",
    "`i0` < 0.5",
    "`m0` > 10",
    "`m0` = 1.50",
    "`m0` <= 1.505",
    "`m0` >= `l0`",
    "`m0` <=> `m0`",
    "`d0` = `d1`",
    "`d0` < `d1`",
    "`d0` >= `d1`",
    "`d0` <=> `d1`",
    "`d0` = 0.0",
    "`d0` IN (0, 1.5, NULL)",
    "`l0` IN (0, 1, 9223372036854775807)",
    "`l0` IN (1, 2.5e0)",
    "`s0` IN ('a', 'z')",
    "`s0` NOT IN ('a', NULL)",
    "`s0` < `s1`",
    "`s0` >= 'Z'",
    "`t0` <= `t0`",
    "`y0` <> `y0`",
    "`x0` < `x0`",
    "`b0` < `b1`",
    "`d0` BETWEEN -1 AND 1.5",
    "`l0` / `i0` BETWEEN 0 AND 10",
    "`l0` NOT BETWEEN `i0` AND 5",
    "coalesce(`l0`, 0)",
    "coalesce(`i0`, `l0`, 0)",
    "coalesce(`d0`, 0.0)",
    "coalesce(`s0`, 'none')",
    "coalesce(`m0`, `m0`)",
    "coalesce(1 / `i0`, `d0`)",
    "coalesce(`d0`, 1 / `i0`)",
    "if(`i0` = 0, NULL, `l0` / `i0`)",
    "CASE WHEN `i0` <> 0 THEN `l0` / `i0` END",
    "CASE WHEN `b0` THEN `l0` WHEN `b1` THEN 1 / `i0` ELSE `d0` END",
    "CASE `i0` WHEN 0 THEN 'zero' WHEN 1 THEN 'one' ELSE `s0` END",
    "`i0` <> 0 AND `l0` / `i0` > 2",
    "`i0` = 0 OR `l0` / `i0` > 2",
    "`l0` / `i0` > 2 OR `i0` = 0",
    "NULL AND `l0` / `i0` > 2",
    "NOT (`b0` AND NULL)",
    "`l0` / `i0` IS NULL",
    "`l0` + `l1` <=> NULL",
    "`l0` IS DISTINCT FROM `i0`",
    "`l0` + NULL",
    "NULL + `l0` / `i0`",
    "CAST(`i0` AS BIGINT) * `l0`",
    "CAST(`l0` AS DOUBLE)",
    "10.50",
    "0.05",
    "1e3",
    "3000000000",
    "`l0` = `i0` IS NULL",
    "NOT `i0` = 1 AND `b0`",
]


def _compare_with_spark(spark: SparkSession, table: pa.Table, texts: list[str]) -> int:
    """Evaluate the listed ones among the texts here and in Spark, compare, and return how many there were."""
    compiled = {text: expression for text in texts if (expression := compile_expression(text, _types(table)))}
    by_spark = _in_spark(spark, table, list(compiled))
    for text, expression in compiled.items():
        expected = by_spark[text].combine_chunks()
        result = expression(table)
        assert expected.type.field("v").type == expression.type == result.array.type, text
        failed = result.failed if result.failed is not None else np.zeros(table.num_rows, dtype=bool)
        values = [None if attempted is None else attempted["v"] for attempted in expected.to_pylist()]
        for row, wanted, value, fails in zip(
            table.to_pylist(), zip(values, expected.is_null().to_pylist(), strict=True),
            result.array.to_pylist(), failed.tolist(), strict=True,
        ):  # fmt: skip
            assert _same((value, fails), wanted), f"{text} on {row}: {(value, fails)}, Spark says {wanted}"
    return len(compiled)


def _in_spark(spark: SparkSession, table: pa.Table, texts: list[str]) -> pa.Table:
    """Attempt every expression on every row, in few jobs."""
    own = spark.newSession()
    for name in ("spark.sql.codegen.factoryMode", "spark.sql.codegen.wholeStage"):
        own.conf.set(name, spark.conf.get(name) or "")
    own.conf.set("spark.sql.optimizer.excludedRules", EXCLUDED)
    own.conf.set("spark.sql.subexpressionElimination.enabled", "false")
    own.conf.set("spark.sql.session.timeZone", "UTC")
    frame = own.createDataFrame(table).coalesce(1)
    columns = [attempt_struct(F.expr(text)).alias(text) for text in texts]
    return frame.select(*columns).toArrow()


def _same(left: object, right: object) -> bool:
    """Compare values with NaN equal to itself and the two zeros distinct."""
    if isinstance(left, tuple) and isinstance(right, tuple):
        return all(map(_same, left, right))
    if isinstance(left, float) and isinstance(right, float):
        same_sign = math.copysign(1, left) == math.copysign(1, right)
        return (math.isnan(left) and math.isnan(right)) or (left == right and same_sign)
    return type(left) is type(right) and left == right


def _types(table: pa.Table) -> dict[str, pa.DataType]:
    return {field.name: field.type for field in table.schema}


def _table(rng: random.Random) -> pa.Table:
    """Make a table full of edges: nulls, NaN, infinities, both zeros, the least and greatest integers."""
    longs = [None, 0, 1, -1, 2, 7, -13, 2**31, 2**53 + 1, 3037000500, MOST, MOST - 1, LEAST, LEAST + 1]
    ints = [None, 0, 1, -1, 2, 3, 46341, -(2**31), 2**31 - 1]
    doubles = [None, 0.0, -0.0, 1.0, -1.5, 1.5, 10.5, 0.1, math.nan, math.inf, -math.inf, 1e308, 5e-324, float(2**63)]
    strings = [None, "", "a", "Z", "z", "é", "\U0001f600", "\uffff", "ab"]
    decimals = [None, *map(Decimal, ("0.00", "1.50", "1.51", "-1.50", "99999999.99", "10.00"))]
    times = [None, dt.datetime(1970, 1, 1, tzinfo=dt.UTC), dt.datetime(2020, 2, 29, 1, 2, 3, 4, tzinfo=dt.UTC)]

    def draw(values: Sequence[object], type_: pa.DataType) -> pa.Array:
        return pa.array([rng.choice(values) for _ in range(ROWS)], type_)

    return pa.table(
        {
            **{name: draw(longs, pa.int64()) for name in ("l0", "l1")},
            **{name: draw(ints, pa.int32()) for name in ("i0", "i1")},
            **{name: draw(doubles, pa.float64()) for name in ("d0", "d1")},
            **{name: draw([None, True, False], pa.bool_()) for name in ("b0", "b1")},
            **{name: draw(strings, pa.string()) for name in ("s0", "s1")},
            "m0": draw(decimals, pa.decimal128(10, 2)),
            "t0": draw(times, pa.timestamp("us", "UTC")),
            "y0": draw([None, dt.date(1969, 12, 31), dt.date(2024, 2, 29)], pa.date32()),
            "x0": draw([None, b"", b"\x00", b"\xff", b"a"], pa.binary()),
        }
    )


class _Grammar:
    """Random expressions of the listed set, fully parenthesised."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def texts(self, count: int) -> Iterator[str]:
        for _ in range(count):
            make = self.rng.choice([self.number, self.number, self.truth, self.truth, self.truth, self.string])
            yield make(self.rng.randint(1, 3))

    def number(self, depth: int) -> str:
        pick = self.rng.choice
        if depth == 0:
            columns = ["`l0`", "`l1`", "`i0`", "`i1`", "`d0`", "`d1`"]
            return pick([*columns, "0", "1", "-3", "2147483647", "1.5e0", "10.5", "NULL"])
        a, b = self.number(depth - 1), self.number(depth - 1)
        return pick(
            [
                f"({a} {pick('+-*/%')} {b})",
                f"({a} {pick('+-*/')} {b})",
                f"(- ({a}))",
                f"abs({a})",
                f"coalesce({a}, {b})",
                f"if({self.truth(depth - 1)}, {a}, {b})",
                f"CASE WHEN {self.truth(depth - 1)} THEN {a} WHEN {self.truth(depth - 1)} THEN {b} END",
            ]
        )

    def string(self, depth: int) -> str:
        if depth == 0:
            return self.rng.choice(["`s0`", "`s1`", "'a'", "'é'", "''"])
        a, b = self.string(depth - 1), self.string(depth - 1)
        return self.rng.choice([f"coalesce({a}, {b})", f"CASE WHEN {self.truth(depth - 1)} THEN {a} ELSE {b} END"])

    def truth(self, depth: int) -> str:
        pick = self.rng.choice
        if depth == 0:
            return pick(["`b0`", "`b1`", "true", "false", "(`i0` <> 0)", "(`m0` > 1.5)", "(`t0` = `t0`)"])
        a, b, c = (self.number(depth - 1) for _ in range(3))
        return pick(
            [
                f"({a} {pick(['=', '<>', '<', '<=', '>', '>=', '<=>'])} {b})",
                f"({self.string(depth - 1)} {pick(['=', '<>', '<', '<=', '>', '>='])} {self.string(depth - 1)})",
                f"({self.truth(depth - 1)} {pick(['AND', 'OR'])} {self.truth(depth - 1)})",
                f"({self.truth(depth - 1)} {pick(['AND', 'OR'])} {self.truth(depth - 1)})",
                f"(NOT {self.truth(depth - 1)})",
                f"({a} IS {pick(['', 'NOT '])}NULL)",
                f"({a} {pick(['', 'NOT '])}BETWEEN {b} AND {c})",
                f"({a} {pick(['', 'NOT '])}IN (0, 1, {pick(['-3', 'NULL', '10.5', '1.5e0'])}))",
            ]
        )
