"""Answers due windows, and finds by bisection the queries that raise an unforeseen exception.

All windows are answered at once. Only if that fails, they are answered by halves, down to the queries that fail.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from penstock.kernel.answering import Answering, Due, DueSessions, Failure
from penstock.kernel.defects import Defect, defect_of

Found = tuple[list[pa.Table], list[Failure]]


def answer_apart(answering: Answering, due: Sequence[Due]) -> Found:
    """Answer what is due; a defect is charged to the queries that it concerns."""
    lost: list[Failure] = []
    if answering.synopsis.defects:
        due, lost = _lost(answering, due)
    if not due:
        return [], lost
    try:
        tables, failures = answering.answer(due)
        return tables, lost + failures
    except Exception as error:
        defect = defect_of(error, "its answers were computed")
    left, broken = _lost(answering, due)  # lanes that broke have been found
    if not broken and len(due) == 1:
        return [], [*lost, _failure(due[0], defect)]
    middle = 0 if broken else len(left) // 2
    found = [answer_apart(answering, half) for half in (left[:middle], left[middle:])]
    tables = [table for some, _ in found for table in some]
    return tables, [*lost, *broken, *(failure for _, some in found for failure in some)]


def _lost(answering: Answering, due: Sequence[Due]) -> tuple[list[Due], list[Failure]]:
    """Part what is due in what can be answered, lane by lane, and the windows of lanes that lost what they held."""
    left: dict[object, list[Due]] = {}
    failures = []
    for one in due:
        defect = answering.synopsis.lost(one.lane, one.definition)
        if defect is None:
            left.setdefault(one.lane, []).append(one)
        else:
            failures.append(_failure(one, defect))
    return [one for some in left.values() for one in some], failures


def _failure(due: Due, defect: Defect) -> Failure:
    """Charge a defect to a query, from the first window that is due on."""
    return Failure(due.definition.id, int(due.ends[0]), defect.reason, defect)


def answer_sessions_apart(answering: Answering, due: Sequence[DueSessions]) -> Found:
    """Answer sessions; a defect is charged to the queries that it concerns."""
    try:
        return answering.answer_sessions(due)
    except Exception as error:
        defect = defect_of(error, "its sessions were answered")
    if len(due) == 1:
        only = due[0]
        return [], [Failure(only.definition.id, int(only.sessions.ends[0]), defect.reason, defect)]
    found = [answer_sessions_apart(answering, [one]) for one in due]
    return [table for some, _ in found for table in some], [failure for _, some in found for failure in some]
