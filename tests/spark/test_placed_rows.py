"""Rows get the same partials whether Spark finds their slices and cells or the driver does."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from itertools import product
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F

from penstock.evaluate.typed import Definition
from penstock.kernel.row_cells import cell_numbers, positions_on
from penstock.kernel.signing import FailedRows
from penstock.language.predicates.split import read_predicate
from penstock.model.recent import Recent
from penstock.model.strategy import STRATEGIES, Strategy
from penstock.share.conditions import cell_parts, cells
from penstock.share.conditions.cell_parts import ConditionGroupMemory
from penstock.share.layout import Layout, lay_out
from penstock.share.locate import ByArithmetic, ByDivision, BySearch, Locating
from penstock.share.plan import plan_queries
from penstock.share.slices import SliceManager
from penstock.spark.job.cell_numbers import CellNumbers, ordered
from penstock.spark.job.partials import MOST_PLACED, PartialsJob, RowsJob
from penstock.spark.job.writer import Bounds
from penstock.store.invalid import FLOOR, Invalid
from penstock.testing import TestBed
from tests.cases import cases
from tests.share.test_cells import VALUES, divided, predicates

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.usefixtures("interpreted")

S: Final = 1_000_000
EPOCH: Final = datetime(2026, 1, 5, tzinfo=UTC)
START: Final = int(EPOCH.timestamp()) * S
INSTANT: Final = pa.timestamp("us", "UTC")
WATERMARK, AHEAD = START + 20 * S, START + 60 * S

VALUES_OF: dict[str, tuple[str, pa.DataType, list[Any]]] = {
    "n": ("BIGINT", pa.int64(), [None, -(1 << 63), -1, 0, 1, 2, 3, (1 << 63) - 1]),
    "i": ("INT", pa.int32(), [None, 0, 1, 2]),
    "d": ("DOUBLE", pa.float64(), [None, -math.inf, -1.0, -0.0, 0.0, 0.5, 1.0, math.inf, math.nan]),
    "f": ("FLOAT", pa.float32(), [None, -0.0, 0.1, 0.5, math.nan]),
    "s": ("STRING", pa.string(), [None, "", "a", "ab", "b", "é", "\ufb00", "\U0001f600"]),
    "b": ("BOOLEAN", pa.bool_(), [None, False, True]),
    "day": ("DATE", pa.date32(), [None, date(1, 1, 1), date(2026, 1, 1), date(2026, 1, 2)]),
    "at": ("TIMESTAMP", INSTANT, [None, EPOCH.replace(year=1900), EPOCH, EPOCH.replace(microsecond=1)]),
}
COLUMNS: Final = ", ".join(["ts TIMESTAMP", *(f"{name} {type_}" for name, (type_, _, _) in VALUES_OF.items())])
PREDICATES: Final = (
    None,
    "n > 2",
    "n IN (1, 9223372036854775807) OR d > 0",
    "n <= 2.5 AND NOT b",
    "d = 0",
    "d >= 0.5 AND s > 'a'",
    "d = CAST('NaN' AS DOUBLE) OR d < CAST('-Infinity' AS DOUBLE)",
    "f < 0.1D OR f IS NULL",
    "s LIKE 'a%'",
    "s > '\ufb00'",
    "s IN ('', 'é', NULL)",
    "b",
    "b IS NOT TRUE AND n IS NOT NULL",
    "day >= DATE '2026-01-02'",
    "at <= TIMESTAMP '2026-01-05 00:00:00'",
    "length(s) = i",
)
FAILING: Final = ("abs(n) > 2", "abs(n) <= 1 OR b", "n <> 0 AND 10 div n > 2", "i = 1", "10 div i > 2 AND abs(n) = 1")
KEYS: Final = ("", "s", "b, i", "d")
JOINED: Final = ("JOIN names USING (i)", "LEFT JOIN names USING (i) WHERE n > 1", "JOIN names USING (i) WHERE b")
WINDOWS: Final = (
    "[RANGE 4 s SLIDE 2 s]",
    "[RANGE 7 s SLIDE 3 s OFFSET 1 s]",
    *(f"[RANGE {slide * 2003} us SLIDE {slide * 1001} us]" for slide in (97, 89, 83, 79, 73, 71, 67)),
)


def queries() -> dict[str, str]:
    """Write a query for each predicate, with windows and keys in turn."""
    found = {}
    for number, (predicate, key) in enumerate(product(PREDICATES, KEYS)):
        where = f" WHERE {predicate}" if predicate else ""
        by = f" GROUP BY {key}" if key else ""
        window = WINDOWS[number % len(WINDOWS)]
        found[f"q{number}"] = f"SELECT count(*) AS a, sum(i) AS b, min(d) AS c, max(s) AS e FROM s {window}{where}{by}"
    return found


@dataclass(frozen=True)
class Asked:
    """Queries over one stream and a table, typed once for all tests of the module."""

    spark: SparkSession
    bed: TestBed
    plain: tuple[Definition, ...]
    joined: tuple[Definition, ...]
    failing: tuple[Definition, ...]

    def frame(self, sample: Sequence[dict[str, Any]]) -> DataFrame:
        """Make a batch of rows."""
        times = pa.array([row["ts"] for row in sample], pa.int64()).cast(INSTANT)
        others = {name: pa.array([row[name] for row in sample], type_) for name, (_, type_, _) in VALUES_OF.items()}
        return self.spark.createDataFrame(pa.table({"ts": times, **others})).coalesce(1)

    def run(self, job: PartialsJob, batch: DataFrame, bounds: Bounds) -> tuple[list[str], Invalid]:
        """Run a job; its partials are sorted by all that they hold."""
        catalog, computing = self.bed.engine.catalog, self.bed.engine.stream("s").pipeline.computing
        frames, _ = computing.tables.current(job.layout.plan.joins, catalog.tables())
        partials = job.run(batch, frames, bounds)
        told = partials.select(sorted(partials.column_names)).to_pylist()
        return sorted(map(repr, told)), job.invalid


@pytest.fixture(scope="module")
def asked(spark: SparkSession) -> Iterator[Asked]:
    with TestBed(spark) as bed:
        bed.stream("s", COLUMNS)
        bed.table("names", [{"i": 1, "name": "a"}, {"i": 2, "name": "b"}, {"i": 2, "name": "c"}])
        joins = {
            f"j{number}": f"SELECT name, count(*) AS n FROM s [RANGE 4 s SLIDE 2 s] {kind} names USING (i) {rest}"
            for number, (kind, rest) in enumerate(
                [
                    ("JOIN", "GROUP BY name"),
                    ("LEFT JOIN", "WHERE n > 1 GROUP BY name"),
                    ("JOIN", "WHERE b GROUP BY name"),
                ]
            )
        }
        failing = {
            f"f{number}": f"SELECT b, count(*), sum(10 div i) AS t FROM s [RANGE 4 s SLIDE 2 s] WHERE {text} GROUP BY b"
            for number, text in enumerate(FAILING)
        }
        bed.engine.create_queries(queries() | joins | failing)
        known = bed.engine.catalog.definitions("s")
        yield Asked(spark, bed, *(tuple(d for d in known if d.name.startswith(first)) for first in "qjf"))


def samples() -> st.SearchStrategy[list[dict[str, Any]]]:
    """Draw rows: on time, late, on edges and beside them, ahead, too early, without a time."""
    whole = st.integers(0, 70).map(lambda second: START + second * S)
    near = st.tuples(whole, st.sampled_from([-1, 0, 1, 97 * 1001])).map(sum)
    odd = st.sampled_from(
        [None, WATERMARK - 1, WATERMARK, AHEAD - 1, AHEAD, FLOOR, FLOOR + 1, -(1 << 63), (1 << 63) - 1]
    )
    times: st.SearchStrategy[int | None] = near | odd
    columns = {name: st.sampled_from(values) for name, (_, _, values) in VALUES_OF.items()}
    return st.lists(st.fixed_dictionaries({"ts": times, **columns}), max_size=40)


def laid_out(chosen: Sequence[Definition], strategy: Strategy, way: type[Locating] | None) -> Layout:
    """Lay out a plan; ``way`` says how rows find their slices, None: as the layout chooses."""
    layout = lay_out(plan_queries(chosen, strategy, 1), "ts")
    if way is None or way is ByDivision:
        return layout
    located = [BySearch() if way is BySearch else ByArithmetic(tuple(m.progressions)) for m in layout.managers]
    return replace(layout, locating=tuple(located))


def bounds_of(layout: Layout, low: int, high: int) -> Bounds:
    """Judge a batch, whose edges are listed from one time to another; rows may lie beyond."""
    searched = [tree for tree, way in enumerate(layout.locating) if isinstance(way, BySearch)]
    return Bounds(WATERMARK, AHEAD, {tree: _edges(layout.managers[tree], low, high) for tree in searched})


def _edges(manager: SliceManager, low: int, high: int) -> list[int]:
    return [*manager.edges(manager.edge_at_or_before(low), high + 1).tolist(), manager.next_edge(high)]


def jobs(layout: Layout) -> tuple[RowsJob, RowsJob]:
    """Write a layout's job twice: the driver finds slices and cells, or Spark, as for very many rows."""
    here, there = (RowsJob(layout, ConditionGroupMemory()) for _ in range(2))
    there.expected_rows = MOST_PLACED + 1
    return here, there


SPARSELY = settings(max_examples=cases(15, soak=100), suppress_health_check=list(HealthCheck))


@SPARSELY
@given(data=st.data(), sample=samples(), strategy=st.sampled_from(STRATEGIES[:-1]))
def test_partials_do_not_depend_on_who_finds_slices_and_cells(
    asked: Asked, data: st.DataObject, sample: list[dict[str, Any]], strategy: Strategy
) -> None:
    chosen = data.draw(st.lists(st.sampled_from(asked.plain), min_size=1, max_size=9, unique_by=lambda d: d.id))
    layout = laid_out(chosen, strategy, data.draw(st.sampled_from([None, ByArithmetic, BySearch])))
    bounds = bounds_of(layout, START + data.draw(st.sampled_from([0, 30])) * S, START + 60 * S)
    here, there = jobs(layout)
    assert here.shape != there.shape
    batch = asked.frame(sample)
    assert asked.run(here, batch, bounds) == asked.run(there, batch, bounds)


@settings(SPARSELY, max_examples=cases(3, soak=50))
@given(sample=samples(), more=st.lists(st.integers(0, len(PREDICATES) * len(KEYS) - 1), max_size=4, unique=True))
def test_joined_rows_have_the_same_partials_too(asked: Asked, sample: list[dict[str, Any]], more: list[int]) -> None:
    layout = lay_out(plan_queries([*(asked.plain[number] for number in more), *asked.joined], "shared paired", 1), "ts")
    here, there = jobs(layout)
    assert here.shape != there.shape
    batch, bounds = asked.frame(sample), bounds_of(layout, START, START + 60 * S)
    assert asked.run(here, batch, bounds) == asked.run(there, batch, bounds)


@settings(SPARSELY, max_examples=cases(6, soak=100))
@given(sample=samples(), chosen=st.sets(st.integers(0, len(FAILING) - 1), min_size=2).map(sorted))
def test_what_may_fail_has_the_same_partials_and_the_same_failures(
    asked: Asked, sample: list[dict[str, Any]], chosen: list[int]
) -> None:
    layout = lay_out(plan_queries([asked.failing[number] for number in chosen], "shared paired", 1), "ts")
    here, there = jobs(layout)
    assert here.shape != there.shape
    batch, bounds = asked.frame(sample), bounds_of(layout, START, START + 60 * S)
    found = []
    for job in (here, there):
        try:
            found.append(repr(asked.run(job, batch, bounds)))
        except FailedRows as failed:
            found.append(f"failed: {failed}")
    assert found[0] == found[1]


def test_a_lone_grouping_whose_labels_tell_late_rows_has_the_same_partials(asked: Asked) -> None:
    layout = lay_out(plan_queries(asked.plain[:1], "shared paired", 1), "ts")
    assert layout.marks_late is not None
    here, there = jobs(layout)
    times = [None, START, WATERMARK - 1, WATERMARK, AHEAD - 1, AHEAD, FLOOR, FLOOR + 1]
    batch = asked.frame([{"ts": time, **dict.fromkeys(VALUES_OF)} for time in times])
    found, invalid = asked.run(here, batch, Bounds(WATERMARK, AHEAD))
    assert (found, invalid) == asked.run(there, batch, Bounds(WATERMARK, AHEAD))
    assert (invalid.no_time, invalid.ahead, invalid.too_early) == (1, 1, 1)


@pytest.mark.parametrize("most_listed", [0, 65_536])
@settings(SPARSELY, max_examples=cases(8, soak=200))
@given(texts=st.lists(predicates().filter(lambda text: "`m`" not in text and "`q`" not in text), min_size=4))
def test_cells_are_numbered_as_spark_numbers_them(spark: SparkSession, texts: list[str], most_listed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cells, "MOST_LISTED", most_listed)
        patch.setattr(cell_parts, "parts_made", Recent(64))
        told = divided([read_predicate(text) for text in texts])
    numbering = CellNumbers(told, str)
    kinds = [axis.key.kind in ("string", "boolean") for axis in told.axes]
    values = [
        F.expr(axis.key.attribute.text if plain else ordered(axis.key, axis.key.attribute.text)).alias(f"v{number}")
        for number, (axis, plain) in enumerate(zip(told.axes, kinds, strict=True))
    ]
    numbers = [F.expr(numbering.text(0, part)).alias(f"p{part}") for part, _ in enumerate(told.parts[0])]
    rows = valued(spark).select("*", *numbering.columns()).select("*", *numbering.heads())
    found = rows.select(*values, *numbers).toArrow()
    places = [positions_on(axis, found[f"v{number}"]) for number, axis in enumerate(told.axes)]
    for number, part in enumerate(told.parts[0]):
        wanted = np.maximum(found[f"p{number}"].to_numpy(), -1)
        assert np.maximum(cell_numbers(part, places, found.num_rows), -1).tolist() == wanted.tolist()


def valued(spark: SparkSession) -> DataFrame:
    """Make rows with every value of each attribute, and many combinations of them."""
    types = {"`n`": pa.int64(), "`d`": pa.float64(), "`s`": pa.string(), "`b`": pa.bool_(), "`c`": pa.bool_()}
    drawn = np.random.default_rng(1)
    picked = {name: [VALUES[name][place] for place in drawn.integers(0, len(VALUES[name]), 300)] for name in types}
    return spark.createDataFrame(pa.table({n.strip("`"): pa.array(picked[n], type_) for n, type_ in types.items()}))


def test_what_may_fail_where_it_is_not_asked_for_is_computed_once_and_with_care(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[bool] = []
    run = PartialsJob.run

    def watched(job: PartialsJob, *given: Any, **more: Any) -> pa.Table:
        ran.append(job.sends_rows)
        return run(job, *given, **more)

    monkeypatch.setattr(PartialsJob, "run", watched)
    with TestBed(spark, aggregation="driver") as bed:
        bed.stream("s", "ts TIMESTAMP, v INT, k STRING")
        bed.query("one", "SELECT count(*) AS n FROM s [RANGE 4 s SLIDE 4 s] WHERE v <> 0 AND 10 div v > 2")
        bed.query("two", "SELECT count(*) AS n FROM s [RANGE 4 s SLIDE 4 s] WHERE v > 2")
        bed.query(
            "lone", "SELECT k, count(*) AS n FROM s [RANGE 4 s SLIDE 4 s] WHERE v <> 0 AND 9 div v > 3 GROUP BY k"
        )
        for second in (0, 4, 8):
            bed.feed("s", [{"ts": second + v, "v": v, "k": "a"} for v in range(4)])
        assert [row["n"] for name in ("one", "two", "lone") for row in bed.answers(name)[:1]] == [3, 1, 2]
    assert ran == [True] * 3
