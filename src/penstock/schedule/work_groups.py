"""Chooses which items of work run together in one go; the live engine and the replay of a trace both choose by it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from penstock.schedule.ordering import ordered_without_starving
from penstock.schedule.policy import Head, Policy

LITTLE_S: Final = 0.005  # that nobody minds to wait for: a group of its own takes as long to be logged
GROUP_S: Final = 0.05  # that work which runs together is expected to take at most
GROWTH: Final = 20  # times as long as that may it take where nothing else can come before all has run


def item_head(
    round_s: float,
    priority: float,
    queries: int,
    answers: int,
    final_us: int,
    due_us: int,
    now_us: int,
    *,
    stands_for: float = 1.0,
    group_s: float = 0.0,
) -> Head:
    """Describe an item of due windows as policies see it, in seconds.

    A policy looks at the tuple at the head of a queue: here, one window of each query, which takes ``round_s``. However
    many wait, its rate and its ideal time are the same; the wait of the first tells items apart. Each query counts for
    one, whatever rows its windows have. An alert that seldom says something is as urgent as one that often does, and a
    report of many rows is not more urgent for them. The queries share the cost, as those of a shared operator do
    (Sharaf 2007, §3.6): an item that answers many is worth as much as all of them. What a query takes by itself, the
    ideal time, is its part of the cost and ``group_s``, what a group takes however few windows it has. But an answer of
    a fresh query ``stands_for`` all windows that it supersedes: the staler the query, the more is gained.
    """
    times = final_us / 1e6, answers / queries, due_us / 1e6, now_us / 1e6
    return Head(queries * stands_for, round_s, group_s + round_s / queries, priority, 1.0, *times)


def is_quick(seconds: float) -> bool:
    """Tell whether all that became final while nothing waited is answered in one go, without any order."""
    return seconds <= GROUP_S


def first_group(
    policy: Policy,
    heads: Sequence[Head],
    seconds: Sequence[float],
    numbers: Sequence[int],
    last: int,
    most_s: float = GROUP_S,
    beside: Sequence[Head] = (),
    waited_s: float = 0.0,
) -> list[int]:
    """Return the places of the items that run next, in order: as many as fit into one go, and at least one.

    ``seconds`` are what all windows of an item take. Items have ``numbers``: of equals the lower one goes first, and
    where queries take turns, it is the turn of the one after the ``last`` that ran. Work that runs ``beside`` is not
    among what can be chosen; where it comes before all items, none is. Where nothing else can come before all have run,
    ``waited_s`` is how long every item has waited at least: a group may take as long as that.
    """
    named = sorted(range(len(heads)), key=numbers.__getitem__)
    turn = next((turn for turn, place in enumerate(named) if numbers[place] > last), 0)
    chosen, total, most_s = list[int](), 0.0, longest(most_s, waited_s)
    for at in ordered_without_starving(policy, [*(heads[place] for place in named), *beside], turn):
        if at >= len(named) or (chosen and not _fits(seconds[named[at]], total, most_s, waited_s)):
            break
        chosen.append(named[at])
        total += seconds[named[at]]
    return chosen


def longest(most_s: float, waited_s: float) -> float:
    """Return what a group may take: ``most_s``, or as long as all of it has waited, but not many times as long.

    A group has costs of its own, and what its items share is computed once: the fewer there are, the sooner all is
    done. The more there is, the larger they grow, and nobody waits more than twice as long for those beside it.
    """
    return min(max(most_s, waited_s), GROWTH * most_s)


def _fits(cost: float, total: float, most_s: float, waited_s: float) -> bool:
    """Tell whether an item may join a group: not if those before it would wait more than twice as long for it."""
    return cost <= max(waited_s + total, LITTLE_S) and total + cost <= most_s


def cut_end(first_us: int, last_us: int, seconds: float, most_s: float = GROUP_S) -> int:
    """Return up to which end windows that take too long together, ``first_us`` to ``last_us``, run in one go."""
    return first_us + int((last_us - first_us) * most_s / seconds)
