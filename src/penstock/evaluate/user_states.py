"""States of users' aggregates come in pickled, as Spark's workers made them; merged and lowered values go out.

A user's code may raise anything. What it raises becomes a state of its own, which no merge gets rid of, so that the
answer fails and with it no other query.
"""

from __future__ import annotations

import base64
import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from penstock.evaluate.component import Column, Component
from penstock.evaluate.reading import whole
from penstock.language.python_aggregates import Algebra
from penstock.model.function import Function

LONGEST: Final = 200  # characters of an exception's text


@dataclass(frozen=True, slots=True)
class Failed:
    """What a user's code raised."""

    reason: str


def algebra_of(function: Function) -> Algebra:
    """Load a user's aggregate."""
    assert function.python is not None
    return _loaded(function.python.pickled)


@lru_cache(maxsize=256)
def _loaded(pickled: str) -> Algebra:
    """Unpickle a user's aggregate once."""
    return Algebra(*pickle.loads(base64.b64decode(pickled)))


def read_user_states(component: Component, column: Column) -> Iterator[Any]:
    """Read states: pairs of a state and, where the user's code failed, what it raised."""
    for value in whole(column).to_pylist():
        if value is None:
            yield None
            continue
        try:
            state, reason = pickle.loads(value)
        except Exception as error:  # the state's own class may raise anything when it is made again
            yield Failed(f"its state cannot be read: {told(error)}")
            continue
        yield Failed(reason) if reason is not None else (state,)


def merge_user_states(component: Component, states: Sequence[Any]) -> Any:
    """Combine states from left to right."""
    failed = next((state for state in states if isinstance(state, Failed)), None)
    if failed is not None:
        return failed
    assert component.code is not None
    try:
        combine, whole_state = algebra_of(component.code).combine, states[0][0]
        for state in states[1:]:
            whole_state = combine(whole_state, state[0])
    except Exception as error:
        return Failed(f"combine failed: {told(error)}")
    return (whole_state,)


def invert_user_state(component: Component, whole: Any, part: Any) -> Any:
    """Take the second state out of the first."""
    failed = next((state for state in (whole, part) if isinstance(state, Failed)), None)
    if failed is not None:
        return failed
    assert component.code is not None
    try:
        invert = algebra_of(component.code).invert
        assert invert is not None
        return (invert(whole[0], part[0]),)
    except Exception as error:
        return Failed(f"invert failed: {told(error)}")


def lower_user_state(function: Function, state: Any) -> Any:
    """Turn a state into an answer, or into what the user's code raised; without rows NULL, or that of the identity."""
    if isinstance(state, Failed):
        return state
    try:
        algebra = algebra_of(function)
        if state is None:
            return None if algebra.identity is None else algebra.lower(algebra.identity())
        return algebra.lower(state[0])
    except Exception as error:
        return Failed(f"lower failed: {told(error)}")


def told(error: BaseException) -> str:
    """Write an exception on one line, cut where it is long."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}{f': {text[:LONGEST]}' if text else ''}"
