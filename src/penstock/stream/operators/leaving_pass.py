"""Lets functions leave the shared pass that cost more than a bound as measured there, between two batches.

What is decided is in the catalog before the next batch is planned, so that it holds after a restart, too: from that
batch on, the queries that call the function queue their rows. Those of the batches before were answered by the pass.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from penstock.evaluate.typed import Definition
from penstock.model.function import Function
from penstock.share.operators.operated import calls_any
from penstock.spark.functions.measured_costs import MeasuredCost
from penstock.stream.operators.gates import Gates

BOUND_US: Final = 20.0  # a row: some hundred times what a comparison takes
LOOK_ROWS: Final = 1_000  # that are measured at least between two looks
LOOKS: Final = 2  # one after the other that find more than the bound

LOG: Final = logging.getLogger("penstock")


@dataclass(frozen=True, slots=True)
class _Looked:
    """What a function had cost when it was looked at, and how many looks have found that to be too much."""

    cost: MeasuredCost
    above: int = 0


class CostLooks:
    """Looks at what functions cost from time to time; what the first batch took, which loads them, does not count."""

    def __init__(self, cost_of: Callable[[str], MeasuredCost]) -> None:
        """Begin to look; ``cost_of`` tells what a function has cost so far."""
        self._cost_of = cost_of
        self._looked: dict[str, _Looked] = {}

    def too_much_us(self, pinned: str) -> float | None:
        """Return what a row has cost since the look before, if some looks have found that to be too much."""
        now, before = self._cost_of(pinned), self._looked.get(pinned)
        if before is None:
            self._looked[pinned] = _Looked(now)
            return None
        rows, seconds = now.rows - before.cost.rows, now.seconds - before.cost.seconds
        if rows < LOOK_ROWS:
            return None
        cost_us = 1e6 * seconds / rows
        above = before.above + 1 if cost_us > BOUND_US else 0
        self._looked[pinned] = _Looked(now, above)
        return cost_us if above >= LOOKS else None


class LeavingPass:
    """Watches the functions that one stream's queries call in the pass."""

    def __init__(self, gates: Gates, looks: CostLooks) -> None:
        """Begin to watch."""
        self.gates, self.looks = gates, looks

    def look(self, definitions: Iterable[Definition]) -> None:
        """Let those functions leave that have cost too much."""
        if self.gates.refusal is not None:
            return
        mine = [one for one in definitions if one.query.is_continuous]
        for function in self.gates.catalog.python_functions() if mine else ():
            code, pinned = function.python, function.pinned
            if code is None or code.aggregates or code.expensive is not None or code.is_operator:
                continue
            if not any(calls_any(one, {pinned: function}) for one in mine):
                continue
            cost_us = self.looks.too_much_us(pinned)
            if cost_us is not None and self.gates.can_leave(mine, function):
                self._leave(function, cost_us)

    def _leave(self, function: Function, cost_us: float) -> None:
        """Let a function run behind a queue from the next batch on."""
        if self.gates.catalog.note_measured(function, cost_us):
            told = "function %s takes %.0f µs a row: from now on it runs behind a queue (expensive=False forbids it)"
            LOG.info(told, function.name, cost_us)
