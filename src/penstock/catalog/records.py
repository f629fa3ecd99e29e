"""Converts streams, tables and functions to JSON records of changes, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from penstock.model.function import Function, Parameter, PythonCode
from penstock.model.schema import Column, Stream, Table


def plain(item: Stream | Table) -> dict[str, Any]:
    """Write a stream or table as JSON values."""
    record = {**asdict(item), "options": dict(item.options)}
    if isinstance(item, Stream):
        record |= {"since": dict(item.since), "former": dict(item.former)}
    return record


def read_stream(record: Mapping[str, Any]) -> Stream:
    """Read a stream back; one of an older record has the defaults of what it does not tell."""
    return Stream(**{**_with_columns(record), "dedup": tuple(record.get("dedup", ()))})


def read_table(record: Mapping[str, Any]) -> Table:
    """Read a table back."""
    return Table(**_with_columns(record))


def _with_columns(record: Mapping[str, Any]) -> dict[str, Any]:
    """Read columns back."""
    return {**record, "columns": tuple(Column(**c) for c in record["columns"])}


def plain_function(function: Function) -> dict[str, Any]:
    """Write a function as JSON values; one of SQL has no code to tell of."""
    return {name: value for name, value in asdict(function).items() if name != "python" or value is not None}


def read_function(record: Mapping[str, Any]) -> Function:
    """Read a function back."""
    told = record.get("python")
    if told is not None and "measured_us" not in told:  # before functions were measured, nothing said was False
        told = {**told, "expensive": told.get("expensive") or None}
    code = None if told is None else PythonCode(**told)
    return Function(**{**record, "parameters": tuple(Parameter(**p) for p in record["parameters"]), "python": code})


def same(known: Stream | Table, other: Stream | Table) -> bool:
    """Tell whether two definitions are the same, whatever they were before."""
    history = {"since": None, "former": None, "moved": None}
    return {**plain(known), **history} == {**plain(other), **history}
