"""Explains the operators of a stream: what expensive calls cost, which rows wait for them, and for whom."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from penstock.model.counts import counted
from penstock.printable import shown


@dataclass(frozen=True, slots=True)
class OperatorPlan:
    """One operator: a function applied to given arguments."""

    call: str
    queries: tuple[str, ...]  # that call it
    cost_us: float | None  # that it takes for a row; None: it has not run yet
    waiting: int  # rows that wait for it
    measured_us: float | None = None  # that it took for a row in the pass, for which it left; None: it is marked

    def line(self) -> str:
        """Print it on a line."""
        cost = "not measured yet" if self.cost_us is None else f"{self.cost_us:,.0f} µs a row"
        waiting = f"{counted(self.waiting, 'row waits', 'rows wait')} for {_names(self.queries)}"
        left = "" if self.measured_us is None else f"; left the pass as measured, at {self.measured_us:,.0f} µs a row"
        return f"{shown(self.call)}: {cost}, {waiting}{left}"


@dataclass(frozen=True, slots=True)
class QueryPath:
    """The conjuncts of one query behind its gate, in the order in which its rows pass them."""

    query: str
    steps: tuple[tuple[str, float], ...]  # what stands there, and the part of the rows that it lets through

    def line(self) -> str:
        """Print it on a line."""
        told = " → ".join(f"{shown(text)} ({passed:.0%} pass)" for text, passed in self.steps)
        return f"{shown(self.query)}: {told or 'every row'}"


@dataclass(frozen=True, slots=True)
class OperatorsPlan:
    """The operators of one stream, and the policy by which their queues run."""

    policy: str
    operators: tuple[OperatorPlan, ...] = ()
    paths: tuple[QueryPath, ...] = ()
    staying: tuple[tuple[str, str], ...] = ()  # queries that call expensive functions in the shared pass, and why
    queue_rows: int = 0
    queue_bytes: int = 0

    def lines(self) -> list[str]:
        """Print a line for the whole, and one for each operator, path, and query that stays in the pass."""
        waiting = f"{counted(self.queue_rows, 'row waits', 'rows wait')}, {self.queue_bytes:,} bytes in memory"
        head = f"{counted(len(self.operators), 'operator', 'operators')} behind queues, by {self.policy}: {waiting}"
        inside = [*(one.line() for one in self.operators), *(one.line() for one in self.paths)]
        inside += [f"{shown(name)} calls expensive functions in the pass: {shown(why)}" for name, why in self.staying]
        return [head, *(f"  {line}" for line in inside)]

    def to_dict(self) -> dict[str, Any]:
        """Return what a program reads."""
        return asdict(self)


def _names(names: tuple[str, ...]) -> str:
    """List names."""
    return ", ".join(map(shown, names)) or "nobody"
