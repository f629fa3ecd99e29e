"""The queues of operators are chosen by the policies of the simulator, over measured costs and selectivities."""

from __future__ import annotations

import itertools
import random

import pytest

from penstock.errors import ProjectError, Unsupported
from penstock.schedule.operator_queues import (
    OperatorPolicy,
    Path,
    PathFigures,
    QueueHead,
    Stage,
    WaitingQuery,
    is_for_operators,
    next_queue,
    operator_policy_named,
    rank,
)
from penstock.schedule.registry import POLICIES, policy_named


def figures(policy: str, *paths: Path) -> PathFigures:
    return PathFigures(paths, policy_named(policy))


def head(operator: str, arrival: float, *queries: int, row_bytes: float = 8.0) -> QueueHead:
    return QueueHead(operator, arrival, row_bytes, tuple(WaitingQuery(q, 10, arrival + 60) for q in queries))


def chosen(policy: str, paths: list[Path], heads: list[QueueHead], now: float = 10.0, last: int = -1) -> str:
    return heads[next_queue(figures(policy, *paths), heads, now, last)].operator


# The example of Babcock et al. 2004, §1: the first operator keeps 0.2 of what comes, the second lets nothing stay.
EXAMPLE = Path(1, (Stage("first", 1.0, 0.2), Stage("second", 1.0, 1.0)))


def test_fifo_takes_what_came_first_and_chain_the_steepest_segment() -> None:
    heads = [head("second", 1.0, 1), head("first", 2.0, 1)]
    assert chosen("FIFO", [EXAMPLE], heads) == "second"
    assert chosen("Chain", [EXAMPLE], heads) == "second"  # 0.2 by 0.2 is one, 0.8 by one is less
    late = Path(1, (Stage("first", 1.0, 0.2), Stage("second", 4.0, 1.0)))
    assert chosen("FIFO", [late], heads) == "second"
    assert chosen("Chain", [late], heads) == "first"


def test_a_selective_operator_that_stands_last_lifts_those_before_it_to_its_segment() -> None:
    """Greedy sees the first operator alone, Chain the envelope (Babcock et al. 2004, §4.2)."""
    path = Path(1, (Stage("a", 1.0, 0.9), Stage("b", 1.0, 0.9), Stage("c", 1.0, 0.0)))
    other = Path(2, (Stage("x", 1.0, 0.75), Stage("y", 10.0, 1.0)))
    heads = [head("a", 2.0, 1), head("x", 1.0, 2)]
    assert chosen("Greedy", [path, other], heads) == "x"
    assert chosen("Chain", [path, other], heads) == "a"


def test_bytes_count_for_chain_and_rows_for_rates() -> None:
    paths = [Path(1, (Stage("wide", 1.0, 1.0),)), Path(2, (Stage("narrow", 0.5, 1.0),))]
    heads = [head("wide", 1.0, 1, row_bytes=100.0), head("narrow", 1.0, 2, row_bytes=8.0)]
    assert chosen("Chain", paths, heads) == "wide"
    assert chosen("HR", paths, heads) == "narrow"


def test_an_operator_that_several_wait_for_counts_as_their_tree() -> None:
    """Each alone is worth less than the lone one; together they are worth more (Sharaf 2007, §3.6)."""
    shared = [Path(n, (Stage("shared", 1.0, 1.0),)) for n in (1, 2, 3)]
    lone = Path(9, (Stage("lone", 0.8, 1.0),))
    heads = [head("shared", 1.0, 1, 2, 3), head("lone", 1.0, 9)]
    assert chosen("HR", [*shared, lone], heads) == "shared"
    assert chosen("HR", [*shared, lone], [head("shared", 1.0, 1), heads[1]]) == "lone"


def test_queries_take_turns() -> None:
    paths = [Path(n, (Stage(f"o{n}", 1.0, 1.0),)) for n in (1, 2, 3)]
    heads = [head(f"o{n}", float(n), n) for n in (1, 2, 3)]
    order, last = list[str](), -1
    for _ in range(4):
        order.append(chosen("RR", paths, heads, last=last))
        last = int(order[-1][1:])
    assert order == ["o1", "o2", "o3", "o1"]


def test_conjuncts_by_rank_cost_least_on_average() -> None:
    draw = random.Random(3)
    for _ in range(50):
        steps = [(draw.uniform(0.05, 1.0), draw.uniform(0.1, 4.0)) for _ in range(4)]

        def expected(order: tuple[tuple[float, float], ...]) -> float:
            total, left = 0.0, 1.0
            for selectivity, cost in order:
                total, left = total + left * cost, left * selectivity
            return total

        ranked = tuple(sorted(steps, key=lambda step: rank(*step)))
        assert expected(ranked) == pytest.approx(min(map(expected, itertools.permutations(steps))))


@pytest.mark.parametrize("name", [name for name, policy in POLICIES.items() if is_for_operators(policy)])
def test_every_policy_chooses_among_chains_with_any_estimates(name: str) -> None:
    draw = random.Random(name)
    for _ in range(20):
        costs, parts = [0.0, 1e-5, 1.0], [0.0, 0.3, 1.0]
        stages = [[Stage(f"o{n}.{k}", draw.choice(costs), draw.choice(parts)) for k in range(6)] for n in range(4)]
        paths = [Path(n, tuple(listed)) for n, listed in enumerate(stages)]
        heads = [head(stage.operator, draw.random(), path.query) for path in paths for stage in path.stages]
        assert 0 <= next_queue(figures(name, *paths), heads, 2.0) < len(heads)


def test_policies_that_queues_cannot_run_by_are_refused() -> None:
    assert operator_policy_named("Mixed(0.01)").name == "Mixed(0.01)"
    assert OperatorPolicy("Chain-Flush").current().name == "Chain-Flush"
    with pytest.raises(Unsupported, match="looks at heads alone"):
        OperatorPolicy("Chain-Flush*")
    with pytest.raises(Unsupported, match="knows the future"):
        OperatorPolicy("HNR-O")
    with pytest.raises(ProjectError, match='there is no policy "Chan"'):
        OperatorPolicy("Chan")
