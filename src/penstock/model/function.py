"""A scalar function that a user defined: its parameters and its body in canonical Spark SQL."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter: its name, and its Spark type in DDL spelling."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Function:
    """A function; ``body`` is over the parameters as columns, with all other user functions expanded."""

    name: str
    parameters: tuple[Parameter, ...]
    returns: str | None  # None: the type of the body
    body: str
