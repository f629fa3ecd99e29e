"""Holds what is known of a stream that has run, for those who explain it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.language.grammar.limits import WINDOWS_AT_A_TIME
from penstock.schedule.running_together import DEFAULT_SYNCHRONIZATION
from penstock.share.conditions.cell_parts import ConditionGroupMemory
from penstock.share.explain.operators import OperatorsPlan


@dataclass(frozen=True, slots=True)
class ObservedStream:
    """What is known of a stream that has run.

    Its rows a second, how groupings are made, by tree and keys, and which conditions it tells apart together.
    """

    rate: float | None = None
    made: Mapping[tuple[str, tuple[str, ...]], str] = field(default_factory=dict)
    families: ConditionGroupMemory = field(default_factory=ConditionGroupMemory)
    scans: bool = False  # its windows are answered by scans of all their partials
    synchronize: str = DEFAULT_SYNCHRONIZATION  # the technique by which evaluations run together
    most_windows: int = WINDOWS_AT_A_TIME  # of a query that may hold one row
    operators: OperatorsPlan | None = None  # that expensive functions of continuous queries are
