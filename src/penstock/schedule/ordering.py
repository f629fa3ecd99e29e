"""Puts what waits in the order in which a policy would run it, in plain Python: the live engine chooses by it.

The simulator's compiled twin is :mod:`penstock.sim.choosing`. Nothing is compiled here, because the first call of a
compiled function takes seconds, and a live engine has no seconds to spare.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Final

from penstock.schedule.policy import Head, Manner, Policy

LIVE: Final = frozenset(
    {"RR", "FCFS", "FIFO", "SRPT", "LSF", "HR", "RB", "HNR", "BRT", "BSD", "EDF", "Hybrid", "FAS-MCQ"}
)
STARVING_S: Final = 30.0  # that something waits at least, and
STARVING_TIMES: Final = 20.0  # how many times as long as it takes, before it goes first whatever the policy says


def is_live(policy: Policy) -> bool:
    """Tell whether the engine can run by a policy: those that look at queues of operators, or ahead, it cannot."""
    return policy.name.partition("(")[0] in LIVE


def ordered(policy: Policy, heads: Sequence[Head], turn: int = 0) -> list[int]:
    """Return the places of all heads, which are looked at at one time, in the order in which they run.

    ``turn`` is the place whose turn it is, for policies by which queries take turns.
    """
    urgent = [_weighted(head._replace(extra=_extra(policy, head))) for head in heads]
    if policy.manner == Manner.TURNS:
        return [*range(turn, len(heads)), *range(turn)]
    if policy.manner == Manner.HYBRID:
        return _early_or_fast(policy, urgent)
    ranks = [_rank(policy, head) for head in urgent]
    return sorted(range(len(heads)), key=lambda place: (-ranks[place], heads[place].arrival, place))


def ordered_without_starving(policy: Policy, heads: Sequence[Head], turn: int = 0) -> list[int]:
    """Order heads by a policy, but first, as they came, those that have waited far too long.

    Policies that prefer what is cheap may leave a dear query waiting for as long as there is more than can be done.
    """
    starving = [place for place, head in enumerate(heads) if _is_starving(head)]
    if not starving:
        return ordered(policy, heads, turn)
    starving.sort(key=lambda place: (heads[place].arrival, place))
    waited = frozenset(starving)
    return [*starving, *(place for place in ordered(policy, heads, turn) if place not in waited)]


def _is_starving(head: Head) -> bool:
    """Tell whether a head has waited so long that no policy may let it wait any longer."""
    return head.now - head.arrival > max(STARVING_S, STARVING_TIMES * head.cost)


def _extra(policy: Policy, head: Head) -> float:
    """Return a policy's own number for work of one step: the time that remains, or its knob."""
    if policy.prepare is None:
        return 0.0
    return policy.knob if policy.manner == Manner.QUEUE else head.cost


def _weighted(head: Head) -> Head:
    """Let a head of weight w have waited w times as long, and be due after a w-th of its time."""
    if head.weight == 1.0:
        return head
    waited = head.weight * (head.now - head.arrival)
    return head._replace(arrival=head.now - waited, due=head.arrival + (head.due - head.arrival) / head.weight)


def _rank(policy: Policy, head: Head) -> float:
    """Return a head's priority; one that depends on operators alone is multiplied by the weight."""
    rank = policy.priority(head)
    if policy.manner != Manner.STATIC:
        return rank
    return rank * head.weight if rank >= 0 else rank / head.weight


def _early_or_fast(policy: Policy, heads: Sequence[Head]) -> list[int]:
    """Order what can be in time by its deadline and what is late by its rank, each time the better one of both.

    The late one goes first if the other can wait for it (Sharaf 2007, §3.5.2). Time passes with what has run.
    """
    now = heads[0].now if heads else 0.0
    early = sorted(range(len(heads)), key=lambda place: (heads[place].due, heads[place].arrival, place), reverse=True)
    late: list[tuple[float, float, int]] = []
    found: list[int] = []
    while early or late:
        while early and now + heads[early[-1]].cost > heads[early[-1]].due:
            place = early.pop()
            heapq.heappush(late, (-policy.priority(heads[place]), heads[place].arrival, place))
        if late and (not early or now + heads[late[0][2]].cost < heads[early[-1]].due):
            place = heapq.heappop(late)[2]
        else:
            place = early.pop()
        now += heads[place].cost
        found.append(place)
    return found
