"""Reads the queries of a scenario file: paths of operators, window joins and groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, assert_never

import numpy as np
from yaml.nodes import Node

from penstock.project.document import YamlFile, scalar
from penstock.sim.network import AnyQuery, Group, JoinQuery, Operator, SimQuery

COMMON: Final = ("name", "count", "spread", "latency")
PATH_SETTINGS: Final = (*COMMON, "stream", "operators", "weight", "slide")
JOIN_SETTINGS: Final = (*COMMON, "streams", "left", "right", "join", "after", "window", "weight")
GROUP_SETTINGS: Final = (*COMMON, "stream", "shared", "members")
OPERATOR_SETTINGS: Final = ("cost", "selectivity", "attribute")


@dataclass(frozen=True, slots=True)
class ScenarioEntry:
    """One entry of the file: a class of queries that are alike."""

    name: str
    queries: tuple[AnyQuery, ...]


def number(reading: YamlFile, node: Node, what: str) -> float:
    """Read a number that is not negative."""
    found = scalar(node)
    if isinstance(found, int | float) and not isinstance(found, bool) and 0 <= found < float("inf"):
        return float(found)
    reading.complain(f"{what} must be a number of at least 0", node)
    return 0.0


def read_queries(reading: YamlFile, node: Node, gaps: Mapping[str, float], seed: int) -> list[ScenarioEntry]:
    """Read all entries; with ``count`` several alike, whose costs are spread by a factor if asked."""
    found: list[ScenarioEntry] = []
    for place, value in enumerate(reading.items(node, "queries")):
        keys = reading.entries(value, "a query")
        kind = JOIN_SETTINGS if "join" in keys else GROUP_SETTINGS if "shared" in keys else PATH_SETTINGS
        facts = {key: one for key, (_, one) in reading.entries(value, "a query", kind).items()}
        name = (reading.words(facts["name"], "name") if "name" in facts else None) or f"q{place + 1}"
        made = _query(reading, value, name, facts, gaps)
        many = reading.whole(facts["count"], "count", 1) if "count" in facts else 1
        spread = number(reading, facts["spread"], "spread") if "spread" in facts else 1.0
        if made is not None and many is not None:
            found.append(ScenarioEntry(name, _copies(made, many, spread, np.random.default_rng([seed, place]))))
    return found


def _query(
    reading: YamlFile, at: Node, name: str, facts: Mapping[str, Node], gaps: Mapping[str, float]
) -> AnyQuery | None:
    """Read one query of whichever kind."""
    for needed in ("streams", "window") if "join" in facts else ("members",) if "shared" in facts else ("operators",):
        if needed not in facts:
            reading.complain(f'query "{name}" needs {needed}', at)
            return None
    if "join" in facts:
        return _join(reading, name, facts, gaps)
    streams = list(gaps)
    stream = reading.choice(facts["stream"], "stream", streams) if "stream" in facts else next(iter(streams), None)
    if stream is None:
        return None
    numbers = _numbers(reading, facts, ("weight", "latency", "slide"))
    if "shared" in facts:
        members = tuple(_operators(reading, one, "members") for one in reading.items(facts["members"], "members"))
        return Group(name, _operator(reading, facts["shared"]), members, streams.index(stream), **numbers)
    steps = _operators(reading, facts["operators"], "operators")
    return SimQuery(name, steps, streams.index(stream), **numbers) if steps else None


def _join(reading: YamlFile, name: str, facts: Mapping[str, Node], gaps: Mapping[str, float]) -> JoinQuery | None:
    """Read a window join of two streams."""
    streams = list(gaps)
    named = [reading.choice(one, "stream", streams) for one in reading.items(facts["streams"], "streams")]
    if len(named) != 2 or len(set(named)) != 2 or None in named:
        reading.complain(f'query "{name}" must join two different streams', facts["streams"])
        return None
    pair = [name for name in named if name is not None]
    sides = {
        side: _operators(reading, facts[side], side) if side in facts else () for side in ("left", "right", "after")
    }
    return JoinQuery(
        name,
        sides["left"],
        sides["right"],
        _operator(reading, facts["join"]),
        sides["after"],
        number(reading, facts["window"], "window"),
        (streams.index(pair[0]), streams.index(pair[1])),
        (gaps[pair[0]], gaps[pair[1]]),
        **_numbers(reading, facts, ("weight", "latency")),
    )


def _numbers(reading: YamlFile, facts: Mapping[str, Node], names: Sequence[str]) -> dict[str, float]:
    """Read those numbers that are given."""
    return {name: number(reading, facts[name], name) for name in names if name in facts}


def _operators(reading: YamlFile, node: Node, what: str) -> tuple[Operator, ...]:
    """Read operators in a row."""
    return tuple(_operator(reading, one) for one in reading.items(node, what))


def _operator(reading: YamlFile, node: Node) -> Operator:
    """Read one operator."""
    facts = {key: one for key, (_, one) in reading.entries(node, "an operator", OPERATOR_SETTINGS).items()}
    cost = number(reading, facts["cost"], "cost") if "cost" in facts else 0.0
    if cost <= 0:
        reading.complain("an operator needs a cost above 0", node)
    chance = number(reading, facts["selectivity"], "selectivity") if "selectivity" in facts else 1.0
    attribute = reading.whole(facts["attribute"], "attribute") if "attribute" in facts else 0
    return Operator(max(cost, 1e-300), chance, attribute or 0)


def _copies(query: AnyQuery, many: int, spread: float, draw: np.random.Generator) -> tuple[AnyQuery, ...]:
    """Make several queries alike."""
    factors = [float(spread ** draw.uniform(-1.0, 1.0)) if spread > 1 else 1.0 for _ in range(many)]
    names = [query.name] if many == 1 else [f"{query.name}.{copy}" for copy in range(many)]
    return tuple(replace(scaled(query, f), name=n) for n, f in zip(names, factors, strict=True))


def scaled(query: AnyQuery, factor: float) -> AnyQuery:
    """Multiply all costs."""

    def one(operator: Operator) -> Operator:
        return replace(operator, cost=operator.cost * factor)

    def row(operators: tuple[Operator, ...]) -> tuple[Operator, ...]:
        return tuple(map(one, operators))

    match query:
        case SimQuery():
            return replace(query, operators=row(query.operators))
        case JoinQuery():
            sides = row(query.left), row(query.right), row(query.after)
            return replace(query, left=sides[0], right=sides[1], after=sides[2], join=one(query.join))
        case Group():
            return replace(query, shared=one(query.shared), members=tuple(map(row, query.members)))
        case _:
            assert_never(query)


def operators_of(query: AnyQuery) -> tuple[Operator, ...]:
    """List all operators of a query."""
    match query:
        case SimQuery():
            return query.operators
        case JoinQuery():
            return (*query.left, *query.right, query.join, *query.after)
        case Group():
            return (query.shared, *(o for member in query.members for o in member))
        case _:
            assert_never(query)


def expected_work(query: AnyQuery, tuples: Sequence[int]) -> float:
    """Return the time that all tuples of all streams are expected to take."""
    match query:
        case SimQuery():
            return tuples[query.stream] * _row_work(query.operators)
        case Group():
            members = sum(_row_work(member) for member in query.members)
            return tuples[query.stream] * (query.shared.cost + query.shared.selectivity * members)
        case JoinQuery():
            return _join_work(query, tuples)
        case _:
            assert_never(query)


def _row_work(operators: Sequence[Operator]) -> float:
    """Return the expected time for one tuple through operators in a row."""
    work, alive = 0.0, 1.0
    for operator in operators:
        work += alive * operator.cost
        alive *= operator.selectivity
    return work


def _join_work(query: JoinQuery, tuples: Sequence[int]) -> float:
    """Count both sides, the join once for each tuple that reaches it, and what follows for each pair."""
    total, passed = 0.0, [float(np.prod([o.selectivity for o in side])) for side in (query.left, query.right)]
    for side, stream, mine, other, gap in zip(
        (query.left, query.right), query.streams, passed, passed[::-1], query.gaps[::-1], strict=True
    ):
        pairs = other * query.window / gap * query.join.selectivity
        total += tuples[stream] * (_row_work(side) + mine * (query.join.cost + pairs * _row_work(query.after)))
    return total


def class_of_queries(entries: Sequence[ScenarioEntry]) -> list[str]:
    """Name the entry of each query, in the order in which the network numbers them."""
    found: list[Any] = []
    for entry in entries:
        for query in entry.queries:
            found += [entry.name] * (len(query.members) if isinstance(query, Group) else 1)
    return found
