"""Hostile statements by family; each family is a claim about what becomes of them.

A refused attack names the error it must end in. An accepted one is harmless, and says what it is read as.
"""

from __future__ import annotations

from tests.language.attack import Attack
from tests.language.attacks_calls import forbidden_functions, path_tables, whole_statements
from tests.language.attacks_definitions import definitions
from tests.language.attacks_sizes import depth_and_length, durations_and_windows, numbers
from tests.language.attacks_text import comments_and_hints, quotes, substitution, unicode

__all__ = ["ATTACKS", "Attack"]

ATTACKS: tuple[Attack, ...] = tuple(
    attack
    for family in (
        forbidden_functions,
        path_tables,
        whole_statements,
        comments_and_hints,
        quotes,
        unicode,
        substitution,
        depth_and_length,
        numbers,
        durations_and_windows,
        definitions,
    )
    for attack in family()
)
