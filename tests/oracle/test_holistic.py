"""Holistic aggregates answer as plain Spark does, or where Spark leaves ties open, as a naive Python twin does."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from penstock.testing import TestBed
from tests.oracle.meanings import CUTS, SCHEMA, SECONDS, make_rows
from tests.oracle.spark_batch import INSTANT, START, Meaning, SparkBatch, rows_at, seconds_of
from tests.oracle.test_spark_meaning import feed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# -- against plain Spark -----------------------------------------------------------------------------------------

NUMBERS = "i j t n x y f d5 d12 d28 w10"
OTHERS = "s b bin day at ntz"


def listed(*calls: str) -> str:
    return ", ".join(f"{call} AS o{i}" for i, call in enumerate(calls))


def each(calls: Sequence[str], columns: str) -> str:
    return listed(*(call.format(column) for column in columns.split() for call in calls))


MEANINGS = (
    Meaning("distinct", each(["count(DISTINCT {})"], f"{NUMBERS} {OTHERS}")),
    Meaning("sums", each(["sum(DISTINCT {})", "avg(DISTINCT {})"], "i j t n x d5 d12 d28"), range_s=20),
    Meaning("several", listed("count(DISTINCT i, s)", "count(DISTINCT y, b)", "count(DISTINCT j)", "min(DISTINCT x)")),
    Meaning("packed", listed("count(DISTINCT i, t)", "count(DISTINCT t, j)", "count(DISTINCT t, n)"), range_s=20),
    Meaning("medians", each(["median({})"], NUMBERS), range_s=15),
    Meaning("percentiles", each(["percentile({}, array(0, 0.25, 0.9, 1.0))"], NUMBERS), range_s=30, slide_s=15),
    Meaning("weighed", listed("percentile(x, 0.3, abs(j))", "percentile(n, array(0.5, 1), j * j)"), range_s=20),
    Meaning("by key", listed("s", "count(DISTINCT i)", "median(x)", "sum(DISTINCT d5)", "count(*)"), keys=("s",)),
    Meaning("by nulls", listed("b", "y", "median(n)"), keys=("b", "y"), range_s=20),
    Meaning("over", listed("median(x) * 2 + 1", "count(DISTINCT j) > 3", "percentile(i, array(0.5, 0.9))[1]")),
    Meaning("having", listed("b", "median(x)"), keys=("b",), having="count(DISTINCT i) > 2 AND median(x) > -1"),
    Meaning("where", listed("count(DISTINCT s)", "median(d12)"), where="j > 1 OR b", range_s=20),
    Meaning(
        "filter",
        listed(
            "sum(n) FILTER (WHERE j > 1)", "count(*) FILTER (WHERE b)", "count(DISTINCT i) FILTER (WHERE x > 0)",
            "avg(d12) FILTER (WHERE j < 3)", "min(s) FILTER (WHERE i > 0)", "median(x) FILTER (WHERE b IS NULL)",
            "stddev(x) FILTER (WHERE j > 0)",
        ),
        range_s=15,
    ),
    Meaning(
        "nested",
        listed(
            "min_by(st, ts)", "max_by(arr, ts)", "max_by(bin, ts)", "min_by(day, ts)", "max_by(ntz, ts)",
            "min_by(f, ts)", "max_by(b, ts)", "min_by(t, ts)",
        ),
        range_s=20,
    ),
    Meaning("no ties", listed("min_by(s, ts)", "max_by(x, ts)", "max_by(j, struct(ts).ts)", "min_by(d12, ts)")),
)  # fmt: skip


@pytest.fixture(scope="module")
def expected(spark: SparkSession) -> dict[str, pa.Table]:
    batch = SparkBatch(spark, make_rows(seed=5), SECONDS, harmless=SECONDS)
    return {query.name: batch.answers(query, may_fail=False).table for query in MEANINGS}


@pytest.fixture(scope="module", params=["fast", "scan"])
def answered(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[TestBed]:
    with TestBed(spark, kernel=request.param) as bed:
        bed.stream("r", SCHEMA)
        for query in MEANINGS:
            bed.query(query.name, query.text)
        feed(bed, make_rows(seed=5), CUTS)
        yield bed


@pytest.mark.parametrize("query", MEANINGS, ids=lambda q: q.name)
def test_a_holistic_aggregate_answers_as_spark_does(
    answered: TestBed, expected: dict[str, pa.Table], query: Meaning
) -> None:
    found, wanted = answered.results(query.name).drop_columns(["window_start"]), expected[query.name]
    assert answered.paused(query.name) is None
    for ours, theirs in zip(found.schema, wanted.schema, strict=True):
        assert str(ours.type).replace(" not null", "") == str(theirs.type).replace(" not null", ""), ours.name
    assert seconds_of(found) == seconds_of(wanted)
    for row, other in zip(found.to_pylist(), wanted.to_pylist(), strict=True):
        for name, value in other.items():
            assert same(row[name], value), f"{query.text}\n  {name}: {row[name]!r} is not {value!r}"


def same(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, list):
        return len(found) == len(wanted) and all(map(same, found, wanted))
    if isinstance(wanted, dict):
        return found.keys() == wanted.keys() and all(same(found[key], value) for key, value in wanted.items())
    if isinstance(wanted, float) and found is not None:
        return (
            found == wanted or (math.isnan(wanted) and math.isnan(found)) or math.isclose(found, wanted, rel_tol=1e-9)
        )
    return bool(found == wanted)


# -- against a naive twin, with cuts, disorder, restarts and changes ------------------------------------------------

TRADES = pa.schema(
    [("ts", INSTANT), ("k", pa.string()), ("x", pa.float64()), ("i", pa.int32()), ("d", pa.decimal128(10, 2))]
)
COLUMNS = tuple(TRADES.names)
Row = dict[str, Any]


def rank(value: Any) -> tuple[Any, ...]:
    """Order values as Spark does: NULL first, NaN last, -0.0 as 0.0."""
    if value is None:
        return (0,)
    if isinstance(value, float):
        return (2,) if math.isnan(value) else (1, value + 0.0)
    return (1, value)


def counted(rows: Sequence[Row], name: str, weight: str | None = None) -> dict[Any, Any]:
    found: dict[Any, Any] = Counter()
    for row in rows:
        if row[name] is not None and (weight is None or row[weight] is not None):
            value = row[name] if not isinstance(row[name], float) else rank(row[name])
            found[value] = found.get(value, 0) + (1 if weight is None else row[weight])
    return found


def top(rows: Sequence[Row], k: int, name: str, weight: str | None = None) -> list[Row]:
    pairs = sorted(counted(rows, name, weight).items(), key=lambda pair: (-pair[1], pair[0]))[:k]
    return [{"item": item, "count" if weight is None else "weight": count} for item, count in pairs]


def mode(rows: Sequence[Row], name: str) -> Any:
    return top(rows, 1, name)[0]["item"] if any(row[name] is not None for row in rows) else None


def arg(rows: Sequence[Row], x: str, y: str, sign: int) -> Any:
    held = [row for row in rows if row[y] is not None]
    if not held:
        return None
    ranks = sorted(rank(row[y]) for row in held)
    best = ranks[0] if sign < 0 else ranks[-1]
    return min((row[x] for row in held if rank(row[y]) == best), key=rank)


def ordered(rows: Sequence[Row], name: str, last: bool = False, keep: Callable[[Row], bool] = lambda _: True) -> Any:
    held = sorted(filter(keep, rows), key=lambda row: (row["ts"], row["#hash"]))
    return None if not held else held[-1 if last else 0][name]


QUERIES: dict[str, tuple[str, Callable[[Sequence[Row]], Any]]] = {
    "top": ("top(2, k)", lambda rows: top(rows, 2, "k")),
    "weighed": ("top(3, i, d)", lambda rows: top(rows, 3, "i", "d")),
    "mode": ("mode(k)", lambda rows: mode(rows, "k")),
    "mode of decimals": ("mode(d)", lambda rows: mode(rows, "d")),
    "arg_min": ("arg_min(k, x)", lambda rows: arg(rows, "k", "x", -1)),
    "arg_max": ("arg_max(i, x)", lambda rows: arg(rows, "i", "x", 1)),
    "max_by": ("max_by(x, k)", lambda rows: arg(rows, "x", "k", 1)),
    "min_by": ("min_by(d, i)", lambda rows: arg(rows, "d", "i", -1)),
    "arg_max of times": ("arg_max(k, ts)", lambda rows: arg(rows, "k", "ts", 1)),
    "arg_max of decimals": ("arg_max(k, d)", lambda rows: arg(rows, "k", "d", 1)),
    "first": ("first(x)", lambda rows: ordered(rows, "x")),
    "last": ("last(k)", lambda rows: ordered(rows, "k", last=True)),
    "first value": ("first(x) IGNORE NULLS", lambda rows: ordered(rows, "x", keep=lambda r: r["x"] is not None)),
    "last of few": (
        "last(x) FILTER (WHERE i > 2)",
        lambda rows: ordered(rows, "x", last=True, keep=lambda r: r["i"] is not None and r["i"] > 2),
    ),
    "distinct": ("count(DISTINCT x)", lambda rows: len(counted(rows, "x"))),
    "median": ("median(i)", lambda rows: median([row["i"] for row in rows if row["i"] is not None])),
}


def median(values: list[int]) -> float | None:
    values.sort()
    middle = len(values) // 2
    if not values:
        return None
    return float(values[middle]) if len(values) % 2 else (values[middle - 1] + values[middle]) / 2


def trades(seed: int, count: int = 160, seconds: int = 40) -> list[Row]:
    rng = random.Random(seed)
    rows = []
    for _ in range(count):
        row: Row = {
            "ts": rng.choice([rng.uniform(0, seconds), float(rng.randrange(seconds))]),
            "k": rng.choice(["a", "b", "ab", "é", None]),
            "x": rng.choice([0.0, -0.0, 1.5, math.nan, -math.inf, None, rng.uniform(-2, 2)]),
            "i": rng.choice([1, 2, 3, 2**31 - 1, -(2**31), None]),
            "d": rng.choice([Decimal("1.10"), Decimal("-3.00"), Decimal("2.25"), None]),
        }
        rows.append(row)
    return sorted(rows, key=lambda row: row["ts"] + rng.uniform(0, 3))


def timed(rows: Sequence[Row], spark: SparkSession) -> list[Row]:
    """Give rows their instants, and Spark's hash of each, by which rows of one time are put in order."""
    table = rows_at(TRADES, list(rows))
    hashes = spark.createDataFrame(table).selectExpr(f"xxhash64({', '.join(COLUMNS)}) AS h").toArrow()["h"].to_pylist()
    return [{**row, "#hash": h} for row, h in zip(table.to_pylist(), hashes, strict=True)]


def check(bed: TestBed, name: str, rows: Sequence[Row], range_s: float, keyed: bool) -> int:
    """Compare a query's answers with the twin's; return how many there were."""
    answers = bed.results(name).to_pylist()
    twin = QUERIES[name.split(" by ")[0]][1]
    for answer in answers:
        end = answer["window_end"]
        held = [r for r in rows if end - timedelta(seconds=range_s) <= r["ts"] < end]
        held = [r for r in held if r["k"] == answer["k"]] if keyed else held
        assert same(told(answer["v"]), told(twin(held))), f"{name} at {end}: {answer['v']} is not {twin(held)}"
    return len(answers)


def told(value: Any) -> Any:
    return value + 0.0 if isinstance(value, float) else value


@pytest.mark.parametrize("kernel", ["fast", "scan"])
def test_random_cuts_restarts_and_changes_do_not_change_answers(
    spark: SparkSession, tmp_path: Path, kernel: Any
) -> None:
    rng = random.Random(11)
    rows = trades(seed=3)
    known = timed(rows, spark)
    table = rows_at(TRADES, rows)
    cuts = sorted(rng.sample(range(1, len(rows)), 4))
    ends = [*cuts, len(rows)]
    windows = {"": (6.0, 2), " by k": (5.0, 3)}
    for number, (start, end) in enumerate(zip([0, *cuts], ends, strict=True)):
        with TestBed(spark, kernel=kernel, state=tmp_path / "state", epoch=START) as bed:
            if number == 0:
                bed.stream("r", TRADES, lateness="3 s")
                enter(bed, windows, early=True)
            if number == 2:
                enter(bed, windows, early=False)
            if number == 3:
                bed.engine.drop_query("mode by k")
            bed.feed("r", table.slice(start, end - start))
            if number == len(cuts):
                bed.flush()
                names = bed.engine.catalog.query_names()
                found = {n: check(bed, n, known, windows[" by k" * (" by k" in n)][0], " by k" in n) for n in names}
    assert all(found.values())
    assert "mode by k" not in found


LATE = ("top", "arg_max by k", "last")


def enter(bed: TestBed, windows: dict[str, tuple[float, int]], early: bool) -> None:
    for ending, (range_s, slide_s) in windows.items():
        for name, (call, _) in QUERIES.items():
            if (name + ending not in LATE) == early:
                key, by = ("k, ", " GROUP BY k") if ending else ("", "")
                text = f"SELECT {key}{call} AS v FROM r [RANGE {range_s:g} s SLIDE {slide_s} s]{by}"
                bed.query(name + ending, text)


def test_late_rows_revise_holistic_answers(spark: SparkSession) -> None:
    rows = sorted(trades(seed=8, count=60, seconds=20), key=lambda row: row["ts"])
    late = [row for row in rows if 4 <= row["ts"] < 9][::3]
    early = [row for row in rows if row not in late]
    known = timed(rows, spark)
    with TestBed(spark, epoch=START) as bed:
        bed.stream("r", TRADES)
        for name, (call, _) in QUERIES.items():
            text = f"SELECT {call} AS v FROM r [RANGE 6 s SLIDE 2 s] WITH (late = 'revise', revise_for = '1 min')"
            bed.query(name, text)
        bed.feed("r", rows_at(TRADES, early))
        bed.feed("r", rows_at(TRADES, late))
        bed.flush()
        assert late
        for name in QUERIES:
            assert check(bed, name, known, 6.0, False) > 8


def test_queries_over_one_column_share_one_frequency_table(spark: SparkSession) -> None:
    calls = ["count(DISTINCT x)", "median(x)", "percentile(x, 0.9)", "mode(x)", "top(3, x)", "sum(DISTINCT x)"]
    with TestBed(spark, epoch=START) as bed:
        bed.stream("r", TRADES)
        for number, call in enumerate(calls):
            bed.query(f"q{number}", f"SELECT {call} AS v FROM r [RANGE {6 + number} s SLIDE 2 s]")
        components = {c for d in bed.engine.catalog.definitions("r") for c in d.typed.components}
        assert sorted(map(str, components)) == ["count(*)", "frequencies(`x`)"]
        bed.feed("r", rows_at(TRADES, trades(seed=1, count=30, seconds=9)))
        assert bed.engine.stream("r").pipeline.synopsis.state_bytes > 0
        assert bed.engine.status()["streams"][0]["state_bytes"] > 0


def test_a_question_is_answered_from_stored_tables_and_sketches(spark: SparkSession) -> None:
    rows = sorted(trades(seed=2, count=50, seconds=20), key=lambda row: row["ts"])
    known = timed(rows, spark)
    with TestBed(spark, epoch=START) as bed:
        bed.stream("r", TRADES)
        bed.query("m", "SELECT median(i) AS v, approx_count_distinct(k) AS n FROM r [RANGE 8 s SLIDE 2 s]")
        bed.feed("r", rows_at(TRADES, rows))
        [answer] = bed.engine.ask("SELECT median(i) AS v, approx_count_distinct(k) AS n FROM r [RANGE 6 s]").to_pylist()
    end = answer["window_end"]
    held = [row for row in known if end - timedelta(seconds=6) <= row["ts"] < end]
    assert answer["v"] == QUERIES["median"][1](held)
    assert answer["n"] == len(counted(held, "k"))


def test_strings_need_not_be_utf_8(spark: SparkSession) -> None:
    columns = pa.schema([("ts", INSTANT), ("bin", pa.binary())])
    rows = [{"ts": float(n), "bin": [b"\xff\x00", b"a"][n % 3 > 1]} for n in range(9)]
    with TestBed(spark, epoch=START) as bed:
        bed.stream("r", columns)
        text = "CAST(bin AS STRING)"
        calls = f"mode({text}) AS m, first({text}) AS f, arg_min({text}, ts) AS a, hex(mode({text})) AS h"
        bed.query("one", f"SELECT {calls}, top(1, {text}) AS t, approx_top_k(bin, 1) AS k FROM r [RANGE 9 s SLIDE 9 s]")
        bed.query("two", f"SELECT approx_top_k({text}, 1) AS k FROM r [RANGE 9 s SLIDE 9 s]")
        bed.feed("r", rows_at(columns, rows))
        bed.flush()
        answers = bed.results("one")
        for name in ("m", "f", "a"):
            assert answers[name].cast(pa.binary()).to_pylist() == [b"\xff\x00"]
        assert answers["h"].to_pylist() == ["FF00"]
        assert answers["k"].to_pylist() == [[{"item": b"\xff\x00", "count": 6}]]
        assert bed.results("two")["k"].combine_chunks().flatten().field("count").to_pylist() == [6]


def test_too_many_distinct_values_pause_their_query_alone(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.evaluate.components.frequencies.MOST_VALUES", 20)
    with TestBed(spark, epoch=START) as bed:
        bed.stream("r", TRADES)
        bed.query("many", "SELECT count(DISTINCT x) AS v FROM r [RANGE 10 s SLIDE 10 s]")
        bed.query("few", "SELECT count(DISTINCT i) AS v FROM r [RANGE 10 s SLIDE 10 s]")
        rows = [{"ts": n / 10, "k": "a", "x": float(n), "i": n % 7, "d": None} for n in range(300)]
        bed.feed("r", rows_at(TRADES, rows))
        bed.flush()
        assert bed.results("few")["v"].to_pylist() == [7, 7, 7]
        assert bed.results("many").num_rows == 0
        assert "distinct values in count(DISTINCT `x`); approx_count_distinct()" in (bed.paused("many") or "")


def test_an_argument_that_fails_on_a_row_pauses_its_query_alone(spark: SparkSession) -> None:
    calls = ["median(1 / i)", "count(DISTINCT 10 / i)", "first(1 / i)", "arg_max(k, 1 / i)", "top(2, k, 1 / i)",
             "approx_count_distinct(1 / i)", "sum(x) FILTER (WHERE 1 / i > 0)"]  # fmt: skip
    guarded = "median(1 / i) FILTER (WHERE i <> 0)"
    rows = [{"ts": float(n), "k": "a", "x": 1.0, "i": n - 25, "d": None} for n in range(40)]
    with TestBed(spark, epoch=START) as bed:
        bed.stream("r", TRADES)
        for number, call in enumerate([*calls, guarded]):
            bed.query(f"q{number}", f"SELECT {call} AS v FROM r [RANGE 10 s SLIDE 10 s]")
        bed.feed("r", rows_at(TRADES, rows[:15]))
        bed.feed("r", rows_at(TRADES, rows[15:]))
        bed.flush()
        for number in range(len(calls)):
            assert "DIVIDE_BY_ZERO" in (bed.paused(f"q{number}") or ""), calls[number]
            assert bed.results(f"q{number}").num_rows == 2
        assert bed.paused(f"q{len(calls)}") is None
        assert bed.results(f"q{len(calls)}").num_rows == 4
