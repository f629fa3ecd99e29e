"""The compiled simulator and its naive twin agree on every event of random small scenarios, for every policy."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from penstock.errors import ProjectError
from penstock.schedule.compiled import pointer
from penstock.schedule.policy import Manner, Policy
from penstock.schedule.registry import POLICIES, policy_named
from penstock.sim.kernel import simulate
from penstock.sim.layout import Beliefs, Level
from penstock.sim.run import run, warm
from tests.cases import cases
from tests.sim.scenarios import Case, case
from tests.sim.twin import Twin, slowdowns, staleness

HOUSE = Path(__file__).resolve().parents[2]
SCENARIOS = cases(100, soak=1_000)
FAMILIES = tuple(policy_named(name) for name in ("FAS-MCQ(0.25)", "Mixed(0.2)", "Mixed(0.6)"))


EVERY = (*POLICIES.values(), *FAMILIES)


def rumours(made: Case, seed: int) -> Beliefs:
    """Other facts than the true ones for every operator, and edges of which some run on at once."""
    draw, many = random.Random(seed), len(made.net.segments)
    selectivity, cost, ideal = (np.array([draw.randint(1, most) / 8 for _ in range(many)]) for most in (8, 40, 40))
    at_once = tuple(tuple(draw.random() < 0.5 for _ in edges) for edges in made.net.edges)
    return Beliefs(selectivity, cost, ideal, at_once)


def fits(policy: Policy, case: Case) -> bool:
    """Oracles foresee single paths taken as a whole, and a flush follows one path."""
    if policy.oracle:
        return case.kinds == {"Query"} and case.settings.level is Level.QUERY and not case.settings.fluid
    if policy.manner in (Manner.FLUSH, Manner.FLUSH_HEADS):
        return case.kinds == {"Query"}
    return True


def disagreement(seed: int, policy: Policy, told: bool = False, **changes: object) -> str | None:
    made = case(seed)
    if not fits(policy, made) or (policy.oracle and told) or ("charge" in changes and made.kinds != {"Query"}):
        return None
    settings = replace(made.settings, **changes)  # type: ignore[arg-type]
    beliefs = rumours(made, seed) if told else Beliefs()
    found = run(made.net, made.arrivals, made.values, policy, settings, beliefs=beliefs)
    twin = Twin(made.net, made.arrivals, made.values, policy.name, settings, beliefs).run()
    mine = list(zip(found.query.tolist(), found.tuple.tolist(), found.arrival.tolist(), strict=True))
    theirs = [answer[:3] for answer in twin.answers]
    if mine != theirs or not np.allclose(found.done, [a[3] for a in twin.answers], rtol=0, atol=1e-9):
        return f"seed {seed}, {policy}: answers\n{mine}\n{theirs}"
    if not np.allclose(found.slowdown, slowdowns(twin), rtol=0, atol=1e-9):
        return f"seed {seed}, {policy}: slowdowns\n{found.slowdown.tolist()}\n{slowdowns(twin)}"
    end = max(found.end, 1.0)
    if not np.allclose(found.staleness(0.0, end), staleness(twin, end), rtol=0, atol=1e-9):
        return f"seed {seed}, {policy}: staleness\n{found.staleness(0.0, end).tolist()}\n{staleness(twin, end)}"
    traces = np.column_stack([found.trace_time, found.trace_size]), np.array(twin.memory).reshape(-1, 2)
    if traces[0].shape != traces[1].shape or not np.allclose(*traces, rtol=0, atol=1e-9):
        return f"seed {seed}, {policy}: memory\n{traces[0].tolist()}\n{traces[1].tolist()}"
    return None


@pytest.mark.parametrize("policy", EVERY, ids=str)
def test_the_simulator_and_its_twin_agree(policy: Policy) -> None:
    assert [d for seed in range(SCENARIOS) if (d := disagreement(seed, policy)) is not None][:1] == []


@pytest.mark.parametrize("policy", EVERY, ids=str)
def test_they_agree_while_selectivities_are_estimated_anew(policy: Policy) -> None:
    found = [disagreement(s, policy, adapt_window=1 + s % 3, adapt_alpha=0.25) for s in range(SCENARIOS)]
    assert [d for d in found if d is not None][:1] == []


@pytest.mark.parametrize("policy", EVERY, ids=str)
def test_they_agree_when_policies_are_told_other_facts_and_some_operators_run_on_at_once(policy: Policy) -> None:
    assert [d for seed in range(SCENARIOS) if (d := disagreement(seed, policy, told=True)) is not None][:1] == []


def test_a_calendar_is_refused_while_selectivities_are_estimated_anew() -> None:
    made = case(0)
    settings = replace(made.settings, calendar=True, adapt_window=2, synced=False)
    with pytest.raises(ProjectError, match="a calendar queue cannot be used while selectivities are estimated anew"):
        run(made.net, made.arrivals, made.values, policy_named("HR"), settings)


def test_after_warming_no_decision_waits_for_the_compiler() -> None:
    warm(EVERY)
    before = len(simulate.signatures), pointer.cache_info().misses  # type: ignore[attr-defined]
    for seed in range(4):
        for policy in EVERY:
            disagreement(seed, policy)
    assert (len(simulate.signatures), pointer.cache_info().misses) == before  # type: ignore[attr-defined]
    assert before[0] == 1


@pytest.mark.parametrize("name", ["HR", "HNR", "FAS-MCQ", "FAS-MCQ(0.25)"])
@pytest.mark.parametrize("charge", [0.0, 0.125])
def test_they_agree_with_a_calendar_queue_each_use_of_which_may_cost_time(name: str, charge: float) -> None:
    policy = policy_named(name)
    found = [disagreement(seed, policy, calendar=True, charge=charge, synced=False) for seed in range(SCENARIOS)]
    assert [d for d in found if d is not None][:1] == []


@pytest.mark.parametrize("name", ["HNR", "BSD", "EDF", "FAS-MCQ", "Hybrid"])
def test_they_agree_when_every_priority_that_is_compared_costs_time(name: str) -> None:
    found = [disagreement(seed, policy_named(name), charge=0.125) for seed in range(SCENARIOS)]
    assert [d for d in found if d is not None][:1] == []


def test_without_the_compiler_everything_is_the_same() -> None:
    program = "import sys; from tests.sim.test_twin import *; " + (
        "sys.exit(any(disagreement(s, p) is not None for p in EVERY for s in range(4)))"
    )
    environment = os.environ | {
        "NUMBA_DISABLE_JIT": "1",
        "PYTHONPATH": os.pathsep.join([str(HOUSE / "src"), str(HOUSE)]),
    }
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
