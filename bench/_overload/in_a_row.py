"""Writes a query of three operators in a row, the selective one last, whose few rows then go to a dear output.

That is the progress chart of Babcock et al. 2004, Figure 1: operators that free little hide one that frees most, and
what comes after it frees the rest slowly. Without that last part there would be one segment alone, which Chain takes a
block through as FIFO does.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from bench._overload.packets import PacketArrivals

FIFO, CHAIN, FLUSH = "FIFO", "Chain", "Chain-Flush"
QUERY: Final = "in_a_row"


@dataclass(frozen=True, slots=True)
class OperatorsInARow:
    """What the operators cost, and what arrives."""

    rounds: int = 1_600  # of a hash, a row, of each of the three
    passed: float = 0.1  # of the rows by the last one
    output: int = 60  # times these rounds, for a row that has passed
    load: float = 0.9
    slow_s: float = 2.0
    arrivals: PacketArrivals = field(default_factory=lambda: PacketArrivals(ticks=40, rows_of_packet=10, payload=1_000))

    def query(self, deadline_s: float | None = None) -> str:
        """Write the query, with a bound on the latency of its answers if there is one."""
        row = f"digested({self.rounds}, digested({self.rounds}, payload))"
        selected = f"SELECT id, hashed({self.output * self.rounds}, 2, payload) AS score FROM packets"
        text = f"{selected} WHERE hashed({self.rounds}, 1, {row}) < {self.passed}"
        return text if deadline_s is None else f"{text} WITH (deadline = '{round(1_000 * deadline_s)} ms')"
