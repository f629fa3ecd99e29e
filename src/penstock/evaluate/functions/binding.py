"""Binds an aggregate call to the components it stores, its result type and how its answer is computed.

Result types, NULLs and rounding are Spark 4's. A sum that its type cannot hold is not an answer: it is marked failed.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.errors import Unsupported, WrongType
from penstock.evaluate.components.user_states import UserState
from penstock.evaluate.expressions.ddl import arrow_type
from penstock.evaluate.functions import lower_states
from penstock.evaluate.functions.bound import BoundAggregate, Lowered, Types, ValuesOf
from penstock.evaluate.functions.registry import FUNCTIONS
from penstock.evaluate.functions.sampled import SAMPLED
from penstock.language.binding.aggregate_signatures import SIGNATURES
from penstock.model.function import Function
from penstock.model.query import Aggregate

__all__ = ["BoundAggregate", "Lowered", "ValuesOf", "bind_aggregate"]


def bind_aggregate(aggregate: Aggregate, types: Types, own: Mapping[str, Function] | None = None) -> BoundAggregate:
    """Find the components, result type and lowering of a call whose arguments have the given types.

    ``own`` are the users' aggregates, by the names of their very code.
    """
    if own is not None and aggregate.function in own:
        return _bind_own(aggregate, types, own[aggregate.function])
    if aggregate.function in SAMPLED:
        return SAMPLED[aggregate.function].bind(aggregate, types)
    called = SIGNATURES.get(aggregate.function)
    function = None if called is None else FUNCTIONS[called.name]
    if function is not None and aggregate.distinct:
        function = function.distinct
    if function is None:
        raise Unsupported(f'aggregate "{aggregate.function}" is not supported')
    if called is not None and called.form == "usual" and len(types) != called.values:
        wanted = "one argument" if called.values == 1 else f"{called.values} arguments"
        raise WrongType(f'"{aggregate.function}" takes {wanted}', detail=f"it was given {len(types)}")
    return function.bind(aggregate, types)


def _bind_own(aggregate: Aggregate, types: Types, function: Function) -> BoundAggregate:
    """Bind a user's aggregate."""
    component = UserState(aggregate.arguments[0], types[0], aggregate.arguments[1:], tuple(types[1:]), code=function)
    assert function.returns is not None
    return BoundAggregate(aggregate, (component,), arrow_type(function.returns), lower_states.own)
