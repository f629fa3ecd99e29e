"""Chooses at which periods fresh queries run, so that they share passes over slices with others.

Golab, Bijay and Özsu 2006, §4.2–4.3: queries over one synopsis are a group. Here these are fresh queries of the same
rows, keys and states, whose windows are aligned alike. Where windows that run together share no pass, nothing would be
saved, and queries keep their slides; so do exact ones, whose answers nobody may add to.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.evaluate.typed import Definition
from penstock.evaluate.windows.sweeps import swept_states
from penstock.language.grammar.limits import WINDOWS_AT_A_TIME
from penstock.language.options import is_fresh
from penstock.model.duration import format_duration
from penstock.model.window import RowsWindow
from penstock.schedule.periods import ChosenPeriods, Periods, chosen_periods
from penstock.share.explain.together import TogetherPlanner
from penstock.share.plan import condition_of


@dataclass(frozen=True, slots=True)
class PeriodGroup:
    """Fresh queries over one synopsis, and the periods that were chosen for them."""

    definitions: tuple[Definition, ...]
    chosen: ChosenPeriods
    most_windows: int  # of one query that may hold a row

    def period_of(self, definition: Definition) -> int:
        """Return the period of a query; one whose windows would be too many at a time keeps its slide."""
        asked = definition.asked
        period = self.chosen.periods[asked.slide]
        return period if -(-asked.length // period) <= self.most_windows else asked.slide

    def __str__(self) -> str:
        """Say which queries run more often than they ask, with which others, and what that costs."""
        told = f"{self.chosen.cost:,.4g} slices merged a second, {self.chosen.own_cost:,.4g} at their own slides"
        return f"{len(self.definitions)} fresh queries over one synopsis: {'; '.join(self._parts())} ({told})"

    def _parts(self) -> list[str]:
        """Word each period with the slides that were asked for."""
        asked: dict[int, list[Definition]] = {}
        for one in sorted(self.definitions, key=lambda one: (one.asked.slide, one.id)):
            asked.setdefault(self.period_of(one), []).append(one)
        return [f"every {format_duration(period)} {_asking(members)}" for period, members in sorted(asked.items())]

    def to_dict(self) -> dict[str, Any]:
        """Return what a program reads."""
        asked = [(one.name, one.asked.slide, self.period_of(one)) for one in self.definitions]
        queries = {name: {"slide_us": slide, "period_us": period} for name, slide, period in asked}
        return {"queries": queries, "cost": self.chosen.cost, "own_cost": self.chosen.own_cost}


def period_groups(
    definitions: Iterable[Definition], choose: Periods, *, scans: bool, most_windows: int = WINDOWS_AT_A_TIME
) -> list[PeriodGroup]:
    """Put fresh queries that share passes into groups, and choose the periods of each."""
    planner, groups = TogetherPlanner(scans=scans), dict[Hashable, list[Definition]]()
    for one in definitions:
        if one.handover is None and may_run_sooner(one) and planner.shared(one) == "sweep":
            groups.setdefault(_synopsis_of(one, scans=scans), []).append(one)
    found = []
    for members in groups.values():
        windows = [(one.asked.length, one.asked.slide) for one in members]
        found.append(PeriodGroup(tuple(members), chosen_periods(windows, choose), most_windows))
    return found


def may_run_sooner(definition: Definition) -> bool:
    """Tell whether a query's slide is an upper bound."""
    return is_fresh(definition.query) and not isinstance(definition.query.window, RowsWindow)


def _synopsis_of(definition: Definition, *, scans: bool) -> Hashable:
    """Name what a pass over slices reads for a query, and how its windows are aligned."""
    components = definition.typed.components
    states = frozenset(c for c in components if c.is_state) if scans else swept_states(components)
    return definition.query.keys, condition_of(definition), states, definition.asked.offset


def _asking(members: Sequence[Definition]) -> str:
    """Name queries by the slides that they ask for."""
    slides = list(dict.fromkeys(one.asked.slide for one in members))
    words = ", ".join(format_duration(slide) for slide in slides[:4]) + (", …" if len(slides) > 4 else "")
    names = ", ".join(one.name for one in members[:4]) + (", …" if len(members) > 4 else "")
    return f"those that ask for {words}: {names}"
