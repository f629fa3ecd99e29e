"""What queries may say of rows, each as SQL and as plain Python: keys, conditions, aggregates and HAVINGs.

NULL is None; an expression that Spark refuses to compute (ANSI mode) raises :class:`Failed`.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from typing import Any

Row = Mapping[str, Any]
NAN = float("nan")  # the only one, so that it equals itself in keys


class Failed(Exception):
    """An expression has no value for a row, or for the rows of a window."""


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression over a row; ``fails``: on some rows it has no value."""

    sql: str
    value: Callable[[Row], Any]
    type: str = "boolean"
    joined: bool = False  # it needs the table
    fails: bool = False
    function: bool = False  # it calls a user's function


@dataclass(frozen=True, slots=True)
class Aggregate:
    """An aggregate, or an expression over aggregates; rows come in the order of their times."""

    sql: str
    value: Callable[[Sequence[Row]], Any]
    type: str = ""  # "" where a stream's column is not made of it
    of_row: Callable[[Row], Any] | None = None  # what is computed of each row, and may fail
    rounded: bool = False  # two ways to compute it may differ in the last digits
    ordered: bool = False  # depends on the order of rows
    joined: bool = False
    fails: bool = False
    function: bool = False


@dataclass(frozen=True, slots=True)
class Having:
    """A condition on a group's rows."""

    sql: str
    holds: Callable[[Sequence[Row]], Any]


# -- values ----------------------------------------------------------------------------------------------------------


def normal(value: Any) -> Any:
    """Make equal what Spark takes as equal keys: NaN and NaN, -0.0 and 0.0."""
    if isinstance(value, float):
        return NAN if math.isnan(value) else value + 0.0
    return value


def in_order(value: Any) -> Any:
    """Turn a value into one that sorts as in Spark: NULL first, NaN last."""
    if isinstance(value, float):
        return (1, math.isnan(value), 0.0 if math.isnan(value) else value)
    return (value is not None, False, 0 if value is None else value)


def quotient(a: Any, b: Any) -> Any:
    """Divide whole numbers as ``div`` does."""
    if a is None or b is None:
        return None
    if b == 0:
        raise Failed(f"{a} div 0")
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def remainder(a: Any, b: int) -> Any:
    """Compute ``a % b`` with the sign of a."""
    return None if a is None else a - b * int(a / b)


def more(value: Any, than: Any) -> Any:
    """Compare; NaN is above all numbers."""
    return None if value is None or than is None else in_order(value) > in_order(than)


def both(left: Any, right: Callable[[], Any]) -> Any:
    """Compute AND: what is on the right is asked unless the left is false, also if it is NULL."""
    if left is False:
        return False
    found = right()
    return False if found is False else None if left is None or found is None else True


def present(rows: Iterable[Row], of: Callable[[Row], Any]) -> list[Any]:
    """List what is not NULL of some rows."""
    return [found for found in map(of, rows) if found is not None]


# -- aggregates of values --------------------------------------------------------------------------------------------


def total(values: Sequence[Any]) -> Any:
    return sum(values[1:], values[0]) if values else None


def mean(values: Sequence[Any]) -> Any:
    return None if not values else float(Fraction(sum(values)) / len(values)) if NAN not in values else NAN


def mean_decimal(values: Sequence[Decimal]) -> Any:
    return None if not values else (sum(values, Decimal(0)) / len(values)).quantize(Decimal("0.000001"), ROUND_HALF_UP)


def least(values: Sequence[Any]) -> Any:
    return min(values, key=in_order, default=None)


def greatest(values: Sequence[Any]) -> Any:
    return max(values, key=in_order, default=None)


def spread(values: Sequence[Any], few: int) -> Any:
    """Compute the variance, of all (few = 0) or of a sample (few = 1)."""
    if len(values) <= few:
        return None
    return float((statistics.variance if few else statistics.pvariance)([Fraction(v) for v in values]))


def root(value: float | None) -> float | None:
    return None if value is None else math.sqrt(value)


def mode(values: Sequence[Any]) -> Any:
    return next(iter(by_weight(Counter(map(normal, values)))), (None,))[0]


def by_weight(weights: Mapping[Any, Any]) -> list[tuple[Any, Any]]:
    """Order values by weight, the greatest first, then by value."""
    return sorted(sorted(weights.items(), key=lambda p: in_order(p[0])), key=lambda p: in_order(p[1]), reverse=True)


def top(number: int, pairs: Sequence[tuple[Any, Any]], of: str) -> Any:
    """List the values of greatest weight."""
    weights: dict[Any, Any] = {}
    for value, weight in pairs:
        if value is not None and weight is not None:
            weights[normal(value)] = weights.get(normal(value), 0) + weight
    return [{"item": value, of: weight} for value, weight in by_weight(weights)[:number]]


def percentile(values: Sequence[Any], share: str) -> Any:
    """Find the value at a share of the way, between the two nearest ones."""
    if not values:
        return None
    ordered, place = sorted(values, key=in_order), (len(values) - 1) * Fraction(share)
    low, high = math.floor(place), math.ceil(place)
    return float((1 - (place - low)) * Fraction(ordered[low]) + (place - low) * Fraction(ordered[high]))


def at_extreme(rows: Sequence[Row], x: str, y: str, sign: int) -> Any:
    """Find x where y is least (1) or greatest (-1); of several the least x."""
    known = [row for row in rows if row[y] is not None]
    if not known:
        return None
    chosen = (least if sign > 0 else greatest)([row[y] for row in known])
    return min((row[x] for row in known if normal(row[y]) == normal(chosen)), key=in_order)


def first(rows: Sequence[Row], column: str, *, skip: bool = False) -> Any:
    found = [row[column] for row in rows if not skip or row[column] is not None]
    return found[0] if found else None


# -- what there is, by the names of a stream's columns ---------------------------------------------------------------


def aggregates(text: str, small: str, number: str) -> list[Aggregate]:
    """List the aggregates over a column of text, one of small numbers and one of numbers."""
    k, j, v = text, small, number

    def of(column: str) -> Callable[[Row], Any]:
        return lambda row: row[column]

    def over(column: str, function: Callable[[Sequence[Any]], Any]) -> Callable[[Sequence[Row]], Any]:
        return lambda rows: function(present(rows, of(column)))

    def distinct(*columns: str) -> Callable[[Sequence[Row]], Any]:
        return lambda rows: len({t for t in (tuple(normal(r[c]) for c in columns) for r in rows) if None not in t})

    return [
        Aggregate("count(*)", len, "bigint"),
        Aggregate("count(*)", len, "bigint"),
        Aggregate(f"count({v})", over(v, len), "bigint"),
        Aggregate(f"sum({v})", over(v, total), "bigint"),
        Aggregate(f"sum({v})", over(v, total), "bigint"),
        Aggregate(f"min({v})", over(v, least), "bigint"),
        Aggregate(f"max({v})", over(v, greatest), "bigint"),
        Aggregate(f"max({k})", over(k, greatest), "string"),
        Aggregate(f"min({j})", over(j, least)),
        Aggregate(f"avg({v})", over(v, mean), "double"),
        Aggregate(f"count(DISTINCT {k})", distinct(k), "bigint"),
        Aggregate(f"count(DISTINCT {v})", distinct(v), "bigint"),
        Aggregate(f"count(DISTINCT {k}, {v})", distinct(k, v), "bigint"),
        Aggregate(f"sum(DISTINCT {v})", over(v, lambda values: total(sorted(set(values)))), "bigint"),
        Aggregate(f"mode({k})", over(k, mode), "string"),
        Aggregate(f"mode({v})", over(v, mode), "bigint"),
        Aggregate(f"median({v})", over(v, lambda values: percentile(values, "0.5")), "double"),
        Aggregate(f"percentile({v}, 0.3)", over(v, lambda values: percentile(values, "0.3")), "double"),
        Aggregate(f"top(2, {k})", lambda rows: top(2, [(r[k], 1) for r in rows], "count")),
        Aggregate(f"top(2, {k}, {v})", lambda rows: top(2, [(r[k], r[v]) for r in rows], "weight")),
        Aggregate(f"first({v})", lambda rows: first(rows, v), "bigint", ordered=True),
        Aggregate(f"last({k})", lambda rows: first(rows[::-1], k), "string", ordered=True),
        Aggregate(f"first({k}) IGNORE NULLS", lambda rows: first(rows, k, skip=True), "string", ordered=True),
        Aggregate(f"arg_min({k}, {v})", lambda rows: at_extreme(rows, k, v, 1), "string"),
        Aggregate(f"arg_max({v}, {j})", lambda rows: at_extreme(rows, v, j, -1), "bigint"),
        Aggregate(f"var_pop({v})", over(v, lambda values: spread(values, 0)), "double", rounded=True),
        Aggregate(f"stddev_samp({v})", over(v, lambda values: root(spread(values, 1))), "double", rounded=True),
        Aggregate(
            f"sum({v}) FILTER (WHERE {j} = 1)", lambda rows: total(present((r for r in rows if r[j] == 1), of(v)))
        ),
        Aggregate(
            f"coalesce(max({v}) - min({v}), 0)",
            over(v, lambda values: greatest(values) - least(values) if values else 0),
            "bigint",
        ),
        Aggregate("concat('n', cast(count(*) AS string))", lambda rows: f"n{len(rows)}", "string"),
    ]


def _decimals(rows: Sequence[Row]) -> list[Decimal]:
    return present(rows, lambda row: row["d"])


def _doubles(rows: Sequence[Row]) -> list[float]:
    return present(rows, lambda row: row["x"])


def _share(rows: Sequence[Row]) -> Any:
    held = len(present(rows, lambda row: row["v"]))
    if not held:
        raise Failed("a division by count(v) = 0")
    return len(rows) / held


AGGREGATES = [
    *aggregates("k", "j", "v"),
    Aggregate("sum(d)", lambda rows: total(_decimals(rows))),
    Aggregate("avg(d)", lambda rows: mean_decimal(_decimals(rows))),
    Aggregate("max(d)", lambda rows: greatest(_decimals(rows)), "decimal(10,2)"),
    Aggregate("sum(x)", lambda rows: total(_doubles(rows)), "double"),
    Aggregate("max(x)", lambda rows: greatest(_doubles(rows)), "double"),
    Aggregate("count(DISTINCT x)", lambda rows: len(set(map(normal, _doubles(rows)))), "bigint"),
    Aggregate(
        "sum(v * j)", lambda rows: total(present(rows, lambda r: None if None in (r["v"], r["j"]) else r["v"] * r["j"]))
    ),
    Aggregate(
        "sum(half(v))",
        lambda rows: total(present(rows, lambda r: None if r["v"] is None else r["v"] // 2)),
        function=True,
    ),
    Aggregate(
        "max(capped(v))",
        lambda rows: greatest(present(rows, lambda r: None if r["v"] is None else min(r["v"], 5))),
        function=True,
    ),
]
JOINED_AGGREGATES = [
    Aggregate(
        "sum(v * factor)",
        lambda rows: total(present(rows, lambda r: None if None in (r["v"], r["factor"]) else r["v"] * r["factor"])),
        joined=True,
    ),
    Aggregate("count(sector)", lambda rows: len(present(rows, lambda r: r["sector"])), joined=True),
    Aggregate("count(DISTINCT sector)", lambda rows: len(set(present(rows, lambda r: r["sector"]))), joined=True),
]
FAILING_AGGREGATES = [
    Aggregate(
        "sum(12 div j)",
        lambda rows: total(present(rows, lambda r: quotient(12, r["j"]))),
        of_row=lambda r: quotient(12, r["j"]),
        fails=True,
    ),
    Aggregate(
        "max(v div j)",
        lambda rows: greatest(present(rows, lambda r: quotient(r["v"], r["j"]))),
        of_row=lambda r: quotient(r["v"], r["j"]),
        fails=True,
    ),
    Aggregate("count(*) / count(v)", _share, fails=True),
]
KEYS = [
    Expression("k", lambda r: r["k"], "string"),
    Expression("k", lambda r: r["k"], "string"),
    Expression("k", lambda r: r["k"], "string"),
    Expression("j", lambda r: r["j"], "int"),
    Expression("j", lambda r: r["j"], "int"),
    Expression("v", lambda r: r["v"], "bigint"),
    Expression("v % 3", lambda r: remainder(r["v"], 3), "bigint"),
    Expression("upper(k)", lambda r: None if r["k"] is None else r["k"].upper(), "string"),
    Expression("v > 3", lambda r: more(r["v"], 3)),
    Expression("x", lambda r: normal(r["x"]), "double"),
    Expression("d", lambda r: r["d"], "decimal(10,2)"),
]
JOINED_KEYS = [
    Expression("sector", lambda r: r["sector"], "string", joined=True),
    Expression("factor", lambda r: r["factor"], "int", joined=True),
]
CONDITIONS = [
    Expression("v > 3", lambda r: more(r["v"], 3)),
    Expression("v <= 3", lambda r: None if r["v"] is None else r["v"] <= 3),
    Expression("NOT (v > 3)", lambda r: None if r["v"] is None else r["v"] <= 3),
    Expression("k = 'a'", lambda r: r["k"] == "a"),
    Expression("k = 'b' AND v > 0", lambda r: r["k"] == "b" and more(r["v"], 0)),
    Expression("k IS NULL OR v < 5", lambda r: r["k"] is None or (r["v"] is not None and r["v"] < 5)),
    Expression("j = 1", lambda r: r["j"] == 1),
    Expression("x > 1.5", lambda r: more(r["x"], 1.5)),
    Expression("d >= 1.50", lambda r: None if r["d"] is None else r["d"] >= Decimal("1.50")),
    Expression("k IN ('a', 'c')", lambda r: r["k"] in ("a", "c")),
    Expression("k LIKE 'a%'", lambda r: r["k"] is not None and r["k"].startswith("a")),
    Expression("v BETWEEN 1 AND 6", lambda r: r["v"] is not None and 1 <= r["v"] <= 6),
    Expression("v % 2 = 0", lambda r: remainder(r["v"], 2) == 0),
    Expression("x + v > 4", lambda r: None if None in (r["v"], r["x"]) else more(r["x"] + r["v"], 4.0)),
    Expression("upper(k) = 'B'", lambda r: r["k"] is not None and r["k"].upper() == "B"),
    Expression("k = 'z'", lambda r: r["k"] == "z"),
    Expression("j <> 0 AND 12 div j > 4", lambda r: bool(r["j"]) and quotient(12, r["j"]) > 4),
    Expression("is_odd(v)", lambda r: None if r["v"] is None else r["v"] % 2 == 1, function=True),
]
JOINED_CONDITIONS = [
    Expression("sector = 'x'", lambda r: r["sector"] == "x", joined=True),
    Expression("factor > 1 AND v > 0", lambda r: more(r["factor"], 1) and more(r["v"], 0), joined=True),
]
FAILING_CONDITIONS = [
    Expression("12 div j > 4", lambda r: more(quotient(12, r["j"]), 4), fails=True),
    Expression(
        "v > 6 AND 12 div j > 4", lambda r: both(more(r["v"], 6), lambda: more(quotient(12, r["j"]), 4)), fails=True
    ),
]
