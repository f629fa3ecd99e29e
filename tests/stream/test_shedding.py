"""Queries that shed load answer as rows sampled by hand, whoever aggregates; no other query knows anything of it."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.engine import Engine
from penstock.model.aggregation import Aggregation
from penstock.model.sampling import share_of
from penstock.testing import EPOCH, TestBed
from tests.store.dying import Died, dying_at
from tests.stream import feeding
from tests.stream.sampled_by_hand import AGGREGATES, AVERAGES, SCHEMA, Sampled, differences, hashes, random_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOMES: tuple[Aggregation, ...] = ("driver", "executors")
LENGTH, LATENESS = 10, 4
SHED = "WITH (shed = 'sample')"


def text(keys: str, option: str = SHED) -> str:
    selected, grouped = (f"{keys}, ", f"GROUP BY {keys} ") if keys else ("", "")
    window = f"[RANGE {LENGTH} s SLIDE {LENGTH} s]"
    return f"SELECT {selected}{AGGREGATES}, {AVERAGES} FROM s {window} {grouped}{option}"


def opened(spark: SparkSession, folder: Path, aggregation: Aggregation) -> TestBed:
    bed = TestBed(spark, state=folder, aggregation=aggregation)
    if "s" not in bed.engine.catalog.stream_names():
        bed.stream("s", SCHEMA, lateness=f"{LATENESS} s")
        for name, keys in (("alone", ""), ("grouped", "k")):
            bed.query(name, text(keys))
            bed.query(f"exact_{name}", text(keys, ""))
    return bed


def by_place(bed: TestBed, name: str, keys: tuple[str, ...]) -> dict[Any, dict[str, Any]]:
    """Return the answers of windows that hold a row, by window and group."""
    listed = [((seconds(a["window_end"]), tuple(a[key] for key in keys)), a) for a in bed.answers(name) if a["n"]]
    found = dict(listed)
    assert len(found) == len(listed)  # none is answered twice
    return found


def seconds(instant: datetime) -> int:
    return round((instant - EPOCH).total_seconds())


def check(bed: TestBed, name: str, model: Sampled, *, bounded: bool) -> None:
    found, expected = by_place(bed, name, model.keys), model.answers()
    assert found.keys() == expected.keys()
    differing = {place: differences(found[place], expected[place], bounded=bounded) for place in found}
    assert {place: told for place, told in differing.items() if told} == {}


def check_untouched(bed: TestBed, model: Sampled) -> None:
    """Where every row was kept, an answer is the exact one, digit by digit, and says so."""
    found, exact = (by_place(bed, name, model.keys) for name in ("grouped", "exact_grouped"))
    whole = {place for place in found if place[0] not in model.thinned}
    assert whole
    for place in whole:
        bounds = {name: value for name, value in found[place].items() if name.endswith("_bound")}
        assert {value for name, value in bounds.items() if value is not None} == {0.0}
        assert found[place] == {**exact[place], **bounds, "sampled": 1.0}


@pytest.mark.parametrize(("aggregation", "seed"), [("driver", 1), ("executors", 2)])
def test_answers_are_those_of_rows_sampled_by_hand_over_restarts_and_deaths(
    spark: SparkSession, tmp_path: Path, aggregation: Aggregation, seed: int
) -> None:
    random, since = Random(seed), 0.0
    sampled = {name: Sampled(LENGTH, LATENESS, keys) for name, keys in (("alone", ()), ("grouped", ("k",)))}
    exact = {f"exact_{name}": Sampled(LENGTH, LATENESS, model.keys) for name, model in sampled.items()}
    for number, level in enumerate([0, 0, 0, 2, 1, 3, 0, 2]):
        rows = random_rows(random, random.randint(40, 120), max(0.0, since - 9), since + 6)  # some are late
        codes, since = hashes(spark, rows), since + 6
        bed = opened(spark, tmp_path, aggregation)
        bed.engine.set_sampling("s", share_of(level))
        twins = bed.engine.stream("s").pipeline.progress.clock.twins.factor
        if number % 2:
            with pytest.raises(Died), dying_at(0, f"commit.{random.choice(['before', 'after'])}"):
                bed.feed("s", rows, number=number)
        bed.engine.release()  # as a process leaves it that dies
        with opened(spark, tmp_path, aggregation) as bed:
            assert bed.engine.sampling("s") == share_of(level)  # as it was fixed before
            bed.feed("s", rows, number=number)
        for model in sampled.values():
            model.feed(rows, codes, level, twins)
        for model in exact.values():
            model.feed(rows, codes, 0)
    with opened(spark, tmp_path, aggregation) as bed:
        bed.flush()
        assert bed.counts("s").whole
        assert bed.counts("s").late == sampled["alone"].late > 0
        for name, model in sampled.items():
            check(bed, name, model, bounded=True)
        for name, model in exact.items():
            check(bed, name, model, bounded=False)
        check_untouched(bed, sampled["grouped"])
        shed = {query["query"]: query["shed"] for query in bed.engine.status()["queries"]}
        assert shed["alone"] == shed["grouped"] == sampled["alone"].shed > 0
        assert shed["exact_alone"] == shed["exact_grouped"] == 0


@pytest.mark.parametrize(("kind", "share"), [("even", "1/16"), ("skewed", "1/8"), ("twins", "1/16")])
def test_bounds_hold_in_ninety_three_of_a_hundred_answers_and_estimates_are_right_on_average(
    kind: str, share: str, spark: SparkSession, tmp_path: Path
) -> None:
    """Of 1,000 answers or more, 300 rows that differ each; equal ones come four times, and are seen once before."""
    source, later, numbers = tmp_path / "source", tmp_path / "later", np.random.default_rng(2026)
    for made in (source, later):
        made.mkdir()
    for batch, first in enumerate(range(0, 300, 50)):
        write((later if batch else source) / f"{batch}.parquet", kind, numbers, first)
    aggregates = "count(*) AS n, count_if(x > 1) AS c, sum(v) AS sv, sum(x) AS sx, avg(x) AS ax"
    asked = f"SELECT k, {aggregates} FROM s [RANGE 1 s SLIDE 1 s] GROUP BY k"
    with Engine(tmp_path / "state", spark=spark) as engine:
        options = f"OPTIONS (path '{source}', maxFilesPerTrigger 1) WATERMARK FOR ts"
        engine.execute(f"CREATE STREAM s (ts TIMESTAMP, k INT, v BIGINT, x DOUBLE) USING parquet {options}")
        engine.create_queries({"exact": asked, "estimated": f"{asked} {SHED}"})
        engine.process_available()
        for one in later.iterdir():
            one.rename(source / one.name)
        engine.set_sampling("s", share)
        engine.process_available(flush=True)
        placed = ["window_end", "k"]
        exact, estimated = (engine.results(name).to_pandas().set_index(placed) for name in ("exact", "estimated"))
    estimated = estimated[estimated["sampled"] < 1]
    assert len(estimated) >= 1_000
    for name in ("n", "c", "sv", "sx", "ax"):
        errors = (estimated[name] - exact.loc[estimated.index, name]).astype(float)
        assert (errors.abs() <= estimated[f"{name}_bound"]).mean() >= 0.93, name
        assert abs(errors.mean()) < 3.5 * errors.std() / np.sqrt(len(errors))  # what chance alone makes of it


def write(path: Path, kind: str, numbers: np.random.Generator, since: int, rows: int = 60_000) -> None:
    """Write the rows of 50 seconds: whole numbers around zero, and doubles that are even or skewed."""
    times = np.sort(numbers.integers(since * 1_000_000, (since + 50) * 1_000_000, rows))
    columns = {"k": numbers.integers(0, 4, rows).astype(np.int32), "v": numbers.integers(-50, 500, rows)}
    x = numbers.uniform(0, 2, rows) if kind == "even" else numbers.exponential(2, rows)
    made = pa.table({"ts": pa.array(times, pa.timestamp("us", tz="UTC")), **columns, "x": x})
    pq.write_table(made.take(pa.array(np.repeat(np.arange(rows), 4))) if kind == "twins" else made, path)
    os.utime(path, (1_700_000_000 + since, 1_700_000_000 + since))  # Spark reads files in this order


ALONE = {
    "one": {"only": "SELECT count(*) AS n, sum(v) AS x FROM s [RANGE 10 s SLIDE 10 s]"},
    "some": {
        "short": "SELECT k, count(*) AS n, avg(x) AS x FROM s [RANGE 10 s SLIDE 5 s] GROUP BY k",
        "picked": "SELECT k, sum(v) AS x FROM s [RANGE 13 s SLIDE 4 s] WHERE i > 2 GROUP BY k",
        "long": "SELECT count_if(i > 4) AS n FROM s [RANGE 20 s SLIDE 20 s]",
    },
}


@pytest.mark.parametrize("queries", ALONE.values(), ids=ALONE)
def test_rows_that_are_shed_are_not_sent_where_nobody_else_wants_them_and_all_are_counted(
    queries: dict[str, str], spark: SparkSession
) -> None:
    random, batches, since = Random(21), list[tuple[list[dict[str, Any]], int]](), 0.0
    for level in (0, 3, 3, 1, 0, 4):
        rows = random_rows(random, 300, max(0.0, since - 9), since + 6)  # some are late, and some have no time
        batches.append(([row | {"ts": None if n % 50 == 7 else row["ts"]} for n, row in enumerate(rows)], level))
        since += 6
    found, sent = dict[bool, Any](), dict[bool, list[tuple[int, int]]]()
    for beside in (False, True):
        with TestBed(spark, aggregation="driver") as bed:
            bed.stream("s", SCHEMA, lateness="4 s")
            for name, text in queries.items():
                bed.query(name, f"{text} {SHED}")
            if beside:
                bed.query("exact", "SELECT count(*) AS n FROM s [RANGE 10 s SLIDE 10 s]")
            pipeline, sent[beside], told = bed.engine.stream("s").pipeline, [], []
            for rows, level in batches:
                bed.engine.set_sampling("s", share_of(level))
                bed.feed("s", rows)
                assert pipeline.computing.sent is not None
                sent[beside].append((pipeline.computing.sent.rows, pipeline.computing.sent.bytes))
                told.append((bed.counts("s"), pipeline.progress.clock.watermark_us, pipeline.progress.clock.twins))
            bed.flush()
            shed = {query["query"]: query["shed"] for query in bed.engine.status()["queries"]}
            found[beside] = told, {name: (bed.answers(name), shed[name]) for name in queries}
    assert found[False][1] == found[True][1]
    for (counts, watermark, _), (others, mark, _) in zip(found[False][0], found[True][0], strict=True):
        assert (counts, watermark) == (others, mark)
        assert counts.whole
    assert counts.late > 0 < counts.invalid
    assert [count for count, _ in sent[True]] == [300] * len(batches)
    for (count, size), (_, whole), (_, level) in zip(sent[False], sent[True], batches, strict=True):
        assert count == 300 if level == 0 else count < 300 * (0.5**level + 0.35)  # late and invalid ones are sent
        assert size < 0.75 * whole or level < 2


@pytest.mark.parametrize("aggregation", HOMES)
def test_a_scaled_sum_fails_only_if_it_does_not_fit(spark: SparkSession, aggregation: Aggregation) -> None:
    most = 2**62  # times its weight it is beyond a bigint
    made = [{"ts": n / 100, "k": "a", "v": v} for n, v in enumerate([most, -most, 5] * 60)]
    kept = [row for row, code in zip(made, hashes(spark, made), strict=True) if code % 4 == 0]
    few: list[dict[str, Any]] = [row for v in (most, -most, 5) for row in [r for r in kept if r["v"] == v][:3]]
    assert len(few) == 9
    more = [{"ts": 10.0 + n / 100, "k": "a", "v": most} for n in range(40)]
    with TestBed(spark, aggregation=aggregation) as bed:
        bed.stream("s", SCHEMA)
        bed.query("q", f"SELECT sum(v) AS x FROM s [RANGE 10 s SLIDE 10 s] {SHED}")
        bed.engine.set_sampling("s", "1/4")
        bed.feed("s", [*few, *more])
        bed.flush()
        assert [answer["x"] for answer in bed.answers("q")] == [4 * 3 * 5]
        assert "does not fit" in (bed.paused("q") or "")


def test_what_is_not_known_of_a_sample_has_no_bound(spark: SparkSession) -> None:
    rows = [{"ts": n / 100, "k": "a"} for n in range(1, 41)]
    with TestBed(spark) as bed:
        bed.stream("s", SCHEMA)
        bed.query("q", f"SELECT count(*) AS n, count_if(i > 0) AS c, sum(i) AS x FROM s [RANGE 10 s SLIDE 10 s] {SHED}")
        bed.engine.set_sampling("s", "1/2")
        bed.feed("s", rows)
        bed.feed("s", [{"ts": 25.0, "k": "b"}])
        bed.feed("s", [{"ts": 31.0, "k": "c"}])
        kept, nothing = bed.answers("q")[:2]
        assert kept["n"] > 0
        assert (kept["c"], kept["c_bound"], kept["x"], kept["x_bound"]) == (0, None, None, None)  # perhaps it was shed
        empty = {name: value for name, value in nothing.items() if not name.startswith("window")}
        assert empty == {"n": 0, "n_bound": None, "c": 0, "c_bound": None, "x": None, "x_bound": None, "sampled": None}


def test_a_stream_that_gets_a_column_is_sampled_on_and_a_name_in_a_text_sheds_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    text = "SELECT count(*) AS n FROM s [RANGE 100 s SLIDE 100 s]"
    feeding.put(tmp_path / "source", 0, range(100))
    with feeding.file_engine(spark, tmp_path) as engine:
        engine.create_query("shed", f"{text} {SHED}")
        engine.create_query("named", "SELECT v, count(*) AS n FROM s [RANGE 100 s SLIDE 100 s] "
                            "WHERE cast(w AS string) <> '`#weight`' GROUP BY v")  # fmt: skip
        engine.set_sampling("s", "1/2")
        engine.process_available()
        engine.execute("ALTER STREAM s ADD COLUMN z INT")
        feeding.put(tmp_path / "source", 1, range(100, 200))
        engine.process_available(flush=True)
        answers, named = engine.results("shed", "rows"), engine.results("named", "rows")
        assert [answer["sampled"] for answer in answers] == [0.5, 0.5]
        assert all(50 < answer["n"] < 150 for answer in answers)
        assert [answer["n"] for answer in named] == [1] * 200  # every row, as exact queries have them
