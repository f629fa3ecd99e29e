"""Slices as Krishnamurthy, Wu and Franklin (2006, §3) define them, and edges found on the fly."""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.window import Window
from penstock.share.slices import (
    Operations,
    Progression,
    Sliced,
    SliceManager,
    break_even_rate,
    compose,
    edges_of,
    paired,
    paired_operations,
    paned,
    paned_operations,
    shared_operations,
    unshared_operations,
)

lengths = st.integers(1, 60)
windows = st.builds(Window, lengths, lengths, st.integers(0, 60))


def edges_by_hand(of: list[Window], lo: int, hi: int) -> list[int]:
    """List the starts and ends of all windows, time by time."""
    return [t for t in range(lo, hi) if any((t - w.offset) % w.slide in (0, -w.length % w.slide) for w in of)]


def test_a_window_of_18_every_15_has_five_panes_or_one_pair() -> None:
    # 0  3  6  9  12 15        |12          |3 |
    # |--|--|--|--|--|         |------------|--|
    assert paned(18, 15) == Sliced((3, 3, 3, 3, 3))
    assert paired(18, 15) == Sliced((12, 3))


def test_a_slide_that_divides_the_range_needs_one_slice() -> None:
    assert paired(30, 15) == Sliced((15,))


def test_a_hopping_window_pairs_its_gap_and_its_range() -> None:
    assert paired(4, 10) == Sliced((6, 4))
    assert paned(4, 10) == Sliced((2,) * 5)


def test_two_sliced_windows_compose_over_their_common_period() -> None:
    # The paper prints 14 slices that sum to 51; the period is 45.
    composed = compose(Sliced((12, 3)), Sliced((6, 3)))
    assert composed == Sliced((6, 3, 3, 3, 3, 6, 3, 3, 3, 3, 6, 3))
    assert composed.period == 45
    assert str(Sliced((12, 3))) == "(12, 3)"


def test_a_huge_common_period_is_refused() -> None:
    with pytest.raises(ValueError, match="common period"):
        compose(*(Sliced((p,)) for p in (101, 103, 107, 109, 113)))


@given(lengths, lengths)
def test_paired_never_has_more_slices_than_paned(range_: int, slide: int) -> None:
    assert len(paired(range_, slide)) <= len(paned(range_, slide))
    assert paired(range_, slide).period == paned(range_, slide).period == slide


@given(lengths, lengths)
def test_final_costs_follow_table_2(range_: int, slide: int) -> None:
    # A window of range r merges the slices of r/s periods.
    panes, pairs = len(paned(range_, slide)), len(paired(range_, slide))
    assert paned_operations(7, range_, slide) == Operations(7, range_ / math.gcd(range_, slide))
    assert paned_operations(7, range_, slide).final == pytest.approx(panes * range_ / slide)
    assert paired_operations(7, range_, slide).final == math.ceil(pairs * range_ / slide)
    assert paired_operations(7, range_, slide).final <= math.ceil(2 * range_ / slide)


@given(st.lists(lengths, min_size=1, max_size=4), st.integers(2, 40), st.randoms(use_true_random=False))
def test_no_composition_has_fewer_edges_than_the_paired_one(ranges: list[int], slide: int, random: Random) -> None:
    # Theorem 1: any slicing that can answer W[r, s] has an edge at s - r mod s (Lemma 1); others it may add freely.
    composed = compose(*(paired(r, slide) for r in ranges))
    others = []
    for r in ranges:
        edges = {slide, slide - r % slide, *random.sample(range(1, slide + 1), random.randint(0, slide))}
        ordered = sorted(edges - {0})
        others.append(Sliced(tuple(b - a for a, b in zip([0, *ordered], ordered, strict=False))))
    other = compose(*others)
    assert set(composed.edges) <= set(other.edges)
    assert len(composed) <= len(other)


@given(st.lists(st.tuples(lengths, st.integers(1, 12)), min_size=1, max_size=3))
def test_edges_on_the_fly_are_those_of_the_explicit_composition(shapes: list[tuple[int, int]]) -> None:
    for slicing, cut in (("paned", paned), ("paired", paired)):
        composed = compose(*(cut(r, s) for r, s in shapes))
        found = SliceManager((Window(r, s) for r, s in shapes), slicing).edges(1, composed.period + 1)  # type: ignore[arg-type]
        assert tuple(found.tolist()) == composed.edges


@given(st.lists(windows, min_size=1, max_size=6), st.integers(-500, 500))
def test_the_slice_manager_finds_what_a_search_finds(of: list[Window], time: int) -> None:
    slicer = SliceManager(of)
    known = edges_by_hand(of, time - 130, time + 131)
    assert slicer.edges(time - 130, time + 131).tolist() == known
    assert slicer.next_edge(time) == min(e for e in known if e > time)
    assert slicer.edge_at_or_before(time) == max(e for e in known if e <= time)
    granule = slicer.granule()
    assert granule is not None
    assert all(granule_edge(granule, e) for e in known)
    assert all(not a.within(b) for a in slicer.progressions for b in slicer.progressions if a != b)


def granule_edge(granule: Progression, edge: int) -> bool:
    return (edge - granule.phase) % granule.step == 0


@pytest.mark.parametrize("seed", range(30))
def test_windows_join_and_leave_while_edges_come_in_order(seed: int) -> None:
    r = Random(seed)
    joined: list[Window] = []
    slicer, now = SliceManager(), -100
    for _ in range(60):
        if joined and r.random() < 0.4:
            slicer.leave(joined.pop(r.randrange(len(joined))))
        else:
            window = Window(r.randint(1, 40), r.randint(1, 20), r.randint(0, 20))
            for _ in range(r.choice([1, 1, 2])):
                joined.append(window)
                slicer.join(window)
        if joined:
            later = slicer.next_edge(now)
            assert later == edges_by_hand(joined, now + 1, now + 25)[0]
            now = later
        assert slicer.edges(now, now + 30).tolist() == edges_by_hand(joined, now, now + 30)


@pytest.mark.parametrize("count", [1, 2, 5, 40])
@pytest.mark.parametrize("span", [50, 5_000, 10**15])
def test_slice_starts_are_the_last_edges(count: int, span: int) -> None:
    r = Random(count * span)
    slicer = SliceManager(Window(r.randint(1, 900), r.randint(1, 300), r.randint(0, 300)) for _ in range(count))
    times = np.array([r.randint(-span, span) for _ in range(500)], np.int64)
    assert slicer.slice_starts(times).tolist() == [slicer.edge_at_or_before(t) for t in times.tolist()]


def test_without_windows_there_are_no_edges() -> None:
    slicer = SliceManager()
    assert slicer.edges(0, 100).tolist() == []
    assert slicer.granule() is None
    assert slicer.edge_rate(10) == 0
    assert not slicer.covers(Window(1, 1))
    with pytest.raises(ValueError, match="no window"):
        slicer.next_edge(0)
    with pytest.raises(ValueError, match="has not joined"):
        slicer.leave(Window(3, 2))


def test_a_window_twice_joined_keeps_its_edges_until_both_leave() -> None:
    slicer = SliceManager([Window(18, 15), Window(18, 15)])
    slicer.leave(Window(18, 15))
    assert slicer.edges(0, 31).tolist() == [0, 12, 15, 27, 30]
    slicer.leave(Window(18, 15))
    assert slicer.progressions == ()


def test_edges_of_an_offset_window_move_with_it() -> None:
    assert edges_of(Window(18, 15, 2), "paired") == (Progression(15, 2), Progression(15, 14))
    assert edges_of(Window(18, 15, 2), "paned") == (Progression(3, 2),)
    assert edges_of(Window(30, 15), "paired") == (Progression(15, 0),)


def test_one_progression_within_another_is_dropped() -> None:
    slicer = SliceManager([Window(5, 5), Window(30, 15), Window(20, 10)])
    assert slicer.progressions == (Progression(5, 0),)


@given(st.lists(windows, max_size=5), windows)
def test_a_covered_window_adds_no_edge(of: list[Window], other: Window) -> None:
    slicer = SliceManager(of)
    period = math.lcm(other.slide, *(w.slide for w in of))
    if period > 20_000:
        period = 20_000  # far beyond the first edge that is missing
    before = slicer.edges(0, period).tolist()
    after = SliceManager([*of, other]).edges(0, period).tolist()
    assert slicer.covers(other) == (before == after)


def test_several_progressions_can_cover_one_together() -> None:
    # (mod 4)  0 . . . 4       and 2 . . . 6     cover  0 2 4 6
    assert SliceManager([Window(2, 4)]).covers(Window(2, 2))
    assert not SliceManager([Window(1, 4)]).covers(Window(2, 2))


def test_the_edge_rate_counts_common_edges_once() -> None:
    # Edges of (r 12, s 9) and (r 10, s 6) over 18: 2 6 8 9 12 14 15 18, two of them common.
    together = SliceManager([Window(12, 9), Window(10, 6)])
    assert SliceManager([Window(12, 9)]).edge_rate(1) == pytest.approx(2 / 9)
    assert SliceManager([Window(10, 6)]).edge_rate(1) == pytest.approx(2 / 6)
    assert together.edge_rate(1) == pytest.approx(8 / 18)
    assert together.edge_rate(18) == pytest.approx(8)
    assert together.edges(1, 19).tolist() == [2, 6, 8, 9, 12, 14, 15, 18]


def test_an_edge_rate_over_a_huge_common_period_is_measured() -> None:
    slides = (9_973, 9_967, 9_949, 9_941, 9_931)
    rate = SliceManager(Window(s, s) for s in slides).edge_rate(1)
    without = 1 - math.prod(1 - 1 / s for s in slides)  # by inclusion and exclusion: the slides are prime
    assert rate == pytest.approx(without, rel=1e-3)


def test_sharing_costs_follow_table_3() -> None:
    # Slides 15 and 9, S = 45, E = 12 (the composition above), ranges 18 and 12.
    of = [Window(18, 15), Window(12, 9)]
    edges = len(compose(paired(18, 15), paired(12, 9)))
    assert edges == 12
    assert unshared_operations(100, of) == Operations(200, 3 * 3 + 5 * 3)
    assert shared_operations(100, of, edges).partial == 100
    assert shared_operations(100, of, edges).final == pytest.approx(12 * (18 / 15 + 12 / 9))
    assert unshared_operations(100, of).total > shared_operations(100, of, edges).total


@given(st.lists(st.tuples(st.integers(1, 60), st.sampled_from([4, 6, 10, 15, 20])), min_size=2, max_size=6))
def test_sharing_wins_above_the_break_even_rate(shapes: list[tuple[int, int]]) -> None:
    # Inequality (1) is Table 3 without the ceilings.
    of = [Window(r, s) for r, s in shapes]
    period = math.lcm(*(w.slide for w in of))
    rate = SliceManager(of).edge_rate(1)
    break_even = break_even_rate(of, rate)
    for arrivals in (break_even * 0.9 - 0.01, break_even * 1.1 + 0.01):
        tuples = arrivals * period
        unshared = len(of) * tuples + sum(period / w.slide * 2 * w.length / w.slide for w in of)
        assert (shared_operations(tuples, of, rate * period).total < unshared) == (arrivals > break_even)
    assert break_even_rate(of[:1], rate) == 0


def test_at_stock_market_rates_sharing_always_wins() -> None:
    # §3.2.2: ranges 10 to 15 min, slides 5 to 10 min, 375 tuples/s, against 0.0005 tuples/s.
    r = Random(7)
    of = [Window(r.randint(600, 900), r.randint(300, 600)) for _ in range(256)]
    rate = SliceManager(of).edge_rate(1)
    assert break_even_rate(of, rate) < 375
    assert break_even_rate(of, rate) > 0.0005
