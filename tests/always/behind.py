"""Reads from the state folder of the dead which queries had windows that were final and not answered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from penstock.store.answers import found_files
from penstock.store.commits import last_commit
from tests.always.victim import QUESTIONS


def queries_behind(state: Path) -> int:
    """Count the queries that have final windows without answers; those that may have nothing to say are left out."""
    last = last_commit(state / "commits" / "s")
    if last is None:
        return 0
    covered: dict[int, int] = {}
    for file in found_files(state / "answers" / "s")[0]:
        if file.span.commit == last.number:
            covered |= {number: max(end, covered.get(number, end)) for number, end in file.span.covered.items()}
    slides = {number: q.slide_us for number, q in enumerate(QUESTIONS.values(), 1) if q.having is None}
    due = {int(number): records for number, records in last.due.items() if int(number) in slides}
    ends = {number: max(_last_end(record, slides[number]) for record in records) for number, records in due.items()}
    return sum(end > covered.get(number, end - 1) for number, end in ends.items())


def _last_end(record: Any, slide_us: int) -> int:
    """Return the last of the window ends that a commit recorded together."""
    first, windows, *more = record
    firsts, counts = more[2:] if len(more) > 2 else ([first], [windows])
    return int(firsts[-1] + (counts[-1] - 1) * slide_us)
