"""The benchmark of the simulator: the same answers as in SimPy, and a whole set of runs that is timed."""

from __future__ import annotations

from bench._measure import Figures
from bench.sim import Workload, measure, whole_set
from penstock.reproduce.figure import Size


def silent(words: str) -> None:
    """Say nothing."""


def test_both_simulators_give_the_same_responses() -> None:
    found = measure(Workload(tuples=40, queries=30, repetitions=1), silent)
    assert [t.met for t in found.targets if "same responses" in t.name] == [True, True]
    assert set(found.measurements["HNR"]["points_per_second"]) == {"Penstock HNR", "SimPy HNR"}


def test_the_whole_set_runs_every_policy_at_every_load() -> None:
    figures = Figures()
    whole_set(figures, Size(100, 10, say=silent))
    found = figures.measurements["whole set"]
    assert (len(found["policies"]), len(found["loads"]), found["tuples"]) == (9, 6, 100)
    assert figures.targets[-1].met
