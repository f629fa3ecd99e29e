"""Defines simulated queries, and lays all their operators out as one network in flat arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from penstock.schedule.segments import ROOT, Segments, summed

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Operator:
    """One step of a query: the time it takes a tuple and how many come out of it on average."""

    cost: float
    selectivity: float = 1.0
    attribute: int = 0  # the drawn value that decides a tuple's fate


@dataclass(frozen=True, slots=True)
class SimQuery:
    """A path of operators over one stream; a join with a table is an operator with its selectivity."""

    name: str
    operators: tuple[Operator, ...]
    stream: int = 0
    weight: float = 1.0
    latency: float = np.inf  # allowed, for deadlines
    slide: float = 0.0  # of an aggregate: answers are due at its multiples


@dataclass(frozen=True, slots=True)
class JoinQuery:
    """A window join of two streams: operators before it on either side, the join, and those after it."""

    name: str
    left: tuple[Operator, ...]
    right: tuple[Operator, ...]
    join: Operator
    after: tuple[Operator, ...]
    window: float
    streams: tuple[int, int] = (0, 1)
    gaps: tuple[float, float] = (1.0, 1.0)  # mean times between arrivals, for estimates
    weight: float = 1.0
    latency: float = np.inf
    pairs: float | None = None  # pairs for one tuple, if it is known instead of estimated


@dataclass(frozen=True, slots=True)
class Group:
    """Queries that share their first operator."""

    name: str
    shared: Operator
    members: tuple[tuple[Operator, ...], ...]
    stream: int = 0
    latency: float = np.inf


AnyQuery = SimQuery | JoinQuery | Group


@dataclass(frozen=True, slots=True)
class Network:
    """All operators of all queries in flat arrays."""

    names: tuple[str, ...]  # of queries; members of a group count one each
    segments: Segments
    chance: Array
    attribute: Array
    stream: Array
    before: Array
    partner: Array
    window: Array
    edges: tuple[tuple[int, ...], ...]
    ideal_of_query: Array

    @property
    def streams(self) -> int:
        """Count the streams that are read."""
        return int(self.stream.max()) + 1


@dataclass(slots=True)
class _Builder:
    """Lists that grow while queries are laid out."""

    names: list[str] = field(default_factory=list)
    rows: list[dict[str, float]] = field(default_factory=list)
    edges: list[list[int]] = field(default_factory=list)
    ideals: list[float] = field(default_factory=list)

    def node(self, operator: Operator, query: int, ideal: float, **facts: float) -> int:
        """Add an operator."""
        usual = {"stream": -1.0, "before": -1.0, "partner": -1.0, "window": 0.0, "weight": 1.0}
        own = {"cost": operator.cost, "chance": operator.selectivity, "passed": operator.selectivity}
        self.rows.append(
            {**usual, "bound": np.inf, "slide": 0.0, **own, "attribute": operator.attribute, **facts}
            | {"query": query, "ideal": ideal}
        )
        self.edges.append([])
        return len(self.rows) - 1

    def chain(self, operators: Sequence[Operator], query: int, ideal: float, before: int, **facts: float) -> int:
        """Add operators one after the other behind one that is there; return the last."""
        for operator in operators:
            added = self.node(operator, query, ideal, before=float(before), **facts)
            if before >= 0:
                self.edges[before].append(added)
            before = added
        return before

    def query(self, name: str, ideal: float) -> int:
        """Add a query's name."""
        self.names.append(name)
        self.ideals.append(ideal)
        return len(self.names) - 1

    def column(self, name: str, kind: type = float) -> Array:
        """Return one fact of all operators."""
        return np.array([row[name] for row in self.rows], dtype=kind)


def network(queries: Sequence[AnyQuery]) -> Network:
    """Lay out queries one after the other."""
    builder = _Builder()
    for query in queries:
        match query:
            case SimQuery():
                _add_path(builder, query)
            case JoinQuery():
                _add_join(builder, query)
            case Group():
                _add_group(builder, query)
    return _finished(builder)


def _add_path(builder: _Builder, query: SimQuery) -> None:
    """Add a single-stream query."""
    ideal = sum(o.cost for o in query.operators)
    number = builder.query(query.name, ideal)
    facts = {"weight": query.weight, "bound": query.latency, "slide": query.slide}
    first = builder.node(query.operators[0], number, ideal, stream=float(query.stream), **facts)
    builder.chain(query.operators[1:], number, ideal, first, **facts)


def _add_join(builder: _Builder, query: JoinQuery) -> None:
    """Add both sides, the join once for each side, and what follows (Sharaf 2007, §3.4.2)."""
    sides, ideal = (query.left, query.right), 2 * query.join.cost
    ideal += sum(o.cost for part in (query.left, query.right, query.after) for o in part)
    number = builder.query(query.name, ideal)
    facts = {"weight": query.weight, "bound": query.latency}
    ends = []
    for side, stream in zip(sides, query.streams, strict=True):
        steps = (*side, query.join)
        first = builder.node(steps[0], number, ideal, stream=float(stream), **facts)
        ends.append(builder.chain(steps[1:], number, ideal, first, **facts))
    other_selectivity = [float(np.prod([o.selectivity for o in side])) for side in sides[::-1]]
    for end, other, selectivity, gap in zip(ends, ends[::-1], other_selectivity, query.gaps[::-1], strict=True):
        pairs = selectivity * query.window / gap * query.join.selectivity if query.pairs is None else query.pairs
        builder.rows[end] |= {"partner": float(other), "window": query.window, "passed": pairs}
        if query.pairs is not None:
            builder.rows[end]["chance"] = query.pairs
    last = builder.chain(query.after, number, ideal, ends[0], **facts)
    if query.after:
        builder.edges[ends[1]].append(builder.edges[ends[0]][0])
    assert last >= 0


def _add_group(builder: _Builder, group: Group) -> None:
    """Add queries behind an operator that they share (Sharaf 2007, §3.6)."""
    ideals = [group.shared.cost + sum(o.cost for o in member) for member in group.members]
    numbers = [builder.query(f"{group.name}.{i}", ideal) for i, ideal in enumerate(ideals)]
    facts = {"bound": group.latency}
    first = builder.node(group.shared, numbers[0], ideals[0], stream=float(group.stream), **facts)
    for number, ideal, member in zip(numbers, ideals, group.members, strict=True):
        builder.chain(member, number, ideal, first, **facts)


def _finished(builder: _Builder) -> Network:
    """Turn the lists into arrays, and sum up every segment."""
    after = np.array([edges[0] if edges else ROOT for edges in builder.edges], dtype=np.int64)
    cost, passed = builder.column("cost"), builder.column("passed")
    selectivity, mean_cost, remaining = summed(cost, passed, after)
    segments = Segments(
        cost=cost,
        passed=passed,
        after=after,
        query=builder.column("query", int),
        ideal=builder.column("ideal"),
        weight=builder.column("weight"),
        mean_cost=mean_cost,
        selectivity=selectivity,
        remaining=remaining,
        bound=builder.column("bound"),
        slide=builder.column("slide"),
    )
    return Network(
        names=tuple(builder.names),
        segments=segments,
        chance=builder.column("chance"),
        attribute=builder.column("attribute", int),
        stream=builder.column("stream", int),
        before=builder.column("before", int),
        partner=builder.column("partner", int),
        window=builder.column("window"),
        edges=tuple(tuple(e) for e in builder.edges),
        ideal_of_query=np.array(builder.ideals),
    )
