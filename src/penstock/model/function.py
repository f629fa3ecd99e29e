"""Defines a user's function or aggregate: its parameters, and its body in canonical SQL or its Python code."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

ID_DIGITS: Final = 10  # of a Python function's code, in the name that calls have


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter: its name, and its Spark type in DDL spelling."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class PythonCode:
    """Code of a Python function; two that compute the same are equal, however they were pickled."""

    digest: str  # of what it computes, and of its types
    vectorised: bool  # called with Arrow arrays, not with the values of a row
    version: str  # of Python, such as "3.11": code of another one cannot be read
    origin: str = field(compare=False)  # module and name, for people
    id: str = field(compare=False)  # what calls are written with; stays when the code is registered again elsewhere
    pickled: str = field(default="", compare=False, repr=False)  # in base64
    aggregates: bool = False  # it is the parts of an aggregate, not one function
    inverts: bool = False  # and one of them takes a state out of another
    expensive: bool | None = None  # whether it runs in workers of its own, behind a queue; None: as it is measured
    measured_us: float | None = field(default=None, compare=False)  # that a row took when it left the shared pass

    @property
    def is_operator(self) -> bool:
        """Tell whether queries without a window let it run behind a queue."""
        return self.measured_us is not None if self.expensive is None else self.expensive


_PINNED: Final = re.compile(rf"\b(\w+)_[0-9a-f]{{{ID_DIGITS}}}(?=\()")


def with_plain_names(text: str) -> str:
    """Write calls of Python functions by the names that users gave them."""
    return _PINNED.sub(r"\1", text)


@dataclass(frozen=True, slots=True)
class Function:
    """A function; ``body`` is over the parameters as columns, with all other user functions expanded."""

    name: str
    parameters: tuple[Parameter, ...]
    returns: str | None  # None: the type of the body
    body: str
    python: PythonCode | None = None  # instead of a body

    @property
    def pinned(self) -> str:
        """Return the name that a call of this very code has in canonical text, and in Spark."""
        return self.name.lower() if self.python is None else f"{self.name.lower()}_{self.python.id}"
