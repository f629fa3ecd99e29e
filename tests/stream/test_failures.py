"""One bad row harms its own queries only; guards keep their meaning; a paused query can be resumed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.errors import NotStored, SourceError
from penstock.store.commits import Counts
from penstock.testing import TestBed
from tests.stream import feeding

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def bed_with(spark: SparkSession, state: Path | None = None, **queries: str) -> TestBed:
    bed = TestBed(spark, compiled=True, state=state)  # generated code fails in its own ways
    bed.stream("r", "ts TIMESTAMP, a INT, b INT, s STRING")
    for name, text in queries.items():
        bed.query(name, text)
    return bed


def ends(bed: TestBed, name: str) -> list[float]:
    return [end for end, *_ in bed.timeline(name)]


def values(bed: TestBed, name: str) -> list[Any]:
    return [value for _, value in bed.timeline(name)]


def test_a_division_by_zero_pauses_its_query_and_no_other(
    spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    with bed_with(
        spark,
        ratio="SELECT sum(a / b) AS x FROM r [RANGE 10 s SLIDE 10 s]",
        plain="SELECT sum(a) AS x FROM r [RANGE 10 s SLIDE 10 s]",
    ) as bed:
        bed.feed("r", [(1, 6, 3, ""), (11, 8, 2, "")])
        bed.feed("r", [(15, 1, 0, ""), (21, 4, 2, "")])
        bed.feed("r", [(31, 4, 2, "")])
        bed.flush()
        #  0    1         10   11   15!  20   21        30   31        40
        #  ratio [-- ok --)[--- 1 / 0 ---)[ paused: no answer any more
        assert ends(bed, "ratio") == [10]
        assert ends(bed, "plain") == [10, 20, 30, 40]
        (report,) = bed.reports("r")
        assert 'query "ratio" is paused' in report
        assert "DIVIDE_BY_ZERO" in report
        assert "2026-01-05T00:00:15" in report
        assert [(r.name, r.getMessage()) for r in caplog.records if r.name == "penstock"] == [("penstock", report)]


def test_a_guard_inside_where_protects_the_rest_of_the_query(spark: SparkSession) -> None:
    with bed_with(
        spark,
        guarded="SELECT sum(a / b) AS x FROM r [RANGE 10 s SLIDE 10 s] WHERE b <> 0 AND a / b > 0",
        every="SELECT count(*) AS n FROM r [RANGE 10 s SLIDE 10 s]",
        other="SELECT sum(a DIV b) AS x FROM r [RANGE 10 s SLIDE 10 s] WHERE b > 1",
    ) as bed:
        bed.feed("r", [(1, 6, 3, ""), (2, 5, 0, ""), (3, 9, None, "")])
        bed.flush()
        assert bed.reports("r") == []
        assert values(bed, "guarded") == [2.0]
        assert values(bed, "other") == [2]
        assert values(bed, "every") == [3]


def test_a_failing_key_cast_and_predicate_each_pause_their_own_query(spark: SparkSession) -> None:
    with bed_with(
        spark,
        key="SELECT CAST(s AS INT) AS k, count(*) AS n FROM r [RANGE 10 s SLIDE 10 s] GROUP BY CAST(s AS INT)",
        cond="SELECT count(*) AS n FROM r [RANGE 10 s SLIDE 10 s] WHERE CAST(s AS INT) > 1",
        over="SELECT sum(a * b) AS n FROM r [RANGE 10 s SLIDE 10 s]",
        fine="SELECT max(s) AS n FROM r [RANGE 10 s SLIDE 10 s]",
    ) as bed:
        bed.feed("r", [(1, 1, 1, "7"), (12, 1, 1, "x"), (25, 2**31 - 1, 2, "3"), (41, 1, 1, "5")])
        bed.flush()
        assert ends(bed, "key") == [10]
        assert ends(bed, "cond") == [10]
        assert ends(bed, "over") == [10, 20]
        assert ends(bed, "fine") == [10, 20, 30, 40, 50]


def test_a_resumed_query_starts_at_the_first_window_after_the_failure(spark: SparkSession) -> None:
    with bed_with(spark, q="SELECT sum(a / b) AS x FROM r [RANGE 20 s SLIDE 10 s]") as bed:
        bed.feed("r", [(1, 1, 1, ""), (15, 1, 0, ""), (22, 2, 1, "")])
        assert ends(bed, "q") == [10]
        bed.engine.resume_query("q")
        bed.feed("r", [(35, 3, 1, ""), (62, 4, 1, "")])
        #  0    1    10   15!  20   22   30   35   40        50        60 62
        #  [10 answered)
        #       [0 -- fails -- 20)
        #            [10 - fails - 30)
        #                      [20 ------------- 40) is the first without the failing row
        assert ends(bed, "q") == [10, 40, 50, 60]
        assert values(bed, "q") == [1.0, 5.0, 3.0, None]


def test_a_query_that_failed_in_its_first_window_and_is_resumed_leaves_that_window_out(spark: SparkSession) -> None:
    with bed_with(spark, q="SELECT sum(a / b) AS x FROM r [RANGE 10 s SLIDE 10 s]") as bed:
        bed.feed("r", [(1, 4, 2, ""), (2, 4, 0, "")])
        assert bed.paused("q") is not None
        bed.engine.resume_query("q")
        bed.feed("r", [(3, 4, 2, ""), (12, 6, 2, ""), (25, 8, 2, "")])
        bed.flush()
        assert ends(bed, "q") == [20, 30]
        assert values(bed, "q") == [3.0, 4.0]


def test_a_row_that_fails_while_its_query_is_paused_by_hand_is_not_forgotten(spark: SparkSession) -> None:
    #   paused before the first row    1   5!   | resumed    12     21
    #   windows                        [ not answered )[ answered  )
    with bed_with(spark, ratio="SELECT sum(a / b) AS x FROM r [RANGE 10 s SLIDE 10 s]") as bed:
        bed.engine.pause_query("ratio")
        bed.feed("r", [(1, 6, 3, ""), (5, 1, 0, "")])
        bed.engine.resume_query("ratio")
        bed.feed("r", [(12, 4, 2, ""), (21, 4, 2, "")])
        assert bed.timeline("ratio") == [(20, 2.0)]
        assert bed.paused("ratio") is None


@pytest.mark.parametrize("resumed", [False, True])
def test_a_new_query_over_the_same_rows_answers_no_window_with_a_row_that_failed(
    spark: SparkSession, tmp_path: Path, resumed: bool
) -> None:
    """The row at 15 is in nobody's partials: a query that finds them begins after it, also after a restart."""
    text = "SELECT sum(a / b) AS x FROM r [RANGE 20 s SLIDE 10 s]"
    with bed_with(spark, tmp_path, q=text) as bed:
        bed.feed("r", [(1, 1, 1, ""), (15, 1, 0, ""), (22, 2, 1, "")])
        if resumed:
            bed.engine.resume_query("q")
            bed.feed("r", [(23, 2, 1, "")])
    with bed_with(spark, tmp_path) as bed:
        with pytest.raises(NotStored, match="cannot answer this for the last 10 s"):
            bed.ask("SELECT sum(a / b) AS x FROM r [RANGE 10 s]")
        entered = bed.query("same", text)
        assert entered.first_end_us == (bed.epoch.timestamp() + 40) * 1_000_000
        bed.feed("r", [(35, 3, 1, ""), (62, 4, 1, "")])
        assert values(bed, "same") == [7.0 if resumed else 5.0, 3.0, None]


def test_a_sum_that_does_not_fit_pauses_the_query_at_that_window(spark: SparkSession) -> None:
    with bed_with(
        spark,
        big="SELECT sum(CAST(a AS BIGINT) * 4294967296 * b) AS x FROM r [RANGE 10 s SLIDE 10 s]",
        ratio="SELECT sum(a) / (count(*) - 2) AS x FROM r [RANGE 10 s SLIDE 10 s]",
    ) as bed:
        top = 2**30
        rows = [(1, top, 1, ""), (2, -top, 1, ""), (3, top, 1, ""), (11, top, 1, ""), (12, top, 1, ""), (21, 1, 1, "")]
        bed.feed("r", rows)
        bed.flush()
        # 2^62 − 2^62 + 2^62 fits; 2^62 + 2^62 does not
        assert bed.timeline("big") == [(10, 2**62)]
        assert ends(bed, "ratio") == [10]


def test_who_shares_an_expression_with_a_failed_query_is_watched_too(spark: SparkSession) -> None:
    with bed_with(
        spark,
        low="SELECT sum(a / b) AS x FROM r [RANGE 10 s SLIDE 10 s] WHERE a < 10",
        high="SELECT sum(a / b) AS x FROM r [RANGE 10 s SLIDE 10 s] WHERE a >= 10",
        plain="SELECT count(*) AS x FROM r [RANGE 10 s SLIDE 10 s]",
    ) as bed:
        bed.feed("r", [(1, 1, 0, ""), (2, 20, 2, ""), (11, 1, 1, "")])
        bed.feed("r", [(15, 20, 0, ""), (21, 1, 1, "")])
        bed.flush()
        assert ends(bed, "low") == []
        assert ends(bed, "high") == [10]  # it failed at 15 s, on an expression that was attempted for low
        assert ends(bed, "plain") == [10, 20, 30]


def test_a_failing_join_key_pauses_its_query_also_after_another_one_failed(spark: SparkSession) -> None:
    with bed_with(spark, bad="SELECT sum(a / b) AS x FROM r [RANGE 10 s SLIDE 10 s]") as bed:
        bed.table("t", [(1, 10), (2, 20), (2, 0)], schema="id INT, w INT")
        bed.query("joined", "SELECT count(*) AS n FROM r [RANGE 10 s SLIDE 10 s] JOIN t ON CAST(r.s AS INT) = t.id")
        bed.feed("r", [(1, 1, 0, "1"), (2, 1, 1, "2")])
        bed.feed("r", [(11, 1, 1, "x"), (21, 1, 1, "1")])
        bed.flush()
        assert ends(bed, "bad") == []
        assert values(bed, "joined") == [3]
        assert len(bed.reports("r")) == 2


def test_keys_of_a_batch_that_failed_are_no_duplicates_later(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    with feeding.open_bed(spark, dedup=["v"]) as bed:
        bed.query("q", feeding.COUNT)
        bed.feed("s", feeding.rows(1, 2))
        computing = bed.engine.stream("s").pipeline.computing
        run: Callable[..., Any] = computing.run

        def fail(*_: Any) -> Any:
            raise SourceError("a table is gone")

        monkeypatch.setattr(computing, "run", fail)
        with pytest.raises(SourceError):
            bed.feed("s", feeding.rows(3, 4), number=1)
        monkeypatch.setattr(computing, "run", run)
        bed.query("p", feeding.COUNT.replace("10 s", "5 s"))
        bed.feed("s", feeding.rows(3, 4, 11), number=1)
        assert bed.counts("s") == Counts(ingested=5, on_time=5)
