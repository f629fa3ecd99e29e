"""Puts what waits in the order in which a policy would run it, with nothing compiled: the live engine chooses by it.

The simulator's compiled twin is :mod:`penstock.sim.choosing`. The first call of a compiled function takes seconds, and
a live engine has no seconds to spare. Thousands of heads are ranked at once, by the same functions, over arrays; who
needs the first few only takes no more of the order.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Final, cast

import numpy as np

from penstock.model.arrays import FloatArray
from penstock.schedule.policy import Head, Heads, Manner, Policy

LIVE: Final = frozenset(
    {"RR", "FCFS", "FIFO", "SRPT", "LSF", "HR", "RB", "HNR", "BRT", "BSD", "EDF", "Hybrid", "FAS-MCQ"}
)
AT_ONCE: Final = frozenset({Manner.STATIC, Manner.HEAD, Manner.AGING, Manner.HYBRID})  # ranked by arithmetic alone
STARVING_S: Final = 30.0  # that something waits at least, and
STARVING_TIMES: Final = 20.0  # how many times as long as it takes, before it goes first whatever the policy says


def is_live(policy: Policy) -> bool:
    """Tell whether the engine can run by a policy: those that look at queues of operators, or ahead, it cannot."""
    return policy.name.partition("(")[0] in LIVE


def ordered(policy: Policy, heads: Heads, turn: int = 0, *, prepared: bool = False) -> Iterator[int]:
    """Give the places of all heads, which are looked at at one time, in the order in which they run.

    ``turn`` is the place whose turn it is, for policies by which queries take turns. ``prepared``: ``extra`` holds the
    policy's own number, worked out from segments of operators.
    """
    if policy.manner == Manner.TURNS:
        yield from (*range(turn, len(heads.now)), *range(turn))
        return
    urgent = _weighted(heads if prepared else heads._replace(extra=_extra(policy, heads)))
    if policy.manner == Manner.HYBRID:
        yield from _early_or_fast(policy, urgent)
        return
    ranks = _ranks(policy, urgent)
    yield from np.lexsort((heads.arrival, -ranks)).tolist()  # stable: of equals, the one that is named first


def ordered_without_starving(policy: Policy, heads: Heads, turn: int = 0) -> Iterator[int]:
    """Order heads by a policy, but first, as they came, those that have waited far too long.

    Policies that prefer what is cheap may leave a dear query waiting for as long as there is more than can be done.
    """
    waited = heads.now - heads.arrival > np.maximum(STARVING_S, STARVING_TIMES * heads.cost)
    starving: list[int] = np.flatnonzero(waited).tolist()
    if not starving:
        yield from ordered(policy, heads, turn)
        return
    arrival, first = heads.arrival.tolist(), frozenset(starving)
    yield from sorted(starving, key=arrival.__getitem__)
    yield from (place for place in ordered(policy, heads, turn) if place not in first)


def _extra(policy: Policy, heads: Heads) -> FloatArray:
    """Return a policy's own number for work of one step: the time that remains, its knob, or what all of it takes."""
    if policy.manner == Manner.HYBRID:
        return heads.extra
    if policy.prepare is None:
        return np.zeros(len(heads.now))
    return np.full(len(heads.now), policy.knob) if policy.manner == Manner.QUEUE else heads.cost


def _weighted(heads: Heads) -> Heads:
    """Let a head of weight w have waited w times as long, and be due after a w-th of its time."""
    if (heads.weight == 1.0).all():
        return heads
    plain, waited = heads.weight == 1.0, heads.weight * (heads.now - heads.arrival)
    due = heads.arrival + (heads.due - heads.arrival) / heads.weight
    return heads._replace(
        arrival=np.where(plain, heads.arrival, heads.now - waited), due=np.where(plain, heads.due, due)
    )


def _ranks(policy: Policy, heads: Heads) -> FloatArray:
    """Return all priorities; those that depend on operators alone are multiplied by the weight."""
    ranks = _priorities(policy, heads)
    if policy.manner not in (Manner.STATIC, Manner.FLUSH):
        return ranks
    return np.where(ranks >= 0, ranks * heads.weight, ranks / heads.weight)


def _priorities(policy: Policy, heads: Heads) -> FloatArray:
    """Compute all priorities: at once what is arithmetic alone, which is the same to the last bit."""
    if policy.manner in AT_ONCE:
        return np.asarray(policy.priority(cast(Head, heads)), np.float64)
    return np.array([policy.priority(head) for head in heads.each()], np.float64)


def _early_or_fast(policy: Policy, heads: Heads) -> Iterator[int]:
    """Order what can be in time by its deadline and what is late by its rank, each time the better one of both.

    The late one goes first if the other can wait for it (Sharaf 2007, §3.5.2). What counts is the time for all that
    waits of an item (C there), which is ``extra`` here: it runs together. Time passes with what has run.
    """
    ranks: list[float] = _priorities(policy, heads).tolist()
    cost, due, arrival = heads.extra.tolist(), heads.due.tolist(), heads.arrival.tolist()
    early: list[int] = np.lexsort((heads.arrival, heads.due)).tolist()[::-1]  # the next one comes last
    turning: list[int] = np.argsort(heads.due - heads.extra, kind="stable").tolist()[::-1]  # who is late soonest, too
    now = float(heads.now[0]) if early else 0.0
    late: list[tuple[float, float, int]] = []
    given, is_late = set[int](), set[int]()
    while len(given) < len(cost):
        while turning and now + cost[turning[-1]] > due[turning[-1]]:
            if (place := turning.pop()) not in given:
                heapq.heappush(late, (-ranks[place], arrival[place], place))
                is_late.add(place)
        while early and (early[-1] in given or early[-1] in is_late):
            early.pop()
        if late and (not early or now + cost[late[0][2]] < due[early[-1]]):
            place = heapq.heappop(late)[2]
        else:
            place = early.pop()
        given.add(place)
        now += cost[place]
        yield place
