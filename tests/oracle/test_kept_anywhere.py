"""Every aggregate answers as plain Spark, in the driver and in executors, over groups that hold little or nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import datasketches as ds  # type: ignore[import-untyped]
import pyarrow as pa
import pytest

from penstock.language.binding.functions import AGGREGATES
from penstock.model.aggregation import Aggregation
from penstock.store import executor_state as spread
from penstock.testing import TestBed
from tests.oracle.spark_batch import INSTANT, Meaning, SparkBatch, rows_at, seconds_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("interpreted")

SCHEMA = pa.schema(
    [
        ("ts", INSTANT),
        ("k", pa.string()),
        ("g", pa.int32()),
        ("i", pa.int32()),
        ("s", pa.string()),
        ("x", pa.float64()),
        ("d", pa.decimal128(10, 2)),
        ("w", pa.int64()),
        ("b", pa.bool_()),
    ]
)
SECONDS = 30
COUNTED = "transform(array_distinct({0}), v -> named_struct('n', -size(filter({0}, u -> u = v)), 'v', v))"
REGRESSIONS = ("count", "avgx", "avgy", "sxx", "syy", "sxy", "slope", "intercept", "r2")
TOP = f"slice(array_sort({COUNTED}), 1, 2)"


def told_by(sketch: str) -> str:
    """Ask Spark what a sketch tells: of no row 0, but NULL beside aggregates of DISTINCT values."""
    return f"coalesce(CASE WHEN count(*) >= 0 THEN {sketch} END, 0)"


def in_order(value: str) -> str:
    """List values by the times of their rows, which all differ."""
    pair = f"CASE WHEN ({value}) IS NOT NULL THEN named_struct('t', ts, 'x', {value}) END"
    return f"transform(sort_array(collect_list({pair})), e -> e.x)"


# Each aggregate's calls, and how plain Spark says the same where its words differ or leave ties open.
CALLS: dict[str, tuple[tuple[str, str] | str, ...]] = {
    "count": ("count(*)", "count(s)", *(f"count(DISTINCT {columns})" for columns in ("s", "x", "i, s", "i, g"))),
    "sum": ("sum(i)", "sum(w)", "sum(x)", "sum(d)", "sum(DISTINCT d)", "sum(i) FILTER (WHERE i > 3)"),
    "avg": ("avg(x)", "avg(d)", "avg(DISTINCT i)"),
    "mean": ("mean(i)",),
    "count_if": ("count_if(b)", "count_if(i > 3) FILTER (WHERE b)", "count_if(NULL)"),
    "try_sum": ("try_sum(i)", "try_sum(d)", "try_sum(9223372036854775800 + w)", "try_sum(DISTINCT x)"),
    "try_avg": ("try_avg(i)", "try_avg(d)", "try_avg(w)"),
    "bool_and": ("bool_and(b)", "bool_and(NULL)"),
    "every": ("every(i > 3)", "every(DISTINCT b)"),
    "bool_or": ("bool_or(b)",),
    "any": ("any(i > 3) FILTER (WHERE b)",),
    "some": ("some(x < 0)",),
    "bit_and": ("bit_and(w)", "bit_and(DISTINCT i + 3)"),
    "bit_or": ("bit_or(i)", "bit_or(NULL)"),
    "bit_xor": ("bit_xor(w - 5)", "bit_xor(cast(g AS tinyint))"),
    "min": ("min(s)", "min(x)", "min(ts)"),
    "max": ("max(s)", "max(d)", "max(DISTINCT i)"),
    **{name: (f"{name}(x)",) for name in ("var_pop", "var_samp", "variance")},
    **{name: (f"{name}(x)",) for name in ("stddev_pop", "stddev_samp", "stddev", "std")},
    "skewness": ("skewness(x)", "skewness(d)", "skewness(i) FILTER (WHERE i > 3)"),
    "kurtosis": ("kurtosis(x)", "kurtosis(w)", "kurtosis(NULL)"),
    "covar_pop": ("covar_pop(x, i)", "covar_pop(d, w) FILTER (WHERE i > 3)"),
    "covar_samp": ("covar_samp(x, i)", "covar_samp(i, NULL)"),
    "corr": ("corr(x, i)", "corr(d, w)", "corr(i, 7)"),
    **{f"regr_{part}": (f"regr_{part}(x, i)", f"regr_{part}(d, w)") for part in REGRESSIONS},
    "median": ("median(x)", "median(d)"),
    "percentile": ("percentile(i, 0.3)", "percentile(x, array(0, 0.5, 1))", "percentile(x, 0.5, w)"),
    "mode": (("mode(s)", "mode() WITHIN GROUP (ORDER BY s)"), ("mode(i)", "mode() WITHIN GROUP (ORDER BY i)")),
    "top": (("top(2, s)", TOP.format("collect_list(s)")), ("top(2, i)", TOP.format("collect_list(i)"))),
    "collect_list": (
        ("collect_list(i)", in_order("i")),
        ("collect_list(s) FILTER (WHERE i > 3)", in_order("CASE WHEN i > 3 THEN s END")),
        ("collect_list(ts)", in_order("ts")),
        ("collect_list(named_struct('i', i, 's', s))", in_order("named_struct('i', i, 's', s)")),
        ("collect_list(DISTINCT d)", "sort_array(collect_set(d))"),
    ),
    "array_agg": (("array_agg(b)", in_order("b")),),
    "collect_set": (("collect_set(s)", "sort_array(collect_set(s))"), ("collect_set(x)", "sort_array(collect_set(x))")),
    "listagg": (
        ("listagg(s, ', ')", f"nullif(array_join({in_order('s')}, ', '), '')"),
        ("listagg(x)", f"nullif(array_join({in_order('cast(x AS string)')}, ''), '')"),
        ("listagg(DISTINCT i, ' ')", "nullif(array_join(sort_array(collect_set(cast(i AS string))), ' '), '')"),
    ),
    "string_agg": (("string_agg(s, NULL)", f"nullif(array_join({in_order('s')}, ''), '')"),),
    "first": (("first(s)", "min_by(s, ts)"), ("first(x, true)", "min_by(x, ts) FILTER (WHERE x IS NOT NULL)")),
    "first_value": (("first_value(d)", "min_by(d, ts)"),),
    "any_value": (("any_value(i)", "min_by(i, ts)"),),
    "last": (("last(s)", "max_by(s, ts)"), ("last(x, true)", "max_by(x, ts) FILTER (WHERE x IS NOT NULL)")),
    "last_value": (("last_value(d)", "max_by(d, ts)"),),
    "arg_min": (("arg_min(s, x)", "min_by(s, x)"),),
    "min_by": ("min_by(i, ts)",),
    "arg_max": (("arg_max(s, x)", "max_by(s, x)"),),
    "max_by": ("max_by(d, ts)",),
    "approx_count_distinct": (("approx_count_distinct(s)", "count(DISTINCT s)"),),
    "approx_percentile": (("approx_percentile(x, 0.5)", "percentile_disc(0.5) WITHIN GROUP (ORDER BY x)"),),
    "percentile_approx": (("percentile_approx(i, array(0.1, 0.9))", "percentile_approx(i, array(0.1, 0.9))"),),
    "approx_top_k": (("approx_top_k(s, 2)", TOP.format("collect_list(s)")),),
    "hll_sketch_agg": (("hll_sketch_agg(i)", told_by("hll_sketch_estimate(hll_sketch_agg(i))")),),
    "theta_sketch_agg": (("theta_sketch_agg(s)", told_by("theta_sketch_estimate(theta_sketch_agg(s))")),),
    "kll_sketch_agg_double": (
        ("kll_sketch_agg_double(x)", told_by("kll_sketch_get_n_double(kll_sketch_agg_double(x))")),
    ),
}  # fmt: skip
PAIRS = [(one, one) if isinstance(one, str) else one for calls in CALLS.values() for one in calls]


def test_every_aggregate_is_in_the_table() -> None:
    assert CALLS.keys() == AGGREGATES


def rows() -> list[dict[str, Any]]:
    """Make groups of many rows, of one, of NULL alone, and a stretch of time in which there are none at all."""
    nothing: dict[str, Any] = dict.fromkeys(SCHEMA.names)
    found: list[dict[str, Any]] = [
        {**nothing, "ts": 2.5, "k": "one", "g": 1, "i": 7, "s": "b", "x": -0.5, "d": Decimal("1.25"), "w": 3}
    ]
    for second in (*range(6), *range(20, SECONDS)):
        found.append({**nothing, "ts": second + 0.1, "k": "nulls", "g": 1})
        found.append({**nothing, "ts": second + 0.2, "k": None, "g": 0, "i": second % 5, "s": "ab"[second % 2], "w": 1})
        for part in range(3):
            number = 3 * second + part
            values = {
                "i": number % 7,
                "s": "xyz"[number % 3],
                "x": number / 4,
                "d": Decimal(number % 9),
                "w": 1 + number % 2,
                "b": number % 5 > 1,
            }
            gap = {"s": None} if number % 4 == 0 else {}
            found.append({"ts": second + 0.3 + part / 8, "k": f"k{number % 4}", "g": part % 2, **values, **gap})
    return sorted(found, key=lambda row: row["ts"])


def batches() -> Iterator[list[dict[str, Any]]]:
    """Cut the rows: the first batch has one row, one in the middle has none, and others only NULLs or one group."""
    whole = rows()
    cuts = [0, 1, 16, 16, 32, 33, len(whole)]
    for first, last in pairwise(cuts):
        yield whole[first:last]


GROUPINGS: dict[str, tuple[tuple[str, ...], str | None]] = {
    "all": ((), None),
    "by g": (("g",), None),
    "by k": (("k",), None),
    "by k of some": (("k",), "i > 3"),
    "by k g": (("k", "g"), None),
}
KEPT = {("`k`",), ("`k`", "`g`")}


def meanings(pairs: list[tuple[str, str]]) -> Iterator[tuple[Meaning, Meaning]]:
    """Ask for some aggregates by every grouping: as Penstock is asked, and as Spark is."""
    for name, (keys, where) in GROUPINGS.items():
        sides = ([f"{call} AS o{n}" for n, call in enumerate(side)] for side in zip(*pairs, strict=True))
        ours, theirs = (", ".join([*keys, *side]) for side in sides)
        mine = Meaning(name, ours, where, keys, range_s=10, slide_s=5)
        yield mine, replace(mine, select=theirs)


class Batch(SparkBatch):
    """Answers windows without rows once for all of them."""

    def _one_window(self, query: Meaning, end: datetime) -> pa.Table:
        answer = self._run(f"SELECT {query.select} FROM (SELECT * FROM batch_rows WHERE false)")
        return answer.add_column(0, "window_end", pa.array([end], INSTANT))


@pytest.fixture(scope="module")
def batch(spark: SparkSession) -> SparkBatch:
    return Batch(spark, rows_at(SCHEMA, rows()), SECONDS, harmless=SECONDS)


@pytest.fixture(scope="module")
def expected(batch: SparkBatch) -> dict[str, pa.Table]:
    return {theirs.name: batch.answers(theirs, may_fail=False).table for _, theirs in meanings(PAIRS)}


@pytest.mark.parametrize(
    ("max_driver_groups", "aggregation"),
    [(2, "auto"), (50_000, "executors"), (50_000, "driver")],
    ids=["executors", "driver", "driver aggregates too"],
)
def test_all_aggregates_answer_wherever_their_groups_are(
    spark: SparkSession,
    expected: dict[str, pa.Table],
    tmp_path: Path,
    max_driver_groups: int,
    aggregation: Aggregation,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(spread, "BUCKETS", 5)  # some of them are empty in every batch
    asked = [mine for mine, _ in meanings(PAIRS)]
    bed = TestBed(spark, state=tmp_path, max_driver_groups=max_driver_groups, aggregation=aggregation)
    bed.stream("r", SCHEMA)
    for mine in asked:
        bed.query(mine.name, mine.text)
    for number, some in enumerate(batches()):
        if number == 4:
            bed.close()
            bed = TestBed(spark, state=tmp_path, max_driver_groups=max_driver_groups, aggregation=aggregation)
        bed.feed("r", rows_at(SCHEMA, some))
    bed.flush()
    kept = {keys for _, keys in bed.engine.stream("r").pipeline.groupings.spread}
    assert kept == (KEPT if max_driver_groups == 2 else set())
    for mine in asked:
        check(bed, mine, expected[mine.name], PAIRS)
    bed.close()


@pytest.mark.soak
@pytest.mark.parametrize("max_driver_groups", [2, 50_000], ids=["executors", "driver"])
@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair[0])
def test_each_aggregate_answers_alone_beside_kept_groups(
    spark: SparkSession, batch: SparkBatch, tmp_path: Path, max_driver_groups: int, pair: tuple[str, str]
) -> None:
    with TestBed(spark, state=tmp_path, max_driver_groups=max_driver_groups) as bed:
        bed.stream("r", SCHEMA)
        bed.query("kept", "SELECT k, count(*) AS n FROM r [RANGE 4 s SLIDE 4 s] GROUP BY k")
        for mine, _ in meanings([pair]):
            bed.query(mine.name, mine.text)
        for some in batches():
            bed.feed("r", rows_at(SCHEMA, some))
        bed.flush()
        for mine, theirs in meanings([pair]):
            check(bed, mine, batch.answers(theirs, may_fail=False).table, [pair])


def check(bed: TestBed, mine: Meaning, wanted: pa.Table, pairs: list[tuple[str, str]]) -> None:
    assert bed.paused(mine.name) is None
    found = bed.results(mine.name)
    assert seconds_of(found) == seconds_of(wanted), mine.name
    for row, other in zip(found.to_pylist(), wanted.to_pylist(), strict=True):
        for name, value in other.items():
            call = pairs[int(name[1:])][0] if name[0] == "o" else name
            got = told(call, row[name])
            assert same(got, told("", value)), f"{mine.name} {row['window_end']} {call}: {got!r} is not {value!r}"


READ: dict[str, Callable[[bytes], int]] = {
    "hll_sketch_agg": lambda state: round(ds.hll_sketch.deserialize(state).get_estimate()),
    "theta_sketch_agg": lambda state: round(ds.compact_theta_sketch.deserialize(state).get_estimate()),
    "kll_sketch_agg_double": lambda state: int(ds.kll_doubles_sketch.deserialize(state).n),
}


def told(call: str, value: Any) -> Any:
    """Read a sketch; write lists of values and counts as pairs."""
    read = next((read for name, read in READ.items() if name in call), None)
    if read is not None and value is not None:
        return read(value)
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return [tuple(sorted((abs(v) if isinstance(v, int) else v for v in one.values()), key=str)) for one in value]
    return value


def same(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, list):
        return found is not None and len(found) == len(wanted) and all(map(same, found, wanted))
    if isinstance(wanted, float) and found is not None:
        return math.isclose(found, wanted, rel_tol=1e-9, abs_tol=1e-9)
    return bool(found == wanted)
