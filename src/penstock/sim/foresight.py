"""Computes what an oracle knows about tuples and their fates (Sharaf 2007, §3.8.1.10)."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from penstock.sim.arrivals import Arrivals
from penstock.sim.network import Network

Array = np.ndarray[Any, Any]
NEVER: Final = np.iinfo(np.int64).max // 2


def foreseen(net: Network, arrivals: Arrivals, values: Array) -> tuple[Array, Array]:
    """Work out, for every leaf and tuple, which tuple passes next and how long it takes to get there."""
    most = int(np.bincount(arrivals.stream, minlength=net.streams).max())
    next_answer = np.full((len(net.segments), most + 1), NEVER, dtype=np.int64)
    work = np.zeros((len(net.segments), most + 1))
    for leaf in np.flatnonzero(net.stream >= 0):
        mine = values[arrivals.stream == net.stream[leaf]]
        passing, spent = np.ones(len(mine)), np.zeros(len(mine))
        for k in net.segments.path(int(leaf)):
            spent += passing * net.segments.cost[k]
            passing *= copies(float(net.chance[k]), mine[:, net.attribute[k]])
        work[leaf, 1 : len(mine) + 1] = np.cumsum(spent)
        following = np.where(passing > 0, np.arange(len(mine)), NEVER)
        next_answer[leaf, : len(mine)] = np.minimum.accumulate(following[::-1])[::-1]
    return next_answer, work


def copies(chance: float, values: Array) -> Array:
    """Tell how many tuples come out for each drawn value, as the simulator does."""
    whole = np.floor(chance)
    return np.asarray(whole + (values <= chance - whole))
