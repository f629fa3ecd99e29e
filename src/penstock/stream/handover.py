"""Decides which definition of a query answers a window, so that exactly one does.

A definition that replaces another answers the windows that begin at the change or later. The one before answers the
others, and stays until these are final. What a query had answered when it was dropped is remembered while it could be
answered again, for a query of that name to come.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from penstock.evaluate.typed import Definition
from penstock.model.window import RowsWindow, SessionWindow
from penstock.share.layout import Layout
from penstock.share.plan import Plan
from penstock.stream.progress import Progress


def have_left(progress: Progress, replaced: Iterable[Definition]) -> Iterator[Definition]:
    """List the definitions that were replaced, have answered their last window and will revise none.

    One tells those before it where their sessions or numbered rows end, so it stays as long as such a one does.
    """
    waiting = set[str]()
    for definition in sorted(replaced, key=lambda one: one.id):
        if definition.name in waiting:
            continue
        if _has_left(progress, definition):
            yield definition
        elif isinstance(definition.query.window, RowsWindow | SessionWindow):
            waiting.add(definition.name)


def _has_left(progress: Progress, definition: Definition) -> bool:
    """Tell whether a definition that was replaced has answered its last window, and will revise none."""
    watermark, following = progress.clock.watermark_us, progress.windows.answers_next(definition.id)
    if watermark is None or progress.clock.ended:
        return progress.clock.ended
    if definition.id in progress.windows.asked:
        return False
    last, revise_us = progress.windows.last_own_end(definition), definition.typed.revise_us
    if isinstance(definition.query.window, SessionWindow):  # its next end is known; it goes when no earlier one is open
        return following is not None and following > last
    listed = watermark > last if following is None else following > last
    return listed and (not revise_us or watermark - revise_us >= last)


def said_before(progress: Progress, definition: Definition) -> int | None:
    """Return the time before which the windows begin that a query has answered; None: it has answered none."""
    window, following = definition.query.window, progress.windows.next_ends.get(definition.id)
    if (
        following is None
        or isinstance(window, RowsWindow | SessionWindow)
        or following == progress.windows.first_ends.get(definition.id)
    ):
        return None
    return following - window.slide - window.length + 1


def begins_after(progress: Progress, before: Definition) -> int | None:
    """Return the time from which on windows begin that a definition leaves to the next one; None: no row has come.

    That is what was seen, or after a silence what the windows have covered that this definition has answered since.
    """
    known = progress.clock.seen_until_us
    return None if known is None else max(known, said_before(progress, before) or known)


def part_with(progress: Progress, before: Plan | None, plan: Plan) -> None:
    """Remember up to where queries that are dropped have answered, until others of their names have answered as much.

    One that has a name again may be dropped before it answers anything: what was said before is still to be known then.
    """
    current, departed = {definition.id for definition in plan.definitions}, progress.windows.departed
    for definition in (d for d in (before.definitions if before else ()) if d.id not in current):
        said, name = said_before(progress, definition), definition.name.lower()
        if said is not None:
            departed[name] = max(said, departed.get(name, said))
    for definition in plan.definitions if departed else ():
        if (known := departed.get(name := definition.name.lower())) is not None:
            said = said_before(progress, definition)
            if said is not None and said >= known:
                del departed[name]


def forget_departed(progress: Progress, layout: Layout, kept_since_us: int) -> None:
    """Forget what dropped queries have answered once nothing is there that it could be answered again from.

    That is partials that others need, and rows that are kept: these go file by file, later than their time is over.
    And of times of which no row was seen yet, a new query answers the windows that silence made final.
    """
    seen_until = progress.clock.seen_until_us
    if progress.windows.departed and seen_until is not None:
        floor = min([kept_since_us, seen_until, *progress.windows.floors(layout).values()])
        progress.windows.departed = {name: time for name, time in progress.windows.departed.items() if time > floor}
