"""Queries that shed load answer as rows sampled by hand, whoever aggregates, and all other queries know nothing of it."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from penstock.model.aggregation import Aggregation
from penstock.model.sampling import share_of
from penstock.testing import EPOCH, TestBed
from tests.store.dying import Died, dying_at
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


@pytest.mark.parametrize("aggregation", HOMES)
@pytest.mark.parametrize("seed", [1, 2])
def test_answers_are_those_of_rows_sampled_by_hand_over_restarts_and_deaths(
    spark: SparkSession, tmp_path: Path, aggregation: Aggregation, seed: int
) -> None:
    random, since = Random(seed), 0.0
    sampled = {name: Sampled(LENGTH, LATENESS, keys) for name, keys in (("alone", ()), ("grouped", ("k",)))}
    exact = {f"exact_{name}": Sampled(LENGTH, LATENESS, model.keys) for name, model in sampled.items()}
    for number, level in enumerate([0, 0, 0, 2, 1, 3, 0, 2]):
        rows = random_rows(random, random.randint(40, 120), max(0.0, since - 9), since + 6)  # some are late
        codes, since = hashes(spark, rows), since + 6
        for model in sampled.values():
            model.feed(rows, codes, level)
        for model in exact.values():
            model.feed(rows, codes, 0)
        bed = opened(spark, tmp_path, aggregation)
        bed.engine.set_sampling("s", share_of(level))
        if number % 2:
            with pytest.raises(Died), dying_at(0, f"commit.{random.choice(['before', 'after'])}"):
                bed.feed("s", rows, number=number)
        bed.engine.release()  # as a process leaves it that dies
        with opened(spark, tmp_path, aggregation) as bed:
            assert bed.engine.sampling("s") == share_of(level)  # as it was fixed before
            bed.feed("s", rows, number=number)
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
