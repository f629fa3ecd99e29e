"""Waiting tuples with deadlines come in; which of them must run now goes out (Babcock et al. 2004, §5; compiled)."""

from __future__ import annotations

import numpy as np

from penstock.schedule.compiled import compiled
from penstock.sim.queues import due_of
from penstock.sim.state import World

_TIGHT = 1e-9


@compiled
def flush_limit(w: World) -> None:
    """Find the first tuple that is on the verge of missing its deadline, and how long the others have (§5.1).

    Later tuples may not run then; and by ``judged_until`` an earlier one gets tight if these run meanwhile.
    """
    waiting = 0
    for k in range(w.op.shape[0]):
        waiting += int(w.queue[k].pending)
    due, work = np.empty(waiting), np.empty(waiting)
    at = 0
    for k in range(w.op.shape[0]):
        spot = w.queue[k].first
        for place in range(np.int64(w.queue[k].pending)):
            if w.op[k].stream >= 0:
                number = w.members[w.streams[w.op[k].stream].member_first + w.queue[k].consumed + place]
                time, size = w.tuples[number].time, 1.0
            else:
                time, size = w.pool[spot].time, w.pool[spot].amount
                spot = w.pool[spot].next
            due[at] = due_of(time, w.op[k].bound, w.op[k].slide)
            work[at] = size * w.facts[k].mean_cost
            if place == 0 and w.queue[k].left >= 0.0:
                work[at] -= size * w.op[k].cost - w.queue[k].left
            at += 1
    order = np.argsort(due, kind="mergesort")
    total, now = 0.0, w.state[0].now
    for number in range(waiting):
        total += work[order[number]]
        last_of_equals = number + 1 == waiting or due[order[number + 1]] > due[order[number]]
        if last_of_equals:
            slack = due[order[number]] - now - total
            if slack <= _TIGHT * max(1.0, now):
                w.state[0].latest_due = due[order[number]]
                return
            w.state[0].judged_until = min(w.state[0].judged_until, now + slack)


@compiled
def flush_heads(now: float, w: World) -> int:
    """Take the head that could not wait any longer to its end, with all before it on its way (§5.2)."""
    found = -1 if w.state[0].flushing < 0 else _furthest(w)
    if found >= 0:
        return found
    w.state[0].flushing = -1
    for place in range(w.entries.shape[0]):
        k, best = w.entries[place], w.state[0].flushing
        if w.queue[k].pending <= 0.0 or now < _latest_start(k, w) - _TIGHT * max(1.0, now):
            continue
        if best < 0 or _latest_start(k, w) < _latest_start(best, w):
            w.state[0].flushing = k
    if w.state[0].flushing < 0:
        return -1
    w.state[0].flush_due = w.queue[w.state[0].flushing].due
    return _furthest(w)


@compiled
def _furthest(w: World) -> int:
    """Return the operator furthest on the way from where a flush began that holds a tuple it must finish."""
    k, found = w.state[0].flushing, -1
    while k >= 0:
        if w.queue[k].pending > 0.0 and w.queue[k].due <= w.state[0].flush_due:
            found = k
        k = w.edge_to[w.op[k].edge_first] if w.op[k].edge_first < w.op[k].edge_end else -1
    return found


@compiled
def _latest_start(k: int, w: World) -> float:
    """Return when a head must start to be in time."""
    return w.queue[k].due - w.facts[k].mean_cost * w.queue[k].head_size
