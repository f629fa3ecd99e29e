"""Finds the operator whose head has the best priority, without looking at most of them (compiled).

Operators stand in a list that is cut into short stretches. Each stretch knows the highest rank and the earliest head
in it (infinite where nothing waits), so that a stretch in which nothing can be best is passed over: Sharaf 2007,
§3.3.2.2, prunes its search in the same way.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from penstock.schedule.compiled import inlined, lean
from penstock.sim.state import PLACE, STRETCH, Records, records

LENGTH: Final = 16
NEVER: Final = 1 << 62


def listed(queue: Records, entries: np.ndarray[Any, Any]) -> tuple[Records, Records]:
    """Give every operator that has a queue its place; nothing waits yet. The last stretch is filled up with nobody."""
    stretches = records(STRETCH, -(-len(entries) // LENGTH))
    places = records(PLACE, len(stretches) * LENGTH)
    place_of = np.full(len(queue), -1, dtype=np.int64)
    place_of[entries] = np.arange(len(entries))
    queue.place = place_of
    places.operator = np.resize(entries, len(places)) if len(entries) else 0
    places.head, places.rank, places.time = NEVER, -np.inf, np.inf
    stretches.first, stretches.top, stretches.early = NEVER, -np.inf, np.inf
    return places, stretches


@inlined
def note_head(k: int, queue: Records, places: Records) -> None:
    """Write the head of an operator's queue into the list."""
    place = queue[k].place
    if queue[k].pending > 0.0:
        places[place].head = queue[k].head
        places[place].rank = queue[k].rank
        places[place].time = queue[k].head_time
    else:
        places[place].head = NEVER
        places[place].rank = -math.inf
        places[place].time = math.inf


@inlined
def note_stretch(number: int, places: Records, stretches: Records, state: Records) -> None:
    """Find the highest rank and the earliest head of a stretch again, two at a time: each waits for the one before."""
    begin = number * LENGTH
    top, early, first = -math.inf, math.inf, NEVER
    other_top, other_early = -math.inf, math.inf
    for place in range(begin, begin + LENGTH, 2):
        top = places[place].rank if places[place].rank > top else top
        early = places[place].time if places[place].time < early else early
        other_top = places[place + 1].rank if places[place + 1].rank > other_top else other_top
        other_early = places[place + 1].time if places[place + 1].time < other_early else other_early
        first = min(first, places[place].head, places[place + 1].head)
    if first < NEVER and number < state[0].waiting:
        state[0].waiting = number
    stretches[number].first = first
    stretches[number].top = top if top > other_top else other_top
    stretches[number].early = early if early < other_early else other_early


@inlined
def best_in(number: int, best: int, best_value: float, aging: bool, now: float, places: Records) -> tuple[int, float]:
    """Find what is better in a stretch than what was found; ties go to the earlier tuple, then the first named."""
    for place in range(number * LENGTH, number * LENGTH + LENGTH):
        head = places[place].head
        if head == NEVER:
            continue
        value = places[place].rank * (now - places[place].time) if aging else places[place].rank
        if best < 0 or value > best_value:
            best, best_value = place, value
        elif value == best_value:
            other = places[best].head
            if head < other or (head == other and places[place].operator < places[best].operator):
                best = place
    return best, best_value


@lean
def best_by_rank(places: Records, stretches: Records, state: Records, falling: bool) -> int:
    """Choose the highest rank; where ranks fall along the list, only the first stretch that waits is looked at.

    Operators of equal rank stand in the order of their names, so that a later one is better by an earlier head only.
    """
    best, best_value = -1, -math.inf
    for number in range(state[0].waiting if falling else 0, stretches.shape[0]):
        if stretches[number].early == math.inf:
            continue
        if best < 0:
            state[0].waiting = number  # nothing waits before it, until something comes there
        if stretches[number].top < best_value:
            if falling:
                break
        elif best < 0 or stretches[number].top > best_value or stretches[number].first < places[best].head:
            best, best_value = best_in(number, best, best_value, False, 0.0, places)
    return int(places[best].operator) if best >= 0 else -1


@lean
def best_by_age(places: Records, stretches: Records, now: float) -> int:
    """Choose the highest rank times wait: first where most can be expected, then wherever as much could be."""
    first, most = -1, -1.0
    for number in range(stretches.shape[0]):
        if stretches[number].early < math.inf:
            bound = max(0.0, stretches[number].top) * (now - stretches[number].early)
            if bound > most:
                first, most = number, bound
    if first < 0:
        return -1
    best, best_value = best_in(first, -1, 0.0, True, now, places)
    for number in range(stretches.shape[0]):
        if number == first or stretches[number].early == math.inf:
            continue
        if max(0.0, stretches[number].top) * (now - stretches[number].early) >= best_value:
            best, best_value = best_in(number, best, best_value, True, now, places)
    return int(places[best].operator)
