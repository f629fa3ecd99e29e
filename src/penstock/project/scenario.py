"""Reads a scenario file for the simulator: queries, arrivals and policies, or every mistake in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from yaml.nodes import Node

from penstock.errors import PenstockError
from penstock.project.document import YamlFile
from penstock.project.scenario_queries import ScenarioEntry, expected_work, number, operators_of, read_queries, scaled
from penstock.schedule.policy import Policy
from penstock.schedule.registry import policy_named
from penstock.sim.arrivals import Arrivals, burst_of, lbl_pkt_4, merged, on_off_pareto, poisson, recorded
from penstock.sim.layout import Level, SimSettings
from penstock.sim.network import AnyQuery

SCENARIO_SETTINGS: Final = (
    *("seed", "level", "blocks", "calendar", "charge", "adapt", "slice", "utilization"),
    *("streams", "queries", "policies", "metrics"),
)
STREAM_KINDS: Final = ("lbl-pkt-4", "poisson", "pareto", "file", "times")
STREAM_SETTINGS: Final = (*STREAM_KINDS, "tuples", "gap", "until", "bursts", "column", "unit")
METRICS: Final = ("response", "slowdown", "tardiness", "staleness", "memory", "memory over time")


@dataclass(frozen=True, slots=True)
class Scenario:
    """What to simulate."""

    entries: tuple[ScenarioEntry, ...]
    arrivals: Arrivals
    policies: tuple[Policy, ...]
    settings: SimSettings
    seed: int
    metrics: tuple[str, ...]

    @property
    def queries(self) -> tuple[AnyQuery, ...]:
        """List the queries of all entries."""
        return tuple(query for entry in self.entries for query in entry.queries)

    @property
    def attributes(self) -> int:
        """Count the values that decide a tuple's fate."""
        return 1 + max(o.attribute for q in self.queries for o in operators_of(q))


def read_scenario(path: Path) -> tuple[Scenario | None, YamlFile]:
    """Read a scenario; without one, the reading holds the mistakes."""
    reading = YamlFile(path.name, path.read_text(encoding="utf-8"))
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
    found = read_queries(reading, nodes["queries"], {name: _gap(times) for name, times in streams.items()}, seed)
    policies = [_policy(reading, node) for node in reading.items(nodes["policies"], "policies")]
    load = number(reading, nodes["utilization"], "utilization") if "utilization" in nodes else None
    metrics = _metrics(reading, nodes["metrics"]) if "metrics" in nodes else METRICS[:-1]
    settings = _settings(reading, nodes, seed, "memory over time" in metrics)
    if reading.problems or not found or settings is None:
        return None, reading
    arrivals = merged(list(streams.values()))
    found = found if load is None else _loaded(found, list(streams.values()), arrivals, load)
    chosen = tuple(p for p in policies if p is not None)
    return Scenario(tuple(found), arrivals, chosen, settings, seed, metrics), reading


def _metrics(reading: YamlFile, node: Node) -> tuple[str, ...]:
    """Read which measures are told."""
    found = [reading.choice(one, "a metric", METRICS) for one in reading.items(node, "metrics")]
    return tuple(name for name in found if name is not None)


def _settings(reading: YamlFile, nodes: dict[str, Node], seed: int, trace: bool) -> SimSettings | None:
    """Read how runs go."""
    level = reading.choice(nodes["level"], "level", [m.value for m in Level]) if "level" in nodes else "query"
    truths = {k: bool(reading.truth(nodes[k], k)) if k in nodes else False for k in ("blocks", "calendar")}
    charge, turn = (number(reading, nodes[k], k) if k in nodes else 0.0 for k in ("charge", "slice"))
    adapt = reading.whole(nodes["adapt"], "adapt") if "adapt" in nodes else 0
    if level is None or adapt is None:
        return None
    if turn and level != Level.PREEMPTIVE.value:
        reading.complain("a time slice needs level: preemptive", nodes["slice"])
    if adapt and truths["calendar"]:
        reading.complain("a calendar queue cannot be used while selectivities are estimated anew", nodes["adapt"])
    return SimSettings(
        level=Level(level),
        fluid=truths["blocks"],
        calendar=truths["calendar"],
        charge=charge,
        quantum=turn,
        adapt_window=adapt,
        trace=trace,
        seed=seed,
    )


def _gap(times: Any) -> float:
    """Return the mean time between tuples."""
    return float(times[-1] - times[0]) / max(1, len(times) - 1) or 1.0 if len(times) else 1.0


def _policy(reading: YamlFile, node: Node) -> Policy | None:
    """Read the name of a policy."""
    name = reading.words(node, "a policy")
    try:
        return None if name is None else policy_named(name)
    except PenstockError as error:
        reading.complain(error.what, node, detail=error.detail, hint=error.hint)
        return None


def _streams(reading: YamlFile, node: Node, seed: int, folder: Path) -> dict[str, Any]:
    """Read or draw the arrivals of every stream."""
    found = {}
    for place, (name, (_, value)) in enumerate(reading.entries(node, "streams").items()):
        entries = reading.entries(value, f'stream "{name}"', STREAM_SETTINGS)
        facts = {key: one for key, (_, one) in entries.items()}
        kinds = [kind for kind in STREAM_KINDS if kind in facts]
        if len(kinds) != 1:
            reading.complain(f'stream "{name}" needs one of {", ".join(STREAM_KINDS)}', value)
            continue
        try:
            found[name] = _drawn(reading, kinds[0], facts, seed * 1_000 + place, folder)
        except PenstockError as error:
            reading.complain(error.what, value, detail=error.detail, hint=error.hint)
    return found


def _drawn(reading: YamlFile, kind: str, facts: dict[str, Node], seed: int, folder: Path) -> Any:
    """Make one stream's arrivals."""

    def given(name: str, usual: float) -> float:
        return number(reading, facts[name], name) if name in facts else usual

    makers: dict[str, Callable[[], Any]] = {
        "lbl-pkt-4": lambda: lbl_pkt_4(int(given("lbl-pkt-4", 1_000))),
        "poisson": lambda: poisson(int(given("poisson", 1_000)), given("gap", 1.0), seed),
        "pareto": lambda: on_off_pareto(given("pareto", 1_000.0), seed, gap=given("gap", 1.0)),
        "file": lambda: recorded(
            folder / (reading.words(facts["file"], "file") or ""), int(given("column", 0)), given("unit", 1e-6)
        ),
        "times": lambda: np.array([number(reading, n, "a time") for n in reading.items(facts["times"], "times")]),
    }
    times = makers[kind]()
    times = times[: int(given("tuples", len(times)))]
    return burst_of(times, int(given("bursts", 1))) if "bursts" in facts else times


def _loaded(entries: list[ScenarioEntry], streams: list[Any], arrivals: Arrivals, load: float) -> list[ScenarioEntry]:
    """Scale all costs so that the expected work is the given share of the time."""
    span = float(arrivals.time[-1] - arrivals.time[0]) or 1.0
    tuples = [len(times) for times in streams]
    factor = load * span / sum(expected_work(query, tuples) for entry in entries for query in entry.queries)
    return [ScenarioEntry(e.name, tuple(scaled(query, factor) for query in e.queries)) for e in entries]
