"""Counts of Krishnamurthy, Wu and Franklin (2006), §4: fragments, and what aggregating them costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.share.conditions.fragments import FragmentCounts, count_fragments
from penstock.share.plan import BITS_PER_WORD

Row = tuple[int, int, int]
Predicate = Callable[[Row], bool]
# Example 1's predicates; Figure 7 writes a signature with the first query's bit first, so F4 is p1 alone.
EXAMPLE_1: tuple[Predicate, ...] = (lambda t: t[0] > 0, lambda t: t[1] > 0, lambda t: t[2] > 0)
EIGHT_ROWS: tuple[Row, ...] = tuple((i >> 2 & 1, i >> 1 & 1, i & 1) for i in range(8))


def signature(row: Row, predicates: Sequence[Predicate]) -> int:
    return sum(1 << bit for bit, predicate in enumerate(predicates) if predicate(row))


def words_of(signatures: Sequence[int], conditions: int) -> list[np.ndarray]:
    number = max(1, -(-conditions // BITS_PER_WORD))
    mask = (1 << BITS_PER_WORD) - 1
    return [np.array([s >> BITS_PER_WORD * w & mask for s in signatures], np.int64) for w in range(number)]


def final_aggregation(fragments: Sequence[tuple[int, int]], queries: int) -> tuple[list[int], int]:
    """Algorithm 2, as printed, for sums: pairs (G, b) in; the answers, and how often H was applied, out."""
    answers, operations = [0] * queries, 0
    for value, bits in fragments:
        for query in range(queries):
            if bits >> query & 1:
                answers[query] += value
                operations += 1
    return answers, operations


def test_example_1_has_eight_fragments_and_each_answer_takes_four() -> None:
    names = {signature(row, EXAMPLE_1): f"F{i}" for i, row in enumerate(EIGHT_ROWS)}
    assert sorted(names.values()) == [f"F{i}" for i in range(8)]
    answered_by = [[name for bits, name in names.items() if bits >> query & 1] for query in range(3)]
    assert answered_by == [["F4", "F5", "F6", "F7"], ["F2", "F3", "F6", "F7"], ["F1", "F3", "F5", "F7"]]
    found = count_fragments(words_of(list(names), 3), np.ones(8, np.int64), [1, 1, 1])
    assert found == FragmentCounts(rows=8, queries=3, fragments=8, satisfied=12, final=12, dropped=1)  # F0
    assert (found.alpha, found.beta, found.unshared, found.shared) == (1.5, 1.5, 12, 20)


def test_fragments_of_many_rows_make_sharing_cheaper() -> None:
    bits = [signature(row, EXAMPLE_1) for row in EIGHT_ROWS]
    found = count_fragments(words_of(bits, 3), np.full(8, 1000), [1, 1, 1])
    assert (found.unshared, found.partial, found.final) == (12_000, 8_000, 12)
    assert str(found) == (
        "8,000 rows, 3 queries, 8 fragments, alpha 1.50, beta 1.50; "
        "operations: 12,000 unshared, 8,012 shared (8,000 partial, 12 final)"
    )


def test_the_paper_s_own_scenario_is_cheaper_shared() -> None:
    # §4.3.3: |T| = 189,445, k = 12,068 and α = β = 76 of 256 queries (Figure 10).
    size, fragments, cardinality = 189_445, 12_068, 76
    rows = np.full(fragments, size // fragments)
    rows[: size - int(rows.sum())] += 1
    # Signatures that differ in their low bits, and have so many high ones that all are of one cardinality.
    highest = [sum(1 << 255 - place for place in range(cardinality - low)) for low in range(15)]
    bits = [number | highest[number.bit_count()] for number in range(fragments)]
    assert {b.bit_count() for b in bits} == {cardinality}
    found = count_fragments(words_of(bits, 256), rows, [1] * 256)
    assert (found.rows, found.fragments, found.alpha, found.beta) == (size, fragments, cardinality, cardinality)
    assert (found.unshared, found.shared) == (14_397_820, 189_445 + 917_168)


def test_every_row_a_fragment_of_its_own_makes_sharing_dearer() -> None:
    found = count_fragments(words_of([1, 3, 7, 5], 3), np.ones(4, np.int64), [1, 1, 1])
    assert found.alpha == found.beta == 2.0
    assert found.shared == found.rows + found.unshared  # §4.3.3: |T| + |T|α where k = |T|


SIGNATURES = st.integers(1, 130).flatmap(
    lambda n: st.tuples(st.just(n), st.lists(st.integers(0, (1 << n) - 1), max_size=40))
)


@given(SIGNATURES)
def test_table_5_is_what_aggregating_row_by_row_counts(drawn: tuple[int, list[int]]) -> None:
    conditions, signatures = drawn
    fragments = Counter(signatures)
    found = count_fragments(words_of(signatures, conditions), np.ones(len(signatures), np.int64), [1] * conditions)
    unshared = sum(1 for bits in signatures for query in range(conditions) if bits >> query & 1)
    _, final = final_aggregation([(rows, bits) for bits, rows in fragments.items()], conditions)
    assert (found.rows, found.queries, found.fragments) == (len(signatures), conditions, len(fragments))
    assert (found.unshared, found.partial, found.final) == (unshared, len(signatures), final)
    assert found.alpha * found.rows == pytest.approx(unshared)
    assert found.beta * found.fragments == pytest.approx(final)
    assert found.dropped == fragments[0]


@given(SIGNATURES)
def test_partials_of_several_slices_and_keys_count_as_their_rows(drawn: tuple[int, list[int]]) -> None:
    conditions, signatures = drawn
    rows = np.array([1 + i % 3 for i in range(len(signatures))], np.int64)
    alone = [s for s, n in zip(signatures, rows.tolist(), strict=True) for _ in range(n)]
    ones, weights = np.ones(len(alone), np.int64), [1] * conditions
    assert count_fragments(words_of(signatures, conditions), rows, weights) == count_fragments(
        words_of(alone, conditions), ones, weights
    )


@given(st.lists(st.tuples(st.integers(-9, 9), st.integers(0, 7)), max_size=30))
def test_algorithm_2_answers_as_each_query_alone(rows: list[tuple[int, int]]) -> None:
    fragments: Counter[int] = Counter()
    for value, bits in rows:
        fragments[bits] += value
    answers, operations = final_aggregation([(total, bits) for bits, total in fragments.items()], 3)
    assert answers == [sum(value for value, bits in rows if bits >> query & 1) for query in range(3)]
    words = words_of([bits for _, bits in rows], 3)
    assert operations == count_fragments(words, np.ones(len(rows), np.int64), [1, 1, 1]).final


def test_queries_of_one_condition_are_counted_each() -> None:
    found = count_fragments(words_of([0b01, 0b11, 0b10], 2), np.array([5, 2, 1]), [10, 1])
    assert (found.queries, found.fragments) == (11, 3)
    assert (found.unshared, found.final) == (5 * 10 + 2 * 11 + 1, 10 + 11 + 1)


def test_nothing_at_all_costs_nothing() -> None:
    nothing = count_fragments([np.empty(0, np.int64)], np.empty(0, np.int64), [1, 1])
    assert nothing == FragmentCounts(0, 2, 0, 0, 0, 0)
    assert (nothing.alpha, nothing.beta, nothing.shared) == (0.0, 0.0, 0)
    assert count_fragments([], np.array([4, 3]), []) == FragmentCounts(7, 0, 1, 0, 0, 7)
    assert count_fragments([np.array([1, 2])], np.array([0, 3]), [1, 1]).fragments == 1  # no row, no fragment


def test_more_conditions_than_bits_are_refused() -> None:
    with pytest.raises(ValueError, match="63 conditions do not fit 1 word"):
        count_fragments([np.array([1])], np.array([1]), [1] * 63)
