"""Prices all plans of a workload's classes of queries, and runs those of few classes one by one.

Queries are put into classes by their slides and conditions; a plan is a partition of the classes. The engine never
parts queries over the same rows under the same keys; here such plans are run too, to see what they would take.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

from pyspark.sql import SparkSession

from bench._measure import interleave
from bench._planner import live as lives
from penstock.evaluate.typed import Definition
from penstock.model.strategy import Strategy
from penstock.share.weave.baselines import exhaustive, share_all
from penstock.share.weave.costs import Rates

PRICED = 9  # classes: 21,147 plans
RUN = 4  # classes: 15 plans
Classes = list[list[int]]  # of queries by number


def look(
    session: SparkSession, case: lives.Live, rates: Rates, repetitions: int, say: Callable[[str], None]
) -> dict[str, Any]:
    """Price all plans of many classes, and run all those of few."""
    pricing = lives.pricing(session, case, rates)
    classes = classes_of(pricing.definitions, PRICED)
    best, shared = (
        exhaustive(pricing.woven_queries, pricing.costs, classes),
        share_all(pricing.woven_queries, pricing.costs),
    )
    runs = run_all(session, case, rates, classes_of(pricing.definitions, RUN), repetitions, say)
    in_one = next(run["median_seconds"] for run in runs if len(run["plan"]) == 1)
    return {
        "classes": len(classes),
        "best_priced_trees": len(best.trees),
        "shared_to_best_priced": pricing.whole(shared.cost) / pricing.whole(best.cost, len(best.trees)),
        "plans_run": runs,
        "shared_to_fastest_run": in_one / min(run["median_seconds"] for run in runs),
    }


def run_all(
    session: SparkSession,
    case: lives.Live,
    rates: Rates,
    classes: Classes,
    repetitions: int,
    say: Callable[[str], None],
) -> list[dict[str, Any]]:
    """Run every plan of some classes, in turns, once more than asked for: the first time is to warm up."""
    plans = list(partitions(len(classes)))
    trees = {str(plan): [[query for part in tree for query in classes[part]] for tree in plan] for plan in plans}
    ways = {name: (lambda t=t: run_as(session, case, rates, t).seconds) for name, t in trees.items()}
    taken = interleave(ways, repetitions + 1, say)
    timed = [taken[str(plan)][1:] for plan in plans]
    return [
        {"plan": plan, "median_seconds": statistics.median(seconds), "seconds": seconds}
        for plan, seconds in zip(plans, timed, strict=True)
    ]


def classes_of(definitions: Sequence[Definition], count: int) -> Classes:
    """Put queries into classes: by condition and by slide if there are several conditions, or else by slide alone."""
    conditions = sorted({d.typed.condition for d in definitions}, key=repr)
    across = math.isqrt(count) if len(conditions) > 1 else 1
    ordered = sorted(range(len(definitions)), key=lambda i: (definitions[i].query.window.slide, i))
    slot = {d: len(conditions) and conditions.index(d) * across // len(conditions) for d in conditions}
    slides = count // across
    found: dict[tuple[int, int], list[int]] = {}
    for place, number in enumerate(ordered):
        key = slot[definitions[number].typed.condition], place * slides // len(ordered)
        found.setdefault(key, []).append(number)
    return [found[key] for key in sorted(found)]


def partitions(count: int) -> Iterator[list[list[int]]]:
    """List all set partitions of some classes, all in one first."""
    if count == 0:
        yield []
        return
    for rest in partitions(count - 1):
        for place in range(len(rest)):
            yield [[*tree, count - 1] if i == place else tree for i, tree in enumerate(rest)]
        yield [*rest, [count - 1]]


def run_as(session: SparkSession, case: lives.Live, rates: Rates, trees: Classes) -> lives.Ran:
    """Run a workload with trees of our own choice."""
    home = {f"q{query}": f"tree{number}" for number, tree in enumerate(trees) for query in tree}

    def chosen(definition: Definition, strategy: Strategy) -> str:
        return home[definition.name]

    with mock.patch("penstock.share.plan.tree_of", chosen):
        return lives.run(session, case, "unshared paired", rates)
