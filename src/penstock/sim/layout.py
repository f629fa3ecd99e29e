"""Prepares the flat records that the compiled simulation loop works on."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from penstock.errors import ProjectError
from penstock.schedule.calendar import DAYS
from penstock.schedule.policy import Head, Manner, Policy
from penstock.sim import state
from penstock.sim.arrivals import Arrivals
from penstock.sim.foresight import foreseen
from penstock.sim.network import Network
from penstock.sim.ready import listed

Array = np.ndarray[Any, Any]
CHUNK = 2_000_000  # scheduling points between two reports of progress


class Level(Enum):
    """When something else may run: after a query, after an operator, or whenever something comes."""

    QUERY = "query"
    OPERATOR = "operator"
    PREEMPTIVE = "preemptive"


@dataclass(frozen=True, slots=True)
class SimSettings:
    """How a run goes."""

    level: Level = Level.QUERY
    fluid: bool = False  # tuples shrink by the selectivity instead of passing or not
    synced: bool = False  # joins take tuples in order of time across both sides
    quantum: float = 0.0  # of round robin with preemption
    turns: bool = True  # round robin over queries; otherwise over operators
    adapt_window: int = 0
    adapt_alpha: float = 0.175
    charge: float = 0.0  # time to compute or compare one priority, or to use the calendar once
    calendar: bool = False  # choose by a calendar queue instead of exactly
    trace: bool = False  # keep memory over time
    seed: int = 1


@dataclass(frozen=True, slots=True)
class Beliefs:
    """What the policy is told instead of the truth, and which edges go on at once; None: the truth."""

    selectivity: Array | None = None
    mean_cost: Array | None = None
    ideal: Array | None = None
    inline: tuple[tuple[bool, ...], ...] | None = None


def lay_out(
    net: Network,
    arrivals: Arrivals,
    values: Array,
    policy: Policy,
    settings: SimSettings,
    beliefs: Beliefs,
    places_in_pool: int,
    answers: int,
) -> state.World:
    """Lay everything out for the compiled loop."""
    inline = beliefs.inline or tuple(tuple(settings.level is Level.QUERY for _ in e) for e in net.edges)
    operators, facts = _operators(net, settings), _facts(net, policy, beliefs)
    next_answer, work = foreseen(net, arrivals, values) if policy.oracle else _UNSEEN
    ranks = _ranks(policy, facts)
    entries = _entries(net, inline)
    if not settings.adapt_window or policy.manner is Manner.TURNS:  # otherwise ranks change
        entries = _ordered(policy, entries, ranks, operators.turn)
    queue = _queues(net)
    queue.rank = ranks
    places, stretches = listed(queue, entries)
    return state.World(
        how=_how(policy, settings, _highest(policy, facts, settings) if settings.calendar else 0.0),
        op=operators,
        facts=facts,
        queue=queue,
        entries=entries,
        places=places,
        stretches=stretches,
        calendar=_calendar(len(operators)),
        edge_to=np.array([t for e in net.edges for t in e], dtype=np.int64),
        edge_inline=np.array([i for e in inline for i in e], dtype=np.bool_),
        **_tuples(net, arrivals),
        values=np.ascontiguousarray(values, dtype=np.float64),
        next_answer=next_answer,
        work=work,
        pool=state.records(state.ITEM, places_in_pool),
        stack=state.records(state.ITEM, places_in_pool),
        scratch=state.records(
            state.ITEM, _waiting(net, arrivals) + places_in_pool if policy.manner is Manner.FLUSH else 1
        ),
        log=state.records(state.ANSWER, answers),
        trace=state.records(state.TRACE, places_in_pool * 16 if settings.trace else 1),
        state=_state(),
    )


def _ranks(policy: Policy, facts: state.Records) -> Array:
    """Compute the priority of each segment for a head that has waited one unit of time, where no more is needed."""
    if policy.manner in (Manner.LIVE, Manner.HEAD, Manner.QUEUE):
        return np.zeros(len(facts))
    return np.array(
        [policy.priority(Head(*known, arrival=0.0, pending=0.0, due=0.0, now=1.0)) for known in _known(facts)]
    )


def _known(facts: state.Records) -> list[tuple[float, float, float, float, float]]:
    """List what a priority knows of every segment."""
    names = ("selectivity", "mean_cost", "ideal", "weight", "extra")
    return list(zip(*(facts[name].tolist() for name in names), strict=True))


def _ordered(policy: Policy, entries: Array, ranks: Array, turns: Array) -> Array:
    """Order operators so that the best are found soon: by falling rank, or by turn."""
    if policy.manner in (Manner.STATIC, Manner.AGING):
        return np.asarray(entries[np.lexsort((entries, -ranks[entries]))])
    if policy.manner is Manner.TURNS:
        return np.asarray(entries[np.lexsort((entries, turns[entries]))])
    return entries


def _highest(policy: Policy, facts: state.Records, settings: SimSettings) -> float:
    """Find the highest priority that any queue can get: that of a single tuple."""
    if settings.adapt_window:
        raise ProjectError(
            "a calendar queue cannot be used while selectivities are estimated anew",
            detail="it keeps the priorities that queues had when they last changed",
            hint="Leave out calendar or adapt.",
        )
    if policy.manner not in (Manner.STATIC, Manner.QUEUE) or policy.oracle:
        raise ProjectError(
            f"{policy.name} cannot use a calendar queue",
            detail="a calendar queue keeps priorities that change with the queue only",
            hint="Use it with FAS-MCQ or a static policy such as HR.",
        )
    return max(policy.priority(Head(*known, arrival=0.0, pending=1.0, due=0.0, now=0.0)) for known in _known(facts))


def _calendar(operators: int) -> state.Calendar:
    """Begin with an empty calendar."""
    links = [np.full(operators, -1, dtype=np.int64) for _ in range(3)]
    return state.Calendar(*links, *(np.full(DAYS, -1, dtype=np.int64) for _ in range(2)))


def _how(policy: Policy, settings: SimSettings, highest: float) -> state.RunSettings:
    """Put the settings together."""
    return state.RunSettings(
        manner=int(policy.manner),
        window=settings.adapt_window,
        seed=settings.seed,
        until=CHUNK,
        fluid=settings.fluid,
        preempt=settings.level is Level.PREEMPTIVE,
        synced=settings.synced,
        oracle=policy.oracle,
        trace=settings.trace,
        alpha=settings.adapt_alpha,
        quantum=settings.quantum,
        charge=settings.charge,
        highest=highest,
    )


def _state() -> state.Records:
    """Begin at time 0; place 0 of the pool is the head of its free list."""
    one = state.records(state.STATE, 1)
    one.free, one.flushing = 1, -1
    return one


def _operators(net: Network, settings: SimSettings) -> state.Records:
    """Write down the operators."""
    found, segments = state.records(state.OPERATOR, len(net.segments)), net.segments
    ends = np.cumsum([len(e) for e in net.edges])
    found.edge_end = ends
    found.edge_first[1:] = ends[:-1]
    for name in ("cost", "query", "bound", "slide", "remaining", "ideal"):
        found[name] = getattr(segments, name)
    for name in ("chance", "attribute", "stream", "before", "partner", "window"):
        found[name] = getattr(net, name)
    found.turn = segments.query if settings.turns else np.arange(len(segments))
    return found


def _entries(net: Network, inline: tuple[tuple[bool, ...], ...]) -> Array:
    """List the operators that have a queue: leaves, and those that some other does not run at once."""
    queued = {t for e, i in zip(net.edges, inline, strict=True) for t, at_once in zip(e, i, strict=True) if not at_once}
    return np.array([k for k in range(len(net.segments)) if net.stream[k] >= 0 or k in queued], dtype=np.int64)


def _facts(net: Network, policy: Policy, beliefs: Beliefs) -> state.Records:
    """Write down what the policy knows; it may change."""
    found, s = state.records(state.FACTS, len(net.segments)), net.segments
    found.selectivity = s.selectivity if beliefs.selectivity is None else beliefs.selectivity
    found.mean_cost = s.mean_cost if beliefs.mean_cost is None else beliefs.mean_cost
    found.ideal = s.ideal if beliefs.ideal is None else beliefs.ideal
    found.weight, found.extra, found.passed = s.weight, policy.extra(s), s.passed
    return found


def _tuples(net: Network, arrivals: Arrivals) -> dict[str, Any]:
    """Write down the tuples, and sort leaves and tuples by stream."""
    tuples, streams = state.records(state.TUPLE, len(arrivals)), state.records(state.STREAM, net.streams)
    tuples.time, tuples.stream = arrivals.time, arrivals.stream
    leaves = np.flatnonzero(net.stream >= 0)
    leaves = leaves[np.argsort(net.stream[leaves], kind="stable")]
    members = np.argsort(arrivals.stream, kind="stable")
    streams.leaf_first = np.searchsorted(net.stream[leaves], np.arange(net.streams))
    streams.leaf_end = np.searchsorted(net.stream[leaves], np.arange(net.streams), side="right")
    streams.member_first = np.searchsorted(arrivals.stream[members], np.arange(net.streams))
    return {"tuples": tuples, "streams": streams, "leaves": leaves, "members": members}


def _waiting(net: Network, arrivals: Arrivals) -> int:
    """Count what waits at all leaves if everything comes at once."""
    tuples = np.bincount(arrivals.stream, minlength=net.streams)
    return int(tuples[net.stream[net.stream >= 0]].sum())


def _queues(net: Network) -> state.Records:
    """Begin with empty queues."""
    found = state.records(state.QUEUE, len(net.segments))
    found.head, found.first, found.last, found.kept = -1, -1, -1, -1
    found.left, found.head_size = -1.0, 1.0
    return found


_UNSEEN = (np.zeros((1, 1), dtype=np.int64), np.zeros((1, 1)))
