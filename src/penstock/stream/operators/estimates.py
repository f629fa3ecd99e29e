"""Measures what operators cost and how many rows conjuncts let through, and puts conjuncts in order by that."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from penstock.kernel.operator_block import Passed
from penstock.language.options import priority_of
from penstock.schedule.operator_queues import Path, Stage, rank
from penstock.share.operators.operated import OperatedQuery

NEW: Final = 0.25  # how much the last step counts against those before
UNKNOWN_S: Final = 1e-3  # a row, before the first step
UNKNOWN_PASSED: Final = 0.5


class OperatorEstimates:
    """The costs and selectivities of one stream's operators, as measured so far."""

    def __init__(self) -> None:
        """Begin with nothing measured."""
        self._cost: dict[str, float] = {}
        self._passed: dict[tuple[int, int], float] = {}
        self.rows: dict[str, int] = {}  # that each operator has computed

    def note_step(self, operator: str, rows: int, seconds: float) -> None:
        """Learn from a step."""
        self.rows[operator] = self.rows.get(operator, 0) + rows
        if rows:
            self._cost[operator] = _mixed(self._cost.get(operator), seconds / rows)

    def note_passed(self, found: Iterable[Passed]) -> None:
        """Learn how many rows conjuncts let through."""
        for one in found:
            if one.rows:
                key = one.query, one.conjunct
                self._passed[key] = _mixed(self._passed.get(key), one.passed / one.rows)

    def cost(self, operator: str) -> float | None:
        """Return the seconds that an operator takes for a row; None: it has not run."""
        return self._cost.get(operator)

    def selectivity(self, query: int, conjunct: int) -> float:
        """Return the part of the rows that a conjunct lets through."""
        return self._passed.get((query, conjunct), UNKNOWN_PASSED)

    def chosen(self, query: OperatedQuery, left: Sequence[int]) -> int:
        """Choose the conjunct that rules out most for its time."""
        return min(left, key=lambda place: (self._rank(query, place), place))

    def _rank(self, query: OperatedQuery, place: int) -> float:
        """Rank one conjunct; one without operators costs nothing."""
        cost = sum(self.seconds(name) for name in query.conjuncts[place].needs)
        return rank(self.selectivity(query.definition.id, place), cost)

    def path(self, query: OperatedQuery) -> Path:
        """List the operators of a query in the order in which its rows pass them."""
        stages: list[Stage] = []
        seen = set[str]()
        number = query.definition.id
        for place in sorted(range(len(query.conjuncts)), key=lambda place: (self._rank(query, place), place)):
            new = [name for name in query.conjuncts[place].needs if name not in seen]
            seen.update(new)
            passed = self.selectivity(number, place)
            stages += [Stage(name, self.seconds(name), passed if name == new[-1] else 1.0) for name in new]
        for name in dict.fromkeys(name for output in query.outputs for name in output.needs):
            if name not in seen:
                stages.append(Stage(name, self.seconds(name), 1.0))
                seen.add(name)
        return Path(number, tuple(stages), float(priority_of(query.definition.query)))

    def forget_others(self, operators: Collection[str], queries: Collection[int]) -> None:
        """Forget what nobody waits for any more, or asks for."""
        self._cost = {name: cost for name, cost in self._cost.items() if name in operators}
        self.rows = {name: rows for name, rows in self.rows.items() if name in operators}
        self._passed = {key: passed for key, passed in self._passed.items() if key[0] in queries}

    def seconds(self, operator: str) -> float:
        """Return what an operator takes for a row, or is believed to."""
        return self._cost.get(operator, UNKNOWN_S)


def _mixed(before: float | None, new: float) -> float:
    """Let a new figure count beside those before."""
    return new if before is None else before + NEW * (new - before)
