"""Chooses which items of work run together in one go; the live engine and the replay of a trace both choose by it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from penstock.model.arrays import FloatArray
from penstock.schedule.ordering import ordered_without_starving
from penstock.schedule.policy import Head, Heads, Manner, Policy

LITTLE_S: Final = 0.005  # that nobody minds to wait for: a group of its own takes as long to be logged
GROUP_S: Final = 0.05  # that work which runs together is expected to take at most
GROWTH: Final = 20  # times as long as that may it take where nothing else can come before all has run
SKIPPED: Final = 20  # items that do not fit into a group, and are passed over for what comes after them


class ItemFacts(NamedTuple):
    """What an item of due windows asks for, whenever it is looked at."""

    round_s: float  # one window of each query
    seconds: float  # all windows
    priority: float
    queries: int
    answers: int
    final_us: int
    due_us: int
    number: int  # of its first query
    stands_for: float = 1.0
    says: float = 1.0  # the part of its windows that is expected to have a row


class ItemArrays(NamedTuple):
    """The same of many items, each field with a number for every one of them."""

    round_s: FloatArray
    seconds: FloatArray
    priority: FloatArray
    queries: FloatArray
    answers: FloatArray
    final_us: FloatArray
    due_us: FloatArray
    number: FloatArray
    stands_for: FloatArray
    says: FloatArray

    @staticmethod
    def of(items: Sequence[ItemFacts]) -> ItemArrays:
        """Put items beside one another; instants in microseconds are exact in doubles until the year 2255."""
        return ItemArrays(*np.array(items, np.float64).reshape(len(items), len(ItemFacts._fields)).T)

    def heads(self, now_us: int, group_s: float = 0.0) -> Heads:
        """Describe items as policies see them, in seconds.

        A policy looks at the tuple at the head of a queue: here, one window of each query, which takes ``round_s`` by
        itself. However many wait, its ideal time is the same, and the wait of the first tells items apart; but its cost
        is its part of the run, as the more windows run together, the less may each of them take. The selectivity is
        the answers that are expected of them: of each query one, whatever rows it has, by the part of its windows that
        ``says`` something, as measured (decision 0110). A report of many rows is not more urgent for them. The queries
        share the cost, as those of a shared operator do (Sharaf 2007, §3.6): an item that answers many is worth as much
        as all of them. What a query takes by itself, the ideal time, is its part of the cost and ``group_s``, what a
        group takes however few windows it has. But an answer of a fresh query ``stands_for`` all windows that it
        supersedes: the staler the query, the more is gained.
        """
        cost = self.seconds * self.queries / self.answers
        ideal, now = group_s + self.round_s / self.queries, np.full(len(self.number), now_us / 1e6)
        waits = self.final_us / 1e6, self.answers / self.queries, self.due_us / 1e6, now
        selectivity = self.queries * self.stands_for * self.says
        return Heads(selectivity, cost, ideal, self.priority, self.seconds, *waits)


def is_quick(seconds: float) -> bool:
    """Tell whether all that became final while nothing waited is answered in one go, without any order."""
    return seconds <= GROUP_S


def first_group(
    policy: Policy,
    items: ItemArrays,
    heads: Heads,
    last: int,
    most_s: float = GROUP_S,
    beside: Sequence[Head] = (),
    waited_s: float = 0.0,
) -> list[int]:
    """Return the places of the items that run next, in order: as many as fit into one go, and at least one.

    What does not fit keeps its place for the next group, and what comes after it may still fit: a group takes a while
    however few windows it has, and one item that is dear would end it. Only ``SKIPPED`` items are passed over, so that
    a group stays near the front of the order.

    Of equals the one of the lower number goes first, and where queries take turns, it is the turn of the one after the
    ``last`` that ran. Work that runs ``beside`` is not among what can be chosen; where it comes before all items, none
    is. Where nothing else can come before all have run, ``waited_s`` is how long every item has waited at least: a
    group may take as long as that.
    """
    if policy.manner == Manner.HYBRID:
        heads = due_with_their_group(items, heads, most_s)
    named = np.argsort(items.number, kind="stable")
    turn = int(items.number[named].searchsorted(last, "right")) % len(named)
    chosen, total, skipped, most_s = list[int](), 0.0, 0, longest(most_s, waited_s)
    for at in ordered_without_starving(policy, heads.chosen(named).with_more(beside), turn):
        if at >= len(named) or (chosen and total >= most_s) or skipped >= SKIPPED:
            break
        seconds = float(items.seconds[named[at]])
        if chosen and not _fits(seconds, total, most_s, waited_s):
            skipped += 1
            continue
        chosen.append(int(named[at]))
        total += seconds
    return chosen


def due_with_their_group(items: ItemArrays, heads: Heads, most_s: float = GROUP_S) -> Heads:
    """Let items be due by so much earlier as a group ends after them: their answers are there when all of it is.

    Otherwise each item of a group is believed to be in time that is done by itself just before its deadline, and all of
    them are late when the group ends (decision 0109).
    """
    group_s = min(most_s, float(items.seconds.sum()))
    return heads._replace(due=heads.due - np.maximum(0.0, group_s - items.seconds))


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
