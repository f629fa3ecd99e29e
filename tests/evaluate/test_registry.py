"""The tables of aggregates: what can be called has a meaning, and every kind of component is listed and told."""

from __future__ import annotations

import inspect
import pickle
import re
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.evaluate.components.component import Component
from penstock.evaluate.components.kinds import KINDS
from penstock.evaluate.components.numbers import ROWS, ExactSum, FloatSum, SumPresence
from penstock.evaluate.components.user_states import UserState
from penstock.evaluate.functions.registry import FUNCTIONS
from penstock.language.binding.aggregate_signatures import SIGNATURES
from penstock.language.binding.functions import NOT_YET, SCALAR

DOCS = Path(__file__).resolve().parents[2] / "docs"


def classes(kind: type[Component]) -> set[type[Component]]:
    """Return the kinds below a class that can be made."""
    below = {kind for one in kind.__subclasses__() for kind in classes(one)}
    return below if inspect.isabstract(kind) else below | {kind}


def test_what_can_be_called_has_a_meaning_and_the_other_way_round() -> None:
    called = list(dict.fromkeys(SIGNATURES.values()))
    assert [signature.name for signature in called] == list(FUNCTIONS)
    assert len(SIGNATURES) == sum(1 + len(signature.synonyms) for signature in called)
    assert not SIGNATURES.keys() & (NOT_YET | SCALAR)


def test_what_takes_distinct_means_something_with_it() -> None:
    same = {signature.name for signature in SIGNATURES.values() if signature.same_distinct}  # bound without it
    told = {signature.name for signature in SIGNATURES.values() if signature.distinct}
    assert told - same == {name for name, function in FUNCTIONS.items() if function.distinct is not None}


def test_every_kind_of_component_is_listed_once_and_told_in_the_docs() -> None:
    assert set(KINDS) == classes(Component)  # type: ignore[type-abstract]
    assert len({kind.kind for kind in KINDS}) == len(KINDS)
    named = set(re.findall(r"`(\w+)[(`]", (DOCS / "state.md").read_text(encoding="utf-8")))
    unnamed = {SumPresence.kind, UserState.kind}  # the one is not stored, the other has the user's name
    assert {kind.kind for kind in KINDS} - named == unnamed


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_components_are_equal_for_equal_needs_also_in_another_process(kind: type[Component]) -> None:
    one, same, other = (kind(text, pa.int64()) for text in ("`x`", "`x`", "`y`"))
    assert one == same == pickle.loads(pickle.dumps(one))
    assert hash(one) == hash(same) == hash(pickle.loads(pickle.dumps(one)))
    assert one != other
    assert all(one != another("`x`", pa.int64()) for another in KINDS if another is not kind)


def test_whether_there_is_a_sum_is_read_from_the_sum() -> None:
    assert SumPresence("`x`", pa.int64()).source == ExactSum("`x`", pa.int64())
    assert SumPresence("`x`", pa.float32()).source == FloatSum("`x`", pa.float32())
    assert ROWS.source == ROWS
