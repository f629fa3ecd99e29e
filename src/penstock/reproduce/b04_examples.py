"""Simulates Example 2 of Babcock et al. 2004 (§5.3), beside what the paper prints."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import numpy as np

from penstock.report.curves import Curve
from penstock.reproduce.b04 import BLOCKS, of_chart
from penstock.reproduce.figure import Claim, Figure, Judge, Size
from penstock.schedule.charts import Chart
from penstock.schedule.registry import policy_named
from penstock.sim.arrivals import Arrivals
from penstock.sim.metrics import SimOutcome
from penstock.sim.network import network
from penstock.sim.run import run

CHART: Final = Chart(((0, 1), (1, 0.1), (99, 0.001), (100, 0)))
SMOOTH: Final = tuple(99.0 * i for i in range(1, 101))
BURST: Final = tuple(10.0 * i for i in range(1, 11))
NAMES: Final = ("Chain", "FIFO", "Mixed(0.01)")
OWN: Final = (
    "the paper's entry is rounded, or against its own definitions: by its chart the tuple before the last is down to "
)
NEAR: Final = 0.02
# Peak memory and maximum latency as the paper prints them, by pattern and policy; those without a reason must come out.
PRINTED: Final = {
    ("smooth", "Chain"): (1.099, "", 9901.0, ""),
    ("smooth", "FIFO"): (2.0, OWN + "0.1 when that comes", 199.0, ""),
    ("smooth", "Mixed(0.01)"): (2.0, OWN + "0.1 when that comes", 199.0, ""),
    ("burst", "Chain"): (1.9, "", 910.0, "under Chain the first tuple waits at its last segment for all others"),
    ("burst", "FIFO"): (9.0, "", 910.0, ""),
    ("burst", "Mixed(0.01)"): (1.9, "", 910.0, ""),
}


def figures(size: Size) -> dict[str, Callable[[], Figure]]:
    """List the worked example."""
    return {"Example 2": partial(_example, size)}


def _simulated(times: tuple[float, ...], policy: str) -> SimOutcome:
    """Run one policy over one pattern."""
    given = Arrivals(np.array(times), np.zeros(len(times), dtype=np.int64))
    return run(network([of_chart("q", CHART)]), given, np.zeros((len(times), 1)), policy_named(policy), BLOCKS)


def _example(size: Size) -> Figure:
    """Simulate both patterns and put every entry beside the printed one."""
    size.say("Example 2")
    judge, claims, curves = Judge("b04", "Example 2"), list[Claim](), []
    for pattern, times in (("smooth", SMOOTH), ("burst", BURST)):
        for name in NAMES:
            found = _simulated(times, name)
            memory, memory_reason, latency, latency_reason = PRINTED[pattern, name]
            words = f"{name} on the {pattern} pattern"
            for what, stated, measured, why in (
                ("peak memory", memory, found.memory_peak, memory_reason),
                ("maximum latency", latency, float(found.response.max()), latency_reason),
            ):
                holds = abs(measured / stated - 1) <= NEAR
                told = f"{words}: {what} {stated:g}"
                claims.append(judge.sign(len(claims) + 1, told, holds, f"{measured:.4g}", why))
            if pattern == "burst":
                curves.append(
                    Curve(name, tuple(zip(found.trace_time.tolist(), found.trace_size.tolist(), strict=True)))
                )
    title = "Queue size vs. time (ten tuples, one every ten units)"
    return Figure("b04", "Example 2", title, "time", "queue size, tuples", tuple(curves), tuple(claims))
