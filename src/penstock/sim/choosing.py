"""Queues with waiting heads come in; the operator that runs next goes out, for every manner of policy (compiled)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from penstock.schedule.compiled import compiled, inlined
from penstock.schedule.policy import Manner
from penstock.sim.flushing import flush_heads, flush_limit
from penstock.sim.queues import rank_of
from penstock.sim.state import Array, Records, World

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
def value_of(k: int, now: float, w: World, priority: Callable[..., float]) -> float:
    """Return the priority of an operator's head now."""
    if w.how.manner == _AGING:
        return w.queue[k].rank * (now - w.queue[k].head_time)
    if w.how.manner != _LIVE:
        return w.queue[k].rank
    if w.how.oracle:
        place = w.queue[k].consumed
        answer = w.next_answer[k, place]
        if answer - place >= w.queue[k].pending:
            return 0.0
        w.facts[k].extra = w.work[k, answer + 1] - w.work[k, place]
    return rank_of(k, now, w, priority)


@compiled
def best_by_rank(queue: Records, entries: Array, aging: bool, falling: bool, now: float, latest_due: float) -> int:
    """Choose the highest rank, or rank times wait, among heads that are due by then; ties go to the earlier tuple."""
    best, best_value = -1, 0.0
    for place in range(entries.shape[0]):
        k = entries[place]
        if queue[k].pending <= 0.0 or queue[k].due > latest_due:
            continue
        if falling and best >= 0 and queue[k].rank < best_value:
            return best
        value = queue[k].rank * (now - queue[k].head_time) if aging else queue[k].rank
        if best < 0 or value > best_value or (value == best_value and queue[k].head < queue[best].head):
            best, best_value = k, value
    return best


@compiled
def best_of_all(limit: float, w: World, priority: Callable[..., float]) -> int:
    """Choose the highest priority among heads that are due by the limit; ties go to the earlier tuple."""
    best, best_value = -1, 0.0
    now = w.state[0].now
    for place in range(w.entries.shape[0]):
        k = w.entries[place]
        if w.queue[k].pending <= 0.0 or w.queue[k].due > limit or not can_run(k, w):
            continue
        value = value_of(k, now, w, priority)
        w.state[0].weighed += 1
        if best < 0 or value > best_value or (value == best_value and w.queue[k].head < w.queue[best].head):
            best, best_value = k, value
    return best


@compiled
def next_in_turn(w: World) -> int:
    """Choose the next query after the last that has something waiting, and its highest rank."""
    best, best_turn = -1, 0
    turns = w.how.turns
    for place in range(w.entries.shape[0]):
        k = w.entries[place]
        if not can_run(k, w):
            continue
        ahead = (w.op[k].turn - w.state[0].turn - 1) % turns
        closer = best < 0 or ahead < best_turn
        if closer or (ahead == best_turn and w.queue[k].rank > w.queue[best].rank):
            best, best_turn = k, ahead
    if best >= 0:
        w.state[0].turn = w.op[best].turn
    return best


@compiled
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


@compiled
def early_or_fast(w: World) -> int:
    """Choose between the earliest that can be in time and the fastest of the late (S07 §3.5.2)."""
    early, fast, now = -1, -1, w.state[0].now
    for place in range(w.entries.shape[0]):
        k = w.entries[place]
        if not can_run(k, w):
            continue
        if now + work_until_due(k, w) <= w.queue[k].due:
            if early < 0 or w.queue[k].due < w.queue[early].due:
                early = k
        elif fast < 0 or w.queue[k].rank > w.queue[fast].rank:
            fast = k
    if early < 0 or fast < 0:
        return early if fast < 0 else fast
    return fast if now + work_until_due(fast, w) < w.queue[early].due else early


@inlined
def choose(w: World, priority: Callable[..., float]) -> int:
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
    if w.how.synced or w.how.charge > 0.0 or w.how.manner == _LIVE:
        return best_of_all(w.state[0].latest_due, w, priority)
    falling = w.how.manner == _STATIC and w.how.window == 0
    return best_by_rank(w.queue, w.entries, w.how.manner == _AGING, falling, w.state[0].now, w.state[0].latest_due)
