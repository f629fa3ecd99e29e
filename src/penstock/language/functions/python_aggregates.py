"""Checks the parts and types of a user's Python aggregate (UDAF) and makes a Function of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from penstock.errors import LanguageError
from penstock.language.functions.fingerprint import digest_of
from penstock.language.functions.python_functions import (
    VERSION,
    Types,
    Wish,
    check_arity,
    check_callable,
    origin_of,
    types_of,
)
from penstock.language.functions.sql_functions import check_function_name
from penstock.language.own_names import check_own_name
from penstock.model.function import ID_DIGITS, Function, PythonCode

T = TypeVar("T", bound=type)
_MARK: Final = "__penstock_aggregate__"
_ARITIES: Final = {"combine": 2, "lower": 1, "identity": 0, "invert": 2}


@dataclass(frozen=True, slots=True)
class Algebra:
    """A user's aggregate: how a row becomes a state, two states become one, and a state becomes an answer.

    ``identity`` makes the state of no rows; ``invert`` takes the second of two states out of the first.
    """

    lift: Callable[..., Any]
    combine: Callable[[Any, Any], Any]
    lower: Callable[[Any], Any]
    identity: Callable[[], Any] | None = None
    invert: Callable[[Any, Any], Any] | None = None

    @property
    def parts(self) -> tuple[Any, ...]:
        """Return the callables, as they are stored."""
        return self.lift, self.combine, self.lower, self.identity, self.invert


@dataclass(frozen=True, slots=True)
class AggregateWish:
    """What is said about an aggregate besides its code, and arguments to check its laws on."""

    parameters: Types | None = None
    returns: str | None = None
    samples: Sequence[tuple[Any, ...]] = field(default=(), hash=False)


def aggregate(
    *, samples: Sequence[tuple[Any, ...]], parameters: Types | None = None, returns: str | None = None
) -> Callable[[T], T]:
    """Mark a class of a project's ``functions.py``, with lift, combine and lower, as an aggregate of its name."""

    def mark(marked: T) -> T:
        """Leave the class as it is, with a note on it."""
        setattr(marked, _MARK, AggregateWish(parameters, returns, samples))
        return marked

    return mark


def aggregate_wish_of(value: Any) -> AggregateWish | None:
    """Return what a mark says about an aggregate, if it has one."""
    found = getattr(value, _MARK, None)
    return found if isinstance(found, AggregateWish) else None


def algebra_in(name: str, marked: Any) -> Algebra:
    """Take the parts of an aggregate from a class, or from any object that has them."""
    missing = [part for part in ("lift", "combine", "lower") if not hasattr(marked, part)]
    if missing:
        what = f'aggregate "{name}" has no {" and no ".join(missing)}'
        raise LanguageError(what, hint="Write lift, combine and lower as static methods of the class.")
    parts = {part: getattr(marked, part, None) for part in ("lift", "combine", "lower", "identity", "invert")}
    return Algebra(**parts)  # type: ignore[arg-type]


def define_aggregate(name: str, algebra: Algebra, wish: AggregateWish) -> Function:
    """Check the parts of an aggregate and its types; the code itself is not pickled yet."""
    check_own_name(name, "function")
    check_function_name(name, name)
    given = zip(("lift", "combine", "lower", "identity", "invert"), algebra.parts, strict=True)
    for part, called in given:
        if called is not None:
            check_callable(f"{name}.{part}", called)
    parameters, returns = types_of(name, algebra.lift, algebra.lower, Wish(wish.parameters, wish.returns))
    check_arity(f"{name}.lift", algebra.lift, parameters)
    for part, count in _ARITIES.items():
        called = getattr(algebra, part)
        if called is not None:
            check_arity(f"{name}.{part}", called, parameters[:1] * count)
    digest = digest_of("aggregate", [(p.name, p.type) for p in parameters], returns, *algebra.parts)
    inverts = algebra.invert is not None
    code = PythonCode(
        digest, False, VERSION, origin_of(algebra.lift), digest[:ID_DIGITS], aggregates=True, inverts=inverts
    )
    return Function(name, parameters, returns, "", code)
