"""Woven trees in the engine: whatever tree a query is in, and however often it moves, its answers are the oracle's."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from penstock.errors import StateError
from penstock.evaluate.typed import Definition
from penstock.share.weave.baselines import no_share, share_all
from penstock.share.weave.costs import Rates
from penstock.share.weave.queries import Numbers, ObservedLoad, named
from penstock.store.rates import keep_rates
from penstock.stream.tree_planner import TreePlanner
from penstock.testing import TestBed
from tests.cases import sweep
from tests.oracle.cases import Case, make_case
from tests.oracle.duck import Oracle, moments
from tests.oracle.harness import compare, open_bed
from tests.stream import feeding
from tests.stream.test_coming_and_going import expected_ends

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


FREE_BATCHES = Rates(scanned=0.0, batch=0.0, several=0.0, query=0.0, sorted=1e-9, reduced=0.0, member=0.0)
FREE_TREES = replace(FREE_BATCHES, sliced=1e-9, copied=1e-9, keyed=0.0, merged=1e-9, evaluation=1e-9, tree=0.0)
DEAR_TREES = replace(FREE_BATCHES, tree=1.0)
DEEP_TREES = replace(
    FREE_TREES, sliced=0.0, copied=0.0, partial=0.0, lone=0.0, filed=0.0, column=0.0, merged=1.0, evaluation=0.0
)


@pytest.fixture
def free_trees(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let a tree cost next to nothing but its partials: batches of tests are so small that one tree is best."""
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "home"))
    keep_rates(FREE_TREES)


class Restless(TreePlanner):
    """Puts lanes into trees at random, and moves them before every batch."""

    __slots__ = ()
    draw = random.Random(1)

    @property
    def ready(self) -> bool:
        return True

    def look(self) -> None:
        return

    def assign(self, definitions: Sequence[Definition]) -> dict[int, str]:
        chosen: dict[object, str] = {}
        for one in definitions:
            chosen.setdefault((one.query.keys, one.typed.condition), f"t{self.draw.randrange(4)}")
        self.trees = {d.id: chosen[d.query.keys, d.typed.condition] for d in definitions}
        return self.trees


def restless(bed: TestBed, seed: int) -> None:
    pipeline = bed.engine.stream("s").pipeline
    pipeline.weaving.__class__ = Restless
    Restless.draw = random.Random(seed)


def finely_cut(case: Case, batches: int) -> Case:
    """Cut a case's rows anew."""
    draw, rows = random.Random(case.seed), pa.concat_tables(case.batches)
    cuts = sorted(draw.randint(0, len(rows)) for _ in range(batches - 1))
    parts = [rows.slice(a, b - a) for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
    times = len(case.batches)
    joins = {name: at * batches // times for name, at in case.joins_at.items()}
    leaves = {name: max(joins.get(name, 0), at * batches // times) for name, at in case.leaves_at.items()}
    return replace(case, batches=parts, strategy="weave", joins_at=joins, leaves_at=leaves)


def check_restless(spark: SparkSession, case: Case, state: Path | None) -> None:
    """Move all lanes before every batch, restart now and then, and compare every query with the oracle."""
    answers: dict[str, pa.Table] = {}
    bed = open_bed(spark, case, state=state)
    restless(bed, case.seed)
    for number in range(len(case.batches) + 1):
        if state is not None and number % 3 == 2:
            bed.close()
            bed = open_bed(spark, case, state=state)
            restless(bed, case.seed + number)
        for query in case.queries:
            if case.joins_at.get(query.name, 0) == number:
                bed.query(query.name, query.text)
            if case.leaves_at.get(query.name) == number:
                answers[query.name] = bed.results(query.name)
                bed.engine.drop_query(query.name)
        if number < len(case.batches):
            bed.feed("s", case.batches[number], number=number)
    if case.flush:
        bed.flush()
    oracle, times = Oracle(case), moments(case.batches, case.lateness_us)
    for query in case.queries:
        found = answers.get(query.name)
        found = bed.results(query.name) if found is None else found
        compare(case, query, found, oracle.answers(query, expected_ends(case, query, found, times)))
    bed.close()


@pytest.mark.parametrize("seed", sweep(range(7000, 7006), 2))
def test_lanes_that_move_before_every_batch_answer_as_the_oracle(spark: SparkSession, seed: int) -> None:
    case = finely_cut(make_case(seed, most_queries=10, late_rows=seed % 2 == 0, churn=True), 6)
    check_restless(spark, case, None)


@pytest.mark.parametrize("seed", [7101, 7104])
def test_lanes_that_move_answer_as_the_oracle_across_restarts(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    case = finely_cut(make_case(seed, most_queries=8, churn=True), 6)
    check_restless(spark, case, tmp_path / "state")


@pytest.mark.soak
def test_any_lanes_that_move_answer_as_the_oracle(spark: SparkSession, tmp_path: Path) -> None:
    for seed in range(8000, 8150):
        case = finely_cut(make_case(seed, most_queries=12, late_rows=seed % 2 == 0, churn=True), 8)
        check_restless(spark, case, tmp_path / f"state{seed}" if seed % 3 == 0 else None)


# -- additions and drops while data flows ------------------------------------------------------------------------

FORMS = (
    "SELECT count(*) AS n, sum(v) AS x FROM s [RANGE {r} s SLIDE {s} s]{where}",
    "SELECT k, count(*) AS n, max(v) AS x FROM s [RANGE {r} s SLIDE {s} s]{where} GROUP BY k",
)


def written(draw: random.Random) -> tuple[str, dict[str, Any]]:
    """Draw a query, and what a plain loop has to know of it."""
    keyed, slide, least = draw.randrange(2), draw.choice((2, 3, 5, 10)), draw.choice((None, 100, 400, 800))
    known = {"r": draw.randint(1, 25), "s": slide, "keyed": bool(keyed), "least": least}
    where = "" if least is None else f" WHERE v > {least}"
    return FORMS[keyed].format(r=known["r"], s=slide, where=where), known


def expected(rows: list[tuple[int, str, int]], known: dict[str, Any], end: int) -> set[tuple[Any, ...]]:
    """Answer one window by a loop over all rows."""
    taken = [r for r in rows if end - known["r"] <= r[0] < end and (known["least"] is None or r[2] > known["least"])]
    if not known["keyed"]:
        return {(end, len(taken), sum(v for _, _, v in taken) if taken else None)}
    groups = {k for _, k, _ in taken}
    return {(end, k, sum(1 for r in taken if r[1] == k), max(r[2] for r in taken if r[1] == k)) for k in groups}


def check_flow(spark: SparkSession, changes: int, seed: int, state: Path | None) -> int:
    """Add and drop queries at random between batches; return how many plans were woven aside and taken over."""
    draw, taken = random.Random(seed), 0
    rows: list[tuple[int, str, int]] = []
    alive: dict[str, tuple[dict[str, Any], float | None]] = {}
    clock, made = 0, 0
    with feeding.open_bed(spark, strategy="weave", state=state) as bed:
        pipeline = bed.engine.stream("s").pipeline
        while made < changes:
            for _ in range(draw.randint(1, 8)):
                if alive and draw.random() < 0.45:
                    name = draw.choice(sorted(alive))
                    check_answers(bed, name, *alive.pop(name), rows, clock)
                    bed.engine.drop_query(name)
                else:
                    text, known = written(draw)
                    entered = bed.query(f"q{made}", text)
                    alive[f"q{made}"] = known, feeding.seconds(entered.first_end_us)
                made += 1
            batch = sorted((clock + draw.randrange(6), draw.choice("abc"), draw.randrange(1000)) for _ in range(30))
            rows += batch
            bed.feed("s", [{"ts": t, "k": k, "v": v} for t, k, v in batch])
            clock = batch[-1][0]
            pipeline.weaving.wait()
            taken += pipeline.weaving.ready
            if draw.random() < 0.1:  # prices that ask for other trees; the stream is taken to have become another one
                pipeline.weaving.rates = draw.choice((DEEP_TREES, DEAR_TREES))
                pipeline.weaving.known = ObservedLoad(1e9)
        for name, (known, first) in alive.items():
            check_answers(bed, name, known, first, rows, clock)
    return taken


def check_answers(
    bed: TestBed, name: str, known: dict[str, Any], first: float | None, rows: list[tuple[int, str, int]], mark: int
) -> None:
    """Compare a query's answers so far with a loop over all rows; ``mark`` is the watermark."""
    found = [tuple(row) for row in bed.timeline(name)]
    if not found and first is None:
        return
    start = int(first) if first is not None else min(f[0] for f in found)
    ends = range(start, mark + 1, known["s"])
    assert sorted(found) == sorted(r for end in ends for r in expected(rows, known, end)), name
    assert all(f[0] % known["s"] == 0 for f in found)


def test_answers_equal_a_loop_over_all_rows_while_queries_come_and_go(spark: SparkSession) -> None:
    check_flow(spark, 40, 5, None)


@pytest.mark.soak
def test_a_thousand_changes_while_data_flows_change_no_answer(spark: SparkSession, tmp_path: Path) -> None:
    assert check_flow(spark, 1_000, 6, tmp_path / "state") > 0


BY_VALUE = "SELECT v, count(*) AS n FROM s [RANGE 100 s SLIDE 100 s] GROUP BY v"

# -- which trees -------------------------------------------------------------------------------------------------


def trees_of(bed: TestBed) -> set[frozenset[str]]:
    layout = bed.engine.stream("s").pipeline.layout
    assert layout is not None
    return {frozenset(d.name for d in tree.definitions) for tree in layout.plan.trees}


def feed_second(bed: TestBed, second: int) -> None:
    """Feed 30 rows, and wait for what is woven aside after them."""
    bed.feed("s", [{"ts": second + i / 30, "k": "a", "v": i} for i in range(30)])
    bed.engine.stream("s").pipeline.weaving.wait()


@pytest.mark.usefixtures("free_trees")
def test_many_groups_leave_the_tree_of_short_slides_once_they_are_seen(spark: SparkSession) -> None:
    with feeding.open_bed(spark, strategy="weave") as bed:
        bed.query("pulse", "SELECT count(*) AS n FROM s [RANGE 1 s SLIDE 1 s]")
        bed.query("pulse_too", "SELECT count(*) AS n FROM s [RANGE 3 s SLIDE 1 s]")
        bed.query("by_value", "SELECT v, count(*) AS n FROM s [RANGE 100 s SLIDE 100 s] GROUP BY v")
        weaving = bed.engine.stream("s").pipeline.weaving
        for batch in range(4):
            bed.feed("s", [{"ts": 10 * batch + i / 30, "k": "a", "v": i} for i in range(300)])
            weaving.wait()
        assert trees_of(bed) == {frozenset({"pulse", "pulse_too"}), frozenset({"by_value"})}
        bed.feed("s", [{"ts": 200, "k": "a", "v": 0}])
        assert len(bed.answers("by_value")) == 300
        assert all(row["n"] == 4 for row in bed.answers("by_value"))
        assert [row["n"] for row in bed.answers("pulse")][:3] == [30, 30, 30]


def test_small_batches_keep_their_queries_in_one_tree(spark: SparkSession) -> None:
    with feeding.open_bed(spark, strategy="weave") as bed:
        bed.query("pulse", "SELECT count(*) AS n FROM s [RANGE 1 s SLIDE 1 s]")
        bed.query("by_value", "SELECT v, count(*) AS n FROM s [RANGE 100 s SLIDE 100 s] GROUP BY v")
        weaving = bed.engine.stream("s").pipeline.weaving
        for second in range(4):
            feed_second(bed, second)
        assert weaving.seen().batches_per_second == pytest.approx(1.0, rel=0.1)
        assert trees_of(bed) == {frozenset({"pulse", "by_value"})}


@pytest.mark.usefixtures("free_trees")
def test_a_plan_that_is_still_the_best_is_not_woven_again_after_every_batch(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    woven: list[int] = []
    aside = TreePlanner.weave_aside

    def counted(self: TreePlanner) -> None:
        woven.append(1)
        aside(self)

    monkeypatch.setattr(TreePlanner, "weave_aside", counted)
    with feeding.open_bed(spark, strategy="weave") as bed:
        bed.query("pulse", "SELECT count(*) AS n FROM s [RANGE 1 s SLIDE 1 s]")
        bed.query("by_key", "SELECT k, count(*) AS n FROM s [RANGE 1 s SLIDE 1 s] GROUP BY k")
        weaving = bed.engine.stream("s").pipeline.weaving
        for second in range(6):
            feed_second(bed, second)
        assert len(woven) == 1  # the rate assumed before any row came was another one
        assert trees_of(bed) == {frozenset({"pulse", "by_key"})}
        bed.query("more", "SELECT k, count(*) AS n FROM s [RANGE 10 s SLIDE 10 s] GROUP BY k")
        feed_second(bed, 6)
        assert weaving.planner is not None
        assert weaving.planner.woven_queries.keys() == {d.id for d in bed.engine.catalog.definitions("s")}
        assert not weaving.planner.owing


@pytest.mark.parametrize("strategy", ["shared paired", "unshared paired"])
def test_the_partials_that_are_made_are_foreseen(spark: SparkSession, strategy: str) -> None:
    """Skewed keys, and conditions that take some rows: the cost model tells within a tenth how many partials come."""
    draw = random.Random(3)
    only = replace(Rates(**dict.fromkeys((f.name for f in fields(Rates)), 0.0)), partial=1.0, filed=1.0)
    with feeding.open_bed(spark, strategy=strategy) as bed:
        for number, (slide, least) in enumerate([(10, 0), (15, 300), (20, 600), (30, 900)]):
            text = f"SELECT k, count(*) AS n FROM s [RANGE {slide} s SLIDE {slide} s] WHERE v >= {least} GROUP BY k"
            bed.query(f"q{number}", text)
        for batch in range(3):
            times = sorted(600 * (batch + draw.random()) for _ in range(3_000))
            bed.feed(
                "s", [{"ts": t, "k": f"k{int(draw.paretovariate(0.7))}"[:5], "v": draw.randrange(1000)} for t in times]
            )
        pipeline = bed.engine.stream("s").pipeline
        definitions, numbers = bed.engine.catalog.definitions("s"), Numbers()
        woven_queries = [numbers.woven_query(d) for d in definitions]
        costs, seen = numbers.costs(only, pipeline.weaving.seen()), pipeline.weaving.seen()
        plan = share_all(woven_queries, costs) if strategy == "shared paired" else no_share(woven_queries, costs)
        assert seen.rows_per_second is not None
        assert plan.cost * 9_000 / seen.rows_per_second == pytest.approx(pipeline.metrics.partials, rel=0.1)


BY_KEY = "SELECT k, count(*) AS n FROM s [RANGE 7 s SLIDE 3 s] GROUP BY k"


def begin_folder(spark: SparkSession, strategy: str, folder: Path) -> None:
    """Let two queries begin in a state folder."""
    with feeding.open_bed(spark, strategy=strategy, state=folder) as bed:
        bed.query("one", feeding.COUNT)
        bed.query("two", BY_KEY)
        bed.feed("s", feeding.rows(1, 2, 3))


@pytest.mark.parametrize("strategies", [("weave", "unshared paired"), ("unshared paired", "weave")])
def test_a_folder_of_another_strategy_is_refused(
    spark: SparkSession, tmp_path: Path, strategies: tuple[str, str]
) -> None:
    begin_folder(spark, strategies[0], tmp_path)
    with TestBed(spark, strategy=strategies[1], state=tmp_path) as bed, pytest.raises(StateError, match="strategy"):  # type: ignore[arg-type]
        bed.engine.stream("s")


@pytest.mark.parametrize("strategies", [("shared paired", "weave"), ("weave", "shared paired")])
def test_a_folder_of_one_shared_tree_goes_on_by_cost_and_back(
    spark: SparkSession, tmp_path: Path, strategies: tuple[str, str]
) -> None:
    begin_folder(spark, strategies[0], tmp_path)
    with feeding.open_bed(spark, strategy=strategies[1], state=tmp_path) as bed:
        bed.feed("s", feeding.rows(4, 5, 6, 11))
        assert trees_of(bed) == {frozenset({"one", "two"})}
        found = [(3, "a", 1), (3, "b", 1), (6, "a", 2), (6, "b", 3), (9, "a", 3), (9, "b", 2)]
        assert [tuple(row) for row in bed.timeline("two")] == found


@pytest.mark.usefixtures("free_trees")
def test_a_folder_begun_in_one_tree_is_parted_and_goes_on_parted(spark: SparkSession, tmp_path: Path) -> None:
    """The lanes of a shared folder move to trees of their own, a restart finds them there, and no answer changes."""
    texts = {"pulse": "SELECT count(*) AS n FROM s [RANGE 1 s SLIDE 1 s]", "by_value": BY_VALUE}
    batches = [[{"ts": 10 * b + i / 30, "k": "a", "v": i} for i in range(300)] for b in range(6)]
    with feeding.open_bed(spark, strategy="shared paired", state=tmp_path) as bed:
        for name, text in texts.items():
            bed.query(name, text)
        bed.feed("s", batches[0])
    for part in (batches[1:4], batches[4:]):
        with feeding.open_bed(spark, strategy="weave", state=tmp_path) as bed:
            for batch in part:
                bed.feed("s", batch)
                bed.engine.stream("s").pipeline.weaving.wait()
            assert trees_of(bed) == {frozenset({"pulse"}), frozenset({"by_value"})}
    with feeding.open_bed(spark, strategy="weave", state=tmp_path) as bed:
        bed.feed("s", [{"ts": 200, "k": "a", "v": 0}])
        assert [row["n"] for row in bed.answers("by_value")] == [6] * 300
        assert {row["n"] for row in bed.answers("pulse")[:59]} == {30}


@pytest.mark.usefixtures("free_trees")
def test_groups_that_outgrow_the_driver_bring_all_queries_back_into_one_tree(
    spark: SparkSession, tmp_path: Path
) -> None:
    """What executors keep cannot move: woven trees become one, whose large grouping is handed over with its past."""
    with feeding.open_bed(spark, strategy="weave", state=tmp_path, max_driver_groups=400) as bed:
        bed.query("pulse", "SELECT count(*) AS n FROM s [RANGE 1 s SLIDE 1 s]")
        bed.query("by_value", BY_VALUE)
        pipeline = bed.engine.stream("s").pipeline
        for batch in range(4):
            bed.feed("s", [{"ts": 10 * batch + i / 30, "k": "a", "v": i} for i in range(300)])
            pipeline.weaving.wait()
        assert len(trees_of(bed)) == 2
        for batch in range(4, 7):
            bed.feed("s", [{"ts": 10 * batch + i / 60, "k": "a", "v": i} for i in range(600)])
        assert trees_of(bed) == {frozenset({"pulse", "by_value"})}
        assert pipeline.groupings.spread == {("all", ("`v`",))}
    with feeding.open_bed(spark, strategy="weave", state=tmp_path, max_driver_groups=400) as bed:
        bed.feed("s", [{"ts": 200, "k": "a", "v": 0}])
        found = {row["v"]: row["n"] for row in bed.answers("by_value")}
        assert found == {value: 7 if value < 300 else 3 for value in range(600)}
        assert {row["n"] for row in bed.answers("pulse")[:40]} == {30}
        assert {row["n"] for row in bed.answers("pulse")[40:69]} == {60}


def test_trees_keep_the_name_that_most_of_their_queries_know() -> None:
    first = named([(1, 2), (3,)], {})
    assert first == {1: "t1", 2: "t1", 3: "t3"}
    assert named([(1, 2, 3)], first) == dict.fromkeys((1, 2, 3), "all")
    assert named([(1, 2), (3,)], dict.fromkeys((1, 2, 3), "all")) == {1: "all", 2: "all", 3: "t3"}
    assert named([(1,), (2, 3)], dict.fromkeys((1, 2, 3), "t1")) == {1: "t1.1", 2: "t1", 3: "t1"}


def test_a_stream_has_drifted_when_its_rate_or_groups_have_doubled() -> None:
    before = ObservedLoad(100.0, {("k",): 50})
    assert not ObservedLoad(150.0, {("k",): 80}).drifted(before)
    assert ObservedLoad(201.0, {("k",): 50}).drifted(before)
    assert ObservedLoad(100.0, {("k",): 101}).drifted(before)
    assert Rates().partial > 0
