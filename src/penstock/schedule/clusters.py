"""Clusters the priorities of many queries, so that the best is found quickly (Sharaf 2007, §3.3.2)."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.schedule.compiled import compiled

Array = np.ndarray[Any, Any]


def logarithmic(priorities: Array, clusters: int) -> tuple[Array, Array]:
    """Divide priorities so that those of a cluster are within one factor; return clusters and pseudo priorities."""
    low, high = float(priorities.min()), float(priorities.max())
    factor = (high / low) ** (1.0 / clusters) if high > low else 2.0
    numbers = np.floor(np.log(priorities / low) / np.log(factor) + 1e-12).astype(np.int64)
    return np.minimum(numbers, clusters - 1), low * factor ** np.arange(clusters)


def uniform(priorities: Array, clusters: int) -> tuple[Array, Array]:
    """Divide the range of priorities into equal parts, as Aurora does."""
    low, high = float(priorities.min()), float(priorities.max())
    width = (high - low) / clusters or 1.0
    numbers = np.floor((priorities - low) / width).astype(np.int64)
    return np.minimum(numbers, clusters - 1), low + width * np.arange(clusters)


@compiled
def full_scan(pseudo: Array, wait: Array) -> tuple[int, int]:
    """Find the greatest pseudo priority times wait, where a negative wait is an empty cluster; count the looks."""
    best, best_value, looked = -1, -1.0, 0
    for cluster in range(pseudo.shape[0]):
        if wait[cluster] >= 0.0:
            looked += 1
            value = pseudo[cluster] * wait[cluster]
            if value > best_value:
                best, best_value = cluster, value
    return best, looked


@compiled
def pruned(pseudo: Array, wait: Array, by_priority: Array, by_wait: Array) -> tuple[int, int]:
    """Find the same down two sorted lists, until nothing unseen can be better (Fagin's algorithm, k = 1).

    A cluster that was met in one list is not computed again in the other.
    """
    best, best_value, looked = -1, -1.0, 0
    seen = np.zeros(pseudo.shape[0], dtype=np.bool_)
    for depth in range(by_priority.shape[0]):
        for cluster in (by_priority[depth], by_wait[depth]):
            if wait[cluster] < 0.0 or seen[cluster]:
                continue
            looked += 1
            seen[cluster] = True
            value = pseudo[cluster] * wait[cluster]
            if value > best_value or (value == best_value and cluster < best):
                best, best_value = cluster, value
        if wait[by_wait[depth]] < 0.0:
            break  # only empty ones are left
        if best_value > pseudo[by_priority[depth]] * wait[by_wait[depth]]:
            break
    return best, looked
