"""Merges the pickled states of users' aggregates (UDAFs) and turns them into answers.

A user's code may raise anything. What it raises becomes a state of its own, which no merge gets rid of, so that the
answer fails and with it no other query.
"""

from __future__ import annotations

import base64
import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial, reduce
from typing import Any, Final

from penstock.evaluate.components.component import Column, Component
from penstock.evaluate.components.reading import whole
from penstock.language.functions.python_aggregates import Algebra
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
        read = _attempted("its state cannot be read", partial(pickle.loads, value))  # by a class of the user's
        if isinstance(read, Failed):
            yield read
            continue
        state, reason = read
        yield Failed(reason) if reason is not None else (state,)


def merge_user_states(component: Component, states: Sequence[Any]) -> Any:
    """Combine states from left to right."""
    failed = next((state for state in states if isinstance(state, Failed)), None)
    if failed is not None:
        return failed
    assert component.code is not None
    code = component.code
    return _attempted("combine failed", lambda: (reduce(algebra_of(code).combine, (state[0] for state in states)),))


def invert_user_state(component: Component, whole: Any, part: Any) -> Any:
    """Take the second state out of the first."""
    failed = next((state for state in (whole, part) if isinstance(state, Failed)), None)
    if failed is not None:
        return failed
    assert component.code is not None
    code = component.code
    return _attempted("invert failed", lambda: (_invert(algebra_of(code))(whole[0], part[0]),))


def _invert(algebra: Algebra) -> Callable[[Any, Any], Any]:
    """Return the part of an aggregate that takes a state out of another."""
    assert algebra.invert is not None
    return algebra.invert


def lower_user_state(function: Function, state: Any) -> Any:
    """Turn a state into an answer, or into what the user's code raised; without rows NULL, or that of the identity."""
    if isinstance(state, Failed):
        return state
    if state is None:
        return _attempted("lower failed", lambda: _of_no_rows(algebra_of(function)))
    return _attempted("lower failed", lambda: algebra_of(function).lower(state[0]))


def _of_no_rows(algebra: Algebra) -> Any:
    """Answer without rows."""
    return None if algebra.identity is None else algebra.lower(algebra.identity())


def _attempted(what: str, code: Callable[[], Any]) -> Any:
    """Run a user's code, which may raise anything, also what asks the process to exit."""
    try:
        return code()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return Failed(f"{what}: {told(error)}")


def told(error: BaseException) -> str:
    """Write an exception on one line, cut where it is long."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}{f': {text[:LONGEST]}' if text else ''}"
