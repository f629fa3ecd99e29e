"""Equal evaluations are computed once, and each query gets the answers as if it were alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from penstock.evaluate.finishing import Finished, FinishRequest
from penstock.evaluate.typed import Definition
from penstock.kernel.answering import Answering, Due, Failure
from penstock.share import plan
from penstock.store.answers import DEFINITION
from penstock.stream.pipeline import Pipeline
from penstock.testing import TestBed
from tests.oracle.cases import make_case
from tests.oracle.harness import open_bed as open_case

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WINDOW = "[RANGE 20 s SLIDE 10 s]"
BIG = 2**62


def open_bed(spark: SparkSession, **queries: str) -> TestBed:
    bed = TestBed(spark, kernel="scan")
    bed.stream("s", "ts TIMESTAMP, k STRING, v BIGINT")
    for name, text in queries.items():
        bed.query(name, text)
    return bed


def rows(*seconds: int) -> list[tuple[Any, ...]]:
    return [(ts, "ab"[ts % 2], ts) for ts in seconds]


def pipeline(bed: TestBed) -> Pipeline:
    return bed.engine.stream("s").pipeline


def shared(bed: TestBed) -> tuple[int, int]:
    metrics = pipeline(bed).metrics
    return metrics.evaluations, metrics.shared


def test_identical_queries_are_computed_once_and_each_has_its_own_names(spark: SparkSession) -> None:
    def final(bed: TestBed) -> int:
        bed.feed("s", rows(*range(0, 45)))
        return pipeline(bed).synopsis.final_operations

    with open_bed(spark, alone=f"SELECT k, sum(v) AS x FROM s {WINDOW} GROUP BY k") as bed:
        alone, expected = final(bed), bed.timeline("alone")
        assert (len(expected), shared(bed)) == (8, (4, 0))  # windows end at 10, 20, 30 and 40; two groups
    texts = {f"q{i}": f"SELECT K AS key{i % 2}, SUM(v) AS total FROM s {WINDOW} GROUP BY k" for i in range(6)}
    with open_bed(spark, **texts) as bed:
        assert final(bed) == alone
        assert shared(bed) == (4, 5 * 4)
        for number, name in enumerate(texts):
            assert bed.timeline(name) == expected
            assert bed.results(name).column_names[2:] == [f"key{number % 2}", "total"]


def test_a_longer_period_takes_the_answers_of_the_shorter_one(spark: SparkSession) -> None:
    #   RANGE 20 s   every 5 s    5 10 15 20 25 30 35 40
    #                every 10 s     10    20    30    40       all of them there already
    #                10 s, by 3  3    13    23    33           none of them
    count = "SELECT count(*) AS n FROM s"
    with open_bed(
        spark,
        often=f"{count} [RANGE 20 s SLIDE 5 s]",
        seldom=f"{count} [RANGE 20 s SLIDE 10 s]",
        beside=f"{count} [RANGE 20 s SLIDE 10 s OFFSET 3 s]",
        shorter=f"{count} [RANGE 10 s SLIDE 10 s]",
    ) as bed:
        bed.feed("s", rows(*range(0, 41)))
        assert [end for end, _ in bed.timeline("often")] == [5, 10, 15, 20, 25, 30, 35, 40]
        assert bed.timeline("seldom") == [(10, 10), (20, 20), (30, 20), (40, 20)]
        assert bed.timeline("beside") == [(3, 3), (13, 13), (23, 20), (33, 20)]
        assert bed.timeline("shorter") == [(10, 10), (20, 10), (30, 10), (40, 10)]
        assert shared(bed) == (8 + 4 + 4, 4)


def test_having_is_a_shape_of_its_own_and_takes_rows_from_its_queries_alone(spark: SparkSession) -> None:
    grouped = f"SELECT k, count(*) AS n FROM s {WINDOW} GROUP BY k"
    having = f"{grouped} HAVING max(v) > 20"
    with open_bed(spark, a=grouped, b=having, c=having, d=grouped) as bed:
        bed.feed("s", rows(*range(0, 30, 3), 31))
        assert shared(bed) == (6, 6)
        assert bed.timeline("a") == bed.timeline("d")
        assert bed.timeline("b") == bed.timeline("c") == [row for row in bed.timeline("a") if row[0] > 20]


def test_a_window_that_fails_pauses_every_query_that_asks_for_it(spark: SparkSession) -> None:
    total = f"SELECT sum(v) AS x FROM s {WINDOW}"
    with open_bed(
        spark, a=total, b=total, c=total.replace("SLIDE 10 s", "SLIDE 20 s"), d=f"{total} WHERE v < 9"
    ) as bed:
        bed.feed("s", [(1, "a", BIG), (12, "a", 1), (23, "a", BIG), (24, "a", 2), (41, "a", 1)])
        #  ends     10          20              30              40
        #  sum      BIG         BIG + 1         1 + BIG + 2     BIG + 2
        assert bed.timeline("a") == bed.timeline("b") == [(10, BIG), (20, BIG + 1), (30, BIG + 3), (40, BIG + 2)]
        bed.feed("s", [(42, "a", BIG), (43, "a", BIG), (45, "a", 0), (71, "a", 1)])
        for name in "abc":
            assert "a sum does not fit its type" in str(bed.paused(name))
        assert bed.paused("d") is None
        assert [end for end, _ in bed.timeline("d")] == [10, 20, 30, 40, 50, 60, 70]
        assert bed.timeline("c") == [(20, BIG + 1), (40, BIG + 2)]
        assert ["00:00:50" in str(bed.paused(name)) for name in "abc"] == [True, True, False]  # c's window ends at 60


def test_queries_that_are_revised_share_with_those_that_are_not(spark: SparkSession) -> None:
    text = f"SELECT k, sum(v) AS x FROM s {WINDOW} GROUP BY k"
    revised = f"{text} WITH (late = 'revise', revise_for = '1 min')"
    with open_bed(spark, plain=text, first=revised, second=revised) as bed:
        bed.feed("s", rows(1, 2, 31))
        assert shared(bed) == (2, 4)  # the window that ends at 30 has no group
        said = [(end, 0, "answer", *group) for end in (10, 20) for group in (("a", 2), ("b", 1))]
        assert bed.revisions("plain") == bed.revisions("first") == bed.revisions("second") == said
        bed.feed("s", rows(5, 32))
        revised_too = sorted([*said, (10, 1, "revise", "b", 6), (20, 1, "revise", "b", 6)], key=lambda r: (r[0], r[3]))
        assert bed.revisions("first") == bed.revisions("second") == revised_too
        assert bed.revisions("plain") == said


def test_what_only_spark_can_finish_is_asked_for_once(spark: SparkSession) -> None:
    text = f"SELECT format_number(sum(v), 2) AS x FROM s {WINDOW}"
    with open_bed(spark, a=text, b=text, c=text) as bed:
        answering, asked = pipeline(bed).committer.answering, list[int]()
        ask = answering.ask_spark

        def noted(requests: Sequence[FinishRequest]) -> Sequence[Finished]:
            asked.extend(request.table.num_rows for request in requests)
            return ask(requests)

        answering.ask_spark = noted
        bed.feed("s", rows(1, 12, 33))
        assert asked == [3]
        assert (
            bed.timeline("a") == bed.timeline("b") == bed.timeline("c") == [(10, "1.00"), (20, "13.00"), (30, "12.00")]
        )


def test_conditions_that_mean_the_same_are_one(spark: SparkSession) -> None:
    count = f"SELECT count(*) AS n FROM s {WINDOW} WHERE"
    with open_bed(
        spark,
        a=f"{count} v > 5 AND k = 'a'",
        b=f"{count} NOT ('a' <> k OR v <= 5)",
        c=f"{count} v <> 0 AND 9 / v > 1",
        d=f"{count} 9 / v > 1 AND v <> 0",
    ) as bed:
        bed.feed("s", rows(1, 2, 6, 8, 9, 12, 33))
        (tree,) = plan.plan_queries(bed.engine.catalog.definitions("s"), "shared paired", 1).trees
        assert [len(members) for members in tree.lanes.values()] == [2, 1, 1]
        assert bed.timeline("a") == bed.timeline("b") == [(10, 2), (20, 3), (30, 1)]
        assert shared(bed) == (9, 3)


class Compared(Answering):
    """Answers together, and compares with every query answered alone."""

    windows = 0

    def answer(self, due: Sequence[Due]) -> tuple[list[pa.Table], list[Failure]]:
        tables, failures = super().answer(due)
        alone = Answering(self.synopsis, self.ask_spark)
        for one in due:
            expected, failed = alone.answer([one])
            assert by_definition(tables, one.definition) == by_definition(expected, one.definition)
            assert [f for f in failures if f.definition == one.definition.id] == failed
            self.windows += len(one.ends)
        assert self.evaluations + self.shared == self.windows
        return tables, failures


def by_definition(tables: Sequence[pa.Table], definition: Definition) -> list[tuple[list[str], str]]:
    found = [t.filter(pa.array([d == definition.id for d in t[DEFINITION].to_pylist()])) for t in tables]
    return [(t.column_names, str([c.to_pylist() for c in t.columns])) for t in found if t.num_rows]


@pytest.mark.parametrize("seed", [9, 28])
def test_random_queries_and_their_twins_are_answered_as_if_alone(spark: SparkSession, seed: int) -> None:
    case = make_case(seed, most_queries=6)
    case = replace(case, strategy="shared paired")
    with open_case(spark, case) as bed:
        for number, query in enumerate(case.queries * 3):
            slide_us = query.slide_us * (1 + number % 2)
            twin = replace(query, name=f"{query.name}_{number}", slide_us=slide_us)
            bed.query(twin.name, twin.text.replace("AS agg0", f"AS agg{number % 3}_0"))
        committer = pipeline(bed).committer
        compared = committer.answering = Compared(committer.synopsis, committer.answering.ask_spark)
        committer.corrections.answering = compared
        for batch in case.batches:
            bed.feed("s", batch)
        bed.flush()
        assert compared.shared > 0
