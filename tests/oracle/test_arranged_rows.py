"""DISTINCT, ORDER BY, LIMIT and OFFSET choose in each window what plain Spark SQL chooses among its rows."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.testing import TestBed
from tests.cases import sweep
from tests.oracle.grouped_rows import COLUMNS, START, Batch, Grouped, awkward_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("interpreted")
SECONDS = 40
# What SELECT may list: its name, and the expression without aliases.
OUTPUTS = {
    "n": "count(*)",
    "total": "sum(v)",
    "least": "min(b)",
    "odd": "count(*) % 2",
    "sure": "max(x)",
    "parts": "named_struct('a', min(a), 'x', min(x))",
    "worded": "hex(count(*))",  # only Spark computes it
}
HIDDEN = ("max(v)", "count(v) % 3", "min(b) IS NULL", "abs(sum(v))", "upper(max(b))", "max(x)", "bit_length(min(b))")
KEYS = ("a", "b", "x", "a % 2", "b IS NULL")


@dataclass(frozen=True)
class Arranged:
    """One query in parts: what penstock is asked, and what Spark is."""

    name: str
    outputs: tuple[str, ...]  # names, or g0 … for keys
    keys: tuple[str, ...]
    order: tuple[tuple[str, str, str], ...]  # as written, without aliases, the direction
    limit: int | None
    offset: int
    distinct: bool
    having: str | None
    window: tuple[int, int]

    @property
    def select(self) -> str:
        return ", ".join(f"{self.meaning(name)} AS {name}" for name in self.outputs)

    def meaning(self, name: str) -> str:
        return self.keys[int(name[1:])] if name.startswith("g") else OUTPUTS[name]

    @property
    def text(self) -> str:
        plain = Grouped(self.name, self.select, ", ".join(self.keys), *self.window, having=self.having).text
        text = plain.replace("SELECT", "SELECT DISTINCT", 1) if self.distinct else plain
        text += f" ORDER BY {', '.join(f'{written} {way}' for written, _, way in self.order)}" if self.order else ""
        text += f" LIMIT {self.limit}" if self.limit is not None else ""
        return text + (f" OFFSET {self.offset}" if self.offset else "")

    def wanted(self, grouped: str) -> str:
        """Write the same for Spark, over its groups of all windows: ties by the keys, ascending."""
        by_keys = ", ".join(f"kk{i}" for i in range(len(self.keys)))
        listed = [f"o{i} {way}" for i, (_, _, way) in enumerate(self.order)]
        order, names = ", ".join([*listed, by_keys]), ", ".join(self.outputs)
        first = f"row_number() OVER (PARTITION BY we, {names} ORDER BY {by_keys})" if self.distinct else "1"
        once = f"SELECT * FROM (SELECT *, {first} AS first FROM ({grouped})) WHERE first = 1"
        placed = f"SELECT *, row_number() OVER (PARTITION BY we ORDER BY {order}) AS place FROM ({once})"
        most = f"AND place <= {self.offset + self.limit}" if self.limit is not None else ""
        return f"SELECT we, {names} FROM ({placed}) WHERE place > {self.offset} {most} ORDER BY we, place"

    def inner(self) -> str:
        """List what Spark computes of each group."""
        extra = [f"{plain} AS o{i}" for i, (_, plain, _) in enumerate(self.order)]
        return ", ".join([self.select, *extra, *(f"{key} AS kk{i}" for i, key in enumerate(self.keys))])


def drawn(draw: random.Random, name: str) -> Arranged:
    """Draw a query; DISTINCT only where some key is not shown, and ordered by what is shown."""
    keys = tuple(draw.sample(KEYS, draw.choice([1, 1, 2, 2, 3])))
    shown = [f"g{i}" for i in range(len(keys)) if draw.random() < 0.6]
    outputs = tuple([*shown, *draw.sample(sorted(OUTPUTS), draw.randint(1, 3))])
    distinct = len(shown) < len(keys) and draw.random() < 0.4
    order = []
    for _ in range(draw.choice([0, 1, 1, 2, 3])):
        name_ = draw.choice(outputs)
        meaning = keys[int(name_[1:])] if name_.startswith("g") else OUTPUTS[name_]
        written, plain = draw.choice([(name_, meaning), (str(outputs.index(name_) + 1), meaning)])
        if not distinct and draw.random() < 0.5:
            written = plain = draw.choice([*HIDDEN, keys[0], OUTPUTS["odd"]])
        way = draw.choice(["", "ASC", "DESC", "DESC NULLS FIRST", "NULLS LAST", "ASC NULLS FIRST", "DESC NULLS LAST"])
        order.append((written, plain, way))
    limit = draw.choice([None, 1, 1, 2, 3, 5, 100])
    offset = draw.choice([0, 0, 0, 1, 2])
    having = draw.choice([None, None, "count(*) > 1", "max(v) > 0"])
    return Arranged(
        name, outputs, keys, tuple(order), limit, offset, distinct, having, draw.choice([(10, 5), (10, 10), (20, 5)])
    )


def check(spark: SparkSession, seed: int, state: Path, count: int = 16) -> None:
    """Feed rows in batches, with a restart, and compare with Spark, window by window and row by row."""
    draw = random.Random(seed)
    rows = awkward_rows(draw, 150, SECONDS)
    cuts = sorted(draw.sample(range(1, len(rows)), 3))
    queries = [drawn(draw, f"q{i}") for i in range(count)]
    bed = TestBed(spark, state=state)
    bed.stream("r", COLUMNS)
    for query in queries:
        bed.query(query.name, query.text)
    for number, (first, last) in enumerate(zip([0, *cuts], [*cuts, len(rows)], strict=True)):
        if number == 2:  # a restart changes nothing
            bed.close()
            bed = TestBed(spark, state=state)
        bed.feed("r", rows[first:last])
    bed.flush()
    batch = Batch(spark, rows, SECONDS)
    for query in queries:
        found = [[row["window_end"], *(row[name] for name in query.outputs)] for row in bed.answers(query.name)]
        wanted = [list(row.values()) for row in chosen_by_spark(batch, query)]
        found = [[round((end - START).total_seconds()), *values] for end, *values in found]
        assert len(found) == len(wanted), query.text
        for mine, other in zip(found, wanted, strict=True):
            assert plain(mine) == plain(other), query.text
    bed.close()


def plain(value: Any) -> Any:
    """Write a value so that NaN equals itself and -0.0 is 0.0; nothing here is rounded."""
    match value:
        case float():
            return repr(value + 0.0)
        case list():
            return [plain(each) for each in value]
        case dict():
            return {name: plain(each) for name, each in value.items()}
    return value


def chosen_by_spark(batch: Batch, query: Arranged) -> list[dict[str, Any]]:
    """Let plain Spark choose."""
    grouped = Grouped(query.name, query.inner(), ", ".join(query.keys), *query.window, having=query.having)
    rows: list[dict[str, Any]] = batch.spark.sql(query.wanted(batch.text(grouped))).toArrow().to_pylist()
    return rows


@pytest.mark.parametrize("seed", sweep(range(12), 1))
def test_random_choices_of_rows_are_those_of_spark(spark: SparkSession, seed: int, tmp_path: Path) -> None:
    check(spark, seed, tmp_path, 10)


@pytest.mark.soak
def test_fresh_choices_of_rows_are_those_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    for number in range(100):
        seed = random.SystemRandom().randrange(1 << 40)
        print("seed", seed)
        check(spark, seed, tmp_path / str(number))
