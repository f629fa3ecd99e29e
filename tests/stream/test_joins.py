"""Window joins of two streams: exactly once through deaths and threads, shared, bounded, and refused by name."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.engine import Engine
from penstock.errors import CatalogError, LanguageError, PenstockError, SourceError, Unsupported, WrongType
from penstock.model.stream_join import paired, place_of_pair
from penstock.store import faults
from penstock.testing import TestBed
from penstock.testing.clock import ManualClock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row = dict[str, Any]
PAIRS = "CREATE STREAM pairs AS SELECT a.k, v, w FROM a [RANGE 5 s] JOIN b [RANGE 5 s] ON a.k = b.k"
COUNTED = "SELECT k, v, w, count(*) AS n FROM pairs [RANGE 1000 s SLIDE 1000 s] GROUP BY k, v, w"


def opened(spark: SparkSession, state: Path | None = None, **options: Any) -> TestBed:
    bed = TestBed(spark, state=state)
    bed.stream("a", "ts TIMESTAMP, k STRING, v INT", lateness="2 s", **options)
    bed.stream("b", "ts TIMESTAMP, k STRING, w INT, d DOUBLE", lateness="2 s")
    return bed


def feed(bed: TestBed, stream: str, rows: Sequence[Row], number: int | None = None) -> None:
    """Give a stream rows, of their columns those that it has."""
    known = {column.name for column in bed.engine.stream(stream).stream.columns}
    bed.feed(stream, [{name: value for name, value in one.items() if name in known} for one in rows], number=number)


def row(ts: float, number: int, k: str | None = "x") -> Row:
    return {"ts": ts, "k": k, "v": number, "w": number}


def met(lefts: Sequence[Row], rights: Sequence[Row], reach: float = 5) -> Counter[tuple[Any, ...]]:
    """Pair rows on time by hand."""
    return Counter(
        (one["k"], one["v"], other["w"])
        for one in lefts
        for other in rights
        if one["k"] is not None and one["k"] == other["k"] and abs(one["ts"] - other["ts"]) <= reach
    )


def paired_rows(bed: TestBed, query: str = "n") -> Counter[tuple[Any, ...]]:
    return Counter({(k, v, w): n for _, k, v, w, n in bed.timeline(query)})


def some(draw: random.Random, number: int, since: int) -> list[Row]:
    return [row(since + i // 2, since * 100 + i, draw.choice(["x", "y", None])) for i in range(number)]


# -- exactly once -----------------------------------------------------------------------------------------------------

# A step writes rows, the stream's commit, and that of the pairs, with their partials.
WRITES = {"joining": 1, "commit": 2}
MOMENTS = [
    (f"{point}.{moment}", times)
    for point, several in WRITES.items()
    for times in range(several)
    for moment in ("before", "torn", "after")
]


def test_a_death_at_any_write_of_either_side_or_of_the_pairs_repeats_and_loses_none(
    spark: SparkSession, tmp_path: Path
) -> None:
    draw, fed, number = random.Random(1), (list[Row](), list[Row]()), [0, 0]
    with opened(spark, tmp_path) as bed:
        bed.engine.execute(PAIRS)
        bed.query("n", COUNTED)
    for place, (moment, times) in enumerate(MOMENTS):
        side, left = draw.randrange(2), [times]
        rows = some(draw, 4, place)

        def hook(point: str, moment: str = moment, left: list[int] = left) -> None:
            left[0] -= point == moment
            if left[0] < 0:
                raise KeyboardInterrupt(point)

        fed[side].extend(rows)
        for _ in range(2):  # Spark sends it again
            with opened(spark, tmp_path) as bed:
                try:
                    faults.hook = hook
                    feed(bed, "ab"[side], rows, number=number[side])
                except KeyboardInterrupt:
                    pass
                finally:
                    faults.hook, left[0] = None, 1 << 30
        number[side] += 1
    with opened(spark, tmp_path) as bed:
        bed.flush()
        assert paired_rows(bed) == met(*fed)
        assert bed.counts("pairs").ingested == met(*fed).total() > 50


@pytest.mark.parametrize("point", ["commit.before", "commit.after", "commit.torn"])
def test_a_step_that_fails_in_the_middle_is_taken_once_by_the_next(
    spark: SparkSession, tmp_path: Path, point: str
) -> None:
    """The disk is full as the pairs are written, once in the first join and once in the second."""
    lefts, rights = [row(1, 1), row(2, 2)], [row(3, 3), row(4, 4)]
    with opened(spark, tmp_path) as bed:
        for name in ("pairs", "near"):
            bed.engine.execute(PAIRS.replace("pairs", name))
            bed.query(f"n{name}", COUNTED.replace("pairs", name))
        feed(bed, "a", lefts)
        for number, since in enumerate((1, 2)):
            times = 0

            def hook(reached: str, since: int = since) -> None:
                nonlocal times
                times += reached == point
                if reached == point and times == since + 1:
                    raise OSError(28, "No space left on device")

            faults.hook = hook
            try:
                with pytest.raises(PenstockError, match="No space left on device"):
                    feed(bed, "b", rights[number : number + 1], number=number)
            finally:
                faults.hook = None
            feed(bed, "b", rights[number : number + 1], number=number)
        bed.flush()
        assert paired_rows(bed, "npairs") == paired_rows(bed, "nnear") == met(lefts, rights)


def test_two_threads_that_feed_both_sides_pair_every_row_once(spark: SparkSession) -> None:
    draw = random.Random(2)
    batches = [[some(draw, 6, 3 * n + side) for n in range(6)] for side in range(2)]
    with opened(spark) as bed:
        bed.engine.execute(PAIRS)
        bed.engine.execute(PAIRS.replace("pairs", "near").replace("5 s", "1 s"))
        bed.query("n", COUNTED)
        bed.query("m", COUNTED.replace("pairs", "near"))
        failures: list[BaseException] = []

        def feeding(side: int) -> None:
            try:
                for rows in batches[side]:
                    feed(bed, "ab"[side], rows)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=feeding, args=(side,)) for side in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=120)
        assert not failures
        bed.flush()
        fed = [[one for rows in batches[side] for one in rows] for side in range(2)]
        assert paired_rows(bed) == met(fed[0], fed[1])
        assert paired_rows(bed, "m") == met(fed[0], fed[1], 1)


def test_places_in_two_sequences_of_commits_are_numbered_in_order() -> None:
    places = [(left, right) for left in range(-1, 12) for right in range(-1, 12)]
    assert [place_of_pair(paired(*place)) for place in places] == places
    assert all(paired(a, b) < paired(a + 1, b) and paired(a, b) < paired(a, b + 1) for a, b in places)
    assert place_of_pair(paired(1 << 31, 1 << 30)) == (1 << 31, 1 << 30)


# -- what is retained -------------------------------------------------------------------------------------------------


def retained(bed: TestBed, stream: str = "pairs") -> list[tuple[str, int]]:
    [told] = [one for one in bed.engine.status()["streams"] if one["stream"] == stream]
    return [(side["stream"], side["rows"]) for side in told["retained"]]


def test_rows_go_when_the_other_side_has_passed_them(spark: SparkSession, tmp_path: Path) -> None:
    """Range 5 s, lateness 2 s: a row of 1 s can meet rows up to 6 s, and goes when b has one after 8 s."""
    with opened(spark, tmp_path) as bed:
        bed.engine.execute(PAIRS)
        feed(bed, "a", [row(1, 1), row(20, 2)])
        assert retained(bed) == [("a", 2), ("b", 0)]
        feed(bed, "b", [row(8, 1)])
        assert retained(bed)[0] == ("a", 2)
        feed(bed, "b", [row(8.5, 2)])
        assert retained(bed)[0] == ("a", 1)
        feed(bed, "b", [row(40, 3)])
        assert retained(bed)[0] == ("a", 0)
        assert not list((tmp_path / "joining" / "a").iterdir())
        bed.engine.execute("DROP STREAM pairs")
        feed(bed, "b", [row(41, 3)])
        assert not list((tmp_path / "joining" / "b").iterdir())


def test_after_a_restart_no_join_lets_rows_go_that_another_one_needs(spark: SparkSession, tmp_path: Path) -> None:
    """One join waits for 1 s, the other, by other keys, for 50 s; so do the sides of a join of a stream with itself."""
    wide = PAIRS.replace("pairs", "wide").replace("5 s", "50 s").replace("a.k = b.k", "a.v = b.w")
    selfish = "SELECT x.v AS i, y.v AS j FROM a [RANGE 1 s] x JOIN a [RANGE 50 s] y USING (k)"
    with opened(spark, tmp_path) as bed:
        bed.engine.execute(PAIRS.replace("5 s", "1 s"))
        bed.engine.execute(wide)
        bed.engine.execute(f"CREATE STREAM own AS {selfish}")
        feed(bed, "a", [row(1, 7), row(2, 7)])
    for ts in (20, 40):
        with opened(spark, tmp_path) as bed:
            feed(bed, "b", [row(ts, 7)])
            feed(bed, "a", [row(ts, 0)])
    with opened(spark, tmp_path) as bed:
        assert bed.counts("pairs").ingested == 2
        assert bed.counts("wide").ingested == 4
        assert (
            bed.counts("own").ingested == 2 + 2 + 3 + 4
        )  # rows of 1, 2, 20 and 40 s with those before, and 1 s with 2 s


def test_a_side_that_is_silent_for_long_lets_the_other_go_if_it_is_idle(spark: SparkSession) -> None:
    clock = ManualClock(1000)
    with TestBed(spark, clock=clock) as bed:
        for name, idle in (("a", None), ("b", "10 s")):
            bed.stream(name, "ts TIMESTAMP, k STRING, v INT, w INT", idle=idle)
        bed.engine.execute(PAIRS.replace("v, w", "a.v, b.w"))
        feed(bed, "b", [row(1000, 1)])
        feed(bed, "a", [row(1000, 2), row(1003, 3)])
        assert retained(bed)[0] == ("a", 2)
        clock.advance(60)
        assert bed.heartbeat("b")
        assert retained(bed)[0] == ("a", 0)


def test_the_side_that_is_ahead_is_held_back_and_told(spark: SparkSession, tmp_path: Path) -> None:
    """Stream a has files up to 60 s; b has one of 1 s, and gets another when a is seen to wait."""
    for name in "ab":
        (tmp_path / name).mkdir()
    schema = "(ts TIMESTAMP, k STRING, v INT, w INT) USING json"

    def write(name: str, number: int, ts: int) -> None:
        text = f'{{"ts": "2026-01-05T00:{ts // 60:02d}:{ts % 60:02d}Z", "k": "x", "v": {number}, "w": {number}}}\n'
        (tmp_path / name / f".{number}").write_text(text * 3)
        (tmp_path / name / f".{number}").rename(tmp_path / name / f"{number}.json")

    with Engine(tmp_path / "state", spark=spark) as engine:
        for name in "ab":
            options = f"OPTIONS (path = '{tmp_path / name}', maxFilesPerTrigger = 1)"
            engine.execute(f"CREATE STREAM {name} {schema} {options} WATERMARK FOR ts")
        engine.execute(PAIRS.replace("v, w", "a.v, b.w") + " WITH (max_rows = 5)")
        write("b", 0, 1)
        for number in range(6):
            write("a", number, 10 * (number + 1))
        engine.start()
        sides = wait_until(engine, lambda sides: sides[0]["held"])
        assert (sides[0]["rows"], sides[1]["held"]) == (6, False)
        assert engine.stream("a").pipeline.progress.clock.counts.ingested == 6
        write("b", 1, 300)
        sides = wait_until(engine, lambda sides: sides[0]["held_seconds"] > 0 and not sides[0]["held"])
        wait_until(engine, lambda _: engine.stream("a").pipeline.progress.clock.counts.ingested == 18)
        engine.stop()


def wait_until(engine: Engine, so: Any) -> Any:
    """Wait until the retained rows of both sides are as wanted."""
    for _ in range(600):
        told = {one["stream"]: one["retained"] for one in engine.status()["streams"]}["pairs"]
        if told and so(told):
            return told
        threading.Event().wait(0.1)
    raise AssertionError(told)


# -- shared -----------------------------------------------------------------------------------------------------------


def test_joins_with_the_same_keys_are_one(spark: SparkSession) -> None:
    with opened(spark) as bed:
        bed.engine.execute(PAIRS)
        bed.engine.execute(PAIRS.replace("pairs", "near").replace("5 s", "1 s") + " AND v > 1")
        bed.engine.execute(PAIRS.replace("pairs", "other").replace("a.k = b.k", "a.k = b.k AND a.v = b.w"))
        bed.query("n", COUNTED)
        bed.query("m", COUNTED.replace("pairs", "near"))
        feed(bed, "a", [row(1, 1), row(2, 2), row(3, 3, None)])
        feed(bed, "b", [row(3, 1), row(6, 2), row(7, 3)])
        pairs, near, other = (bed.engine.stream(name) for name in ("pairs", "near", "other"))
        assert pairs.shared is near.shared is not other.shared  # type: ignore[attr-defined]
        assert [bed.counts(name).ingested for name in ("pairs", "near", "other")] == [5, 1, 2]
        [lines] = bed.engine.execute("EXPLAIN")
        assert "  rows are found by k = k in a [RANGE 5 s] and b [RANGE 5 s], once for pairs, near" in str(
            lines["plan"].to_pylist()
        )
        bed.engine.execute("DROP QUERY n; DROP STREAM pairs")
        feed(bed, "a", [row(7.5, 5)])
        bed.flush()
        assert paired_rows(bed, "m") == Counter({("x", 2, 1): 1, ("x", 5, 3): 1})


def test_a_join_takes_the_rows_that_come_after_it_alone(spark: SparkSession, tmp_path: Path) -> None:
    with opened(spark, tmp_path) as bed:
        bed.engine.execute(PAIRS)
        feed(bed, "a", [row(1, 1)])
        bed.engine.execute(PAIRS.replace("pairs", "later"))
        bed.engine.execute(PAIRS.replace("pairs", "later"))  # the same again
    with opened(spark, tmp_path) as bed:
        feed(bed, "b", [row(2, 2)])
        feed(bed, "a", [row(3, 3)])
        assert [bed.counts(name).ingested for name in ("pairs", "later")] == [2, 1]


def test_pairs_are_joined_with_answers_and_with_a_third_stream(spark: SparkSession, tmp_path: Path) -> None:
    with opened(spark, tmp_path) as bed:
        bed.engine.execute(PAIRS)
        bed.engine.execute("CREATE STREAM sums AS SELECT k, sum(v) AS v FROM a [RANGE 5 s SLIDE 5 s] GROUP BY k")
        third = "SELECT p.k, p.w, s.v FROM pairs [RANGE 10 s] p JOIN sums [RANGE 10 s] s USING (k)"
        bed.engine.execute(f"CREATE STREAM triples AS {third}")
        bed.query("t", "SELECT k, w, v, count(*) AS n FROM triples [RANGE 99 s SLIDE 99 s] GROUP BY k, w, v")
        feed(bed, "a", [row(1, 1), row(2, 2)])
        feed(bed, "b", [row(3, 30)])
    with opened(spark, tmp_path) as bed:
        feed(bed, "a", [row(9, 4)])
        bed.flush()
        assert [told for _, *told in bed.timeline("t")] == [["x", 30, 3, 2], ["x", 30, 4, 2]]


def test_the_watermark_is_the_lesser_of_both(spark: SparkSession) -> None:
    with opened(spark) as bed:
        bed.engine.execute(PAIRS)
        bed.query("c", "SELECT count(*) AS n FROM pairs [RANGE 5 s SLIDE 5 s]")
        feed(bed, "a", [row(1, 1), row(3, 1), row(30, 2)])
        feed(bed, "b", [row(4, 1)])
        watermark = bed.engine.stream("pairs").pipeline.progress.clock.watermark_us
        assert watermark == int((bed.epoch.timestamp() + 2) * 1_000_000)
        feed(bed, "b", [row(12, 1)])
        assert bed.timeline("c") == [(5, 2), (10, 0)]


# -- rows that are late, and expressions that fail --------------------------------------------------------------------


def test_late_rows_meet_those_that_still_wait(spark: SparkSession) -> None:
    """With rows of b up to 9 s, b stands at 7 s: the row of a at 2 s may meet a late one, that of 1 s not any more."""
    with opened(spark) as bed:
        bed.engine.execute(PAIRS)
        bed.query("n", COUNTED)
        feed(bed, "a", [row(1, 1), row(2, 2)])
        feed(bed, "b", [row(9, 9, "y")])
        feed(bed, "b", [row(3, 3)])
        bed.flush()
        assert paired_rows(bed) == Counter({("x", 2, 3): 1})


def test_a_pair_on_which_the_condition_fails_is_invalid(spark: SparkSession, tmp_path: Path) -> None:
    with opened(spark, tmp_path) as bed:
        bed.engine.execute(f"{PAIRS.replace('v, w', 'v, w, 100 / v AS q')} AND 10 / w > 1")
        bed.query("n", "SELECT q, count(*) AS n FROM pairs [RANGE 99 s SLIDE 99 s] GROUP BY q")
        feed(bed, "a", [row(1, 0), row(1, 5)])
        feed(bed, "b", [row(1, 0), row(1, 2), row(1, 50)])
        assert (bed.counts("pairs").ingested, bed.counts("pairs").invalid) == (4, 3)
        assert bed.reports("pairs") == [
            'stream "pairs": its condition or an output failed on 3 pairs, which count as invalid'
        ]
        bed.flush()
        assert [told for _, *told in bed.timeline("n")] == [[20.0, 1]]


def test_functions_of_the_users_own_may_be_called(spark: SparkSession) -> None:
    def odd(x: int) -> bool:
        return x % 2 == 1

    with opened(spark) as bed:
        bed.engine.create_function("odd", odd)
        bed.engine.execute("CREATE FUNCTION both(x INT, y INT) RETURNS INT RETURN x * 10 + y")
        bed.engine.execute(f"{PAIRS.replace('v, w', 'both(v, w) AS v, w')} AND odd(v)")
        bed.query("n", COUNTED)
        feed(bed, "a", [row(1, 1), row(1, 2)])
        feed(bed, "b", [row(1, 7)])
        bed.flush()
        assert paired_rows(bed) == Counter({("x", 17, 7): 1})
        with pytest.raises(CatalogError, match='function "odd" is called by stream "pairs"'):
            bed.engine.execute("DROP FUNCTION odd")


EXPRESSIONS = "v + w AS s, v * 1.5 AS t, CASE WHEN v > w THEN 'more' ELSE a.k END AS c, coalesce(d, 0.0) AS d"
TAKEN = "(v + w > 40 OR d IS NULL) AND NOT v IN (3, 5) AND v BETWEEN 1 AND 90"


def test_what_the_driver_computes_of_pairs_is_what_spark_does(spark: SparkSession) -> None:
    draw, told = random.Random(5), []
    lefts = [row(n // 2, draw.randrange(99), draw.choice("xy")) for n in range(40)]
    rights = [
        {**row(n // 2, draw.randrange(99), draw.choice("xy")), "d": draw.choice([None, -0.0, 2.5])} for n in range(40)
    ]
    with opened(spark) as bed:
        bed.engine.execute(f"{PAIRS.replace('v, w', EXPRESSIONS)} AND {TAKEN}")
        bed.engine.execute(
            f"{PAIRS.replace('v, w', EXPRESSIONS).replace('pairs', 'other')} AND {TAKEN} AND upper(a.k) <> ''"
        )
        for name in ("pairs", "other"):
            bed.query(
                f"n{name}",
                f"SELECT k, s, t, c, d, count(*) AS n FROM {name} [RANGE 99 s SLIDE 99 s] GROUP BY k, s, t, c, d",
            )
        feed(bed, "a", lefts)
        sent = bed.engine.stream("pairs").pipeline.metrics
        feed(bed, "b", rights)
        bed.flush()
        told = [sorted(map(str, bed.timeline(f"n{name}"))) for name in ("pairs", "other")]
    assert told[0] == told[1]
    assert len(told[0]) > 50
    assert sent.batches == 1


def test_windows_of_rows_run_over_pairs(spark: SparkSession, tmp_path: Path) -> None:
    with opened(spark, tmp_path) as bed:
        bed.engine.execute(PAIRS)
        bed.query("two", "SELECT sum(w) AS s FROM pairs [ROWS 2 SLIDE 2]")
        feed(bed, "a", [row(1, 1), row(20, 2)])
        feed(bed, "b", [row(2, 10), row(3, 20), row(4, 30), row(5, 40), row(21, 0)])
        assert [s for _, s in bed.timeline("two")] == [30, 70]


# -- statements -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def plain(spark: SparkSession) -> Iterator[TestBed]:
    with ExitStack() as stack:
        bed = stack.enter_context(opened(spark))
        bed.stream("c", "ts TIMESTAMP, k BIGINT, u INT")
        bed.stream("lists", "ts TIMESTAMP, k ARRAY<INT>")
        bed.table("names", [{"k": "x", "name": "X"}])
        bed.engine.execute(PAIRS)
        yield bed


FROM = "FROM a [RANGE 5 s] JOIN b [RANGE 5 s] ON a.k = b.k"


@pytest.mark.parametrize(
    ("select", "kind", "what"),
    [
        ("SELECT v FROM a [RANGE 5 s] JOIN b [RANGE 5 s] ON v < w", Unsupported, "without an equality of two columns"),
        ("SELECT v FROM a [RANGE 5 s] JOIN b [RANGE 5 s] ON v + 1 = w", Unsupported, "without an equality"),
        ("SELECT v FROM a [RANGE 5 s], b [RANGE 5 s]", Unsupported, "without an equality of two columns"),
        ("SELECT v FROM a JOIN b [RANGE 5 s] ON a.k = b.k", Unsupported, '"a" has no range in a join of two streams'),
        ("SELECT v FROM a [RANGE 5 s] JOIN b ON a.k = b.k", Unsupported, '"b" has no range in a join of two streams'),
        ("SELECT v FROM a [RANGE 5 s SLIDE 1 s] JOIN b [RANGE 5 s] ON a.k = b.k", Unsupported, "has no SLIDE"),
        ("SELECT v FROM a [ROWS 5 SLIDE 2] JOIN b [RANGE 5 s] ON a.k = b.k", Unsupported, "has no SLIDE"),
        ("SELECT v FROM a [SESSION 5 s] JOIN b [RANGE 5 s] ON a.k = b.k", Unsupported, "may make two sessions one"),
        (
            "SELECT v FROM a [PARTITION BY w ROWS 5] JOIN b [RANGE 5 s] ON a.k = b.k",
            LanguageError,
            'no column "w" in "a"',
        ),
        ("SELECT v FROM a [RANGE 5 s] LEFT JOIN b [RANGE 5 s] ON a.k = b.k", Unsupported, "outer joins of two streams"),
        (f"SELECT v {FROM} JOIN names ON names.k = a.k", Unsupported, "takes no third source"),
        (
            "SELECT v FROM a [RANGE 5 s] JOIN names USING (k) JOIN b [RANGE 5 s] USING (k)",
            Unsupported,
            "takes no table",
        ),
        (f"SELECT count(*) AS n {FROM}", Unsupported, "aggregates in a join of two streams are not available"),
        (f"SELECT v {FROM} GROUP BY v", Unsupported, "GROUP BY in a join of two streams is not available"),
        (f"SELECT v {FROM} HAVING v > 1", Unsupported, "HAVING in a join of two streams is not available"),
        (f"SELECT * {FROM}", Unsupported, r"SELECT \* is not available"),
        (f"SELECT z {FROM}", PenstockError, 'no column "z" in "a", "b"'),
        (f"SELECT k {FROM}", PenstockError, 'column "k" is in "a", "b"'),
        (f"SELECT a.ts {FROM}", LanguageError, 'an output is called "ts"'),
        (f"SELECT v, w AS v {FROM}", LanguageError, 'two outputs are called "v"'),
        (f"SELECT v {FROM} AND v + w", WrongType, "needs a boolean"),
        (f"SELECT NULL AS v {FROM}", WrongType, 'output "v" has no type'),
        (f"SELECT v {FROM} WITH (priority = 2)", LanguageError, 'a join of two streams has no option "priority"'),
        (f"SELECT v {FROM} WITH (max_rows = 0)", LanguageError, "as a whole number above 0"),
        ("SELECT u FROM a [RANGE 5 s] JOIN c [RANGE 5 s] ON a.k = c.k", WrongType, "must have the same type"),
        (
            "SELECT x.ts AS t FROM lists [RANGE 5 s] x JOIN lists [RANGE 5 s] y ON x.k = y.k",
            Unsupported,
            "streams cannot be joined by a column of type array<int>",
        ),
        ("SELECT v FROM a [RANGE 5 s] JOIN a [RANGE 5 s] ON v = v", LanguageError, '"a" is used twice'),
    ],
)
def test_what_is_no_join_of_two_streams_is_refused_by_name(
    plain: TestBed, select: str, kind: type[PenstockError], what: str
) -> None:
    with pytest.raises(kind, match=what):
        plain.engine.execute(f"CREATE STREAM x AS {select}")


@pytest.mark.parametrize(
    ("statement", "kind", "what"),
    [
        (f"CREATE QUERY q AS SELECT count(*) AS n {FROM}", Unsupported, "a query cannot join two streams by itself"),
        ("DROP STREAM a", CatalogError, 'stream "a" is read by stream "pairs"'),
        ("DROP STREAM B", CatalogError, 'stream "b" is read by stream "pairs"'),
        (PAIRS.replace("5 s", "6 s"), CatalogError, 'stream "pairs" exists already'),
        (PAIRS.replace("STREAM pairs", "STREAM names"), CatalogError, 'table "names" exists already'),
    ],
)
def test_statements_about_a_join_are_refused_where_it_is_in_the_way(
    plain: TestBed, statement: str, kind: type[PenstockError], what: str
) -> None:
    with pytest.raises(kind, match=what):
        plain.engine.execute(statement)


def test_a_query_that_joins_two_streams_is_told_how_to(plain: TestBed) -> None:
    with pytest.raises(Unsupported) as raised:
        plain.engine.execute(f"CREATE QUERY q AS SELECT count(*) AS n {FROM}")
    assert "CREATE STREAM pairs AS SELECT … FROM a [RANGE 5 MIN] JOIN b [RANGE 5 MIN]" in str(raised.value.hint)


def test_a_join_prints_as_a_statement_that_makes_the_same_again(plain: TestBed) -> None:
    select = (
        "SELECT y.k AS `the key`, x.v - y.v AS d FROM a [RANGE 5 s] x JOIN a [RANGE 1 MIN] y ON x.v > y.v AND y.k = x.k"
    )
    plain.engine.execute(f"CREATE STREAM moved AS {select} WITH (max_rows = 1000)")
    [told] = plain.engine.execute("SHOW CREATE STREAM moved")
    text = told["statement"][0].as_py()
    assert text == (
        "CREATE STREAM moved AS SELECT a_2.k AS `the key`, a.v - a_2.v AS d FROM a [RANGE 5 s] JOIN a [RANGE 1 min] "
        "AS a_2 ON a.k = a_2.k AND a.v > a_2.v WITH (max_rows = 1000)"
    )
    version = plain.engine.catalog.version
    plain.engine.execute(text)
    assert plain.engine.catalog.version == version
    [about] = plain.engine.execute("DESCRIBE STREAM moved")
    assert about.to_pylist() == [
        {"column": "the key", "type": "string", "about": None},
        {"column": "d", "type": "int", "about": None},
        {"column": "ts", "type": "timestamp", "about": "event time, the later one of both rows"},
    ]
    plain.engine.execute("DROP STREAM moved")


def test_rows_come_to_a_join_from_its_streams_alone(plain: TestBed) -> None:
    with pytest.raises(SourceError, match='the rows of stream "pairs" come from the streams "a" and "b" alone'):
        plain.feed("pairs", [])


LAST = "CREATE STREAM pairs AS SELECT a.k, v, w FROM a [PARTITION BY k ROWS 2] JOIN b [RANGE 1 s] ON a.k = b.k"


def test_a_row_that_comes_later_pushes_others_out_before_they_are_paired(spark: SparkSession, tmp_path: Path) -> None:
    with opened(spark, tmp_path) as bed:
        bed.engine.execute(LAST)
        bed.query("n", COUNTED)
        feed(bed, "a", [row(1, 1), row(3, 3), row(2, 9, "y")])
        feed(bed, "b", [row(4, 10), row(4, 20, "y")])
        assert bed.counts("pairs").ingested == 0  # nobody knows yet which rows are the last two
        feed(bed, "a", [row(2, 2)])
    with opened(spark, tmp_path) as bed:
        feed(bed, "a", [row(9, 5)])
        feed(bed, "a", [row(4, 0)])  # late: it pushes nobody out
        feed(bed, "b", [row(9, 30)])
        assert bed.counts("pairs").ingested == 3
        bed.flush()
        assert paired_rows(bed) == {("x", 2, 10): 1, ("x", 3, 10): 1, ("y", 9, 20): 1, ("x", 5, 30): 1, ("x", 3, 30): 1}
        assert "a [PARTITION BY k ROWS 2]" in str(bed.engine.explain())


def test_the_last_rows_of_a_silent_key_stay_and_those_of_others_go(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files are written again without the rows that have left; a silent key has one as old as the stream."""
    monkeypatch.setattr("penstock.spark.kept_rows.join_rows.WRITTEN_AGAIN_FROM", 20)
    with opened(spark, tmp_path) as bed:
        bed.engine.execute(LAST)
        bed.query("n", COUNTED)
        feed(bed, "a", [row(0, 1, "old")])
        for number in range(1, 12):
            feed(bed, "a", [row(10 * number, 100 * number + n) for n in range(10)])
            feed(bed, "b", [row(10 * number, number, "z")])
        held = bed.engine.stream("a").pipeline.intake.joining.folders
        assert sum(map(held.rows_in, held.spans)) <= 40
        [waiting] = [one for one in bed.engine.stream("pairs").retained if one.stream == "a"]
        assert waiting.rows <= 20
    with opened(spark, tmp_path) as bed:
        feed(bed, "b", [row(500, 7, "old"), row(500, 8)])
        bed.flush()
        assert paired_rows(bed) == {("old", 1, 7): 1, ("x", 1108, 8): 1, ("x", 1109, 8): 1}


def test_more_keys_than_a_join_allows_are_refused(spark: SparkSession) -> None:
    with opened(spark) as bed:
        bed.engine.execute(f"{LAST} WITH (max_rows = 3)")
        feed(bed, "a", [row(1, n, f"k{n}") for n in range(4)])
        feed(bed, "b", [row(9, 1)])
        with pytest.raises(SourceError, match='stream "pairs" keeps 4 rows of "a"'):
            feed(bed, "a", [row(9, 9)])


def test_a_step_with_too_many_pairs_is_refused(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.stream.derived.shared_join.MOST_PAIRS", 8)
    with opened(spark) as bed:
        bed.engine.execute(PAIRS)
        feed(bed, "a", [row(1, n) for n in range(3)])
        with pytest.raises(SourceError, match='one step of the join of streams "a" and "b" has more than 8 pairs'):
            feed(bed, "b", [row(1, n) for n in range(3)])
