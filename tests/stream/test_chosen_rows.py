"""A window's answer rows are chosen and put in order whatever else a query asks for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.errors import PenstockError, Unsupported
from penstock.testing import TestBed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("interpreted")
COLUMNS = "ts TIMESTAMP, k STRING, v INT"
W = "[RANGE 10 s SLIDE 10 s]"
TOP = f"SELECT k, sum(v) AS total FROM s {W} GROUP BY k ORDER BY total DESC LIMIT 2"
REVISED = "WITH (late = 'revise', revise_for = '1 h')"
#     0         10        20
#     |a5 b3 c1 |c9 a9 b1 |
ROWS = [(1, "a", 5), (2, "b", 3), (3, "c", 1), (11, "c", 9), (12, "a", 9), (13, "b", 1), (21, "a", 0)]


def bed_with(spark: SparkSession, queries: dict[str, str], **how: Any) -> TestBed:
    bed = TestBed(spark, **how)
    bed.stream("s", COLUMNS)
    for name, text in queries.items():
        bed.query(name, text)
    return bed


def test_the_first_rows_of_each_window_come_in_order(spark: SparkSession) -> None:
    #  in every window anew, ties by the group
    with bed_with(spark, {"top": TOP, "every": TOP.removesuffix(" LIMIT 2"), "third": f"{TOP} OFFSET 2"}) as bed:
        bed.feed("s", ROWS)
        assert bed.timeline("top") == [(10, "a", 5), (10, "b", 3), (20, "a", 9), (20, "c", 9)]
        assert bed.timeline("every") == [
            (10, "a", 5),
            (10, "b", 3),
            (10, "c", 1),
            (20, "a", 9),
            (20, "c", 9),
            (20, "b", 1),
        ]
        assert bed.timeline("third") == [(10, "c", 1), (20, "b", 1)]
        answering = bed.engine.stream("s").pipeline.committer.answering
        assert answering.rows == 3 * 2 * 3  # groups that were finished count for memory, whether they are given or not
        lanes = bed.engine.stream("s").pipeline.synopsis.lanes
        assert len(lanes) == 1  # LIMIT comes after what is shared


def test_late_rows_revise_who_is_among_the_first(spark: SparkSession, tmp_path: Path) -> None:
    #  c overtakes b, then b comes back; a restart in between
    bed = bed_with(spark, {"top": f"{TOP} {REVISED}"}, state=tmp_path)
    bed.feed("s", ROWS)
    bed.feed("s", [(4, "c", 3)])
    assert bed.timeline("top")[:2] == [(10, "a", 5), (10, "c", 4)]
    bed.close()
    with TestBed(spark, state=tmp_path) as bed:
        bed.feed("s", [(5, "b", 7)])
        assert bed.timeline("top")[:2] == [(10, "b", 10), (10, "a", 5)]  # in the order of ORDER BY, also when revised
        first = [(op, revision, k, total) for end, revision, op, k, total in bed.revisions("top") if end == 10]
        assert sorted(first, key=lambda one: (one[2], one[1])) == [
            ("answer", 0, "a", 5),
            ("answer", 0, "b", 3),
            ("retract", 1, "b", 3),
            ("revise", 2, "b", 10),
            ("answer", 0, "c", 4),
            ("retract", 1, "c", 4),
        ]


def test_a_group_among_the_first_again_says_what_has_changed_since(spark: SparkSession) -> None:
    with bed_with(spark, {"top": f"{TOP.replace('LIMIT 2', 'LIMIT 1')} WITH (emit = 'change')"}) as bed:
        bed.feed("s", [(1, "a", 5), (11, "b", 7), (21, "a", 5), (21, "b", 1), (31, "a", 6), (41, "a", 0)])
        assert bed.timeline("top") == [(10, "a", 5), (20, "b", 7), (40, "a", 6)]


def test_the_first_rows_are_a_stream(spark: SparkSession) -> None:
    with bed_with(spark, {}) as bed:
        bed.engine.execute(f"CREATE STREAM leaders AS {TOP}")
        bed.query(
            "led",
            "SELECT k, count(*) AS times FROM leaders [RANGE 20 s SLIDE 20 s] GROUP BY k ORDER BY times DESC, k DESC",
        )
        bed.feed("s", [*ROWS, (31, "a", 1)])
        assert bed.timeline("led") == [(20, "a", 2), (20, "c", 1), (20, "b", 1)]


def test_a_question_and_windows_of_rows_choose_too(spark: SparkSession) -> None:
    text = "SELECT DISTINCT v > 4 AS large FROM s [ROWS 3 SLIDE 3] ORDER BY large DESC"
    with bed_with(spark, {"top": f"{TOP} WITH (retain = '1 h')", "rows": text}) as bed:
        bed.feed("s", ROWS)
        assert [row["large"] for row in bed.answers("rows")] == [True, False, True, False]
        asked = bed.ask("SELECT k, sum(v) AS total FROM s [RANGE 10 s] GROUP BY k ORDER BY total, k DESC LIMIT 2")
        assert [(row["k"], row["total"]) for row in asked] == [("b", 1), ("c", 9)]


def test_distinct_columns_share_the_partials_of_their_grouping(spark: SparkSession) -> None:
    queries = {
        "seen": f"SELECT DISTINCT k, v > 4 AS large FROM s {W}",
        "counted": f"SELECT k, v > 4 AS large, count(*) AS n FROM s {W} GROUP BY 1, 2",
    }
    with bed_with(spark, queries) as bed:
        bed.feed("s", [*ROWS, (14, "a", 8)])
        assert bed.timeline("seen") == [(end, k, large) for end, k, large, _ in bed.timeline("counted")]
        assert len(bed.engine.stream("s").pipeline.synopsis.lanes) == 1


def test_another_limit_is_another_query_and_the_same_one_is_none(spark: SparkSession) -> None:
    with bed_with(spark, {"top": TOP}) as bed:
        known = bed.engine.catalog.query("top").id
        bed.engine.execute(f"ALTER QUERY top AS {TOP.replace('total DESC', '2 desc nulls last')}")
        assert bed.engine.catalog.query("top").id == known
        bed.feed("s", ROWS[:4])
        bed.engine.execute("ALTER QUERY top SET (keep = '1 d')")
        bed.engine.execute(f"ALTER QUERY top AS {TOP.replace('LIMIT 2', 'LIMIT 1')}")
        assert bed.engine.catalog.query("top").id != known
        bed.feed("s", [*ROWS[4:], (31, "b", 0), (41, "a", 0)])
        assert bed.timeline("top") == [
            (10, "a", 5),
            (10, "b", 3),
            (20, "a", 9),
            (20, "c", 9),
            (30, "a", 0),
            (40, "b", 0),
        ]


@pytest.mark.soak
def test_groups_that_the_executors_keep_are_not_compared(spark: SparkSession, tmp_path: Path) -> None:
    text = f"SELECT k, count(*) AS n FROM s {W} GROUP BY k"
    with bed_with(spark, {"all": text}, state=tmp_path, max_driver_groups=2) as bed:
        for at in (1, 11):
            bed.feed("s", [(at, f"k{i}", i) for i in range(9)])
        assert bed.engine.stream("s").pipeline.groupings.spread
        with pytest.raises(Unsupported, match="cannot be answered") as refused:
            bed.query("top", f"{text} ORDER BY n LIMIT 2")
        assert "LIMIT" in str(refused.value)


def test_groups_that_are_compared_stay_in_the_driver_however_many(spark: SparkSession, tmp_path: Path) -> None:
    text = f"SELECT k, count(*) AS n FROM s {W} GROUP BY k ORDER BY n DESC, k DESC LIMIT 2"
    with bed_with(spark, {"top": text}, state=tmp_path, max_driver_groups=2) as bed:
        for at in (1, 11):
            bed.feed("s", [(at, f"k{i}", i) for i in range(9)])
        assert not bed.engine.stream("s").pipeline.groupings.spread
        assert bed.timeline("top") == [(10, "k8", 1), (10, "k7", 1)]


def test_what_has_no_order_cannot_be_sorted(spark: SparkSession) -> None:
    with (
        bed_with(spark, {}) as bed,
        pytest.raises(PenstockError, match="ORDER BY needs values that can be put in order"),
    ):
        bed.query("q", f"SELECT k, map(k, count(*)) AS m FROM s {W} GROUP BY k ORDER BY m")
