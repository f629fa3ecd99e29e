"""Who takes the fragments of rows is what every condition alone says of their cells, however many are evaluated."""

from __future__ import annotations

import random
import threading

import numpy as np
import pyarrow as pa
import pytest

from penstock.kernel.takers import PartTakers, Takers, of_bits
from penstock.language.predicates.attributes import Attribute
from penstock.language.predicates.split import Formula, read_predicate
from penstock.share.conditions import cells as cells_module
from penstock.share.conditions.cell_parts import ConditionGroupMemory, divide
from penstock.share.conditions.cells import Cells, signatures
from penstock.share.conditions.conjunction_bits import conjunction_bits
from penstock.share.conditions.listed_fragments import with_listed_fragments

ATTRIBUTES = {
    name: Attribute(name, kind, may_fail=fails)
    for name, kind, fails in [("`n`", "bigint", False), ("`s`", "string", False), ("`q`", "double", True)]
}


def conjunctions(draw: random.Random, count: int) -> list[Formula]:
    """Draw conditions such as n >= 3 AND n < 7 AND s = 'b'."""
    found = []
    for _ in range(count):
        low = draw.randrange(40)
        parts = [f"`n` >= {low}", f"`n` < {low + draw.randint(1, 9)}", f"`s` = '{draw.choice('abcdef')}'"]
        found.append(read_predicate(" AND ".join(draw.sample(parts, draw.randint(1, 3)))))
    return found


def told_apart(formulas: list[Formula], monkeypatch: pytest.MonkeyPatch) -> Cells:
    """Divide rows into cells of which none is listed beforehand."""
    monkeypatch.setattr(cells_module, "MOST_LISTED", 0)
    return divide([formulas], lambda _, place: formulas[place], ATTRIBUTES, ConditionGroupMemory())


@pytest.mark.parametrize("seed", range(20))
def test_conjunctions_evaluated_together_hold_where_each_alone_does(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(seed)
    cells = told_apart(conjunctions(draw, draw.randint(1, 70)), monkeypatch)
    for part in cells.parts[0]:
        numbers = np.arange(part.cells)
        together = conjunction_bits(part, cells.axes)
        assert together is not None
        found = np.unpackbits(np.concatenate(list(together.pieces(numbers))), axis=1, bitorder="little")
        alone = signatures(part, numbers).words
        for place, condition in enumerate(part.conditions):
            word, bit = divmod(condition, 62)
            assert (found[:, place] == (alone[:, word] >> bit) & 1).all()
        assert not found[:, len(part.conditions) :].any()


def test_what_may_fail_or_is_no_conjunction_is_evaluated_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ("`q` > 1 AND `n` > 2", "`n` > 2 OR `s` = 'a'"):
        cells = told_apart([read_predicate(text), read_predicate("`n` = 3")], monkeypatch)
        assert any(conjunction_bits(part, cells.axes) is None for part in cells.parts[0])


def test_takers_that_are_stored_and_loaded_say_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    cells = told_apart(conjunctions(random.Random(1), 30), monkeypatch)
    sizes = [len(part.conditions) for part in cells.parts[0]]
    takers, loaded = Takers(len(sizes)), Takers(len(sizes))
    rows = {number: part.first + np.arange(part.cells) for number, part in enumerate(cells.parts[0])}
    most = max(len(found) for found in rows.values())
    rows = {number: np.resize(found, most) for number, found in rows.items()}
    loaded.load(takers.learn(cells, rows).added)
    assert takers.learn(cells, rows).added.num_rows == 0
    assert (takers.nobody(rows) == loaded.nobody(rows)).all()
    for number, size in enumerate(sizes):
        for condition in range(size):
            mine, theirs = (one.parts[number].takes(condition, rows[number]) for one in (takers, loaded))
            assert (mine == theirs).all()
            pairs = takers.parts[number].pairs(rows[number])
            assert sorted(pairs[0][pairs[1] == condition]) == np.flatnonzero(mine).tolist()


def test_bits_of_fragments_that_an_earlier_version_stored_are_read() -> None:
    takers, bits = Takers(1), [bytes([0b101, 0]), bytes([0, 0b10])]
    takers.load(pa.table({"part": pa.array([0, 0], pa.int32()), "fragment": [3, 5], "bits": bits}))
    assert [array.tolist() for array in takers.parts[0].pairs(np.array([5, 3]))] == [[0, 1, 1], [9, 0, 2]]


def test_a_fragment_that_was_never_met_is_taken_by_nobody() -> None:
    part = PartTakers()
    assert not part.takes(0, np.array([1, 2])).any()
    part.learn(of_bits(np.array([5]), [np.array([[0b101]], np.uint8)]))
    assert part.takes(2, np.array([4, 5, 6])).tolist() == [False, True, False]
    assert pa.array(part.pairs(np.array([5, 4, 5]))[1]).to_pylist() == [0, 2, 0, 2]


def test_readers_see_what_is_known_whole_while_another_thread_learns() -> None:
    part, size = PartTakers(), 64

    def learn() -> None:
        for fragment in reversed(range(2_000)):  # each goes before all others, whose places move
            part.learn(of_bits(np.array([fragment]), [np.array([[1 << fragment % 8]], np.uint8)]))

    learner = threading.Thread(target=learn)
    learner.start()
    while learner.is_alive() or size:
        size -= not learner.is_alive()
        known = part.known.fragments
        rows, conditions = part.pairs(known)
        assert (conditions == known % 8).all()
        assert (rows == np.arange(len(known))).all()
        assert part.takes(3, known).tolist() == (known % 8 == 3).tolist()


@pytest.mark.parametrize("seed", range(10))
def test_listed_fragments_are_what_each_condition_says_of_every_cell(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = told_apart(conjunctions(random.Random(seed), 40), monkeypatch)
    for bare, part in zip(cells.parts[0], with_listed_fragments(cells).parts[0], strict=True):
        assert part.numbers is not None
        assert part.fragments is not None
        assert len(np.unique(part.fragments.words, axis=0)) == len(part.fragments.words)
        taken = np.where((part.numbers > 0)[:, None], part.fragments.words[part.numbers - 1], 0)
        assert (taken == signatures(bare, np.arange(bare.cells)).words).all()


def test_fragments_of_conditions_that_may_fail_are_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    cells = with_listed_fragments(told_apart([read_predicate("`q` > 1 AND `n` > 2")], monkeypatch))
    assert [part.numbers for part in cells.parts[0]] == [None]


def test_a_row_is_divided_evenly_among_the_queries_that_take_it() -> None:
    takers = Takers(2)
    takers.parts[0].learn(of_bits(np.array([5, 7]), [np.array([[0b01], [0b11]], np.uint8)]))
    takers.parts[1].learn(of_bits(np.array([9]), [np.array([[0b1]], np.uint8)]))
    rows = {0: np.array([5, 7, 6, 5]), 1: np.array([0, 9, 9, 0])}  # the third is in the second part alone
    first, second = takers.divided(rows, [np.array([1, 2]), np.array([1])])
    assert first[0].tolist() == [3, 1]
    assert second[0].tolist() == [2]
    assert first[1].tolist() == [2.25, 0.25]  # the second row has four takers: two of them share a condition
    assert second[1].tolist() == [1.25]
    assert first[1] @ [1, 2] + second[1].sum() == 4
