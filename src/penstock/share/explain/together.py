"""Explains what evaluations share that run together, and where that saves nearly nothing.

Golab, Bijay and Özsu 2006, §2.2: a scan of a synopsis answers all shorter windows. Where a window is answered in a few
steps whatever its length, there is no scan to share.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from penstock.evaluate.finishing import Finisher, Shape
from penstock.evaluate.typed import Definition
from penstock.evaluate.windows.sweeps import swept_states
from penstock.model.counts import counted

Shared = Literal["sweep", "executors", "Spark", "nothing"]
WORDS: Final[dict[Shared, str]] = {
    "sweep": "one pass over slices serves",
    "executors": "one job of the executors serves",
    "Spark": "one job of Spark finishes",
    "nothing": "nearly nothing is saved for",
}


@dataclass(frozen=True, slots=True)
class TogetherPlan:
    """How many queries share what, if they run together."""

    queries: tuple[tuple[Shared, int], ...]

    @staticmethod
    def added(plans: Iterable[TogetherPlan]) -> TogetherPlan:
        """Add the queries of several lanes up."""
        found = Counter[Shared]()
        for plan in plans:
            found.update(dict(plan.queries))
        return TogetherPlan(tuple((way, found[way]) for way in WORDS if found[way]))

    @property
    def pays(self) -> bool:
        """Tell whether some queries share something."""
        return any(way != "nothing" for way, _ in self.queries)

    def __str__(self) -> str:
        """Say what is shared, and what is not."""
        return ", ".join(f"{WORDS[way]} {counted(many, 'query', 'queries')}" for way, many in self.queries)

    def to_dict(self) -> dict[str, Any]:
        """Return what a program reads."""
        return {way: dict(self.queries).get(way, 0) for way in WORDS}


NOT_PLANNED: Final = TogetherPlan(())


class TogetherPlanner:
    """Tells what queries share; whether Spark finishes them is found out once a shape."""

    def __init__(self, *, scans: bool) -> None:
        """Plan for a kernel that scans all partials of a window, or for the usual one."""
        self._scans = scans
        self._asks_spark: dict[object, bool] = {}

    def lane(self, definitions: Sequence[Definition], *, in_executors: bool) -> TogetherPlan:
        """Plan for the queries of one lane."""
        counted = Counter("executors" if in_executors else self.shared(one) for one in definitions)
        return TogetherPlan(tuple((way, counted[way]) for way in WORDS if counted[way]))

    def shared(self, definition: Definition) -> Shared:
        """Tell what a query shares with others of its lane."""
        shape = Shape.of(definition.typed), definition.typed.key_types
        if shape not in self._asks_spark:
            self._asks_spark[shape] = not Finisher(definition.typed).in_arrow
        if self._asks_spark[shape]:
            return "Spark"
        return "sweep" if self._scans or swept_states(definition.typed.components) is not None else "nothing"
