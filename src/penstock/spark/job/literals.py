"""Writes the numbers that change with each batch as array literals, so that generated code is reused."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import Column
from pyspark.sql.internal import InternalFunction


def longs(numbers: Iterable[int]) -> str:
    """Write an array literal of bigints; folded by the optimizer and handed to generated code by reference."""
    text = ",".join(str(int(n)) for n in numbers)
    return f"cast(split('{text}', ',') as array<bigint>)"


def position_in(sorted_array: Column, value: Column) -> Column:
    """Return the index of the value, or −(insertion point) − 1; Spark's internal search, wrapped here alone."""
    return InternalFunction.array_binary_search(sorted_array, value)


def quoted(name: str) -> str:
    """Write a name as a Spark identifier."""
    return "`" + name.replace("`", "``") + "`"
