"""Tells how the operators of a stream stand: what they cost, who waits, and which queries stay in the pass."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from penstock.evaluate.typed import Definition
from penstock.schedule.policy import Policy
from penstock.share.explain.operators import OperatorPlan, OperatorsPlan, QueryPath
from penstock.share.operators.operated import OperatedQuery
from penstock.stream.operators.estimates import OperatorEstimates
from penstock.stream.operators.operator_queues import OperatorQueues


def operators_standing(
    queues: OperatorQueues, definitions: Iterable[Definition], policy: Policy
) -> OperatorsPlan | None:
    """Tell how operators stand for the queries of now, and for those with rows that wait; None: there are none."""
    mine = list(definitions)
    divided = queues.gates.divided(mine)
    with queues.lock:
        waiting = {n: one for queued in queues.commits.values() for n, one in queued.queries.items()}
        every = waiting | divided
        names = {one.id: one.name for one in mine}
        staying = tuple((names[n], why) for n, why in queues.gates.staying.items() if n in names)
        if not every and not staying:
            return None
        paths = tuple(_path(queues.estimates, one) for one in every.values())
        sizes = queues.queue_rows, queues.queue_bytes
        return OperatorsPlan(policy.name, _operators(queues, every), paths, staying, *sizes)


def _operators(queues: OperatorQueues, queries: Mapping[int, OperatedQuery]) -> tuple[OperatorPlan, ...]:
    """Tell how each operator stands."""
    rows, called = queues.waiting_rows(), {name: o for one in queries.values() for name, o in one.operators.items()}
    functions = queues.gates.catalog.python_functions()
    measured_us = {one.pinned: one.python.measured_us for one in functions if one.python is not None}
    found = []
    for name, operator in called.items():
        users = sorted({one.definition.name for one in queries.values() if name in one.operators})
        cost = queues.estimates.cost(name)
        cost_us, left_us = None if cost is None else cost * 1e6, measured_us.get(operator.function.pinned)
        found.append(OperatorPlan(operator.text, tuple(users), cost_us, rows.get(name, 0), left_us))
    return tuple(found)


def _path(estimates: OperatorEstimates, query: OperatedQuery) -> QueryPath:
    """List the conjuncts of a query in the order in which its rows pass them."""
    number, left, steps = query.definition.id, list(range(len(query.conjuncts))), []
    while left:
        place = estimates.chosen(query, left)
        left.remove(place)
        steps.append((query.conjuncts[place].told, estimates.selectivity(number, place)))
    return QueryPath(query.definition.name, tuple(steps))
