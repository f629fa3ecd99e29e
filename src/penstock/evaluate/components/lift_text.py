"""Writes the pieces of SQL that several kinds of states are lifted with."""

from __future__ import annotations

from collections.abc import Sequence


def bound(name: str, value: str, body: str) -> str:
    """Let a name stand for a value in an expression, so that it is computed once."""
    return f"transform(array({value}), {name} -> {body})[0]"


def struct_of(parts: Sequence[str]) -> str:
    """Write a struct of numbered fields."""
    return "named_struct(" + ", ".join(f"'f{i}', {part}" for i, part in enumerate(parts)) + ")"
