"""The compiled simulator and its naive twin agree on every event of random small scenarios, for every policy."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from penstock.schedule.catalogue import POLICIES
from penstock.schedule.policy import Manner, Policy
from penstock.sim.layout import Level
from penstock.sim.run import run
from tests.sim.scenarios import Case, case
from tests.sim.twin import Twin

HOUSE = Path(__file__).resolve().parents[2]
SCENARIOS = 200


def fits(policy: Policy, case: Case) -> bool:
    """Oracles foresee single paths taken as a whole, and a flush follows one path."""
    if policy.oracle:
        return case.kinds == {"Query"} and case.settings.level is Level.QUERY and not case.settings.fluid
    if policy.manner in (Manner.FLUSH, Manner.FLUSH_HEADS):
        return case.kinds == {"Query"}
    return True


def disagreement(seed: int, policy: Policy) -> str | None:
    made = case(seed)
    if not fits(policy, made):
        return None
    found = run(made.net, made.arrivals, made.values, policy, made.settings)
    twin = Twin(made.net, made.arrivals, made.values, policy.name, made.settings).run()
    mine = list(zip(found.query.tolist(), found.tuple.tolist(), found.arrival.tolist(), strict=True))
    theirs = [answer[:3] for answer in twin.answers]
    if mine != theirs or not np.allclose(found.done, [a[3] for a in twin.answers], rtol=0, atol=1e-9):
        return f"seed {seed}, {policy}: answers\n{mine}\n{theirs}"
    traces = np.column_stack([found.trace_time, found.trace_size]), np.array(twin.memory).reshape(-1, 2)
    if traces[0].shape != traces[1].shape or not np.allclose(*traces, rtol=0, atol=1e-9):
        return f"seed {seed}, {policy}: memory\n{traces[0].tolist()}\n{traces[1].tolist()}"
    return None


@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_the_simulator_and_its_twin_agree(policy: Policy) -> None:
    assert [d for seed in range(SCENARIOS) if (d := disagreement(seed, policy)) is not None][:1] == []


def test_without_the_compiler_everything_is_the_same() -> None:
    program = "import sys; from tests.sim.test_twin import *; " + (
        "sys.exit(any(disagreement(s, p) is not None for p in POLICIES for s in range(4)))"
    )
    environment = os.environ | {
        "NUMBA_DISABLE_JIT": "1",
        "PYTHONPATH": os.pathsep.join([str(HOUSE / "src"), str(HOUSE)]),
    }
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
