"""Runs the simulation loop over a network of operators (compiled).

The clock jumps from one scheduling point to the next. A scheduling point is reached when an operator has finished a
tuple; with queries scheduled as a whole, operators after the first go on at once (edges are *inline*); with
``preempt``, whatever arrives is a scheduling point too, and what was begun waits with the work that is left.
"""

from __future__ import annotations

import math

from penstock.schedule.compiled import inlined, lean
from penstock.schedule.policy import Manner, Priority
from penstock.sim.choosing import choose
from penstock.sim.queues import account, admit, advance, dequeue, enqueue, give_back, rank_of, rank_of_queue, take
from penstock.sim.ready import LENGTH, note_head, note_stretch
from penstock.sim.state import DONE, LOG_FULL, PAUSED, POOL_FULL, STACK_FULL, World

_LIVE, _TURNS, _HEAD, _QUEUE = int(Manner.LIVE), int(Manner.TURNS), int(Manner.HEAD), int(Manner.QUEUE)
_ROUNDING = 1e-12


@lean
def simulate(w: World, priority: Priority) -> int:
    """Run until everything that came is done, or a pause is due."""
    while True:
        k = choose(w, priority)
        if k < 0:
            if w.state[0].arrived >= w.tuples.shape[0]:
                return DONE
            failed = admit(w.tuples[w.state[0].arrived].time, w, priority)
            if failed != DONE:
                return failed
            continue
        w.state[0].points += 1
        if w.how.charge > 0.0:
            spent = w.how.charge * w.state[0].weighed
            w.state[0].weighed = 0
            w.state[0].charged += spent
            failed = advance(w.state[0].now + spent, w, priority)
            if failed != DONE:
                return failed
        failed = step(k, w, priority)
        if failed != DONE:
            return failed
        if w.state[0].points >= w.how.until:
            return PAUSED


@inlined
def step(k: int, w: World, priority: Priority) -> int:
    """Run an operator on its head, and after it whatever goes on at once."""
    work = w.op[k].cost * w.queue[k].head_size if w.queue[k].left < 0.0 else w.queue[k].left
    length = work
    if w.how.preempt:
        length = stretch(k, work, w)
    failed = advance(w.state[0].now + length, w, priority)
    if failed != DONE:
        return failed
    if work - length > _ROUNDING * max(1.0, w.state[0].now):
        w.queue[k].left = work - length
        return DONE
    tuple_, time, size = w.queue[k].head, w.queue[k].head_time, w.queue[k].head_size
    ideal = time + w.op[k].ideal if w.op[k].stream >= 0 else w.pool[w.queue[k].first].ideal
    dequeue(k, w, priority)
    while True:
        failed = finish(k, tuple_, time, size, ideal, w, priority)
        if failed != DONE or w.state[0].stacked == 0:
            return failed
        w.state[0].stacked -= 1
        top = w.state[0].stacked
        k, tuple_, time = w.stack[top].next, w.stack[top].tuple, w.stack[top].time
        size, ideal = w.stack[top].amount, w.stack[top].ideal
        failed = advance(w.state[0].now + w.op[k].cost * size, w, priority)
        if failed != DONE:
            return failed


@inlined
def stretch(k: int, work: float, w: World) -> float:
    """Return how long an operator may run until something may change the choice."""
    length = work
    if w.how.manner == _TURNS and w.how.quantum > 0.0:
        length = min(length, w.how.quantum)
    elif w.state[0].arrived < w.tuples.shape[0]:
        length = min(length, w.tuples[w.state[0].arrived].time - w.state[0].now)
    if w.state[0].judged_until < math.inf:
        length = min(length, max(w.state[0].judged_until - w.state[0].now, 0.0))
    return length


@inlined
def finish(k: int, tuple_: int, time: float, size: float, ideal: float, w: World, priority: Priority) -> int:
    """Let the outputs of an operator go on, and note what was learnt."""
    w.state[0].run += 1
    joins = w.op[k].partner >= 0 and not w.how.fluid
    copies = 1
    if not w.how.fluid and not joins:
        copies = outcome(w.op[k].chance, w.values[tuple_, w.op[k].attribute])
    begin, end = w.op[k].edge_first, w.op[k].edge_end
    if copies == 1 and end - begin == 1 and w.edge_inline[begin] and not (joins or w.how.fluid or w.how.trace):
        # One for one, at once: memory stays as it is.
        if w.how.window > 0:
            learn(k, copies, w, priority)
        return go_on(w.edge_to[begin], tuple_, time, size, ideal, w)
    failed = account(-size, w.state[0].now, w)
    if failed != DONE:
        return failed
    if joins:
        return join(k, tuple_, time, size, ideal, w, priority)
    if w.how.fluid:
        size *= w.op[k].chance
    elif w.how.window > 0:  # what shrinks for certain teaches nothing
        learn(k, copies, w, priority)
    for _copy in range(copies):
        failed = hand_on(k, tuple_, time, size, ideal, w, priority)
        if failed != DONE:
            return failed
    return DONE


@inlined
def go_on(k: int, tuple_: int, time: float, size: float, ideal: float, w: World) -> int:
    """Put an item on the stack: its next operator runs at once."""
    top = w.state[0].stacked
    if top >= w.stack.shape[0]:
        return STACK_FULL
    w.stack[top].next, w.stack[top].tuple = k, tuple_
    w.stack[top].time, w.stack[top].amount, w.stack[top].ideal = time, size, ideal
    w.state[0].stacked = top + 1
    return DONE


@inlined
def outcome(chance: float, value: float) -> int:
    """Tell how many tuples come out: the whole part always, one more if the drawn value is within the rest."""
    whole = math.floor(chance)
    return int(whole) + (1 if value <= chance - whole else 0)


@inlined
def hand_on(k: int, tuple_: int, time: float, size: float, ideal: float, w: World, priority: Priority) -> int:
    """Give one output to every operator that follows, or log it as an answer."""
    begin, end = w.op[k].edge_first, w.op[k].edge_end
    if begin == end:
        return answer(w.op[k].query, tuple_, time, ideal, w)
    for place in range(end - 1, begin - 1, -1):
        failed = account(size, w.state[0].now, w)
        if failed != DONE:
            return failed
        target = w.edge_to[place]
        begun = ideal if end - begin == 1 else time + w.op[target].ideal
        if w.edge_inline[place]:
            failed = go_on(target, tuple_, time, size, begun, w)
        else:
            failed = enqueue(target, tuple_, time, size, begun, w, priority)
        if failed != DONE:
            return failed
    return DONE


@inlined
def answer(query: int, tuple_: int, time: float, ideal: float, w: World) -> int:
    """Write an answer down."""
    at = w.state[0].logged
    if at >= w.log.shape[0]:
        return LOG_FULL
    w.log[at].query, w.log[at].tuple = query, tuple_
    w.log[at].time, w.log[at].ideal, w.log[at].done = time, ideal, w.state[0].now
    w.state[0].logged += 1
    return DONE


@lean
def join(k: int, tuple_: int, time: float, size: float, ideal: float, w: World, priority: Priority) -> int:
    """Keep a tuple in its side's table and join it with the other side's (symmetric hash join, S07 §3.4)."""
    spot = take(w.pool, w.state, tuple_, time, size, ideal)
    if spot < 0:
        return POOL_FULL
    w.pool[spot].next = w.queue[k].kept
    w.queue[k].kept = spot
    other, behind = w.op[k].partner, -1
    found = w.queue[other].kept
    while found >= 0:
        after = w.pool[found].next
        if w.pool[found].time < time - w.op[k].window:
            # Everything further back is older still, and nothing that comes on this side can reach it.
            if behind < 0:
                w.queue[other].kept = -1
            else:
                w.pool[behind].next = -1
            while found >= 0:
                after = w.pool[found].next
                give_back(w.pool, found)
                found = after
            break
        first, second = (tuple_, w.pool[found].tuple) if k < other else (w.pool[found].tuple, tuple_)
        if w.pool[found].time <= time + w.op[k].window and drawn(w.how.seed, first, second) <= w.op[k].chance:
            later = max(tuple_, w.pool[found].tuple)
            done = ideal_of_pair(k, other, time, w.pool[found].time, w)
            failed = hand_on(k, later, max(time, w.pool[found].time), size, done, w, priority)
            if failed != DONE:
                return failed
        behind, found = found, after
    return DONE


@lean
def ideal_of_pair(k: int, other: int, time: float, other_time: float, w: World) -> float:
    """Return when a joined tuple would leave an idle system: waiting for its partner is no delay (S07 §3.4.1.2)."""
    common = w.op[k].remaining - w.op[k].cost
    mine, theirs = side_cost(k, w), side_cost(other, w)
    if time >= other_time:
        return max(other_time + theirs, time) + mine + common
    return max(time + mine, other_time) + theirs + common


@lean
def side_cost(k: int, w: World) -> float:
    """Sum up the time of a join's side, the join included."""
    total = 0.0
    while k >= 0:
        total += w.op[k].cost
        k = w.op[k].before
    return total


@lean
def drawn(seed: int, first: int, second: int) -> float:
    """Draw a number in (0, 1] for a pair of tuples: the same for every query and policy."""
    mixed = seed & 0xFFFFFFFF
    for part in (first, second, 12_345):
        mixed = (mixed ^ part) & 0xFFFFFFFF
        mixed = ((mixed ^ (mixed >> 16)) * 0x45D9F3B) & 0xFFFFFFFF
        mixed = ((mixed ^ (mixed >> 16)) * 0x45D9F3B) & 0xFFFFFFFF
        mixed = mixed ^ (mixed >> 16)
    return (mixed + 1) / 4_294_967_296.0


@lean
def learn(k: int, copies: int, w: World, priority: Priority) -> None:
    """Estimate a selectivity anew after each window of tuples, and what rests on it (S07 §3.3.3)."""
    w.queue[k].seen += 1
    w.queue[k].seen_out += copies
    if w.queue[k].seen < w.how.window:
        return
    w.facts[k].passed = (1.0 - w.how.alpha) * w.facts[k].passed + w.how.alpha * w.queue[k].seen_out / w.queue[k].seen
    w.queue[k].seen, w.queue[k].seen_out = 0, 0
    while k >= 0:
        believe(k, w, priority)
        other = w.op[k].partner  # what follows a join is behind both of its sides
        while other >= 0:
            believe(other, w, priority)
            other = w.op[other].before
        k = w.op[k].before


@lean
def believe(k: int, w: World, priority: Priority) -> None:
    """Work out an operator's segment again from what is believed of it and of the next, and its rank."""
    rest_passed, rest_cost = 1.0, 0.0
    if w.op[k].edge_first < w.op[k].edge_end:
        follower = w.edge_to[w.op[k].edge_first]
        rest_passed, rest_cost = w.facts[follower].selectivity, w.facts[follower].mean_cost
    w.facts[k].selectivity = w.facts[k].passed * rest_passed
    w.facts[k].mean_cost = w.op[k].cost + w.facts[k].passed * rest_cost
    if w.queue[k].place < 0 or w.how.manner == _LIVE:
        return
    if w.how.manner == _HEAD or w.how.manner == _QUEUE:
        if w.queue[k].pending <= 0.0:
            return
        w.queue[k].rank = rank_of_queue(k, w, priority)
    else:
        w.queue[k].rank = unit_rank(k, w, priority)
    note_head(k, w.queue, w.places)
    note_stretch(w.queue[k].place // LENGTH, w.places, w.stretches, w.state)


@lean
def unit_rank(k: int, w: World, priority: Priority) -> float:
    """Compute the rank of a segment: its priority for a head that has waited one unit of time."""
    kept = w.queue[k].head_time
    w.queue[k].head_time = 0.0
    rank = rank_of(k, 1.0, w, priority)
    w.queue[k].head_time = kept
    return rank
