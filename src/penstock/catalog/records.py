"""Streams, tables and functions come in as values or as JSON records of the journal; the other form goes out."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from penstock.model.function import Function, Parameter
from penstock.model.schema import Column, Stream, Table


def plain(item: Stream | Table) -> dict[str, Any]:
    """Write a stream or table as JSON values."""
    return {**asdict(item), "options": dict(item.options)}


def with_columns(record: dict[str, Any]) -> dict[str, Any]:
    """Read columns back."""
    return {**record, "columns": tuple(Column(**c) for c in record["columns"])}


def read_function(record: dict[str, Any]) -> Function:
    """Read a function back."""
    return Function(**{**record, "parameters": tuple(Parameter(**p) for p in record["parameters"])})


def same(known: Stream | Table, other: Stream | Table) -> bool:
    """Tell whether two definitions are the same."""
    return plain(known) == plain(other)
