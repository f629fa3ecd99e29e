"""Edges of windows that share slices: exact for pairs and listed slides, within their bound where they are sampled."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.duration import SECOND
from penstock.model.window import Window
from penstock.share.slices import Progression, edges_of
from penstock.share.weave.density import MOST_BITS, edge_rate, scale_of, union_density, weaveability
from penstock.share.weave.edge_sets import Bitmaps, Draws, EdgeSets
from penstock.share.weave.pairs import meet
from penstock.share.weave.sampling import coprime_base, multiplicity, sampled_density
from tests.share.weaving import acq

windows = st.builds(Window, st.integers(1, 60), st.integers(1, 30), st.integers(0, 29))


def edges(window: Window, period: int) -> set[int]:
    return {t for p in edges_of(window, "paired") for t in p.times(1, period + 1).tolist()}


#   0     3 4   6     9 10   12        16    18
#   |q_a  a     |     a |    a         |     a      RANGE 12 SLIDE 9
#   |q_b    b   b       b    b         b     b      RANGE 10 SLIDE 6
def test_example_2_two_windows_have_eight_edges_of_which_two_are_common() -> None:
    first, second = acq(12, 9).window, acq(10, 6).window
    seconds = {t // SECOND for w in (first, second) for t in edges(w, 18 * SECOND)}
    assert seconds == {3, 4, 6, 9, 10, 12, 16, 18}
    met = meet(first, second)
    assert (met.composite, met.edges, met.common) == (18 * SECOND, 8, 2)
    assert met.weaveability == Fraction(1, 4)
    assert [round(edge_rate([w]).value, 2) for w in (first, second)] == [0.22, 0.33]
    assert round(met.edge_rate(SECOND), 2) == round(edge_rate([first, second]).value, 2) == 0.44


def test_example_2_with_aligned_ends_is_mirrored_and_has_the_same_counts() -> None:
    first, second = Window(12, 9), Window(10, 6)
    assert edges(first, 18) | edges(second, 18) == {2, 6, 8, 9, 12, 14, 15, 18}
    assert (meet(first, second).edges, meet(first, second).common) == (8, 2)


def test_example_4_common_edges_are_counted_over_fifteen() -> None:
    first, second = Window(2, 5, 2), Window(3, 3)  # slices of 2 and 3, and of 3
    met = meet(first, second)
    assert (met.composite, met.first, met.second) == (15, 6, 5)
    assert edges(first, 15) & edges(second, 15) == {12, 15}
    mirrored = Window(2, 5), Window(3, 3)
    assert edges(mirrored[0], 15) & edges(mirrored[1], 15) == {3, 15}
    assert met.common == meet(*mirrored).common == 2


@given(windows, windows)
def test_pairs_are_counted_without_listing_their_edges(first: Window, second: Window) -> None:
    period = math.lcm(first.slide, second.slide)
    ours, theirs = edges(first, period), edges(second, period)
    met = meet(first, second)
    assert (met.first, met.second, met.common) == (len(ours), len(theirs), len(ours & theirs))
    assert weaveability([first], [second]) == pytest.approx(float(met.weaveability), abs=1e-12)


@given(st.lists(windows, min_size=1, max_size=4))
def test_the_density_of_a_union_is_counted_where_its_period_can_be_listed(some: list[Window]) -> None:
    period = math.lcm(*(w.slide for w in some))
    counted = len(set().union(*(edges(w, period) for w in some)))
    found = union_density(tuple(sorted({p for w in some for p in edges_of(w, "paired")})))
    assert found.exact
    assert found.value == pytest.approx(counted / period, rel=1e-12)


def test_equal_windows_are_perfectly_weaveable_and_strangers_are_not() -> None:
    assert weaveability([Window(8, 4)], [Window(16, 4)]) == 1.0
    assert weaveability([Window(8, 4)], [Window(16, 4, 1)]) == 0.0


@given(st.lists(st.integers(1, 10**12), min_size=1, max_size=8))
def test_every_number_is_a_product_of_powers_of_its_coprime_base(numbers: list[int]) -> None:
    base = coprime_base(numbers)
    assert all(math.gcd(a, b) == 1 for i, a in enumerate(base) for b in base[:i])
    for number in numbers:
        assert math.prod(b ** multiplicity(number, b) for b in base) == number


def known_union(draw: random.Random) -> tuple[list[Progression], float]:
    """Draw progressions, and count their union over a period that can be listed."""
    numbers = [n for n in range(2, 200) if math.lcm(n, 720_720) == 720_720]
    drawn = [Progression(draw.choice(numbers), draw.randrange(200)) for _ in range(draw.randint(2, 14))]
    found = sorted(set(drawn))
    scale = scale_of(found)
    return found, int(np.count_nonzero(scale.bits(found))) / (scale.period * scale.granule)


def outside(unions: int, seed: int) -> int:
    draw = random.Random(seed)
    cases = [known_union(draw) for _ in range(unions)]
    estimates = [sampled_density(p, drawn=2_048, seed=i) for i, (p, _) in enumerate(cases)]
    return sum(not e.holds(value) for e, (_, value) in zip(estimates, cases, strict=True))


def test_the_sampler_keeps_its_bound() -> None:
    assert outside(100, 1) <= 1


@pytest.mark.soak
def test_the_sampler_leaves_its_bound_at_most_five_times_in_a_thousand_unions() -> None:
    assert outside(1_000, 2) <= 5


def test_the_density_of_dozens_of_coprime_slides_is_known_within_its_bound() -> None:
    primes = [p for p in range(5, 200) if all(p % d for d in range(2, p))]
    progressions = tuple(Progression(p, 0) for p in primes)
    assert math.prod(primes) > 10**60 > MOST_BITS
    found = union_density(progressions)
    exact = 1 - math.prod(1 - 1 / p for p in primes)  # independent by the Chinese remainder theorem
    assert not found.exact
    assert found.holds(exact)
    assert found.value == pytest.approx(exact, rel=0.02)


def test_a_union_of_listed_slides_is_the_same_listed_drawn_and_by_pairs() -> None:
    draw = random.Random(4)
    some = [Window(draw.randint(1, 90) * SECOND, draw.choice((2, 3, 5, 6, 10, 15)) * SECOND) for _ in range(12)]
    progressions = [p for w in some for p in edges_of(w, "paired")]
    rows = np.arange(12)
    whole, listed = EdgeSets(some, 12), Bitmaps(scale_of(progressions), 12)
    drawn = Draws(progressions, 12)
    for edge_sets in (whole, listed, drawn):
        for row, window in enumerate(some):
            edge_sets.put(row, [window])
    for row in range(12):
        exact = [edge_rate([some[row], other]).value for other in some]
        assert listed.together(row, rows) == pytest.approx(exact, rel=1e-12)
        assert (whole.together(row, rows) == listed.together(row, rows)).all()
        assert drawn.together(row, rows) == pytest.approx(exact, rel=0.15)
    for edge_sets in (whole, listed, drawn):
        for row in range(1, 12):
            edge_sets.merge(0, row)
    every = edge_rate(some).value
    assert whole.rates(rows[:1])[0] == pytest.approx(every, rel=1e-12)
    assert drawn.rates(rows[:1])[0] == pytest.approx(every, rel=0.05)
