"""Pauses queries that fail, and resumes them from the first window after the failure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from penstock.catalog import Control
from penstock.evaluate.typed import Definition
from penstock.kernel.answering import Failure
from penstock.model.window import SessionWindow
from penstock.store.answers import DEFINITION
from penstock.store.commits import BY_HAND, FOR_MEMORY, Paused
from penstock.stream.derived.row_times import RULERS
from penstock.stream.due_windows import LOG
from penstock.stream.progress import Progress
from penstock.stream.query_windows import NEVER


def pause_for_rows(progress: Progress, definition: Definition, first_us: int, last_us: int, reason: str) -> None:
    """Pause a query that failed on rows: no window that holds one is answered."""
    window = definition.query.window
    resume = window.end_at_or_after(last_us + 1 + window.length)
    first_us -= isinstance(window, SessionWindow)  # a row at its end belongs to a session
    progress.windows.failed_us[definition.id] = max(last_us + 1, progress.windows.failed_us.get(definition.id, last_us))
    known = progress.windows.paused.get(definition.id)
    if known is not None:  # rows go on failing while it is paused
        first_us, reason = min(known.until_us, first_us), known.reason
        resume = max(resume, known.resume_end_us)
    progress.windows.paused[definition.id] = Paused(first_us, resume, known.ts_us if known else first_us, reason)


def pause_for_window(progress: Progress, definition: Definition, failure: Failure) -> None:
    """Pause a query whose expression over aggregates failed: neither this window nor a later one is answered."""
    end = failure.window_end_us
    resume = definition.query.window.end_after(end)
    known = progress.windows.paused.get(definition.id)
    if known is None:
        progress.windows.paused[definition.id] = Paused(end - 1, resume, end, failure.reason)
    else:
        until, resume = min(end - 1, known.until_us), max(resume, known.resume_end_us)
        progress.windows.paused[definition.id] = replace(known, until_us=until, resume_end_us=resume)


def pause_by_hand(progress: Progress, definition: Definition, reason: str = BY_HAND) -> None:
    """Pause a query whatever its rows: windows that end from now on are not answered."""
    since = -NEVER if progress.clock.watermark_us is None else progress.clock.watermark_us
    since -= isinstance(definition.query.window, SessionWindow)  # one that ends at the watermark is not final
    progress.windows.paused.setdefault(definition.id, Paused(since, since, since, reason))


def pause_for_memory(progress: Progress, definition: Definition, told: str) -> str:
    """Pause a query whose partials are to go: windows that end from now on are not answered. Return the reason."""
    reason = f"{FOR_MEMORY}: {told}"
    pause_by_hand(progress, definition, reason)
    return reason


def apply_controls(progress: Progress, controls: Iterable[Control], current: Mapping[int, Definition]) -> None:
    """Pause and resume queries as their users said, in that order."""
    before = {number: number in progress.windows.paused for number in current}
    changed: dict[int, str] = {}
    for control in controls:
        definition = current.get(control.definition)
        if definition is None:
            continue
        (pause_by_hand if control.action == "pause" else resume)(progress, definition)
        if control.action == "resume" and definition.id + RULERS in current:  # what failed has stopped both
            resume(progress, current[definition.id + RULERS])
        changed[definition.id] = control.action.removesuffix("e") + "ed"
    for number, done in changed.items():
        if before[number] != (number in progress.windows.paused):  # what was undone since the last commit is no news
            about = {"event": f"query {done}", "stream": current[number].query.stream, "query": current[number].name}
            LOG.info(f'query "{current[number].name}" is {done} by hand', extra=about)


def resume(progress: Progress, definition: Definition) -> None:
    """Let a query answer again: windows that ended meanwhile are not answered."""
    paused = progress.windows.paused.pop(definition.id, None)
    if paused is None:
        return
    if paused.kind == "for memory":  # its partials are gone: it begins anew
        progress.windows.begin(definition, progress.clock.seen_until_us)
        progress.windows.resumed_ends[definition.id] = progress.windows.next_ends[definition.id]
        return
    if isinstance(definition.query.window, SessionWindow):  # what became final meanwhile is gone
        return
    harmless = paused.until_us == paused.resume_end_us  # no row has failed, before or meanwhile
    if definition.id not in progress.windows.next_ends and harmless:  # its first window is still open
        return
    first = paused.resume_end_us
    if progress.clock.watermark_us is not None:
        first = max(first, definition.query.window.end_after(progress.clock.watermark_us))
    first = max(first, progress.windows.first_ends.get(definition.id, first))  # its first window may be still to come
    progress.windows.next_ends[definition.id] = progress.windows.resumed_ends[definition.id] = first


def failed_before(progress: Progress) -> frozenset[int]:
    """Name the paused queries whose own expressions may have failed."""
    return frozenset(d for d, paused in progress.windows.paused.items() if paused.kind == "by an error")


def before_failures(tables: Sequence[pa.Table], paused: Mapping[int, Paused]) -> list[pa.Table]:
    """Keep the answers of windows before their query's failure."""
    kept = []
    for table in tables:
        definitions, ends = table[DEFINITION].to_numpy(), table["window_end"].cast(pa.int64()).to_numpy()
        allowed = np.ones(len(ends), np.bool_)
        for number, pause in paused.items():
            allowed &= (definitions != number) | (ends <= pause.until_us)
        mine = table if allowed.all() else table.filter(pa.array(allowed))
        if mine.num_rows:
            kept.append(mine)
    return kept
