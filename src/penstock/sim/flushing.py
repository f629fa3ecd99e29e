"""Finds the waiting tuples that must run now to meet their deadlines (Babcock et al. 2004, §5; compiled)."""

from __future__ import annotations

import numpy as np

from penstock.schedule.compiled import inlined, lean
from penstock.sim.queues import due_of
from penstock.sim.state import Records, World

_TIGHT = 1e-9


@lean
def flush_limit(w: World) -> None:
    """Find the first tuple that is on the verge of missing its deadline, and how long the others have (§5.1).

    Later tuples may not run then; and by ``judged_until`` an earlier one gets tight if these run meanwhile.
    """
    waiting = _gather(w)
    _sort(w.scratch, waiting)
    total, now = 0.0, w.state[0].now
    for number in range(waiting):
        total += w.scratch[number].amount
        due = w.scratch[number].time
        if number + 1 == waiting or w.scratch[number + 1].time > due:
            slack = due - now - total
            if slack <= _TIGHT * max(1.0, now):
                w.state[0].latest_due = due
                return
            w.state[0].judged_until = min(w.state[0].judged_until, now + slack)


@lean
def _gather(w: World) -> int:
    """Write down when every waiting tuple is due and what work is left on it; return how many wait."""
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
            w.scratch[at].time = due_of(time, w.op[k].bound, w.op[k].slide)
            w.scratch[at].amount = size * w.facts[k].mean_cost
            if place == 0 and w.queue[k].left >= 0.0:
                w.scratch[at].amount -= size * w.op[k].cost - w.queue[k].left
            at += 1
    return at


@lean
def _sort(items: Records, many: int) -> None:
    """Sort by time in place (heap sort: lean code may not make arrays)."""
    for root in range(many // 2 - 1, -1, -1):
        _sink(items, root, many)
    for last in range(many - 1, 0, -1):
        _swap(items, 0, last)
        _sink(items, 0, last)


@lean
def _sink(items: Records, root: int, many: int) -> None:
    """Let an item sink below later ones."""
    while 2 * root + 1 < many:
        child = 2 * root + 1
        if child + 1 < many and items[child + 1].time > items[child].time:
            child += 1
        if items[child].time <= items[root].time:
            return
        _swap(items, root, child)
        root = child


@inlined
def _swap(items: Records, one: int, other: int) -> None:
    """Exchange two items' times and amounts."""
    time, amount = items[one].time, items[one].amount
    items[one].time, items[one].amount = items[other].time, items[other].amount
    items[other].time, items[other].amount = time, amount


@lean
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


@lean
def _furthest(w: World) -> int:
    """Return the operator furthest on the way from where a flush began that holds a tuple it must finish."""
    k, found = w.state[0].flushing, -1
    while k >= 0:
        if w.queue[k].pending > 0.0 and w.queue[k].due <= w.state[0].flush_due:
            found = k
        k = w.edge_to[w.op[k].edge_first] if w.op[k].edge_first < w.op[k].edge_end else -1
    return found


@lean
def _latest_start(k: int, w: World) -> float:
    """Return when a head must start to be in time."""
    return w.queue[k].due - w.facts[k].mean_cost * w.queue[k].head_size
