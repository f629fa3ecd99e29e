"""What a sink remembers, kept by the test, which can let the process die right before it is written."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


class Died(Exception):
    """The process ended here."""


class Remembering:
    """Outlives the writers that use it, as a state folder does."""

    owner = "0f"

    def __init__(self) -> None:
        self.progress: dict[str, object] = {}
        self.dies = False

    def read(self) -> dict[str, object]:
        return dict(self.progress)

    def write(self, progress: dict[str, object]) -> None:
        if self.dies:
            self.dies = False
            raise Died
        self.progress = dict(progress)


def answers(*numbers: int, column: str = "n", query: str = "q") -> pa.Table:
    """Make a table of answers as a sink gets it."""
    names = pa.array([query] * len(numbers)).dictionary_encode()
    return pa.table({"query_name": names, column: pa.array(numbers, pa.int64())})


def one(column: str, value: Any, type_: pa.DataType | None = None) -> pa.Table:
    """Make a table of one answer."""
    return pa.table({"query_name": pa.array(["q"]).dictionary_encode(), column: pa.array([value], type_)})
