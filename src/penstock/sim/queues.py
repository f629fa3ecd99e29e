"""Keeps the queues of operators while tuples arrive and move on (compiled)."""

from __future__ import annotations

import math

from penstock.schedule.calendar import day_of, enter, leave
from penstock.schedule.compiled import inlined, lean
from penstock.schedule.policy import Head, Manner, Priority
from penstock.sim.ready import LENGTH, note_head, note_stretch
from penstock.sim.state import DONE, POOL_FULL, TRACE_FULL, Records, World

_HEAD, _QUEUE = int(Manner.HEAD), int(Manner.QUEUE)
_EDGE = 1e-9  # a tuple on a window's end belongs to the next one


@inlined
def due_of(time: float, bound: float, slide: float) -> float:
    """Tell when the answer to a tuple is due: at the end of its slide, or after the latency allowed."""
    if slide > 0.0:
        return (math.floor(time / slide + _EDGE) + 1.0) * slide
    return time + bound


@inlined
def rank_of(k: int, now: float, w: World, priority: Priority) -> float:
    """Compute the priority of what waits at an operator."""
    head = Head(
        w.facts[k].selectivity,
        w.facts[k].mean_cost,
        w.facts[k].ideal,
        w.facts[k].weight,
        w.facts[k].extra,
        w.queue[k].head_time,
        w.queue[k].pending,
        w.queue[k].due,
        now,
    )
    return priority(head)


@inlined
def renew(k: int, w: World, priority: Priority) -> None:
    """Look at a queue's new head."""
    w.queue[k].left = -1.0
    if w.queue[k].pending > 0.0:
        if w.op[k].stream >= 0:
            place = w.streams[w.op[k].stream].member_first + w.queue[k].consumed
            w.queue[k].head = w.members[place]
            w.queue[k].head_time = w.tuples[w.queue[k].head].time
            w.queue[k].head_size = 1.0
        else:
            w.queue[k].head = w.pool[w.queue[k].first].tuple
            w.queue[k].head_time = w.pool[w.queue[k].first].time
            w.queue[k].head_size = w.pool[w.queue[k].first].amount
        w.queue[k].due = due_of(w.queue[k].head_time, w.op[k].bound, w.op[k].slide)
        if w.how.manner == _HEAD:
            w.queue[k].rank = rank_of(k, 0.0, w, priority)
        elif w.how.manner == _QUEUE:
            w.queue[k].rank = rank_of_queue(k, w, priority)
    note_head(k, w.queue, w.places)
    if w.how.highest > 0.0:
        note_day(k, w)


@lean
def lengthen(k: int, w: World, priority: Priority) -> None:
    """Rank a queue again that has the same head and is longer."""
    w.queue[k].rank = rank_of_queue(k, w, priority)
    note_head(k, w.queue, w.places)
    if w.how.highest > 0.0:
        note_day(k, w)


@lean
def rank_of_queue(k: int, w: World, priority: Priority) -> float:
    """Compute the priority of a queue; an oracle knows when its next answer comes (S07 §3.8.1.10)."""
    if w.how.oracle:
        place = w.queue[k].consumed
        answer = w.next_answer[k, place]
        if answer - place >= w.queue[k].pending:
            return 0.0
        w.facts[k].extra = w.work[k, answer + 1] - w.work[k, place]
    return rank_of(k, 0.0, w, priority)


@lean
def note_day(k: int, w: World) -> None:
    """Write the head of an operator's queue into the calendar; each use of it is charged."""
    c = w.calendar
    if c.day[k] >= 0:
        leave(k, c.day, c.before, c.after, c.first, c.last)
    if w.queue[k].pending > 0.0:
        today = day_of(w.queue[k].rank, w.how.highest, c.first.shape[0])
        enter(k, today, c.day, c.before, c.after, c.first, c.last)
        w.state[0].weighed += 1


@inlined
def account(amount: float, time: float, w: World) -> int:
    """Note that memory changes at a time."""
    if time > w.state[0].last:  # what comes and goes at one instant is no peak
        w.state[0].peak = max(w.state[0].peak, w.state[0].memory)
    w.state[0].area += w.state[0].memory * (time - w.state[0].last)
    w.state[0].last = time
    w.state[0].memory += amount
    if w.how.trace:
        at = w.state[0].traced
        if at > 0 and w.trace[at - 1].time == time:
            at -= 1
        if at >= w.trace.shape[0]:
            return TRACE_FULL
        w.trace[at].time = time
        w.trace[at].amount = w.state[0].memory
        w.state[0].traced = at + 1
    return DONE


@inlined
def advance(until: float, w: World, priority: Priority) -> int:
    """Set the clock to a time, and let all tuples in that come until then."""
    at = w.state[0].arrived
    if at < w.tuples.shape[0] and w.tuples[at].time <= until:
        return admit(until, w, priority)
    w.state[0].now = until
    return DONE


@lean
def admit(until: float, w: World, priority: Priority) -> int:
    """Let all tuples in that come until a time, and set the clock to it."""
    while w.state[0].arrived < w.tuples.shape[0] and w.tuples[w.state[0].arrived].time <= until:
        number = w.state[0].arrived
        stream = w.tuples[number].stream
        w.state[0].arrived += 1
        begin, end = w.streams[stream].leaf_first, w.streams[stream].leaf_end
        for place in range(begin, end):
            leaf = w.leaves[place]
            w.queue[leaf].pending += 1.0
            if w.queue[leaf].pending == 1.0:
                renew(leaf, w, priority)
            elif w.how.manner == _QUEUE:
                lengthen(leaf, w, priority)
        failed = account(float(end - begin), w.tuples[number].time, w)
        if failed != DONE:
            return failed
    for number in range(w.stretches.shape[0]):
        note_stretch(number, w.places, w.stretches, w.state)
    w.state[0].now = until
    return DONE


@inlined
def take(pool: Records, state: Records, tuple_: int, time: float, size: float, ideal: float) -> int:
    """Place an item in the pool; -1 if it is full. Places that are free again form a list from place 0 on."""
    spot = pool[0].next
    if spot > 0:
        pool[0].next = pool[spot].next
    else:
        spot = state[0].free
        if spot >= pool.shape[0]:
            return -1
        state[0].free += 1
    pool[spot].next = -1
    pool[spot].tuple = tuple_
    pool[spot].time = time
    pool[spot].amount = size
    pool[spot].ideal = ideal
    return spot


@inlined
def give_back(pool: Records, spot: int) -> None:
    """Free a place of the pool."""
    pool[spot].next = pool[0].next
    pool[0].next = spot


@inlined
def enqueue(k: int, tuple_: int, time: float, size: float, ideal: float, w: World, priority: Priority) -> int:
    """Put an item at the end of an operator's queue."""
    spot = take(w.pool, w.state, tuple_, time, size, ideal)
    if spot < 0:
        return POOL_FULL
    if w.queue[k].pending > 0.0:
        w.pool[w.queue[k].last].next = spot
    else:
        w.queue[k].first = spot
    w.queue[k].last = spot
    w.queue[k].pending += 1.0
    if w.queue[k].pending == 1.0:
        renew(k, w, priority)
    elif w.how.manner == _QUEUE:
        lengthen(k, w, priority)
    else:
        return DONE
    note_stretch(w.queue[k].place // LENGTH, w.places, w.stretches, w.state)
    return DONE


@inlined
def dequeue(k: int, w: World, priority: Priority) -> None:
    """Take the head off an operator's queue."""
    if w.op[k].stream >= 0:
        w.queue[k].consumed += 1
    else:
        spot = w.queue[k].first
        w.queue[k].first = w.pool[spot].next
        give_back(w.pool, spot)
    w.queue[k].pending -= 1.0
    renew(k, w, priority)
    note_stretch(w.queue[k].place // LENGTH, w.places, w.stretches, w.state)
