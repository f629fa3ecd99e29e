"""Scenes drawn from a seed: queries whose rows wait, policies, steps, commits and deaths of engines in any order."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.schedule.operator_queues import is_for_operators
from penstock.schedule.registry import POLICIES
from tests.cases import cases
from tests.stream.operated import (
    QUERIES,
    Clockwork,
    Row,
    above,
    answers,
    bed_with,
    expected,
    queue,
    rows_from,
    score,
    share_processes,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.testing import TestBed

LIVE = [*(name for name, policy in POLICIES.items() if is_for_operators(policy)), "Mixed(0.5)"]

# Queries of a function that gives another value each time, as conditions and answers.
DRAWN = {
    "low": "SELECT id, {} AS p FROM s WHERE v < 8",
    "thirds": "SELECT id, {} AS p FROM s WHERE {} % 3 = 0 AND weight(w, name) > 1",
    "scored": "SELECT id, {} AS p FROM s WHERE score(v) > 3",
    "even": "SELECT id, {} AS p FROM s WHERE {} % 2 = 0 AND score(id) > 3 AND v > 2",
    "last": "SELECT id, {} AS p FROM s WHERE score(id) > 3 AND weight(w, name) > 2 AND {} % 5 <> 0",
}


def opened(spark: SparkSession, state: Path, costs: dict[str, float]) -> tuple[TestBed, Clockwork]:
    bed = bed_with(spark, state)
    return bed, Clockwork(bed, costs)


def played(spark: SparkSession, state: Path, log: Path, draw: random.Random, queries: dict[str, str]) -> list[Row]:
    """Play a scene; return its rows, all of which have gone through."""
    costs = {name: draw.choice([1e-6, 1e-3, 1.0]) for name in ("score", "weight", "drawn")}
    bed, clockwork = opened(spark, state, costs)
    for name, text in queries.items():
        bed.query(name, text.replace("{}", f"drawn('{log}', v)"))
    given = list[Row]()
    for _ in range(draw.randint(4, 8)):
        rows = [(*r[:2], r[2] or 1, *r[3:]) for r in rows_from(len(given), draw.randint(1, 40))]
        given += rows
        queue(bed, rows)
        policy = draw.choice(LIVE)
        for _ in range(draw.randint(0, 40)):
            if clockwork.step(policy) is None:
                break
            if draw.random() < 0.3:
                clockwork.commit()
        if draw.random() < 0.45:
            bed.engine.streams.abandon_sinks()
            bed.engine.release()
            bed, clockwork = opened(spark, state, costs)
    while clockwork.step(draw.choice(LIVE)) is not None:
        pass
    clockwork.commit()
    assert (clockwork.queues.queue_rows, clockwork.queues.queue_bytes) == (0, 0)
    bed.close()
    return given


@pytest.mark.parametrize("seed", range(cases(5, soak=300)))
def test_every_scene_answers_each_row_once_and_by_one_value_of_a_function(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    share_processes(monkeypatch)
    draw = random.Random(seed)
    monkeypatch.setattr("penstock.kernel.operator_block.BLOCK_ROWS", draw.choice([3, 7, 50]))
    sure, drawn = draw.sample(sorted(QUERIES), 2), draw.sample(sorted(DRAWN), 3)
    queries = {name: QUERIES[name][0] for name in sure} | {f"drawn_{name}": DRAWN[name] for name in drawn}
    rows = played(spark, tmp_path / "state", tmp_path / "log", draw, queries)
    with bed_with(spark, tmp_path / "state") as bed:
        for name in sure:
            assert answers(bed, name) == expected(name, rows), name
        told = {name: answers(bed, f"drawn_{name}") for name in drawn}
    for name, listed in told.items():
        for other in drawn:
            known: dict[int, int] = dict(told[other])
            assert [pair for pair in listed if pair[0] in known and known[pair[0]] != pair[1]] == [], (name, other)
    for name, wanted in (
        ("low", [not above(r[2], 7) for r in rows]),
        ("scored", [above(score(r[2]), 3) for r in rows]),
    ):
        if name in told:
            assert [number for number, _ in told[name]] == [
                r[1] for r, takes in zip(rows, wanted, strict=True) if takes
            ]
    for name, divisor in (("thirds", 3), ("even", 2)):
        assert all(p % divisor == 0 for _, p in told.get(name, ()))
    # A row that is answered somewhere was decided by that value everywhere.
    if "low" in told and "even" in told:
        decided = [n for n, p in told["low"] if p % 2 == 0 and above(score(n), 3) and above(rows[n][2], 2)]
        assert [n for n, _ in told["even"] if not above(rows[n][2], 7)] == decided
