"""The text of a scenario file comes in; queries, arrivals and policies to simulate go out, or every mistake in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from yaml.nodes import Node

from penstock.errors import PenstockError
from penstock.project.document import Reading, scalar
from penstock.schedule.catalogue import policy_named
from penstock.schedule.policy import Policy
from penstock.sim.arrivals import Arrivals, burst_of, lbl_pkt_4, merged, on_off_pareto, poisson, recorded
from penstock.sim.layout import Level, Settings
from penstock.sim.network import Operator, Query

SCENARIO_SETTINGS: Final = ("seed", "level", "blocks", "utilization", "streams", "queries", "policies")
STREAM_KINDS: Final = ("lbl-pkt-4", "poisson", "pareto", "file", "times")
STREAM_SETTINGS: Final = (*STREAM_KINDS, "tuples", "gap", "until", "bursts", "column", "unit")
QUERY_SETTINGS: Final = ("name", "stream", "operators", "count", "weight", "latency", "slide", "spread")
OPERATOR_SETTINGS: Final = ("cost", "selectivity", "attribute")


@dataclass(frozen=True, slots=True)
class Scenario:
    """What to simulate."""

    queries: tuple[Query, ...]
    arrivals: Arrivals
    policies: tuple[Policy, ...]
    settings: Settings
    seed: int

    @property
    def attributes(self) -> int:
        """Count the values that decide a tuple's fate."""
        return 1 + max(o.attribute for q in self.queries for o in q.operators)


def read_scenario(path: Path) -> tuple[Scenario | None, Reading]:
    """Read a scenario; without one, the reading holds the mistakes."""
    reading = Reading(path.name, path.read_text(encoding="utf-8"))
    root = reading.root()
    entries = reading.entries(root, "a scenario", SCENARIO_SETTINGS) if root is not None else {}
    nodes = {key: node for key, (_, node) in entries.items()}
    for needed in ("streams", "queries", "policies"):
        if root is not None and needed not in nodes:
            reading.complain(f"a scenario needs {needed}", root)
    if reading.problems:
        return None, reading
    seed = (reading.whole(nodes["seed"], "seed") if "seed" in nodes else 1) or 0
    streams = _streams(reading, nodes["streams"], seed, path.parent)
    queries = _queries(reading, nodes["queries"], list(streams), seed)
    policies = [_policy(reading, node) for node in reading.items(nodes["policies"], "policies")]
    level = reading.choice(nodes["level"], "level", [m.value for m in Level]) if "level" in nodes else "query"
    blocks = reading.truth(nodes["blocks"], "blocks") if "blocks" in nodes else False
    load = _number(reading, nodes["utilization"], "utilization") if "utilization" in nodes else None
    if reading.problems or not queries or level is None:
        return None, reading
    arrivals = merged(list(streams.values()))
    queries = queries if load is None else _loaded(queries, list(streams.values()), arrivals, load)
    settings = Settings(level=Level(level), fluid=bool(blocks), seed=seed)
    return Scenario(tuple(queries), arrivals, tuple(p for p in policies if p is not None), settings, seed), reading


def _number(reading: Reading, node: Node, what: str) -> float:
    """Read a number that is not negative."""
    found = scalar(node)
    if isinstance(found, int | float) and not isinstance(found, bool) and 0 <= found < float("inf"):
        return float(found)
    reading.complain(f"{what} must be a number of at least 0", node)
    return 0.0


def _policy(reading: Reading, node: Node) -> Policy | None:
    """Read the name of a policy."""
    name = reading.words(node, "a policy")
    try:
        return None if name is None else policy_named(name)
    except PenstockError as error:
        reading.complain(error.what, node, detail=error.detail, hint=error.hint)
        return None


def _streams(reading: Reading, node: Node, seed: int, folder: Path) -> dict[str, Any]:
    """Read or draw the arrivals of every stream."""
    found = {}
    for number, (name, (_, value)) in enumerate(reading.entries(node, "streams").items()):
        entries = reading.entries(value, f'stream "{name}"', STREAM_SETTINGS)
        facts = {key: one for key, (_, one) in entries.items()}
        kinds = [kind for kind in STREAM_KINDS if kind in facts]
        if len(kinds) != 1:
            reading.complain(f'stream "{name}" needs one of {", ".join(STREAM_KINDS)}', value)
            continue
        try:
            found[name] = _drawn(reading, kinds[0], facts, seed * 1_000 + number, folder)
        except PenstockError as error:
            reading.complain(error.what, value, detail=error.detail, hint=error.hint)
    return found


def _drawn(reading: Reading, kind: str, facts: dict[str, Node], seed: int, folder: Path) -> Any:
    """Make one stream's arrivals."""

    def number(name: str, usual: float) -> float:
        return _number(reading, facts[name], name) if name in facts else usual

    makers: dict[str, Callable[[], Any]] = {
        "lbl-pkt-4": lambda: lbl_pkt_4(int(number("lbl-pkt-4", 1_000))),
        "poisson": lambda: poisson(int(number("poisson", 1_000)), number("gap", 1.0), seed),
        "pareto": lambda: on_off_pareto(number("pareto", 1_000.0), seed, gap=number("gap", 1.0)),
        "file": lambda: recorded(
            folder / (reading.words(facts["file"], "file") or ""), int(number("column", 0)), number("unit", 1e-6)
        ),
        "times": lambda: np.array([_number(reading, n, "a time") for n in reading.items(facts["times"], "times")]),
    }
    times = makers[kind]()
    times = times[: int(number("tuples", len(times)))]
    return burst_of(times, int(number("bursts", 1))) if "bursts" in facts else times


def _queries(reading: Reading, node: Node, streams: list[str], seed: int) -> list[Query]:
    """Read the queries; with ``count`` several alike, whose costs and selectivities are spread if asked."""
    found: list[Query] = []
    for place, value in enumerate(reading.items(node, "queries")):
        facts = {key: one for key, (_, one) in reading.entries(value, "a query", QUERY_SETTINGS).items()}
        name = (reading.words(facts["name"], "name") if "name" in facts else None) or f"q{place + 1}"
        stream = reading.choice(facts["stream"], "stream", streams) if "stream" in facts else next(iter(streams), None)
        if "operators" not in facts:
            reading.complain(f'query "{name}" needs operators', value)
            continue
        steps = tuple(_operator(reading, one) for one in reading.items(facts["operators"], "operators"))
        numbers = {k: _number(reading, facts[k], k) for k in ("weight", "latency", "slide", "spread") if k in facts}
        many = reading.whole(facts["count"], "count", 1) if "count" in facts else 1
        spread = numbers.pop("spread", 1.0)
        if not steps or stream is None or many is None:
            continue
        draw = np.random.default_rng([seed, place])
        for copy in range(many):
            factor = float(spread ** draw.uniform(-1.0, 1.0)) if spread > 1 else 1.0
            scaled = tuple(Operator(o.cost * factor, o.selectivity, o.attribute) for o in steps)
            label = name if many == 1 else f"{name}.{copy}"
            found.append(Query(label, scaled, streams.index(stream), **numbers))
    return found


def _operator(reading: Reading, node: Node) -> Operator:
    """Read one operator."""
    facts = {key: one for key, (_, one) in reading.entries(node, "an operator", OPERATOR_SETTINGS).items()}
    cost = _number(reading, facts["cost"], "cost") if "cost" in facts else 0.0
    if cost <= 0:
        reading.complain("an operator needs a cost above 0", node)
    chance = _number(reading, facts["selectivity"], "selectivity") if "selectivity" in facts else 1.0
    attribute = reading.whole(facts["attribute"], "attribute") if "attribute" in facts else 0
    return Operator(max(cost, 1e-300), chance, attribute or 0)


def _loaded(queries: list[Query], streams: list[Any], arrivals: Arrivals, load: float) -> list[Query]:
    """Scale all costs so that the expected work is the given share of the time."""
    span = float(arrivals.time[-1] - arrivals.time[0]) or 1.0
    work = 0.0
    for query in queries:
        alive = 1.0
        for operator in query.operators:
            work += len(streams[query.stream]) * alive * operator.cost
            alive *= operator.selectivity
    factor = load * span / work

    def scaled(query: Query) -> Query:
        steps = tuple(Operator(o.cost * factor, o.selectivity, o.attribute) for o in query.operators)
        return Query(query.name, steps, query.stream, query.weight, query.latency, query.slide)

    return [scaled(query) for query in queries]
