"""The compiled simulator and its naive twin agree on every event of random small scenarios, for every policy."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from penstock.schedule.catalogue import POLICIES, policy_named
from penstock.schedule.policy import Manner, Policy
from penstock.sim.layout import Level
from penstock.sim.run import run
from tests.sim.scenarios import Case, case
from tests.sim.twin import Twin

HOUSE = Path(__file__).resolve().parents[2]
SCENARIOS = 200
FAMILIES = tuple(policy_named(name) for name in ("FAS-MCQ(0.25)", "Mixed(0.2)", "Mixed(0.6)"))


def fits(policy: Policy, case: Case) -> bool:
    """Oracles foresee single paths taken as a whole, and a flush follows one path."""
    if policy.oracle:
        return case.kinds == {"Query"} and case.settings.level is Level.QUERY and not case.settings.fluid
    if policy.manner in (Manner.FLUSH, Manner.FLUSH_HEADS):
        return case.kinds == {"Query"}
    return True


def disagreement(seed: int, policy: Policy, **changes: object) -> str | None:
    made = case(seed)
    if not fits(policy, made) or (changes and made.kinds != {"Query"}):
        return None
    settings = replace(made.settings, **changes)  # type: ignore[arg-type]
    found = run(made.net, made.arrivals, made.values, policy, settings)
    twin = Twin(made.net, made.arrivals, made.values, policy.name, settings).run()
    mine = list(zip(found.query.tolist(), found.tuple.tolist(), found.arrival.tolist(), strict=True))
    theirs = [answer[:3] for answer in twin.answers]
    if mine != theirs or not np.allclose(found.done, [a[3] for a in twin.answers], rtol=0, atol=1e-9):
        return f"seed {seed}, {policy}: answers\n{mine}\n{theirs}"
    traces = np.column_stack([found.trace_time, found.trace_size]), np.array(twin.memory).reshape(-1, 2)
    if traces[0].shape != traces[1].shape or not np.allclose(*traces, rtol=0, atol=1e-9):
        return f"seed {seed}, {policy}: memory\n{traces[0].tolist()}\n{traces[1].tolist()}"
    return None


@pytest.mark.parametrize("policy", [*POLICIES, *FAMILIES], ids=str)
def test_the_simulator_and_its_twin_agree(policy: Policy) -> None:
    assert [d for seed in range(SCENARIOS) if (d := disagreement(seed, policy)) is not None][:1] == []


@pytest.mark.parametrize("name", ["HR", "HNR", "FAS-MCQ", "FAS-MCQ(0.25)"])
@pytest.mark.parametrize("charge", [0.0, 0.125])
def test_they_agree_with_a_calendar_queue_each_use_of_which_may_cost_time(name: str, charge: float) -> None:
    policy = policy_named(name)
    found = [disagreement(seed, policy, calendar=True, charge=charge, synced=False) for seed in range(SCENARIOS)]
    assert [d for d in found if d is not None][:1] == []


@pytest.mark.parametrize("name", ["HNR", "BSD", "EDF", "FAS-MCQ"])
def test_they_agree_when_every_priority_that_is_compared_costs_time(name: str) -> None:
    found = [disagreement(seed, policy_named(name), charge=0.125) for seed in range(SCENARIOS)]
    assert [d for d in found if d is not None][:1] == []


def test_without_the_compiler_everything_is_the_same() -> None:
    program = "import sys; from tests.sim.test_twin import *; " + (
        "sys.exit(any(disagreement(s, p) is not None for p in (*POLICIES, *FAMILIES) for s in range(4)))"
    )
    environment = os.environ | {
        "NUMBA_DISABLE_JIT": "1",
        "PYTHONPATH": os.pathsep.join([str(HOUSE / "src"), str(HOUSE)]),
    }
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
