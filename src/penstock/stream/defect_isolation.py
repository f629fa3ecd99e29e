"""Pauses the queries that a defect of Penstock concerns, and logs its trace.

A lane that broke is emptied. It is complete again from the first time on of which no row was seen: its queries begin
there when they are resumed, so that nothing is answered from incomplete partials.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from penstock.evaluate.components.numbers import Component
from penstock.evaluate.typed import Definition
from penstock.kernel.answering import Failure
from penstock.kernel.defects import Defect, Traced, defect_of
from penstock.model.derived import source_of
from penstock.model.window import RowsWindow, SessionWindow
from penstock.share.layout import Layout
from penstock.share.plan import LaneKey
from penstock.store.answers import DEFINITION
from penstock.store.commits import Paused
from penstock.stream.derived.row_times import RULERS
from penstock.stream.due_windows import LOG, DueWindows
from penstock.stream.pauses import pause_for_window
from penstock.stream.query_windows import NEVER

Answers = Callable[[Sequence[pa.Table]], list[pa.Table]]
Place = tuple[LaneKey, Component | None]  # a lane, or one component of it


def charge_lanes(due_windows: DueWindows, layout: Layout, last_us: int | None = None) -> bool:
    """Pause the queries of lanes that broke; tell whether there are any. ``last_us`` is the last time just seen."""
    if not due_windows.synopsis.defects:
        return False
    broken, due_windows.synopsis.defects = due_windows.synopsis.defects, {}
    seen = [time for time in (due_windows.progress.clock.last_us, last_us) if time is not None]
    since_us = max(seen) + 1 if seen else None
    for place, defect in broken.items():
        pause_users(due_windows, layout, users_of(layout, place), defect, since_us)
    return True


def pause_failed(due_windows: DueWindows, layout: Layout, failures: Sequence[Failure]) -> bool:
    """Pause queries at the windows that could not be answered; tell whether a defect is among the reasons."""
    by_id, new = {d.id: d for d in layout.plan.definitions}, dict[Defect, list[Definition]]()
    for failure in sorted(failures, key=lambda f: f.window_end_us):
        for definition in _both(by_id, failure.definition):
            if definition.id not in due_windows.progress.windows.paused and definition.id < RULERS:
                due_windows.report(definition, f" is paused: {failure.reason}", "query paused")
                if failure.defect is not None:
                    new.setdefault(failure.defect, []).append(definition)
            pause_for_window(due_windows.progress, definition, failure)
    for defect, definitions in new.items():
        log_defect(defect, definitions)
    return any(failure.defect is not None for failure in failures)


def by_query(doing: str, do: Answers, tables: list[pa.Table]) -> tuple[list[pa.Table], list[Failure]]:
    """Do something with answers, all at once; only if that fails, query by query, and leave out those it fails for."""
    try:
        return do(tables), []
    except Exception as error:
        defect_of(error, doing)
    found, failures = list[pa.Table](), list[Failure]()
    queries = [np.asarray(table[DEFINITION].to_numpy(), np.int64) % RULERS for table in tables]
    for number in np.unique(np.concatenate(queries)).tolist() if queries else ():
        parts = [table.filter(pa.array(mine == number)) for table, mine in zip(tables, queries, strict=True)]
        try:
            found += do([part for part in parts if part.num_rows])
        except Exception as error:
            defect = defect_of(error, doing)
            failures.append(Failure(number, -NEVER, defect.reason, defect))
    return found, failures


def failed_by(definition: Definition, defect: Defect) -> Failure:
    """Charge a defect to a query, whatever windows are due."""
    return Failure(definition.id, -NEVER, defect.reason, defect)


def log_defect(defect: Defect, concerned: Sequence[Definition]) -> None:
    """Write a defect's trace to the log, for people who can mend it."""
    names = ", ".join(f'"{definition.name}"' for definition in concerned)
    about = {"event": "defect", "stream": source_of(concerned[0].query.stream)} if concerned else {"event": "defect"}
    concerns = f", which concerns {names}" if names else ""
    traced = Traced(f"\n{defect.trace}")
    LOG.error(f"{defect.raised}, while {defect.doing}{concerns}", extra=about, exc_info=(Traced, traced, None))


def users_of(layout: Layout, place: Place) -> list[Definition]:
    """List the queries that read a lane, or a component of it."""
    key, component = place
    members = next((tree.lanes[key] for tree in layout.plan.trees if key in tree.lanes), ())
    return [d for d in members if component is None or component in d.typed.components]


def pause_users(
    due_windows: DueWindows, layout: Layout, concerned: Iterable[Definition], defect: Defect, since_us: int | None
) -> None:
    """Let queries answer nothing any more; resumed, they begin where their lane is whole."""
    by_id, new, progress = {d.id: d for d in layout.plan.definitions}, list[Definition](), due_windows.progress
    for definition in [one for d in concerned for one in _both(by_id, d.id)]:
        window, known = definition.query.window, progress.windows.paused.get(definition.id)
        resume = -NEVER if since_us is None else window.end_at_or_after(since_us + window.length)
        if since_us is not None and not isinstance(window, RowsWindow):
            opens = window.length if isinstance(window, SessionWindow) else 0  # an earlier one may have begun before
            progress.windows.starts[definition.id] = since_us + opens
        if known is None:
            progress.windows.paused[definition.id] = Paused(-NEVER, resume, since_us or 0, defect.reason)
            new += [definition] if definition.id < RULERS else []
        else:
            later = max(resume, known.resume_end_us)
            progress.windows.paused[definition.id] = replace(known, until_us=-NEVER, resume_end_us=later)
    for definition in new:
        due_windows.report(definition, f" is paused: {defect.reason}", "query paused")
    if new:
        log_defect(defect, new)


def _both(by_id: dict[int, Definition], number: int) -> Iterator[Definition]:
    """Return a query and its ruler: neither is of use without the other."""
    both = (by_id.get(number % RULERS), by_id.get(number % RULERS + RULERS))
    return (definition for definition in both if definition is not None)
