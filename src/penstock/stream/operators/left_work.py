"""Adds up what is left to be done of blocks that wait for operators, and when it is due."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from penstock.evaluate.typed import Definition
from penstock.kernel.operator_block import QueryInBlock, RowBlock
from penstock.language.options import option_us
from penstock.schedule.flushing import DueWork
from penstock.schedule.operator_queues import PathFigures

DUE_US: Final = 60_000_000  # after its arrival a row's answer is due, unless its query says otherwise


def due_s(definition: Definition, arrival_us: int) -> float:
    """Return when the answer to a row that came at a time is due."""
    return (arrival_us + (option_us(definition.query, "deadline") or DUE_US)) / 1e6


class LeftWork:
    """What is left of blocks by the figures of a moment; only those that have changed are looked at again."""

    def __init__(self) -> None:
        """Begin with no figures."""
        self._figures: PathFigures | None = None
        self._known: dict[tuple[int, int], list[DueWork]] = {}

    def changed(self, block: RowBlock) -> None:
        """Look at a block again."""
        self._known.pop(block.key, None)

    def of(self, blocks: Iterable[RowBlock], figures: PathFigures, arrived: Callable[[int], int]) -> list[DueWork]:
        """List what is left of blocks; ``arrived`` tells when the rows of a commit came."""
        if figures is not self._figures:
            self._figures, self._known = figures, {}
        found = list[DueWork]()
        for block in blocks:
            if block.key not in self._known:
                self._known[block.key] = _left(block, figures, arrived(block.commit))
            found += self._known[block.key]
        return found


def _left(block: RowBlock, figures: PathFigures, arrival_us: int) -> list[DueWork]:
    """Say what is left of a block, query by query as they are due; what they share, the first one has done."""
    counted: dict[str, float] = {}
    most, found = float(block.count), list[DueWork]()
    waiting = [(due_s(one.query.definition, arrival_us), one) for one in block.queries.values() if one.waits]
    for due, one in sorted(waiting, key=lambda pair: pair[0]):
        seconds = 0.0
        for operator, rows, cost in figures.ahead(one.query.definition.id, _waits(one), float(one.rows.sum())):
            before = counted.get(operator, 0.0)
            counted[operator] = min(before + rows, most)
            seconds += (counted[operator] - before) * cost
        found.append(DueWork(due, seconds))
    return found


def _waits(one: QueryInBlock) -> str:
    """Return the operator that a query waits for."""
    assert one.waits is not None
    return one.waits
