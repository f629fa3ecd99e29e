"""Rates are told from runs: what times were made of is found again, and noise is left out."""

from __future__ import annotations

from dataclasses import asdict, fields, replace

import numpy as np
import pytest

from penstock.calibrate import measuring
from penstock.calibrate.measuring import CROWD, FEW_ROWS, FILES, MANY, NODES, SOME, Calibration, Took
from penstock.share.weave.costs import DEFAULT_RATES, Rates, crowding

ROWS = 400_000
RATES = Rates(
    scanned=50e-9,
    sliced=2e-9,
    copied=22e-9,
    keyed=40e-9,
    crowded=200e-9,
    asked=10e-9,
    partial=0.8e-6,
    lone=1.2e-6,
    cell=30e-9,
    merged=2e-9,
    evaluation=0.1e-6,
    window=1.3e-6,
    batch=0.12,
    several=0.02,
    query=60e-6,
    tree=0.4e-3,
    turn=0.2e-3,
)
STORED = 0.25  # of what a partial costs, storing it
IDLE = 0.6  # of what a batch costs, what is neither job nor answers
ASIDE = 0.8  # of what a query costs, the same


def run(name: str) -> Took:
    """Make up a run of a way: its rows, trees and partials, and what the rates make of them."""
    trades, queries, strategy = measuring.WAYS[name]
    rows = FEW_ROWS if trades == "few" else ROWS
    trees = len(queries) if strategy == "unshared paired" else 1
    keyed = "symbol" in queries[0]
    partials = {
        "fine trees": 140_000,
        "trees with keys": 110_000,
        "fine trees with keys": 730_000,
        "crowd": 820_000,
        "few partials": 6_000,
        "many partials": 350_000,
        "merged": 350_000,
    }.get(name, 0)
    answers = {
        "few partials": 4_000,
        "many partials": 680_000,
        "merged": 680_000,
        "windows": 84_000,
        "fine trees": 84_000,
        "small batches, trees": 36,
    }.get(name, 0)
    windows = answers // (measuring.SYMBOLS if keyed else 1)
    slices = FILES + (30 if name == "fine trees with keys" else 1)  # of a tree
    far = float(crowding(np.array(partials / slices))) * RATES.crowded if keyed else 0.0
    copied = RATES.sliced + RATES.copied + (RATES.keyed if keyed else 0.0) + far
    made = partials * (RATES.partial if keyed else RATES.lone)
    job = FILES * ((1 - IDLE) * RATES.batch + (RATES.several if trees > 1 else 0.0)) + (1 - STORED) * made
    job += rows * (RATES.scanned + trees * (copied + (RATES.asked if "WHERE" in queries[0] else 0.0)))
    store = STORED * made
    asked = FILES * (len(queries) - 1) * RATES.query
    answer = FILES * (trees - 1) * RATES.tree + (1 - ASIDE) * asked
    answer += min(FILES * (trees - 1), windows) * RATES.turn
    answer += answers * RATES.evaluation + windows * RATES.window
    answer += answers * NODES * RATES.merged if name == "merged" else 0.0
    answer += measuring.CELLS * RATES.cell if name == "cells held" else 0.0
    aside = FILES * IDLE * RATES.batch + ASIDE * asked
    return Took(job + store + answer + aside, job, store, answer, partials, answers)


def test_rates_are_found_again_in_the_runs_they_make() -> None:
    found = measuring.rates_of({name: run(name) for name in measuring.WAYS}, ROWS)
    for name, rate in asdict(RATES).items():
        assert getattr(found, name) == pytest.approx(rate, rel=0.06), name


def test_a_difference_that_noise_swallows_leaves_the_usual_rate() -> None:
    runs = {name: run(name) for name in measuring.WAYS}
    runs["cells held"] = replace(runs["cells held"], answer=0.0)
    runs["crowd"] = replace(runs["crowd"], job=0.0)
    found = measuring.rates_of(runs, ROWS)
    assert (found.cell, found.crowded) == (DEFAULT_RATES.cell, DEFAULT_RATES.crowded)
    assert found.partial == pytest.approx(RATES.partial, rel=0.06)


def test_steps_go_by_their_least_and_the_whole_by_its_median() -> None:
    warming, warm = (30.0, 20.0, 2.0), (5.0, 3.0, 8.0)
    runs = [Took(whole, whole / 2, 40 - whole, 1.0, 800, 80) for whole in warming + warm]
    assert measuring.typical_run(runs, 4) == Took(5 / 4, 1 / 4, 10 / 4, 0.25, 200, 20)


def test_all_rates_are_printed() -> None:
    text = str(Calibration(RATES, ROWS))
    assert len(text.splitlines()) == len(fields(Rates))
    assert f"{RATES.several * 1e9:,.1f} ns" in text


def test_the_trees_of_a_crowd_fill_many_times_the_groups_of_the_others() -> None:
    assert CROWD * measuring.CROWD_SYMBOLS >= 8 * SOME * measuring.SYMBOLS
    assert len(measuring.KEYED) == CROWD
    assert len(measuring.TREES) == MANY
