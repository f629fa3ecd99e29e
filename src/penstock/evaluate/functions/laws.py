"""Tests the algebraic laws of a user's aggregate on samples, and reports the smallest example that breaks one.

Rows are cut into slices and fragments and merged in any order, so an aggregate has to give the same answer however
its states are combined: combine is associative and commutative, identity changes nothing, invert takes out what was
put in (Tangwongsan et al. 2015, §2, name these laws for sliding windows).
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Sequence
from typing import Any, Final

from penstock.errors import BrokenLaw, EnvironmentProblem
from penstock.evaluate.components.user_states import told
from penstock.language.functions.python_aggregates import Algebra

EXAMPLES: Final = 200
MOST_ROWS: Final = 6  # of one state
CLOSE: Final = 1e-9  # relative: doubles are added in any order

Rows = Sequence[tuple[Any, ...]]


class _Broken(Exception):
    """An example of a law that does not hold: what, and detail."""


def check_laws(name: str, algebra: Algebra, samples: Rows, check: Callable[[Any], None]) -> None:
    """Try all laws on states made of the samples; ``check`` raises if an answer has not the declared type."""
    if not samples:
        what, hint = f'aggregate "{name}" has no samples to check its laws on', "Give some: samples=[(1.0,), (2.5,)]."
        raise BrokenLaw(what, hint=hint)
    try:
        from hypothesis import HealthCheck, Phase, given, settings
        from hypothesis import strategies as st
    except ImportError:
        what = f'the laws of aggregate "{name}" cannot be checked: hypothesis is not installed'
        raise EnvironmentProblem(what, hint='Install it: pip install "penstock[aggregates]".') from None
    rows = st.lists(st.sampled_from(list(samples)), min_size=1, max_size=MOST_ROWS)

    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink),
    )
    @given(rows, rows, rows)
    def hold(a: Rows, b: Rows, c: Rows) -> None:
        """Try every law on three lists of rows."""
        _Laws(algebra, check).hold(a, b, c)

    try:
        hold()
    except _Broken as broken:
        what, detail = broken.args
        raise BrokenLaw(f'aggregate "{name}": {what}', detail=detail, hint=_HINT) from None


_HINT: Final = "Slices are merged in any order: let a state hold all that the answer needs, and combine add states."


class _Laws:
    """The laws of one aggregate."""

    def __init__(self, algebra: Algebra, check: Callable[[Any], None]) -> None:
        """Keep the aggregate."""
        self.algebra, self.check = algebra, check

    def hold(self, a: Rows, b: Rows, c: Rows) -> None:
        """Raise unless every law holds."""
        combine, shown = self._combine, f"a = {_shown(a)}, b = {_shown(b)}, c = {_shown(c)}"
        one, two, three = self._state(a), self._state(b), self._state(c)
        left, right = combine(combine(one, two), three), combine(one, combine(two, three))
        texts = "combine(combine(a, b), c)", "combine(a, combine(b, c))"
        self._same("combine is not associative", texts, (left, right), shown)
        both = combine(one, two), combine(two, one)
        self._same("combine is not commutative", ("combine(a, b)", "combine(b, a)"), both, shown)
        if self.algebra.identity is not None:
            nothing = self._called("identity", self.algebra.identity)
            what = "identity changes a state"
            self._same(what, ("combine(identity, a)", "a"), (combine(nothing, one), one), shown)
            self._same(what, ("combine(a, identity)", "a"), (combine(one, nothing), one), shown)
        if self.algebra.invert is not None:
            back = self._called("invert", self.algebra.invert, combine(one, two), two)
            self._same("invert does not undo combine", ("invert(combine(a, b), b)", "a"), (back, one), shown)

    def _state(self, rows: Rows) -> Any:
        """Make the state of rows, as workers do."""
        state = self._called("lift", self.algebra.lift, *rows[0])
        for row in rows[1:]:
            state = self._combine(state, self._called("lift", self.algebra.lift, *row))
        return state

    def _combine(self, a: Any, b: Any) -> Any:
        """Combine two states, which must stay as they are: others hold them too."""
        before = self._pickled(a), self._pickled(b)
        found = self._called("combine", self.algebra.combine, a, b)
        if (self._pickled(a), self._pickled(b)) != before:
            raise _Broken("combine changes a state that it is given", "return a new state instead")
        return found

    def _pickled(self, state: Any) -> bytes:
        """Write a state as it is stored."""
        try:
            return pickle.dumps(state)
        except Exception as error:
            raise _Broken(f"a state cannot be stored: {told(error)}", f"the state is {_shown(state)}") from None

    def _called(self, part: str, called: Callable[..., Any], *arguments: Any) -> Any:
        """Call a part of the aggregate."""
        try:
            return called(*arguments)
        except Exception as error:
            raise _Broken(f"{part} failed: {told(error)}", f"arguments: {_shown(arguments)}") from None

    def _same(self, what: str, texts: tuple[str, str], states: tuple[Any, Any], shown: str) -> None:
        """Raise unless two states give the same answer."""
        answers = [self._called("lower", self.algebra.lower, state) for state in states]
        for answer in answers:
            try:
                self.check(answer)
            except Exception:
                raise _Broken(
                    f"lower returned {_shown(answer)}, which does not have the declared type", shown
                ) from None
        if not _alike(*answers):
            told_apart = " and ".join(f"{t} gives {_shown(a)}" for t, a in zip(texts, answers, strict=True))
            raise _Broken(what, f"{told_apart}, where {shown}")


def _alike(a: Any, b: Any) -> bool:
    """Tell whether two answers are the same, doubles to within rounding."""
    if isinstance(a, float) and isinstance(b, float | int):
        return (a != a and b != b) or math.isclose(a, b, rel_tol=CLOSE, abs_tol=1e-12)
    return bool(a == b)


def _shown(value: Any) -> str:
    """Write a value, cut where it is long."""
    text = repr(value)
    return text if len(text) <= 80 else text[:79] + "…"
