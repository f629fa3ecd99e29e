"""Makes the pickled state of a user's aggregate (UDAF) from lists of rows, in Spark's Python workers.

Like udf_worker.py, this never raises, and travels by value: what the user's code raises is part of what is pickled,
and fails the answers that it would have been part of.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.spark.functions.child_processes import Lost, in_children
from penstock.spark.functions.users_code import load_code, what_it_raised


@dataclass(frozen=True)
class UdafWorker:
    """A user's aggregate as workers call it."""

    name: str
    pickled: bytes
    version: str
    apart: bool = False  # in children of the worker

    def __call__(self, lists: pa.Array) -> pa.Array:
        """Return pickled pairs of a state and an error, one for each list; NULL for an empty one."""
        from pyspark import cloudpickle

        dumps: Any = cloudpickle.dumps
        try:
            lift, combine, *_ = load_code(self.pickled, self.version)
        except BaseException as error:
            why = dumps((None, f"cannot be loaded: {what_it_raised(error)}"))
            held = pc.list_value_length(lists).to_pylist()
            return pa.array([why if rows else None for rows in held], pa.binary())

        def states(first: int) -> Iterator[bytes]:
            """Make the states of lists, nothing of an empty one."""
            for number in range(first, len(lists)):
                try:
                    rows = lists[number].as_py()  # raises where Python cannot hold a value: a far year
                    yield dumps((self.state(lift, combine, rows), None)) if rows else b""
                except BaseException as error:
                    yield dumps((None, f"failed on a row: {what_it_raised(error)}"))

        longest = pc.max(pc.list_value_length(lists)).as_py() or 1
        found = in_children(states, len(lists), longest) if self.apart else states(0)
        made = (dumps((None, one.why)) if isinstance(one, Lost) else one for one in found)
        return pa.array([one or None for one in made], pa.binary())

    def state(self, lift: Any, combine: Any, rows: list[dict[str, Any]]) -> Any:
        """Lift rows and combine them from left to right."""
        first, *rest = rows
        state = lift(*first.values())
        for row in rest:
            state = combine(state, lift(*row.values()))
        return state
