"""Samples rows by hand: the same hash and weights as a stream's, one row after the other, in plain Python."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from penstock.evaluate.functions.student import student_95
from penstock.spark.sources.rows import columns_in, frame_of
from penstock.testing import EPOCH
from penstock.testing.values import arrow_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us", tz="UTC")),
        ("k", pa.string()),
        ("i", pa.int32()),
        ("v", pa.int64()),
        ("x", pa.float64()),
        ("d", pa.decimal128(12, 2)),
    ]
)
AGGREGATES = (
    "count(*) AS n, count(i) AS ci, count_if(i > 4) AS c, sum(i) AS si, sum(v) AS sv, sum(x) AS sx, sum(d) AS sd"
)
AVERAGES = "avg(i) AS ai, avg(x) AS ax, avg(d) AS ad"
OUTPUTS = ("n", "ci", "c", "si", "sv", "sx", "sd", "ai", "ax", "ad")
Row = dict[str, Any]
Place = tuple[int, tuple[Any, ...]]  # the end of a window, and a group
Taken = tuple[int, float, Row]  # a row that was kept, its weight, and how many rows agree with it


def random_rows(random: Random, number: int, since: float, until: float) -> list[Row]:
    """Make rows in a stretch of time, some of which lack what is added up."""
    found = []
    for _ in range(number):
        empty = random.random() < 0.1
        row: Row = {"ts": round(random.uniform(since, until), 6), "k": random.choice(["a", "b", None])}
        row |= {"i": None if empty else random.randint(-3, 9), "v": random.randint(-(10**15), 10**15)}
        found.append(row | {"x": random.gauss(10.0, 3.0), "d": Decimal(random.randint(-999, 9999)) / 100})
    return found


def hashes(spark: SparkSession, rows: Sequence[Row]) -> list[int]:
    """Let Spark hash all columns of rows."""
    table = arrow_rows(rows, SCHEMA, "rows", EPOCH)
    frame = frame_of(spark, table, columns_in(spark, SCHEMA))
    return list(frame.selectExpr(f"xxhash64({', '.join(SCHEMA.names)}) AS h").toArrow()["h"].to_pylist())


@dataclass
class Sampled:
    """Windows of one length, one after the other, that take the rows of batches at the level of each."""

    length: int
    lateness: float
    keys: tuple[str, ...] = ()
    watermark: float = -math.inf
    late: int = 0
    shed: int = 0
    windows: dict[Place, list[Taken]] = field(default_factory=lambda: defaultdict(list))
    thinned: set[int] = field(default_factory=set)  # ends of windows of which some row came at a level above 0

    def feed(self, rows: Iterable[Row], codes: Iterable[int], level: int, twins: float = 1.0) -> None:
        """Take a batch, of which so many rows agree."""
        before, weight = self.watermark, 1 << level
        for row, code in zip(rows, codes, strict=True):
            self.watermark = max(self.watermark, row["ts"] - self.lateness)
            self.late += row["ts"] < before
            end = (math.floor(row["ts"] / self.length) + 1) * self.length
            self.thinned |= {end} if level and end > before else set()
            if code % weight:
                self.shed += 1
            elif end > before:  # it is not final
                self.windows[end, tuple(row[key] for key in self.keys)].append((weight, twins, row))

    def answers(self) -> dict[Place, Row]:
        """Estimate what the windows hold that had a row."""
        return {place: estimate(taken) for place, taken in self.windows.items()}


def estimate(taken: Sequence[Taken]) -> Row:
    """Estimate every output from the rows that were kept, with its bound."""
    found: Row = {}
    weights = [weight for weight, _, _ in taken]
    found["n"], found["n_bound"] = sum(weights), _sum_bound([(w, t, 1.0) for w, t, _ in taken])
    for name, least in (("ci", -math.inf), ("c", 4)):
        mine = [(w, t, 1.0) for w, t, r in taken if r["i"] is not None and r["i"] > least]
        certain = mine or max(weights) == 1
        found |= {name: sum(w for w, _, _ in mine), f"{name}_bound": _sum_bound(mine) if certain else None}
    for column in ("i", "v", "x", "d"):
        triples = [(w, t, r[column]) for w, t, r in taken if r[column] is not None]
        total = sum(w * x for w, _, x in triples) if triples else None
        as_floats = [(w, t, float(x)) for w, t, x in triples]
        found[f"s{column}"] = total
        found[f"s{column}_bound"] = _sum_bound(as_floats) if triples else None
        if total is None:
            found |= {f"a{column}": None, f"a{column}_bound": None}
            continue
        number = sum(w for w, _, _ in triples)
        found[f"a{column}"] = mean = float(total) / number
        found[f"a{column}_bound"] = _average_bound(as_floats, mean, number)
    return found | {"sampled": len(taken) / sum(weights)}


def _excess(taken: Sequence[tuple[int, float, float]]) -> tuple[float, float]:
    """Add up the excess of weights, and its squares, of rows of which those that agree are one."""
    excess = math.fsum(w * (w - 1) * t for w, t, _ in taken)
    return excess, math.fsum((w * (w - 1)) ** 2 * t**3 for w, t, _ in taken)


def _sum_bound(taken: Sequence[tuple[int, float, float]]) -> float:
    """Bound a sum of values, or a count of ones."""
    variance = math.fsum(w * (w - 1) * t * x**2 for w, t, x in taken)
    if not variance:
        return 0.0
    excess, squared = _excess(taken)
    fourth = math.fsum(w * (w - 1) * t * x**4 for w, t, x in taken)
    return _quantile(2 * variance**2 / (squared / excess * fourth)) * math.sqrt(variance)


def _average_bound(taken: Sequence[tuple[int, float, float]], mean: float, number: int) -> float | None:
    """Bound an average; None: one row tells nothing of its error."""
    excess, squared = _excess(taken)
    if not excess:
        return 0.0
    kept = excess**2 / squared
    if kept < 1.5:
        return None
    variance = math.fsum(w * (w - 1) * t * (x - mean) ** 2 for w, t, x in taken)
    fourth = math.fsum(w * (w - 1) * t * (x - mean) ** 4 for w, t, x in taken)
    freedom = min(kept - 1, 2 * variance**2 / (squared / excess * fourth)) if fourth else kept - 1
    return _quantile(freedom) * math.sqrt(variance) * kept / (kept - 1) / number


def _quantile(freedom: float) -> float:
    """Return Student's quantile."""
    return float(student_95(np.array([freedom]))[0])


def differences(found: Mapping[str, Any], expected: Mapping[str, Any], *, bounded: bool) -> list[str]:
    """List how an answer differs: numbers that add up exactly are equal, others nearly."""
    names = [*OUTPUTS, *([f"{name}_bound" for name in OUTPUTS] if bounded else []), *(["sampled"] if bounded else [])]
    return [f"{n}: {found[n]} is not {expected[n]}" for n in names if not _agree(n, found[n], expected[n])]


def _agree(name: str, found: Any, expected: Any) -> bool:
    """Tell whether two values of an output agree; an average of decimals is rounded to four places more than they."""
    if found is None or expected is None:
        return found is expected
    if name in ("n", "ci", "c", "si", "sv", "sd"):
        return bool(found == expected)
    return math.isclose(float(found), float(expected), rel_tol=1e-6, abs_tol=1e-6 if name == "ad" else 1e-5)
