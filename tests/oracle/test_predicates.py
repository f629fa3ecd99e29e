"""Hundreds of predicates in one pass take exactly the rows that plain Spark takes for each of them alone."""

from __future__ import annotations

import math
import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from penstock.testing import TestBed
from tests.oracle.spark_batch import SETTINGS, START

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BIGGEST = (1 << 63) - 1
NEXT = math.nextafter(0.1, 1)
SCHEMA = (
    "ts TIMESTAMP, id BIGINT, n BIGINT, i INT, d DOUBLE, f FLOAT, m DECIMAL(20,2), w DECIMAL(38,10), s STRING,"
    " b BOOLEAN, t TIMESTAMP, x DATE"
)
TYPES = {
    "id": pa.int64(), "n": pa.int64(), "i": pa.int32(), "d": pa.float64(), "f": pa.float32(), "m": pa.decimal128(20, 2),
    "w": pa.decimal128(38, 10), "s": pa.string(), "b": pa.bool_(), "t": pa.timestamp("us", tz="UTC"), "x": pa.date32(),
}  # fmt: skip
VALUES: dict[str, list[Any]] = {
    "n": [None, -BIGGEST - 1, -1, 0, 1, 2, 3, (1 << 53), (1 << 53) + 1, BIGGEST - 1, BIGGEST],
    "i": [None, -(1 << 31), -1, 0, 1, 7, (1 << 31) - 1],
    "d": [None, -math.inf, -1e300, -0.0, 0.0, 0.1, NEXT, 0.5, 1.0, 2.5, float(1 << 53), 9.3e18, math.inf, math.nan],
    "f": [None, -0.0, 0.1, 0.5, 1.0, 16777216.0, math.inf, math.nan],
    "m": [None, Decimal("-1.00"), Decimal("0.00"), Decimal("0.10"), Decimal("0.50"), Decimal("123456789012345678.99")],
    "w": [None, Decimal("0.1000000000"), Decimal("0.1000000001"), Decimal("-5.5"), Decimal("9" * 28)],
    "s": [None, "", "a", "A", "ab", "abc", "b", "é", "ac", "a%", "10", "\U0001f600", "a\x00"],
    "b": [None, True, False],
    "t": [None, datetime(1969, 12, 31, 23, 59, 59, 999999, UTC), datetime(2020, 1, 1, tzinfo=UTC),
          datetime(2020, 1, 1, 0, 0, 0, 1, UTC)],
    "x": [None, date(1969, 12, 31), date(2020, 1, 1), date(2020, 1, 2)],
}  # fmt: skip
CONSTANTS = {
    "n": ["0", "1", "2.5", "-1", "3L", "9223372036854775807", "9223372036854775808", "-9223372036854775808",
          "9007199254740993", "9007199254740992D", "1e0", "NULL", "1BD"],
    "i": ["0", "7", "2147483647", "2147483648", "-0.5", "0.5D", "NULL"],
    "d": ["0", "-0.0D", "0.1", "0.1D", "0.10000000000000002D", "1", "9007199254740993", "9223372036854775807",
          "CAST('NaN' AS DOUBLE)", "CAST('-Infinity' AS DOUBLE)", "NULL", "0.1F"],
    "f": ["0", "0.1", "0.1D", "0.1F", "1", "16777217", "CAST('NaN' AS DOUBLE)", "NULL"],
    "m": ["0", "0.1", "0.105", "0.10D", "123456789012345678.99", "-7", "NULL", "12345678901234567890123"],
    "w": ["0.1", "0.10000000005", "0.1D", "9999999999999999999999999999", "1e-1", "NULL"],
    "s": ["''", "'a'", "'ab'", "'b'", "'é'", "'zz'", "NULL", "'a%'"],
    "t": ["TIMESTAMP '2020-01-01 00:00:00'", "'2020-01-01'", "'2020-01-01 00:00:00.000001'", "DATE '2020-01-01'",
          "NULL"],
    "x": ["DATE '2020-01-01'", "'2020-01-02'", "DATE '1969-12-31'", "NULL"],
}  # fmt: skip
ATTRIBUTES = {
    "n": ["n", "n", "n", "i + n % 7", "n - n"],
    "d": ["d", "d", "d * i", "abs(d - f) / 2", "d + 0.5D"],
    "s": ["s", "s", "upper(s)", "concat(s, 'b')", "substring(s, 1, 1)"],
    "m": ["m", "m", "m * 2"],
}
OPAQUE = [
    "n > i", "d < f", "s LIKE '%b'", "s LIKE 'a_'", "length(s) > i", "s RLIKE '^a'", "m > w", "b AND NOT b", "isnan(d)",
    "s ILIKE 'A%'", "CASE WHEN b THEN n > 0 ELSE d > 0 END", "coalesce(b, n > 1)", "n + 0 IS NULL", "b = (n > 0)",
    "try_divide(d, n) > 1", "hash(s) % 2 = 0", "s < d",
]  # fmt: skip
LIKES = ["'a%'", "'%'", "'ab'", "'é%'", "'a\\\\%'", "''"]
GUARDED = [
    "n <> 0 AND 10 / n > 1",
    "n = 0 OR 10 / n > 1",
    "n < 1000 AND n > -1000 AND n * n > 3",
    "i < 100 AND i * 1000000 > 5",
]


def drawn_test(draw: random.Random) -> str:
    kind = draw.random()
    if kind < 0.12:
        return draw.choice(OPAQUE)
    if kind < 0.2:
        return draw.choice(
            ["b", "b = TRUE", "b <> TRUE", "b IS TRUE", "b IS NOT FALSE", "b <=> NULL", "b IN (TRUE, NULL)"]
        )
    if kind < 0.26:
        return draw.choice(GUARDED)
    column = draw.choice(sorted(CONSTANTS))
    attribute = draw.choice(ATTRIBUTES.get(column, [column]))
    constants = CONSTANTS[column]
    if column == "s" and kind < 0.5:
        return f"{attribute} LIKE {draw.choice(LIKES)}"
    if kind < 0.45:
        return f"{attribute} IN ({', '.join(draw.sample(constants, draw.randint(1, 4)))})"
    if kind < 0.55:
        return f"{attribute} BETWEEN {draw.choice(constants)} AND {draw.choice(constants)}"
    if kind < 0.6:
        return f"{attribute} IS NULL"
    sides = [attribute, draw.choice(constants)]
    draw.shuffle(sides)
    return f"{sides[0]} {draw.choice(['=', '<>', '<', '<=', '>', '>=', '<=>'])} {sides[1]}"


def predicate(draw: random.Random) -> str:
    parts = [drawn_test(draw) for _ in range(draw.choice([1, 1, 1, 2, 2, 3]))]
    text = parts[0]
    for part in parts[1:]:
        text = f"({text}) {draw.choice(['AND', 'AND', 'OR'])} ({part})"
    return f"NOT ({text})" if draw.random() < 0.2 else text


def make_rows(draw: random.Random, count: int) -> pa.Table:
    columns: dict[str, list[Any]] = {
        name: [draw.choice(values) for _ in range(count)] for name, values in VALUES.items()
    }
    columns["id"] = list(range(count))
    times = pa.array([START + timedelta(milliseconds=50 * i) for i in range(count)], pa.timestamp("us", tz="UTC"))
    return pa.table({"ts": times} | {name: pa.array(columns[name], kind) for name, kind in TYPES.items()})


def usable(spark: SparkSession, texts: list[str]) -> dict[str, dict[str, tuple[Any, Any]]]:
    """Ask plain Spark for each predicate alone; leave out those that it refuses or fails on."""
    found: dict[str, dict[str, tuple[Any, Any]]] = {}
    for text in texts:
        forms = {"yes": text, "no": f"NOT ({text})", "unknown": f"({text}) IS NULL"}
        try:
            rows = {
                form: spark.sql(f"SELECT count(*), sum(id) FROM edges WHERE {p}").collect()[0]
                for form, p in forms.items()
            }
        except Exception:
            continue
        found[text] = {form: (row[0], row[1]) for form, row in rows.items()}
    return found


def check(spark: SparkSession, seed: int, count: int, *, compiled: bool) -> None:
    draw = random.Random(seed)
    rows = make_rows(draw, 300)
    asked = spark.newSession()
    for key, value in SETTINGS.items():
        asked.conf.set(key, value)
    asked.createDataFrame(rows).createOrReplaceTempView("edges")
    expected = usable(asked, list(dict.fromkeys(predicate(draw) for _ in range(count))))
    assert len(expected) > count // 2
    with TestBed(spark, compiled=compiled) as bed:
        bed.stream("r", SCHEMA)
        names = {}
        for number, text in enumerate(expected):
            for form, where in {"yes": text, "no": f"NOT ({text})", "unknown": f"({text}) IS NULL"}.items():
                names[f"q{number}_{form}"] = (text, form)
                bed.query(
                    f"q{number}_{form}",
                    f"SELECT count(*) AS n, sum(id) AS s FROM r [RANGE 1 min SLIDE 1 min] WHERE {where}",
                )
        bed.feed_in_cuts("r", rows, [100, 1, 199])
        bed.flush()
        assert bed.reports("r") == []
        found = {name: [(r["n"], r["s"]) for r in bed.results(name).to_pylist()] for name in names}
    wrong = {
        names[n]: (f, expected[names[n][0]][names[n][1]])
        for n, f in found.items()
        if f != [expected[names[n][0]][names[n][1]]]
    }
    assert wrong == {}
    for number in range(len(expected)):
        assert sum(found[f"q{number}_{form}"][0][0] for form in ("yes", "no", "unknown")) == rows.num_rows


def test_every_predicate_takes_the_rows_that_spark_takes(spark: SparkSession) -> None:
    check(spark, seed=5, count=60, compiled=True)


def test_they_do_so_without_generated_code(spark: SparkSession) -> None:
    check(spark, seed=6, count=24, compiled=False)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(40))
def test_many_more_predicates_take_the_rows_that_spark_takes(spark: SparkSession, seed: int) -> None:
    fresh = random.SystemRandom().randrange(1 << 32)
    print(f"seed {fresh}")
    check(spark, fresh, count=40, compiled=bool(fresh % 2))
