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
from typing import Any, ClassVar, Final

from penstock.evaluate.components.component import Column, Written
from penstock.evaluate.components.lift_text import struct_of
from penstock.evaluate.components.reading import whole
from penstock.evaluate.components.states import State
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


class UserState(State):
    """What a user's aggregate makes of rows: a state in a tuple of one, or how it failed."""

    __slots__ = ()
    kind: ClassVar = "user"
    ignores_null: ClassVar = False

    @property
    def function(self) -> Function:
        """Return the user's code."""
        assert self.code is not None
        return self.code

    @property
    def slides(self) -> bool:
        """Tell whether a state can be taken out of another."""
        return self.code is not None and self.code.python is not None and self.code.python.inverts

    def lift_state(self, value: Written, time: str) -> str:
        """Collect the rows that have a value, and let a worker make a state of them."""
        arguments = [value(text) for text in (self.argument, *self.more) if text is not None]
        present = " OR ".join(f"({one}) IS NOT NULL" for one in arguments)
        return f"{self.function.pinned}(collect_list(CASE WHEN {present} THEN {struct_of(arguments)} END))"

    def read_states(self, column: Column) -> Iterator[Any]:
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

    def merge(self, states: Sequence[Any]) -> Any:
        """Combine states from left to right."""
        failed = next((state for state in states if isinstance(state, Failed)), None)
        if failed is not None:
            return failed
        code = self.function
        return _attempted("combine failed", lambda: (reduce(algebra_of(code).combine, (s[0] for s in states)),))

    def without(self, state: Any, part: Any) -> Any:
        """Take the second state out of the first; nothing changes nothing."""
        if part is None:
            return state
        failed = next((one for one in (state, part) if isinstance(one, Failed)), None)
        if failed is not None:
            return failed
        code = self.function
        return _attempted("invert failed", lambda: (_invert(algebra_of(code))(state[0], part[0]),))

    def __str__(self) -> str:
        """Print the component as a call of the user's function."""
        return f"{self.function.name}({', '.join(self.arguments)})"


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
