"""Compares strategies by the processor time of runs in turns, so that equal plans compare as equal.

A second by the clock tells what else a machine did meanwhile, and Java compiles on for minutes: whoever runs first
looks slower. So processor time is compared, of runs that stand next to each other: each turn runs every strategy once,
in the opposite order of the turn before, and of the ratios of all turns the middle one counts.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import SparkSession

from bench._measure import Progress
from bench._mixed.running import Ran, Runnable, run
from penstock.model.strategy import DEFAULT_STRATEGY, Strategy

HOPELESS: Final = 2.0  # times the least: a strategy that takes as much runs in one turn only


@dataclass(frozen=True, slots=True)
class Compared:
    """The runs of every strategy, by turn; those that are far behind have fewer."""

    runs: dict[Strategy, list[Ran]]
    measured: Callable[[Ran], float]

    def middle(self, strategy: Strategy) -> Ran:
        """Return the middle run of a strategy."""
        ordered = sorted(self.runs[strategy], key=self.measured)
        return ordered[len(ordered) // 2]

    @property
    def others(self) -> list[Strategy]:
        """List the fixed strategies."""
        return [strategy for strategy in self.runs if strategy != DEFAULT_STRATEGY]

    @property
    def best(self) -> Strategy:
        """Return the fixed strategy that is best beside deciding by cost, turn by turn."""
        return max(self.others, key=self._ratio)

    @property
    def ratio(self) -> float:
        """Return what deciding by cost takes, as a multiple of the best fixed strategy."""
        return self._ratio(self.best)

    @property
    def noise(self) -> float:
        """Return how far runs of one strategy are apart: the greatest by the least of those by cost."""
        times = [self.measured(ran) for ran in self.runs[DEFAULT_STRATEGY]]
        return max(times) / min(times)

    def record(self) -> dict[str, Any]:
        """Write down what was measured."""
        return {
            "seconds": {name: [round(self.measured(ran), 3) for ran in some] for name, some in self.runs.items()},
            "best": self.best,
            "ratio": round(self.ratio, 4),
            "noise": round(self.noise, 4),
        }

    def _ratio(self, strategy: Strategy) -> float:
        """Return the middle of the ratios of two strategies' runs, turn by turn."""
        pairs = zip(self.runs[DEFAULT_STRATEGY], self.runs[strategy], strict=False)
        return statistics.median(self.measured(ours) / self.measured(other) for ours, other in pairs)


def compare(
    session: SparkSession,
    load: Runnable,
    others: Sequence[Strategy],
    turns: int,
    say: Progress,
    measured: Callable[[Ran], float],
) -> Compared:
    """Run all queries by cost and with some fixed strategies, once each to warm up, then in turns."""
    every = (DEFAULT_STRATEGY, *others)
    warm = {strategy: run(session, load, strategy=strategy).cpu_seconds for strategy in every}
    close = [strategy for strategy in every if warm[strategy] <= HOPELESS * min(warm.values())]
    if DEFAULT_STRATEGY not in close:
        close = [DEFAULT_STRATEGY, *close]
    runs: dict[Strategy, list[Ran]] = {strategy: [] for strategy in every}
    for turn in range(turns):
        taking = every if not turn else close
        for strategy in reversed(taking) if turn % 2 else taking:
            runs[strategy].append(run(session, load, strategy=strategy))
    found = Compared(runs, measured)
    for name, some in runs.items():
        times = ", ".join(f"{measured(ran):.2f}" for ran in some)
        say(f"{name}: {times} s of processor time; a batch {found.middle(name).steady:.2f} s")
    return found
