"""Draws window joins of two streams with the batches of both, and answers them with DuckDB over plain rows."""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import duckdb
import pyarrow as pa

BEFORE_ALL_TIME = -(1 << 62)
KEYS: dict[str, tuple[str, list[tuple[Any, ...]]]] = {  # columns of the keys in DDL → values, NULL among them
    "text": ("k STRING", [("a",), ("b",), ("",), (None,)]),
    "whole": ("k BIGINT", [(1,), (-(1 << 62),), (3,), (None,)]),
    "double": ("k DOUBLE", [(0.0,), (-0.0,), (math.nan,), (-math.nan,), (1.5,), (None,)]),
    "two": ("k STRING, m DOUBLE", [("a", 0.0), ("a", -0.0), ("b", math.nan), ("b", None), (None, 1.0), ("a", 2.0)]),
    "time": ("k TIMESTAMP, m DATE", [(7, 3), (7, 4), (None, 4), (9, None)]),
    "decimal": ("k DECIMAL(20,2)", [("1.50",), ("-1.50",), ("123456789012345678.25",), (None,)]),
    "flag": ("k BOOLEAN", [(True,), (False,), (None,)]),
}
CONDITIONS = (
    "",
    " AND x.v > 2",
    " AND y.w IN (1, 2, 3)",
    " AND x.v + y.w > 6",
    " AND (x.v < y.w OR y.w IS NULL)",
    " AND x.id <> y.id",
    " AND (x.v <> 0 AND 12 / x.v > 4)",
)

Row = dict[str, Any]


@dataclass(frozen=True)
class JoinSpec:
    """One join: the ranges of both sides in seconds, its condition besides the keys, and when it comes."""

    name: str
    ranges: tuple[float, int]
    condition: str
    after: int = 0  # batches of both streams, of whose rows it takes none


@dataclass
class JoinCase:
    """Two streams, or one twice, and the joins over them."""

    keys: str
    selfish: bool
    lateness: tuple[int, int]
    joins: list[JoinSpec]
    feeds: list[tuple[int, list[Row]]]  # side, rows
    restarts: set[int] = field(default_factory=set)  # before these feeds
    drops: dict[str, int] = field(default_factory=dict)  # join → the feed before which it goes
    deaths: dict[int, int] = field(default_factory=dict)  # feed → moments of durable writes that pass before the end

    @property
    def names(self) -> tuple[str, str]:
        return ("a", "a") if self.selfish else ("a", "b")

    def text(self, join: JoinSpec, form: str) -> str:
        """Write a join, with ON or with WHERE and USING."""
        names, (one, other) = self.key_names, join.ranges
        sources = f"{self.names[0]} [RANGE {round(one * 1000)} ms] x JOIN {self.names[1]} [RANGE {other} s] y"
        items = "x.id AS i, y.id AS j, x.v AS v, x.v + y.w AS s"
        if form == "using":
            where = f" WHERE {join.condition[5:]}" if join.condition else ""
            return f"SELECT {items} FROM {sources} USING ({', '.join(names)}){where}"
        keys = " AND ".join(f"y.{name} = x.{name}" for name in names)
        return f"SELECT {items} FROM {sources} ON {keys}{join.condition}"

    @property
    def key_names(self) -> list[str]:
        return [part.split()[0] for part in KEYS[self.keys][0].split(", ")]


def drawn(draw: random.Random) -> JoinCase:
    """Draw a case: few keys, so that rows meet; times in disorder, some late, many equal."""
    keys, selfish = draw.choice(list(KEYS)), draw.random() < 0.25
    lateness = draw.choice([0, 1, 3]), draw.choice([0, 1, 5])
    feeds: list[tuple[int, list[Row]]] = []
    ahead, number = 0, 0  # of both streams together
    for _ in range(draw.randint(5, 8)):
        side = 0 if selfish else draw.randrange(2)
        rows = []
        for _ in range(draw.choice([0, 2, 5, 9])):
            ahead += draw.choice([0, 0, 0, 1])
            late = draw.choice([0] * 6 + [1, 2, 4, 9])
            ts = None if draw.random() < 0.04 else max(0, ahead - late + draw.choice([0, 0, 1]))
            values = KEYS[keys][1]
            key = values[0] if draw.random() < 0.4 else draw.choice(values)
            row = {"ts": ts, "id": number, "v": draw.choice([0, 1, 2, 5, None]), "w": draw.choice([1, 3, 4, None])}
            row |= dict(zip([part.split()[0] for part in KEYS[keys][0].split(", ")], key, strict=True))
            rows.append(row)
            number += 1
            if draw.random() < 0.1:
                rows.append(dict(row))  # the same row twice
        feeds.append((side, rows))
    joins = [
        JoinSpec(f"p{n}", (draw.choice([0.5, 2, 5, 20]), draw.choice([1, 2, 5, 20])), draw.choice(CONDITIONS))
        for n in range(draw.choice([1, 2, 2, 3]))
    ]
    if draw.random() < 0.5:
        joins[-1] = JoinSpec(joins[-1].name, joins[-1].ranges, joins[-1].condition, draw.randint(1, len(feeds) // 2))
    restarts = {n for n in range(1, len(feeds)) if draw.random() < 0.3}
    return JoinCase(keys, selfish, lateness, joins, feeds, restarts)


def disturbed(case: JoinCase, draw: random.Random) -> JoinCase:
    """Let the process end within some feeds, in any moment of any write, and a join go while others stay."""
    deaths = {n: draw.randrange(16) for n in range(len(case.feeds)) if draw.random() < 0.6}
    drops = {}
    if len(case.joins) > 1 and draw.random() < 0.7:
        gone = draw.choice(case.joins)
        drops[gone.name] = draw.randint(gone.after, len(case.feeds) - 1) + 1
    return replace(case, deaths=deaths, drops=drops)


def judged_rows(case: JoinCase, side: int) -> list[Row]:
    """Add to the valid rows of a side the feed that brought them, and the watermark by which they were judged."""
    stream, found, watermark, last = case.names[side], list[Row](), BEFORE_ALL_TIME, None
    for number, (fed, rows) in enumerate(case.feeds):
        if case.names[fed] != stream:
            continue
        valid = [row for row in rows if row["ts"] is not None]
        found += [{**row, "feed": number, "judged": watermark} for row in valid]
        if valid:
            last = max([row["ts"] for row in valid] + ([] if last is None else [last]))
            watermark = max(watermark, last - case.lateness[0 if case.selfish else side])
    return found


def wanted(case: JoinCase, join: JoinSpec) -> Counter[tuple[Any, ...]]:
    """Return the pairs of a join: both numbers, both outputs, and the later time."""
    return Counter(pair[:5] for pair in pairs_of(case, join))


def pairs_of(case: JoinCase, join: JoinSpec) -> list[tuple[Any, ...]]:
    """Join the rows of both sides in DuckDB; a pair is there if either row would have waited for the other.

    The last value of each is the feed that brought the row that arrived later.
    """
    with duckdb.connect() as db:
        types = {"STRING": "VARCHAR"}
        parts = [part.split() for part in KEYS[case.keys][0].split(", ")]
        columns = ", ".join(f"{name} {types.get(kind, kind)}" for name, kind in parts)
        for number, name in enumerate("xy"):
            db.execute(f"CREATE TABLE {name} (ts BIGINT, id BIGINT, v INT, w INT, feed INT, judged BIGINT, {columns})")
            rows = [row for row in judged_rows(case, number) if row["feed"] >= join.after]
            fields = ["ts", "id", "v", "w", "feed", "judged", *case.key_names]
            for row in rows:
                values = [literal(row[column], column, dict(parts)) for column in fields]
                db.execute(f"INSERT INTO {name} VALUES ({', '.join(values)})")
        one, other = join.ranges
        keys = " AND ".join(f"x.{name} = y.{name}" for name in case.key_names)
        condition = join.condition.replace("12 / x.v", "12.0 / x.v")
        found: list[tuple[Any, ...]] = db.execute(
            "SELECT x.id, y.id, x.v, x.v + y.w, greatest(x.ts, y.ts), greatest(x.feed, y.feed) "
            f"FROM x JOIN y ON {keys} "
            f"WHERE y.ts - x.ts <= {one} AND x.ts - y.ts <= {other} "
            f"AND x.ts + {one} >= y.judged AND y.ts + {other} >= x.judged{condition}"
        ).fetchall()
    return found


def windows_of(case: JoinCase, join: JoinSpec, length: int, slide: int) -> Counter[tuple[int, int]]:
    """Count the pairs of each window by the left row's number, as they stood when both watermarks reached its end."""
    pairs, reached = pairs_of(case, join), _lesser_watermarks(case)
    found: Counter[tuple[int, int]] = Counter()
    for end in range(slide, max((pair[4] for pair in pairs), default=0) + length + slide, slide):
        since = enumerate(reached[join.after :], join.after)  # before, the stream of pairs was not there
        final = next((number for number, watermark in since if watermark >= end), len(case.feeds))
        for number, *_, ts, feed in pairs:
            if end - length <= ts < end and feed <= final:
                found[end, number] += 1
    return found


def _lesser_watermarks(case: JoinCase) -> list[int]:
    """Follow the lesser watermark of both sides from feed to feed."""
    found = []
    for upto in range(1, len(case.feeds) + 1):
        marks = []
        for side, name in enumerate(case.names):
            rows = [row for fed, rows in case.feeds[:upto] if case.names[fed] == name for row in rows]
            times = [row["ts"] for row in rows if row["ts"] is not None]
            marks.append(max(times) - case.lateness[0 if case.selfish else side] if times else BEFORE_ALL_TIME)
        found.append(min(marks))
    return found


def literal(value: Any, column: str, types: dict[str, str]) -> str:
    """Write a value as DuckDB reads it; instants are seconds."""
    if value is None:
        return "NULL"
    kind = types.get(column, "BIGINT").upper()
    if kind == "TIMESTAMP":
        return f"to_timestamp({value})::TIMESTAMP"
    if kind == "DATE":
        return f"DATE '2026-01-0{value}'"
    if kind in ("STRING", "DOUBLE"):
        return f"'{value}'::{'VARCHAR' if kind == 'STRING' else 'DOUBLE'}"
    return str(value)


def fed(case: JoinCase, rows: list[Row]) -> list[Row]:
    """Write rows as a test bed takes them: dates and decimals are none of numbers."""
    from datetime import date
    from decimal import Decimal

    kinds = dict(part.split() for part in KEYS[case.keys][0].split(", "))
    made = []
    for row in rows:
        new = dict(row)
        for name, kind in kinds.items():
            if new[name] is not None and kind == "DATE":
                new[name] = date(2026, 1, new[name])
            elif new[name] is not None and kind.startswith("DECIMAL"):
                new[name] = Decimal(new[name])
        made.append(new)
    return made


def as_pairs(answers: pa.Table, epoch_us: int) -> Counter[tuple[Any, ...]]:
    """Read the pairs that a query over them has counted."""
    found: Counter[tuple[Any, ...]] = Counter()
    for row in answers.to_pylist():
        found[row["i"], row["j"], row["v"], row["s"], row["t"] // 1_000_000 - epoch_us // 1_000_000] += row["n"]
    return found
