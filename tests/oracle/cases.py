"""Random streams, tables and queries, all from one seed."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pyarrow as pa

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECOND = 1_000_000

SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us", tz="UTC")),
        ("k", pa.string()),
        ("g", pa.int32()),
        ("x", pa.float64()),
        ("y", pa.float64()),
        ("n", pa.int64()),
        ("m", pa.int32()),
        ("d", pa.decimal128(12, 2)),
        ("b", pa.bool_()),
        ("day", pa.date32()),
    ]
)
TABLE_SCHEMA = pa.schema([("k", pa.string()), ("w", pa.int32()), ("flag", pa.bool_()), ("cap", pa.float64())])

KEYS = ("a", "b", "c", "d", "é", "zz", "", "A")
HUGE = (2**63 - 1, -(2**63), 2**62, -(2**62), 0, 1, -1, 2**40)


@dataclass(frozen=True)
class QuerySpec:
    """One query in parts, so that two engines can be asked in their own words."""

    name: str
    range_us: int
    slide_us: int
    offset_us: int
    keys: tuple[str, ...]
    aggregates: tuple[str, ...]
    where: str | None
    having: str | None
    joined: str | None  # "inner", "left" or None
    stream: str = "s"

    @property
    def text(self) -> str:
        window = f"[RANGE {self.range_us} us SLIDE {self.slide_us} us OFFSET {self.offset_us} us]"
        join = {None: "", "inner": " JOIN t USING (k)", "left": " LEFT JOIN t ON s.k = t.k"}[self.joined]
        join = join.replace("s.k", f"{self.stream}.k")
        outputs = [f"{k} AS key{i}" for i, k in enumerate(self.keys)]
        outputs += [f"{a} AS agg{i}" for i, a in enumerate(self.aggregates)]
        text = f"SELECT {', '.join(outputs)} FROM {self.stream} {window}{join}"
        text += f" WHERE {self.where}" if self.where else ""
        text += f" GROUP BY {', '.join(self.keys)}" if self.keys else ""
        return text + (f" HAVING {self.having}" if self.having else "")


@dataclass
class Case:
    seed: int
    lateness_us: int
    batches: list[pa.Table]
    table: pa.Table
    queries: list[QuerySpec]
    strategy: str
    kernel: str
    flush: bool
    joins_at: dict[str, int] = field(default_factory=dict)  # query → batch before which it is created
    leaves_at: dict[str, int] = field(default_factory=dict)


def make_case(seed: int, *, most_queries: int = 40, late_rows: bool = False, churn: bool = False) -> Case:
    rng = random.Random(seed)
    unit = rng.choice([SECOND, SECOND, SECOND, 1000, 7, 60 * SECOND])
    number = rng.choice([0, 1, 5, 40, 150, 400])
    lateness = rng.choice([0, 0, 3, 10]) * unit
    rows = make_rows(rng, number, unit, lateness, late_rows=late_rows)
    cuts = sorted(rng.randint(0, len(rows)) for _ in range(rng.choice([0, 1, 2, 4])))
    bounds = [0, *cuts, len(rows)]
    batches = [to_table(rows[a:b]) for a, b in pairwise(bounds)]
    queries = [make_query(rng, f"q{i}", unit) for i in range(rng.randint(1, most_queries))]
    strategies = ["shared paired", "shared paned", "unshared paired", "unshared paned"]
    if len(queries) > 12:  # one copy of every row a query: kept small
        strategies = strategies[:2]
    case = Case(
        seed,
        lateness,
        batches,
        make_table(rng),
        queries,
        rng.choice(strategies),
        rng.choice(["fast", "fast", "scan"]),
        rng.random() < 0.7,
    )
    if churn:
        for query in queries:
            if rng.random() < 0.5:
                case.joins_at[query.name] = rng.randint(0, len(batches))
            if rng.random() < 0.3:
                case.leaves_at[query.name] = rng.randint(case.joins_at.get(query.name, 0), len(batches))
    return case


def make_alike(seed: int) -> Case:
    """Make a case whose queries take every row under the same keys: the plainest of jobs."""
    case, rng = make_case(seed, most_queries=15, late_rows=seed % 2 == 0), random.Random(seed)
    keys = rng.choice([g for g in GROUPINGS if g]) if seed % 3 else ()
    queries = [replace(make_query(rng, q.name, SECOND), keys=keys, where=None, joined=None) for q in case.queries]
    plain = [replace(q, aggregates=tuple(a.replace("s.k", "k") for a in q.aggregates)) for q in queries]
    return replace(case, queries=plain, strategy=rng.choice(["shared paired", "shared paned"]))


def make_of_few_windows(seed: int) -> Case:
    """Make a case of few windows and many predicates, each window a tree that shares its fragments."""
    case, rng = make_case(seed, most_queries=24, late_rows=seed % 2 == 0), random.Random(seed)
    windows = [(q.range_us, q.slide_us, q.offset_us) for q in case.queries[:3]]
    queries = []
    for query in case.queries:
        range_us, slide_us, offset_us = rng.choice(windows)
        queries.append(replace(query, range_us=range_us, slide_us=slide_us, offset_us=offset_us))
    return replace(case, queries=queries, strategy="fragments")


def make_rows(rng: random.Random, number: int, unit: int, lateness: int, *, late_rows: bool) -> list[dict[str, Any]]:
    """Times move on with pauses; disorder stays inside the lateness unless late rows are asked for."""
    now = rng.choice([0, -50, 1_700_000_000 * SECOND // unit]) * unit + rng.randint(0, unit)
    greatest, rows = now, []
    for _ in range(number):
        now += rng.choice([0, 1, unit // 2, unit, 2 * unit, 20 * unit if rng.random() < 0.1 else unit])
        ts = now - (rng.randint(0, lateness) if lateness and rng.random() < 0.4 else 0)
        ts = max(ts, greatest - lateness) if not late_rows else ts - (30 * unit if rng.random() < 0.1 else 0)
        greatest = max(greatest, ts)
        rows.append(make_row(rng, ts))
    return rows


def make_row(rng: random.Random, ts: int) -> dict[str, Any]:
    def maybe(value: Any, chance: float = 0.12) -> Any:
        return None if rng.random() < chance else value

    x = rng.choice([rng.uniform(-100, 100), float(rng.randint(-3, 3)), -0.0, 0.0, 1e15, 1e-9])
    odd = rng.choice([float("nan"), float("inf"), -float("inf"), rng.uniform(-1, 1), -0.0, 0.0])
    return {
        "ts": maybe(EPOCH + timedelta(microseconds=ts), 0.03),
        "k": maybe(rng.choice(KEYS)),
        "g": maybe(rng.randint(-2, 4)),
        "x": maybe(x),
        "y": maybe(odd),
        "n": maybe(rng.choice(HUGE) if rng.random() < 0.15 else rng.randint(-1000, 1000)),
        "m": maybe(rng.choice([2**31 - 1, -(2**31)]) if rng.random() < 0.1 else rng.randint(-50, 50)),
        "d": maybe(Decimal(rng.randint(-(10**11), 10**11)).scaleb(-2)),
        "b": maybe(rng.random() < 0.5),
        "day": maybe((EPOCH + timedelta(days=rng.randint(-3, 3))).date()),
    }


def to_table(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, SCHEMA)


def make_table(rng: random.Random) -> pa.Table:
    """Missing, repeated and NULL keys."""
    keys = [*rng.sample(KEYS, 4), rng.choice(KEYS), rng.choice(KEYS), None, "nowhere"]
    rows = [
        {"k": k, "w": rng.choice([None, 1, 2, 3]), "flag": rng.choice([None, True, False]), "cap": rng.uniform(0, 50)}
        for k in keys
    ]
    return pa.Table.from_pylist(rows, TABLE_SCHEMA)


AGGREGATES = (
    "count(*)", "count(x)", "count(k, g)", "sum(x)", "sum(m)", "sum(g)", "sum(d)", "avg(x)", "avg(m)", "avg(n)",
    "min(x)", "max(x)", "min(n)", "max(n)", "min(m)", "max(d)", "min(d)", "min(k)", "max(k)", "min(day)", "max(b)",
    "min(ts)", "max(ts)", "max(y)", "min(y)", "var_pop(g)", "var_samp(x / 1e15)", "stddev_pop(m)", "stddev(g)",
    "sum(x * m)", "sum(x + 1)", "max(abs(g))", "sum(CASE WHEN b THEN 1 ELSE 0 END)",
)  # fmt: skip
PREDICATES = (
    "x > 0", "m <= 10", "n > 100", "k = 'a'", "k <> 'a'", "k IN ('a', 'b', 'zz')", "g BETWEEN 0 AND 2", "b",
    "NOT b", "x IS NULL", "k IS NOT NULL", "g > 1 OR m > 0", "b AND x < 50", "day >= DATE '1970-01-01'",
    "k LIKE 'z%'", "d > 0", "g % 2 = 0", "y > 0", "y = y", "coalesce(g, 0) = 0", "n = 9223372036854775807",
    "x = 0.0",
)  # fmt: skip
JOINED_PREDICATES = ("flag", "w > 1", "cap > 25 AND x > 0", "NOT flag OR g = 1", "w IS NULL")
GROUPINGS = ((), (), (), ("k",), ("g",), ("b",), ("k", "g"), ("x > 0",), ("day",), ("abs(g)",), ("y",), ("d",))
JOINED_GROUPINGS = (("w",), ("flag", "g"))
HAVINGS = ("count(*) > 1", "sum(m) > 0", "max(x) > 1.5", "count(x) = 0", "avg(g) >= 0.5", "min(m) IS NOT NULL")


def make_query(rng: random.Random, name: str, unit: int) -> QuerySpec:
    slide = rng.randint(1, 12) * unit
    range_ = rng.choice([slide, slide * rng.randint(1, 4), rng.randint(1, 30) * unit, max(1, slide // 2)])
    if rng.random() < 0.1:
        range_ += rng.randint(0, unit)
    offset = rng.choice([0, 0, 0, unit, rng.randint(0, slide)])
    joined = rng.choice([None, None, None, "inner", "left"])
    where = rng.choice([None, rng.choice(PREDICATES), rng.choice(PREDICATES)])
    if joined and rng.random() < 0.6:
        more = rng.choice(JOINED_PREDICATES)
        where = f"({where}) AND ({more})" if where else more
    keys: tuple[str, ...] = rng.choice(JOINED_GROUPINGS) if joined and rng.random() < 0.4 else rng.choice(GROUPINGS)
    aggregates: tuple[str, ...] = tuple(rng.sample(AGGREGATES, rng.randint(1, 4)))
    having = rng.choice(HAVINGS) if rng.random() < 0.25 else None
    if joined:  # the stream's k, not the table's
        keys = tuple("s.k" if k == "k" else k for k in keys)
        aggregates = tuple(a.replace("(k", "(s.k") for a in aggregates)
        where = where.replace("k ", "s.k ") if where else None
    return QuerySpec(name, range_, slide, offset, keys, aggregates, where, having, joined)
