"""Simulates BSD with clustered priorities where choosing itself takes time (Sharaf 2007, §3.8.3).

The queries of a cluster take a tuple one after the other; each scheduling point costs time for every priority that is
computed or compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.schedule.clusters import full_scan, pruned
from penstock.schedule.compiled import compiled
from penstock.sim.arrivals import Arrivals
from penstock.sim.network import Network

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class ClusterTechnique:
    """How the best cluster is found and what runs then."""

    name: str
    cluster_of: Array
    pseudo: Array
    prune: bool = False
    together: bool = False  # all queries of the cluster take the tuple
    charge: float = 0.0


def clustered(net: Network, arrivals: Arrivals, values: Array, technique: ClusterTechnique) -> Array:
    """Return the slowdowns of all answers; every query has three operators in a row."""
    leaves = np.flatnonzero(net.stream >= 0)
    order = np.argsort(technique.cluster_of, kind="stable")
    clusters = len(technique.pseudo)
    counts = np.bincount(technique.cluster_of, minlength=clusters)
    keep = np.flatnonzero(counts)
    steps = np.stack([leaves, leaves + 1, leaves + 2])
    return loop(
        arrivals.time,
        values,
        net.segments.cost[steps],
        net.chance[steps],
        net.segments.ideal[leaves],
        order,
        np.concatenate([[0], np.cumsum(counts[keep])]),
        technique.pseudo[keep],
        np.argsort(-technique.pseudo[keep], kind="stable"),
        technique.prune,
        technique.together,
        technique.charge,
    )


@compiled
def loop(
    time: Array,
    values: Array,
    cost: Array,
    chance: Array,
    ideal: Array,
    order: Array,
    first: Array,
    pseudo: Array,
    by_priority: Array,
    prune: bool,
    together: bool,
    charge: float,
) -> Array:
    """Run until every tuple has been through every query."""
    clusters, tuples, now, arrived = pseudo.shape[0], time.shape[0], 0.0, 0
    head, place = np.zeros(clusters, dtype=np.int64), first[:-1].copy()
    wait, slowdowns, found = np.empty(clusters), np.empty(tuples * ideal.shape[0]), 0
    while True:
        while arrived < tuples and time[arrived] <= now:
            arrived += 1
        for cluster in range(clusters):
            wait[cluster] = now - time[head[cluster]] if head[cluster] < arrived else -1.0
        if prune:
            # Of clusters whose heads came together, that with the highest priority stands first (Example 2).
            by_wait = by_priority[np.argsort(-wait[by_priority], kind="mergesort")]
            best, looked = pruned(pseudo, wait, by_priority, by_wait)
        else:
            best, looked = full_scan(pseudo, wait)
        if best < 0:
            if arrived >= tuples:
                return slowdowns[:found]
            now = time[arrived]
            continue
        now += 2.0 * looked * charge  # one computation and one comparison each
        end = first[best + 1] if together else place[best] + 1
        number = head[best]
        while place[best] < end:
            query = order[place[best]]
            passed = True
            for step in range(3):
                if passed:
                    now += cost[step, query]
                    passed = values[number, step] <= chance[step, query]
            if passed:
                slowdowns[found] = (now - time[number]) / ideal[query]
                found += 1
            place[best] += 1
        if place[best] == first[best + 1]:
            place[best] = first[best]
            head[best] += 1
