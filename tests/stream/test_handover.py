"""A query that is altered: every window is answered by one of its definitions, and answers tell by which."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from penstock.errors import UnknownQuery, WrongType
from penstock.sinks.jsonl import JsonLinesSink
from penstock.testing import TestBed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("interpreted")
MINUTE = "SELECT sum(v) AS t FROM s [RANGE 60 s SLIDE 60 s]"
LARGER = "SELECT sum(v) * 1000 AS t FROM s [RANGE 60 s SLIDE 60 s]"


def open_bed(spark: SparkSession, folder: Path | None = None, **options: Any) -> TestBed:
    sinks = [] if folder is None else [JsonLinesSink(folder / "lines")]
    bed = TestBed(spark, state=None if folder is None else folder / "state", sinks=sinks)
    if not bed.engine.catalog.has("stream", "s"):
        bed.stream("s", "ts TIMESTAMP, k STRING, v BIGINT", **options)
    return bed


def rows(first: int, last: int, step: int = 10) -> list[dict[str, Any]]:
    return [{"ts": ts, "k": "ab"[ts // step % 2], "v": 1} for ts in range(first, last, step)]


def versions(bed: TestBed, name: str = "q") -> list[tuple[int, int, Any]]:
    """List what all versions said: the version, the seconds at which windows end, and the first column."""
    found = bed.engine.results(name, version="all")
    ends = [int(end.timestamp()) - START for end in _ends(found)]
    return list(zip(found["version"].to_pylist(), ends, found.column(3).to_pylist(), strict=True))


def _ends(table: pa.Table) -> list[Any]:
    return list(table["window_end"].to_pylist())


START = 1_767_571_200  # 2026-01-05, what the bed's seconds count from


def test_windows_that_began_before_a_change_are_the_old_definitions(spark: SparkSession, tmp_path: Path) -> None:
    #   rows     0 … 140 | 150 … 390
    #   version  1: 60 120 [120, 180)   2: from the window that begins at 180 on
    bed = open_bed(spark, tmp_path)
    bed.query("q", MINUTE)
    bed.feed("s", rows(0, 150))
    said = bed.engine.alter_query("q", LARGER)
    assert "answered by the definition before" in str(said)
    assert said.first_end_us == (START + 240) * 1_000_000
    assert bed.engine.status()["queries"][0]["state"] == "finishing"
    bed.feed("s", rows(150, 170))
    bed.close()
    bed = open_bed(spark, tmp_path)  # both are there after a restart
    bed.feed("s", rows(170, 400))
    wanted = [(1, 60, 6), (1, 120, 6), (1, 180, 6), (2, 240, 6_000), (2, 300, 6_000), (2, 360, 6_000)]
    assert versions(bed) == wanted
    assert bed.timeline("q") == [(end, value) for _, end, value in wanted]
    assert bed.engine.results("q", version=1)["t"].to_pylist() == [6, 6, 6]
    assert [(q["query"], q["version"], q["state"]) for q in bed.engine.status()["queries"]] == [("q", 2, "answering")]
    bed.close()
    lines = [json.loads(line) for file in (tmp_path / "lines").iterdir() for line in file.read_text().splitlines()]
    assert [(line["query_version"], line["t"]) for line in lines] == [(v, t) for v, _, t in wanted]


def test_what_means_the_same_is_no_change(spark: SparkSession) -> None:
    with open_bed(spark) as bed:
        known = bed.query("q", f"{MINUTE} WHERE v > 0 AND k = 'a'").definition
        bed.feed("s", rows(0, 150))
        for same in (
            "WHERE k = 'a' AND v > 0",
            "WHERE k = 'a' AND v > 0 WITH (emit = 'exact')",
            "where 0 < v and k='a'",
        ):
            assert bed.engine.alter_query("q", f"{MINUTE} {same}").id == known.id
        bed.engine.execute(f"CREATE OR REPLACE QUERY q AS {MINUTE} WHERE k = 'a' AND v > 0")
        assert bed.engine.catalog.query("q") == known
        assert bed.engine.alter_query("q", f"{MINUTE} WHERE v > 0").id != known.id


def test_columns_of_versions_may_differ(spark: SparkSession) -> None:
    with open_bed(spark) as bed:
        bed.query("q", MINUTE)
        bed.feed("s", rows(0, 150))
        bed.engine.alter_query("q", "SELECT count(*) AS n FROM s [RANGE 60 s SLIDE 60 s]")
        bed.feed("s", rows(150, 310))
        assert bed.timeline("q") == [(240, 6), (300, 6)]  # of its own columns
        found = bed.engine.results("q", version="all")
        assert found.column_names == ["window_start", "window_end", "version", "t", "n"]
        assert found.select(["version", "t", "n"]).to_pylist() == [
            *({"version": 1, "t": 6, "n": None} for _ in range(3)),
            *({"version": 2, "t": None, "n": 6} for _ in range(2)),
        ]
        bed.engine.alter_query("q", "SELECT max(k) AS t FROM s [RANGE 60 s SLIDE 60 s]")
        bed.feed("s", rows(310, 500))
        with pytest.raises(WrongType, match="columns of the same name and different types"):
            bed.engine.results("q", version="all")
        assert bed.engine.results("q", version=3)["t"].to_pylist() == ["b", "b"]
        with pytest.raises(UnknownQuery, match="no version 4"):
            bed.engine.results("q", version=4)


def test_a_new_definition_with_the_past_answers_everything_anew(spark: SparkSession, tmp_path: Path) -> None:
    with open_bed(spark, tmp_path, retain_rows="1 h") as bed:
        bed.query("q", MINUTE)
        bed.feed("s", rows(0, 150))
        bed.engine.alter_query("q", f"{LARGER} WITH (from = 'beginning')")
        bed.feed("s", rows(150, 190))
        assert bed.timeline("q") == [(60, 6_000), (120, 6_000), (180, 6_000)]
        assert versions(bed) == [(1, 60, 6), (2, 60, 6_000), (1, 120, 6), (2, 120, 6_000), (2, 180, 6_000)]


def test_a_backfill_takes_windows_over_from_the_definition_that_leaves(spark: SparkSession, tmp_path: Path) -> None:
    with open_bed(spark, tmp_path, retain_rows="1 h") as bed:
        bed.query("q", MINUTE)
        bed.feed("s", rows(0, 150))
        bed.engine.alter_query("q", LARGER)
        assert bed.engine.backfill(["q"]) == {"q": 2}
        bed.feed("s", rows(150, 310))
        assert bed.timeline("q") == [(end, 6_000) for end in (60, 120, 180, 240, 300)]
        assert [v for v, _, _ in versions(bed)] == [1, 2, 1, 2, 2, 2, 2]


def test_a_query_that_comes_back_does_not_say_again_what_it_said(spark: SparkSession, tmp_path: Path) -> None:
    #   another query keeps the same partials, so the past could be answered again
    sliding = "SELECT count(*) AS n FROM s [RANGE 60 s SLIDE 20 s]"
    bed = open_bed(spark, tmp_path)
    bed.query("other", "SELECT count(*) AS n FROM s [RANGE 60 s SLIDE 20 s] WITH (retain = '1 h')")
    bed.query("q", sliding)
    bed.feed("s", rows(0, 150))
    bed.engine.drop_query("q")
    bed.query("q", sliding)  # before the next batch
    bed.feed("s", rows(150, 210))
    bed.engine.drop_query("q")
    bed.feed("s", rows(210, 250))
    bed.close()
    bed = open_bed(spark, tmp_path)
    assert bed.query("q", sliding).first_end_us == (START + 220) * 1_000_000  # as if it had never been gone
    bed.feed("s", rows(250, 330))
    assert bed.timeline("q") == bed.timeline("other")
    assert [v for v, _, _ in versions(bed)] == [1] * 7 + [2] * 3 + [3] * 6
    bed.engine.drop_query("q")
    bed.query("q", f"{sliding} WITH (from = 'beginning')")  # what is asked for is said again, as another version
    assert [v for v, end, _ in versions(bed) if end == 60] == [1, 4]
    bed.close()
    told: Counter[tuple[str, int, str]] = Counter()
    for file in (tmp_path / "lines").iterdir():
        for line in map(json.loads, file.read_text().splitlines()):
            told[line["query_name"], line["query_version"], line["window_end"]] += 1
    assert set(told.values()) == {1}


def test_dropping_pausing_and_altering_again_reach_what_is_still_leaving(spark: SparkSession) -> None:
    with open_bed(spark) as bed:
        bed.query("q", "SELECT count(*) AS n FROM s [RANGE 100 s SLIDE 10 s]")
        bed.feed("s", rows(0, 100))
        bed.engine.alter_query("q", "SELECT count(*) + 1 AS n FROM s [RANGE 100 s SLIDE 10 s]")
        bed.engine.alter_query("q", "SELECT count(*) + 2 AS n FROM s [RANGE 100 s SLIDE 10 s]")  # no row in between
        bed.feed("s", rows(100, 150))
        bed.engine.alter_query("q", "SELECT count(*) + 3 AS n FROM s [RANGE 100 s SLIDE 10 s]")
        bed.feed("s", rows(150, 300))
        found = [v for v, _, _ in versions(bed)]
        assert found == sorted(found)
        assert [v for v, end, _ in versions(bed)] == [1] * 19 + [3] * 5 + [4] * 5
        bed.engine.alter_query("q", "SELECT count(*) + 4 AS n FROM s [RANGE 100 s SLIDE 10 s]")
        bed.engine.pause_query("q")
        bed.feed("s", rows(300, 320))
        assert len(versions(bed)) == 29
        bed.engine.drop_query("q")
        assert bed.engine.catalog.definitions("s") == ()


def test_a_table_is_kept_for_a_definition_that_is_still_leaving(spark: SparkSession) -> None:
    from penstock.errors import CatalogError

    with open_bed(spark) as bed:
        bed.table("names", [{"k": "a", "name": "A"}])
        bed.query("q", "SELECT name, count(*) AS n FROM s [RANGE 60 s SLIDE 60 s] JOIN names USING (k) GROUP BY name")
        bed.feed("s", rows(0, 150))
        bed.engine.alter_query("q", MINUTE)
        with pytest.raises(CatalogError, match='table "names" is read by query "q"'):
            bed.engine.execute("DROP TABLE names")
        bed.feed("s", rows(150, 310))
        bed.engine.execute("DROP TABLE names")


def test_windows_of_rows_that_began_before_a_change_are_the_old_definitions(spark: SparkSession) -> None:
    #   rows of one second each; windows of four rows every two: those that begin with row 0 … 4 are the first one's
    with open_bed(spark) as bed:
        bed.query("q", "SELECT count(*) AS n, min(v) AS low FROM s [ROWS 4 SLIDE 2]")
        bed.feed("s", [{"ts": i, "k": "a", "v": i} for i in range(6)])
        bed.engine.alter_query("q", "SELECT count(*) AS n, max(v) AS low FROM s [ROWS 4 SLIDE 2]")
        bed.feed("s", [{"ts": i, "k": "a", "v": i} for i in range(6, 16)])
        bed.flush()
        found = bed.engine.results("q", version="all").select(["version", "n", "low"]).to_pylist()
        assert [tuple(row.values()) for row in found if row["version"] == 1] == [
            (1, 2, 0), (1, 4, 0), (1, 4, 2), (1, 4, 4)
        ]  # fmt: skip
        assert [tuple(row.values()) for row in found if row["version"] == 2] == [
            (2, 2, 7), (2, 4, 9), (2, 4, 11), (2, 4, 13), (2, 4, 15)
        ]  # fmt: skip


def test_what_a_query_said_of_time_is_shown_after_it_counts_rows_and_after_it_reads_another_stream(
    spark: SparkSession, tmp_path: Path
) -> None:
    with open_bed(spark, tmp_path) as bed:
        bed.stream("other", "ts TIMESTAMP, k STRING, v BIGINT")
        bed.query("q", "SELECT count(*) AS n FROM s [RANGE 10 s SLIDE 10 s]")
        bed.feed("s", rows(1, 24))
        bed.engine.alter_query("q", "SELECT count(*) AS n FROM s [ROWS 1 SLIDE 1]")
        bed.feed("s", rows(31, 52))
        bed.engine.alter_query("q", "SELECT sum(v) AS total FROM other [RANGE 10 s SLIDE 10 s]")
        bed.feed("other", rows(101, 112))
    with open_bed(spark, tmp_path) as bed:
        assert bed.engine.results("q", version=1)["n"].to_pylist() == [1, 1, 1]
        assert bed.engine.results("q", version=2)["n"].to_pylist() == [1, 1]
        assert bed.engine.results("q", version=3).column_names == ["window_start", "window_end", "total"]
        assert bed.engine.results("q", version="all")["version"].to_pylist() == [1, 1, 1, 2, 2, 3]
        with pytest.raises(UnknownQuery, match="the query has no version 4"):
            bed.engine.results("q", version=4)


@pytest.mark.parametrize("seed", [1, 2, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(3, 40))])
def test_however_a_query_is_altered_every_window_is_one_definitions(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    """Alter one query at random moments, with restarts: windows of each version are those that began while it held."""
    draw, bed = random.Random(seed), open_bed(spark, tmp_path, lateness="7 s")
    texts, changes, greatest = [], list[int](), 0
    everything: list[int] = []
    for number in range(8):
        window = draw.choice(
            ["[RANGE 30 s SLIDE 10 s]", "[RANGE 30 s SLIDE 10 s]", "[RANGE 12 s SLIDE 5 s OFFSET 3 s]"]
        )
        text = f"SELECT count(*) AS n, {number} AS version_{number} FROM s {window}"
        if number:
            bed.engine.alter_query("q", text)
        else:
            bed.query("q", text)
        texts.append(window)
        changes.append(greatest + 1 if everything else -(1 << 40))
        if draw.random() < 0.3:
            bed.close()
            bed = open_bed(spark, tmp_path)
        batch = [max(0, greatest + draw.randint(-6, 25)) for _ in range(draw.randint(0, 6))]
        everything += batch
        greatest = max([greatest, *batch])
        bed.feed("s", [{"ts": ts, "k": "a", "v": 1} for ts in batch])
    bed.flush()
    for number, window in enumerate(texts):
        range_s, slide, offset = (30, 10, 0) if "30 s" in window else (12, 5, 3)
        until = changes[number + 1] if number + 1 < len(changes) else 1 << 40
        ends = [e for e in range(-60, greatest + 90) if (e - offset) % slide == 0]
        low = min(everything)
        own = [e for e in ends if e > low and changes[number] <= e - range_s < until and e - range_s <= greatest]
        found = [int(end.timestamp()) - START for end in _ends(bed.engine.results("q", version=number + 1))]
        counts = bed.engine.results("q", version=number + 1)
        held = [sum(e - range_s <= ts < e for ts in everything) for e in found]
        assert found == [e for e in own if e in found or any(e - range_s <= ts < e for ts in everything)], number
        assert not found or counts["n"].to_pylist() == held
    bed.close()


def test_a_query_that_comes_back_at_once_says_nothing_again_from_kept_rows(spark: SparkSession) -> None:
    with open_bed(spark, retain_rows="60 s") as bed:
        bed.feed("s", [{"ts": ts, "k": "a", "v": 1} for ts in (13, 14, 23)])
        text = "SELECT k, count(*) AS n FROM s [RANGE 8 s SLIDE 5 s OFFSET 3 s] GROUP BY k"
        bed.query("q", text)
        assert bed.timeline("q") == [(18, "a", 2)]
        bed.engine.drop_query("q")
        bed.query("q", text)
        bed.flush()
        assert [(version, end) for version, end, _ in versions(bed)] == [(1, 18), (2, 28)]


def test_a_query_over_rows_that_is_altered_while_it_is_paused_stays_paused(spark: SparkSession) -> None:
    with open_bed(spark) as bed:
        bed.query("q", "SELECT count(*) AS n FROM s [ROWS 2 SLIDE 2]")
        bed.feed("s", rows(0, 40))
        bed.engine.pause_query("q")
        bed.engine.alter_query("q", "SELECT sum(v) AS n FROM s [ROWS 3 SLIDE 1]")
        assert bed.paused("q") == "paused by hand"
        bed.feed("s", rows(40, 80))
        bed.feed("s", rows(80, 120))
        assert bed.paused("q") == "paused by hand"
        assert bed.engine.results("q", version=2).num_rows == 0
        bed.engine.resume_query("q")
        bed.feed("s", rows(120, 160))
        bed.flush()
        assert bed.engine.results("q", version=2).num_rows > 0


def test_of_definitions_altered_one_after_the_other_the_first_leaves_what_the_last_one_took_over(
    spark: SparkSession,
) -> None:
    #   version 1 has [10, 15) open; 2 takes its place and 3 takes that of 2, which then answers all of the past
    with open_bed(spark, retain_rows="60 s", lateness="5 s") as bed:
        bed.query("q", "SELECT sum(v) AS t FROM s [RANGE 5 s SLIDE 5 s]")
        bed.feed("s", [{"ts": ts, "k": "a", "v": 1} for ts in (2, 11)])
        bed.engine.alter_query("q", "SELECT count(*) AS n FROM s [RANGE 30 s SLIDE 5 s]")
        bed.engine.alter_query("q", "SELECT max(v) AS m FROM s [RANGE 5 s SLIDE 10 s]")
        bed.engine.backfill(["q"])
        bed.feed("s", [{"ts": ts, "k": "a", "v": 1} for ts in (12, 40)])
        bed.flush()
        found = bed.engine.results("q", version="all")
        starts = [int(start.timestamp()) - START for start in found["window_start"].to_pylist()]
        held = list(zip(found["version"].to_pylist(), starts, strict=True))
        assert (1, 10) not in held
        assert all(start % 10 == 5 for version, start in held if version == 3)
