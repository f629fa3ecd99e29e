"""A scenario that goes wrong in, the fewest of its steps that still go wrong in the same way out."""

from __future__ import annotations

from collections.abc import Callable

from tests.always.combinations.scenario import Scenario

Trouble = Callable[[Scenario], str | None]


def fewest(scenario: Scenario, trouble: Trouble, error: str) -> list[int]:
    """Leave out stretches of steps, shorter and shorter, for as long as the rest goes wrong."""
    places, kind = list(range(len(scenario.steps))), _kind(error)
    size = max(1, len(places) // 2)
    while True:
        at = 0
        while at < len(places):
            fewer = places[:at] + places[at + size :]
            found = trouble(scenario.kept(fewer)) if fewer else None
            if found is not None and _kind(found) == kind:
                places = fewer
            else:
                at += size
        if size == 1:
            return places
        size = max(1, size // 2)


def _kind(error: str) -> str:
    """Tell one way to go wrong from another: the error, not its numbers."""
    return error.split(":")[0]
