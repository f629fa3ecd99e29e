"""Which grouping feeds which others: chosen by estimated partials, and kept in a record."""

from __future__ import annotations

import pyarrow as pa

from penstock.evaluate.components.numbers import ROWS, ExactSum
from penstock.evaluate.typed import Condition
from penstock.share.grouping_rollup import (
    Estimate,
    Feeding,
    candidates,
    choose_feeders,
    fed_members,
    from_record,
    to_record,
)
from penstock.share.plan import Grouping

A, B, AB, BC, ABC = ("a",), ("b",), ("a", "b"), ("b", "c"), ("a", "b", "c")
EVERY, SOME = Condition((), None), Condition((), "v > 1")
TOTAL = ExactSum("v", pa.int32())


def grouping(keys: tuple[str, ...], *conditions: Condition) -> Grouping:
    taking = conditions or (EVERY,)
    return Grouping(keys, (pa.string(),) * len(keys), taking, (ROWS,), (tuple(range(len(taking))),))


def test_unions_of_groupings_may_feed_those_that_are_asked_for() -> None:
    assert candidates([grouping(A), grouping(B), grouping(BC)]) == [A, B, BC, AB, ABC]


def test_groupings_by_the_same_keys_in_another_order_are_one_candidate() -> None:
    assert candidates([grouping(AB), grouping(("b", "a"))]) == [AB]
    assert choose_feeders([AB, ("b", "a")], Estimate(1e6, {AB: 1e3})) == {AB: (AB, ("b", "a"))}


def test_a_fine_grouping_of_few_partials_feeds_the_coarser_ones() -> None:
    partials = {(): 10.0, A: 100.0, AB: 1_000.0}
    assert choose_feeders([(), A, AB], Estimate(1e6, partials)) == {AB: ((), A, AB)}


def test_a_fine_grouping_of_nearly_as_many_partials_as_rows_feeds_nobody() -> None:
    partials = {(): 10.0, A: 100.0, AB: 900_000.0}
    assert AB not in choose_feeders([(), A, AB], Estimate(1e6, partials))


def test_a_phantom_is_made_where_it_feeds_several_and_not_where_it_is_large() -> None:
    small = {A: 100.0, B: 100.0, AB: 2_000.0}
    assert choose_feeders([A, B], Estimate(1e6, small)) == {AB: (A, B)}
    assert choose_feeders([A, B], Estimate(1e6, small | {AB: 800_000.0})) == {}


def test_groupings_part_where_one_of_them_is_too_fine() -> None:
    partials = {A: 50.0, B: 60.0, ("c",): 900_000.0, AB: 500.0, ("a", "c"): 950_000.0, BC: 950_000.0, ABC: 990_000.0}
    assert choose_feeders([A, B, ("c",)], Estimate(1e6, partials)) == {AB: (A, B)}


def test_what_was_chosen_before_stays_unless_something_is_clearly_better() -> None:
    partials = {A: 100.0, B: 100.0, AB: 20_000.0}
    fed = choose_feeders([A, B], Estimate(1e6, partials))
    assert fed == {AB: (A, B)}
    assert choose_feeders([A, B], Estimate(1e6, partials | {AB: 36_000.0}), fed) == fed
    assert choose_feeders([A, B], Estimate(1e6, partials | {AB: 300_000.0}), fed) == {}
    assert choose_feeders([A, B], Estimate(1e6, {A: 100.0, B: 100.0}), fed) == {}  # it was not estimated


def test_a_feeder_has_all_keys_conditions_and_components() -> None:
    coarse, fine = grouping(A, EVERY, SOME), Grouping(AB, (pa.string(),) * 2, (SOME,), (ROWS, TOTAL), ((0,), (0,)))
    [(feeder, feeds)] = fed_members([coarse, fine], {AB: (A, AB)})
    assert (feeder.keys, feeder.conditions, feeder.components) == (AB, (EVERY, SOME), (ROWS, TOTAL))
    assert feeder.users == ((0, 1), (1,))
    assert [(fed.grouping.keys, fed.keys, fed.conditions) for fed in feeds] == [(A, (0,), (0, 1)), (AB, (0, 1), (1,))]


def test_what_is_no_longer_asked_for_is_not_fed() -> None:
    groupings = [grouping(A), grouping(BC)]
    assert [(g.keys, [f.grouping.keys for f in fed]) for g, fed in fed_members(groupings, {AB: (A, B)})] == [
        (A, [A]),
        (BC, [BC]),
    ]


def test_who_feeds_whom_is_read_back_as_it_was_written() -> None:
    feeding: Feeding = {"all": {ABC: ((), A, BC)}, "q1": {}}
    assert from_record(to_record(feeding)) == {"all": {ABC: ((), A, BC)}}
