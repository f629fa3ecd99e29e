"""Runs one exact simulation of a network under a policy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from penstock.schedule.compiled import pointer
from penstock.schedule.policy import Policy
from penstock.sim import state
from penstock.sim.arrivals import Arrivals
from penstock.sim.kernel import simulate
from penstock.sim.layout import CHUNK, Beliefs, SimSettings, lay_out
from penstock.sim.metrics import SimOutcome
from penstock.sim.network import Network, Operator, SimQuery, network

Array = np.ndarray[Any, Any]


def run(
    net: Network,
    arrivals: Arrivals,
    values: Array,
    policy: Policy,
    settings: SimSettings = SimSettings(),  # noqa: B008
    *,
    beliefs: Beliefs | None = None,
    report: Callable[[float], None] | None = None,
) -> SimOutcome:
    """Simulate; rooms that turn out too small are doubled and the run repeated."""
    places, answers = 1 << 12, max(1 << 12, int(_expected(net, arrivals) * 1.3))
    while True:
        world = lay_out(net, arrivals, values, policy, settings, beliefs or Beliefs(), places, answers)
        status = _repeated(world, policy, report)
        if status == state.DONE:
            return _outcome(net, world)
        if status == state.LOG_FULL:
            answers *= 2
        else:
            places *= 4


def warm(policies: Sequence[Policy]) -> None:
    """Compile the loop and the policies, by simulating one tuple under each, so that no decision waits for that."""
    net, one = network([SimQuery("warm", (Operator(1.0),))]), Arrivals(np.zeros(1), np.zeros(1, dtype=np.int64))
    for policy in policies:
        run(net, one, np.ones((1, 1)), policy)


def _repeated(world: state.World, policy: Policy, report: Callable[[float], None] | None) -> int:
    """Run on after every pause."""
    priority = pointer(policy.priority)
    while True:
        status = simulate(world, priority)
        if status != state.PAUSED:
            return status
        if report is not None:
            report(float(world.state.arrived[0]) / max(1, len(world.tuples)))
        world = world._replace(how=world.how._replace(until=int(world.state.points[0]) + CHUNK))


def _expected(net: Network, arrivals: Arrivals) -> float:
    """Estimate the number of answers."""
    leaf = net.stream >= 0
    tuples = np.bincount(arrivals.stream, minlength=net.streams)
    width = np.array([max(1, len(net.edges[k])) for k in np.flatnonzero(leaf)])
    return float((net.segments.selectivity[leaf] * tuples[net.stream[leaf]] * width).sum())


def _outcome(net: Network, world: state.World) -> SimOutcome:
    """Cut what was written down to its length."""
    final = world.state[0]
    answers, traced = int(final.logged), int(final.traced)
    log, trace = world.log, world.trace
    return SimOutcome(
        query=log.query[:answers].copy(),
        tuple=log.tuple[:answers].copy(),
        arrival=log.time[:answers].copy(),
        ideal_done=log.ideal[:answers].copy(),
        done=log.done[:answers].copy(),
        ideal_of_query=net.ideal_of_query,
        memory_peak=float(final.peak),
        memory_average=float(final.area / max(float(final.last), 1e-300)),
        end=float(final.now),
        points=int(final.points),
        operators_run=int(final.run),
        charged=float(final.charged),
        trace_time=trace.time[:traced].copy(),
        trace_size=trace.amount[:traced].copy(),
    )
