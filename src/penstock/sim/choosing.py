"""Chooses the operator that runs next, for every kind of policy (compiled)."""

from __future__ import annotations

import numpy as np

from penstock.schedule.calendar import first_of
from penstock.schedule.compiled import inlined, lean
from penstock.schedule.policy import Manner, Priority
from penstock.sim.flushing import flush_heads, flush_limit
from penstock.sim.queues import rank_of
from penstock.sim.ready import LENGTH, NEVER, best_by_age, best_by_rank
from penstock.sim.state import World

_STATIC, _AGING, _LIVE, _TURNS = int(Manner.STATIC), int(Manner.AGING), int(Manner.LIVE), int(Manner.TURNS)
_HYBRID, _FLUSH, _FLUSH_HEADS = int(Manner.HYBRID), int(Manner.FLUSH), int(Manner.FLUSH_HEADS)


@inlined
def can_run(k: int, w: World) -> bool:
    """Tell whether an operator has something that may run: one side of a join waits for the other (B04 §4.3)."""
    if w.queue[k].pending <= 0.0:
        return False
    if not w.how.synced or w.op[k].partner < 0:
        return True
    other = w.op[k].partner
    if w.queue[other].pending > 0.0:
        return w.queue[k].head <= w.queue[other].head
    # Nothing waits on the other side: only once nothing can come there any more.
    if w.state[0].arrived < w.tuples.shape[0]:
        return False
    up = w.op[other].before
    while up >= 0:
        if w.queue[up].pending > 0.0:
            return False
        up = w.op[up].before
    return True


@inlined
def value_of(k: int, now: float, w: World, priority: Priority) -> float:
    """Return the priority of an operator's head now."""
    if w.how.manner == _AGING:
        return w.queue[k].rank * (now - w.queue[k].head_time)
    if w.how.manner != _LIVE:
        return w.queue[k].rank
    return rank_of(k, now, w, priority)


@lean
def best_of_all(limit: float, w: World, priority: Priority) -> int:
    """Choose the highest priority among heads due by the limit; ties go to the earlier tuple, then the first named."""
    best, best_value = -1, 0.0
    now = w.state[0].now
    for place in range(w.entries.shape[0]):
        k = w.entries[place]
        if w.queue[k].pending <= 0.0 or w.queue[k].due > limit or not can_run(k, w):
            continue
        value = value_of(k, now, w, priority)
        w.state[0].weighed += 1
        if best < 0 or value > best_value:
            best, best_value = k, value
        elif value == best_value:
            head, other = w.queue[k].head, w.queue[best].head
            if head < other or (head == other and k < best):
                best = k
    return best


@lean
def next_in_turn(w: World) -> int:
    """Choose the next query after the last that has something waiting, and its highest rank; places follow turns."""
    many, start, seen = w.entries.shape[0], w.state[0].turn, 0
    while seen < many:
        place = (start + seen) % many
        if place % LENGTH == 0 and w.stretches[place // LENGTH].early == np.inf:
            seen += min(LENGTH, many - place)
            continue
        if w.places[place].head < NEVER and can_run(w.places[place].operator, w):
            return _best_of_turn(place, w)
        seen += 1
    return -1


@lean
def _best_of_turn(place: int, w: World) -> int:
    """Choose the highest rank of one turn, whose first operator that can run is known; note where the next begins."""
    best, many = w.places[place].operator, w.entries.shape[0]
    turn = w.op[best].turn
    while place < many and w.op[w.places[place].operator].turn == turn:
        k = w.places[place].operator
        if w.queue[k].rank > w.queue[best].rank and can_run(k, w):
            best = k
        place += 1
    w.state[0].turn = place % many
    return best


@lean
def work_until_due(k: int, w: World) -> float:
    """Return the expected time for all tuples that wait and belong to the head's answer (S07 §3.5.2)."""
    if w.op[k].stream < 0:
        return w.facts[k].mean_cost
    begin = w.streams[w.op[k].stream].member_first + w.queue[k].consumed
    low, high = begin, begin + np.int64(w.queue[k].pending)
    while low < high:
        middle = (low + high) // 2
        if w.tuples[w.members[middle]].time < w.queue[k].due:
            low = middle + 1
        else:
            high = middle
    return (low - begin) * w.facts[k].mean_cost


@lean
def early_or_fast(w: World) -> int:
    """Choose between the earliest that can be in time and the fastest of the late (S07 §3.5.2).

    All queues are looked at: as time passes a head that could be in time no longer can, so no order can be kept.
    """
    early, fast, now = -1, -1, w.state[0].now
    for place in range(w.entries.shape[0]):
        k = w.entries[place]
        if not can_run(k, w):
            continue
        w.state[0].weighed += 1
        if now + work_until_due(k, w) <= w.queue[k].due:
            if early < 0 or w.queue[k].due < w.queue[early].due:
                early = k
        elif fast < 0 or w.queue[k].rank > w.queue[fast].rank:
            fast = k
    if early < 0 or fast < 0:
        return early if fast < 0 else fast
    return fast if now + work_until_due(fast, w) < w.queue[early].due else early


@inlined
def choose(w: World, priority: Priority) -> int:
    """Choose what runs next; -1 if nothing can."""
    w.state[0].latest_due, w.state[0].judged_until = np.inf, np.inf
    if w.how.manner == _TURNS:
        return next_in_turn(w)
    if w.how.manner == _HYBRID:
        return early_or_fast(w)
    if w.how.manner == _FLUSH_HEADS:
        k = flush_heads(w.state[0].now, w)
        if k >= 0:
            return k
    if w.how.manner == _FLUSH:
        flush_limit(w)
    if w.how.highest > 0.0:
        k = first_of(w.calendar.first)
        w.state[0].weighed += 1 if k >= 0 else 0
        return k
    if w.how.synced or w.how.charge > 0.0 or w.how.manner == _LIVE or w.how.manner == _FLUSH:
        return best_of_all(w.state[0].latest_due, w, priority)
    if w.how.manner == _AGING:
        return best_by_age(w.places, w.stretches, w.state[0].now)
    return best_by_rank(w.places, w.stretches, w.state, w.how.manner == _STATIC and w.how.window == 0)
