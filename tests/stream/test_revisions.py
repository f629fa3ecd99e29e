"""Late rows revise the answers that hold them, say which revision it is, and are counted as corrected."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.errors import PenstockError
from penstock.sinks.jsonl import JsonLinesSink
from penstock.store import faults
from penstock.store.commits import Counts
from penstock.testing import TestBed
from tests.always.judged import Killed, killer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REVISED = "WITH (late = 'revise', revise_for = '30 s')"
BY_KEY = f"SELECT k, sum(v) AS x FROM s [RANGE 10 s SLIDE 5 s] GROUP BY k HAVING sum(v) < 100 {REVISED}"


def row(ts: float | None, k: str | None = "a", v: int = 1) -> dict[str, Any]:
    return {"ts": ts, "k": k, "v": v}


def open_bed(spark: SparkSession, **options: Any) -> TestBed:
    bed = TestBed(spark, **options)
    bed.stream("s", "ts TIMESTAMP, k STRING, v INT")
    return bed


@pytest.mark.parametrize("strategy", ["shared paired", "unshared paned", "fragments"])
@pytest.mark.parametrize("kernel", ["fast", "scan"])
def test_a_late_row_revises_the_windows_and_groups_that_hold_it_alone(
    spark: SparkSession, strategy: Any, kernel: Any
) -> None:
    #   on time   1a        12a      21b
    #   then           3b     13a        22b       windows end at 5, 10, 15, 20 before the late rows come
    with open_bed(spark, strategy=strategy, kernel=kernel) as bed:
        bed.query("q", BY_KEY)
        bed.feed("s", [row(1), row(12, v=2), row(21, "b", 5)])
        bed.feed("s", [row(13, v=3), row(3, "b", 7), row(22, "b", 7)])
        assert bed.revisions("q") == [
            (5, 0, "answer", "a", 1),
            (5, 0, "answer", "b", 7),  # a group that comes late is new, not revised
            (10, 0, "answer", "a", 1),
            (10, 0, "answer", "b", 7),
            (15, 0, "answer", "a", 2),
            (15, 1, "revise", "a", 5),
            (20, 0, "answer", "a", 2),
            (20, 1, "revise", "a", 5),
        ]
        assert bed.timeline("q") == [(5, "a", 1), (5, "b", 7), (10, "a", 1), (10, "b", 7), (15, "a", 5), (20, "a", 5)]
        assert bed.counts("s") == Counts(ingested=6, on_time=4, corrected=2)


def test_what_having_takes_away_is_retracted_and_may_come_back(spark: SparkSession) -> None:
    with open_bed(spark) as bed:
        bed.query("q", BY_KEY.replace("SLIDE 5 s", "SLIDE 10 s"))
        bed.feed("s", [row(1), row(11)])
        bed.feed("s", [row(2, v=200)])
        assert bed.timeline("q") == []
        bed.feed("s", [row(3, v=-150)])
        assert bed.revisions("q") == [
            (10, 0, "answer", "a", 1),
            (10, 1, "retract", "a", 1),
            (10, 2, "revise", "a", 51),
        ]
        assert bed.timeline("q") == [(10, "a", 51)]


def test_an_answer_that_stays_the_same_is_not_said_again(spark: SparkSession) -> None:
    with open_bed(spark) as bed:
        bed.query("q", f"SELECT max(v) AS x FROM s [RANGE 10 s SLIDE 10 s] {REVISED}")
        bed.feed("s", [row(1, v=9), row(11)])
        bed.feed("s", [row(2, v=8)])
        assert bed.revisions("q") == [(10, 0, "answer", 9)]
        assert bed.counts("s").corrected == 1  # it was applied, and changed nothing


def test_rows_older_than_revise_for_count_as_late(spark: SparkSession) -> None:
    with open_bed(spark) as bed:
        bed.query("q", f"SELECT count(*) AS n FROM s [RANGE 10 s SLIDE 10 s] {REVISED}")
        bed.feed("s", [row(1), row(45)])  # watermark 45: windows that ended after 15 may be revised
        bed.feed("s", [row(5), row(15), row(44)])
        assert bed.revisions("q") == [
            (10, 0, "answer", 1),
            (20, 0, "answer", 0),
            (20, 1, "revise", 1),
            (30, 0, "answer", 0),
            (40, 0, "answer", 0),
        ]
        assert bed.counts("s") == Counts(ingested=5, on_time=2, corrected=1, late=2)


def test_queries_that_count_late_rows_are_not_revised_by_others(spark: SparkSession) -> None:
    with open_bed(spark) as bed:
        bed.query("steady", "SELECT count(*) AS n FROM s [RANGE 10 s SLIDE 10 s]")
        bed.query("revised", f"SELECT count(*) AS n FROM s [RANGE 10 s SLIDE 10 s] {REVISED}")
        bed.feed("s", [row(1), row(11)])
        bed.feed("s", [row(2), row(21)])
        assert bed.timeline("steady") == [(10, 1), (20, 1)]
        assert bed.timeline("revised") == [(10, 2), (20, 1)]


def test_a_restart_revises_from_what_was_said_last(spark: SparkSession, tmp_path: Path) -> None:
    sinks = [JsonLinesSink(tmp_path / "answers")]
    for batch in ([row(1, None), row(11, None)], [row(2, None)], [row(3, None), row(2, "b")], [row(21, "b")]):
        with open_bed(spark, state=tmp_path / "state", sinks=sinks) as bed:
            bed.query("q", f"SELECT count(*) AS n FROM s [RANGE 10 s SLIDE 10 s] GROUP BY k {REVISED}")
            bed.feed("s", batch)
            said = bed.revisions("q")
    assert said == [
        (10, 0, "answer", 1),
        (10, 1, "revise", 2),
        (10, 2, "revise", 3),
        (10, 0, "answer", 1),  # group b, whose key is not selected
        (20, 0, "answer", 1),
    ]
    lines = [json.loads(line) for path in (tmp_path / "answers").iterdir() for line in path.read_text().splitlines()]
    assert sorted((line["revision"], line["op"], line["n"]) for line in lines) == sorted(one[1:] for one in said)


def test_a_death_before_answers_that_revise_a_window_for_the_last_time(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "SELECT sum(v) AS x FROM s [RANGE 10 s SLIDE 10 s] WITH (late = 'revise', revise_for = '5 s')"
    bed = open_bed(spark, state=tmp_path / "state")
    bed.query("q", text)
    bed.feed("s", [row(1), row(12)])
    monkeypatch.setattr(faults, "hook", killer("answers.before"))
    with pytest.raises(Killed):  # the batch is committed; its watermark of 21 lets go of the window that it revises
        bed.feed("s", [row(2), row(21)])
    monkeypatch.setattr(faults, "hook", None)
    bed.engine.release()
    with open_bed(spark, state=tmp_path / "state") as bed:
        bed.feed("s", [row(22)])
        assert bed.revisions("q") == [(10, 0, "answer", 1), (10, 1, "revise", 2), (20, 0, "answer", 1)]


def test_a_paused_query_is_not_revised_and_begins_anew_when_it_is_resumed(spark: SparkSession) -> None:
    with open_bed(spark) as bed:
        bed.query("q", f"SELECT count(*) AS n FROM s [RANGE 10 s SLIDE 10 s] {REVISED}")
        bed.feed("s", [row(1), row(11)])
        bed.engine.pause_query("q")
        bed.feed("s", [row(2), row(21)])
        bed.engine.resume_query("q")
        bed.feed("s", [row(3), row(31)])
        bed.feed("s", [row(25)])
        assert bed.revisions("q") == [(10, 0, "answer", 1), (30, 0, "answer", 1), (30, 1, "revise", 2)]
        assert bed.counts("s") == Counts(ingested=7, on_time=4, corrected=1, late=2)


@pytest.mark.parametrize("options", ["late = 'revise'", "revise_for = '1 s'"])
def test_revise_and_revise_for_belong_together(spark: SparkSession, options: str) -> None:
    with open_bed(spark) as bed, pytest.raises(PenstockError, match="revise"):
        bed.query("q", f"SELECT count(*) AS n FROM s [RANGE 10 s SLIDE 10 s] WITH ({options})")
