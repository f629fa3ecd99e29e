"""Rows that came too late for a query are counted for it, however the stream counts them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel.too_late import in_some_window
from penstock.model.window import Window
from penstock.share.locate import BySearch
from penstock.store.commits import Counts
from penstock.testing import TestBed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row = tuple[int, str, int]  # second, key, value
TABLE = [("a", 1), ("a", 2), ("b", 3)]  # a row of key a is two after the join
LATENESS = 5


@dataclass
class Asked:
    """A query, and by a naive reading of the contract the rows that came too late for it."""

    range: int
    slide: int
    offset: int = 0
    where: str = ""
    keys: str = ""
    revise: int = 0
    joined: bool = False
    begins: int | None = None  # until when rows had been seen when it came; None: with the stream
    first_end: int | None = None  # that it answered
    missed: int = 0

    def sql(self) -> str:
        """Write the query."""
        selected = f"{self.keys}, count(*) AS n" if self.keys else "count(*) AS n"
        return (
            f"SELECT {selected} FROM s [RANGE {self.range} s SLIDE {self.slide} s OFFSET {self.offset} s]"
            + (" JOIN t ON s.k = t.k" if self.joined else "")
            + (f" WHERE {self.where}" if self.where else "")
            + (f" GROUP BY {self.keys}" if self.keys else "")
            + (f" WITH (late = 'revise', revise_for = '{self.revise} s')" if self.revise else "")
        )

    def ends(self, row: Row) -> list[int]:
        """List the ends of the query's windows that hold a row."""
        held = [e for e in range(row[0] + 1, row[0] + self.range + 1) if (e - self.offset) % self.slide == 0]
        return held if self.begins is None else [e for e in held if e - self.range >= self.begins]

    def takes(self, row: Row) -> int:
        """Count how often the query takes a row."""
        _, k, v = row
        copies = [w for key, w in TABLE if key == k] if self.joined else [0]
        return sum(bool(eval(self.where, {"v": v, "w": w})) if self.where else True for w in copies)

    def judge(self, row: Row, watermark: int) -> None:
        """Count a late row if a window that holds it is final and not revised."""
        final = [e for e in self.ends(row) if e <= watermark]
        revised = [e for e in final if self.revise and e > watermark - self.revise and self._answered(e)]
        if len(final) > len(revised):
            self.missed += self.takes(row)

    def _answered(self, end: int) -> bool:
        """Tell whether the query answered a window."""
        return self.first_end is not None and end >= self.first_end

    def answer(self, first: int, before: int | None, watermark: int) -> None:
        """Note the first window that the query answers."""
        low = first + 1 if self.begins is None else self.begins + self.range
        low = low if before is None or self.begins is not None else max(low, before + 1)
        end = low + (self.offset - low) % self.slide
        if self.first_end is None and end <= watermark:
            self.first_end = end


@dataclass
class Naive:
    """A stream, read by the contract."""

    queries: dict[str, Asked] = field(default_factory=dict)
    seen: list[int] = field(default_factory=list)
    late: int = 0

    @property
    def watermark(self) -> int | None:
        """Return the watermark."""
        return max(self.seen) - LATENESS if self.seen else None

    def feed(self, rows: Sequence[Row]) -> None:
        """Take a batch."""
        watermark = self.watermark
        for row in rows:
            if watermark is not None and row[0] < watermark:
                self.late += 1
                for query in self.queries.values():
                    query.judge(row, watermark)
        self.seen += [row[0] for row in rows]
        if self.watermark is not None:
            for query in self.queries.values():
                query.answer(min(self.seen), watermark, self.watermark)


def queries(**more: Asked) -> dict[str, Asked]:
    """List queries of every kind; conditions are written so that SQL and Python read them alike."""
    return {
        "counted": Asked(10, 10),
        "revised": Asked(10, 5, revise=20),
        "grouped": Asked(12, 5, where="v > 3", keys="s.k"),
        "gaps": Asked(2, 7, 3, where="v < 8"),
        **more,
    }


def rows_of(draw: random.Random, now: int) -> list[Row]:
    """Draw rows of very different lateness."""
    times = (now - draw.choice([0, 3, 10, 30, 80]) + draw.randint(-4, 4) for _ in range(draw.randint(0, 25)))
    return [(max(0, second), draw.choice("abc"), draw.randint(0, 9)) for second in times]


def run(spark: SparkSession, seed: int, state: Path, asked: dict[str, Asked], steps: int, **options: Any) -> Naive:
    """Run a stream in two engines, one after the other, with a query that comes in the second."""
    draw, naive = random.Random(seed), Naive(asked)
    for part in range(2):
        with open_bed(spark, state=state, **options) as bed:
            if part:
                naive.queries["new"] = Asked(9, 3, where="v >= 2", begins=max(naive.seen) + 1)
            for name, one in naive.queries.items():
                bed.query(name, one.sql())
            for step in range(steps):
                batch = rows_of(draw, 40 * (steps * part + step) + 20) + ([(0, "a", 0)] if not naive.seen else [])
                bed.feed("s", batch)
                naive.feed(batch)
                assert too_late(bed) == {name: one.missed for name, one in naive.queries.items()}
                counts = bed.counts("s")
                assert counts.late + counts.corrected == naive.late
    return naive


def open_bed(spark: SparkSession, **options: Any) -> TestBed:
    """Open a bed whose times are seconds since 1970."""
    bed = TestBed(spark, epoch=datetime.fromtimestamp(0, UTC), **options)
    bed.stream("s", "ts TIMESTAMP, k STRING, v INT", lateness=f"{LATENESS} s")
    bed.table("t", TABLE, schema="k STRING, w INT")
    return bed


def too_late(bed: TestBed) -> dict[str, int]:
    """Return what the status says of every query."""
    return {query["query"]: query["too_late"] for query in bed.engine.status()["queries"]}


def test_each_query_tells_the_rows_that_it_missed(spark: SparkSession, tmp_path: Path) -> None:
    joined = Asked(7, 7, where="w < 3 and v > 2", joined=True)
    naive = run(spark, 8, tmp_path, queries(joined=joined), 2)
    assert all(query.missed for query in naive.queries.values())
    assert naive.queries["revised"].missed < naive.queries["counted"].missed


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(40))
def test_each_query_tells_the_rows_that_it_missed_in_much_disorder(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    strategy = ["shared paired", "unshared paned", "fragments", "weave", "shared paned"][seed % 5]
    joined = {"joined": Asked(7, 7, where="w < 3 and v > 2", joined=True)}
    searched = {f"q{n}": Asked(n + 2, n, keys="s.k") for n in (47, 53, 59, 61, 67)}
    more = [{}, joined, searched][seed % 3]
    run(spark, seed, tmp_path, queries(**more), 3, strategy=strategy, max_driver_groups=[2, 10**6][seed % 2])


# -- ways to count them ----------------------------------------------------------------------------------------------

FIRST: list[Row] = [(0, "a", 1), (50, "b", 2), (100, "c", 3)]
LATE: list[Row] = [(3, "a", 1), (14, "b", 5), (14, "c", 5), (93, "d", 5), (110, "a", 1)]


@pytest.mark.parametrize(
    ("asked", "options"),
    [
        ([Asked(10, 10)], {}),  # told by labels
        ([Asked(n + 2, n, keys="s.k") for n in (47, 53, 59, 61, 67)], {}),  # before all edges
        ([Asked(10, 10, keys="s.k"), Asked(5, 5, where="v > 3")], {"max_driver_groups": 1}),  # kept by executors
    ],
    ids=["one query", "searched", "spread"],
)
def test_rows_are_told_wherever_partials_are(
    spark: SparkSession, tmp_path: Path, asked: list[Asked], options: dict[str, Any]
) -> None:
    naive = Naive({f"q{i}": one for i, one in enumerate(asked)})
    with open_bed(spark, state=tmp_path, **options) as bed:
        for name, one in naive.queries.items():
            bed.query(name, one.sql())
        for batch in (FIRST, LATE):
            bed.feed("s", batch)
            naive.feed(batch)
        assert too_late(bed) == {name: one.missed for name, one in naive.queries.items()}
        assert all(one.missed for one in asked)
        way, spread = bed.engine.stream("s").pipeline.layout, bool(options)
        assert way is not None
        assert bool(way.spread) == spread
        assert any(isinstance(one, BySearch) for one in way.locating) == (len(asked) > 2)


def test_windows_of_rows_miss_every_late_row(spark: SparkSession) -> None:
    with open_bed(spark) as bed:
        bed.feed("s", FIRST)
        bed.query("rows", "SELECT count(*) AS n FROM s [ROWS 2 SLIDE 1] WHERE v > 3")
        bed.query("time", "SELECT count(*) AS n FROM s [RANGE 10 s SLIDE 10 s] WHERE v > 3")
        bed.feed("s", LATE)
        assert too_late(bed) == {"rows": 4, "time": 0}  # the second begins after all rows seen


def test_with_a_query_that_revises_the_others_still_say_what_they_missed(spark: SparkSession) -> None:
    with open_bed(spark) as bed:
        for name, late in (("counts", ""), ("revises", " WITH (late = 'revise', revise_for = '1 h')")):
            bed.query(name, f"SELECT count(*) AS n FROM s [RANGE 10 s SLIDE 10 s]{late}")
        bed.feed("s", FIRST)
        bed.feed("s", LATE)
        assert bed.counts("s") == Counts(ingested=8, on_time=4, corrected=3, late=1)  # 93 is in an open window
        assert too_late(bed) == {"counts": 3, "revises": 0}
        bed.engine.alter_query("counts", "SELECT count(*) AS n FROM s [RANGE 20 s SLIDE 20 s]")
        assert too_late(bed)["counts"] == 0  # another definition, which has missed nothing yet


@given(
    times=st.lists(st.integers(-50, 50), min_size=1, max_size=8),
    window=st.tuples(st.integers(1, 12), st.integers(1, 12), st.integers(0, 11)),
    ends=st.tuples(st.integers(-60, 60), st.integers(-60, 60)),
)
def test_a_time_is_in_a_window_if_some_end_says_so(
    times: list[int], window: tuple[int, int, int], ends: tuple[int, int]
) -> None:
    length, slide, offset = window
    found = in_some_window(Window(length, slide, offset), np.array(times), *ends)
    held = [range(max(time + 1, ends[0]), min(time + length, ends[1]) + 1) for time in times]
    assert found.tolist() == [any((end - offset) % slide == 0 for end in some) for some in held]
