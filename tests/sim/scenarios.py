"""Random small networks, arrivals and fates, in eighths, so that sums do not depend on their order."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np

from penstock.sim.arrivals import Arrivals
from penstock.sim.layout import Level, SimSettings
from penstock.sim.network import AnyQuery, Group, JoinQuery, Network, Operator, SimQuery, network

CHANCES = (0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class Case:
    net: Network
    arrivals: Arrivals
    values: np.ndarray
    settings: SimSettings
    kinds: frozenset[str]


def operators(draw: random.Random, many: int, wide: bool = False) -> tuple[Operator, ...]:
    chances = (*CHANCES, 1.5, 2.0) if wide else CHANCES
    return tuple(Operator(draw.randint(1, 24) / 8, draw.choice(chances), draw.randrange(3)) for _ in range(many))


def query(draw: random.Random, number: int, fluid: bool) -> AnyQuery:
    kind = draw.choice(["path", "path", "path", "join", "group"])
    latency, weight = draw.randint(16, 200) / 8, draw.choice([0.25, 0.5, 1.0])
    if kind == "join":
        sides = operators(draw, draw.randint(0, 1)), operators(draw, draw.randint(0, 1))
        window, after = draw.randint(8, 60) / 8, operators(draw, draw.randint(1, 2))
        join = Operator(draw.randint(1, 8) / 8, draw.choice(CHANCES))
        return JoinQuery(f"j{number}", *sides, join, after, window, latency=latency, pairs=0.5 if fluid else None)
    if kind == "group" and not fluid:
        members = tuple(operators(draw, draw.randint(1, 2)) for _ in range(draw.randint(2, 3)))
        return Group(f"g{number}", operators(draw, 1)[0], members, draw.randrange(2), latency)
    slide = draw.choice([0.0, draw.randint(8, 40) / 8])
    steps = operators(draw, draw.randint(1, 3), wide=True)
    return SimQuery(f"q{number}", steps, draw.randrange(2), weight, latency, slide)


def case(seed: int) -> Case:
    draw = random.Random(seed)
    level = draw.choice(list(Level))
    fluid = draw.random() < (0.7 if level is Level.PREEMPTIVE else 0.2)
    queries = [query(draw, n, fluid) for n in range(draw.randint(1, 4))]
    queries += [SimQuery("both", operators(draw, 1), stream) for stream in (0, 1)]
    tuples = draw.randint(1, 14)
    times = np.sort([draw.randint(0, 160) / 8 for _ in range(tuples)])
    streams = np.array([draw.randrange(2) for _ in range(tuples)], dtype=np.int64)
    values = np.array([[draw.randint(1, 16) / 16 for _ in range(3)] for _ in range(tuples)])
    settings = SimSettings(
        level=level,
        fluid=fluid,
        synced=draw.random() < 0.5,
        quantum=draw.choice([0.0, 0.5, 2.0]),
        turns=draw.random() < 0.5,
        trace=True,
        seed=seed,
    )
    kinds = frozenset(type(q).__name__ for q in queries)
    return Case(network(queries), Arrivals(times, streams), values, settings, kinds)
