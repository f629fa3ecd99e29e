"""Slices that hold rows are known to each lane as its own windows cut them, wherever the lane was."""

from __future__ import annotations

import numpy as np

from penstock.evaluate.typed import Condition
from penstock.evaluate.windows.due import last_held_end
from penstock.kernel.presence import Presence
from penstock.model.window import Window
from penstock.share.plan import LaneKey

EVERY_ROW = Condition((), None)
SHORT, LONG = LaneKey("", (), EVERY_ROW), LaneKey("", ("k",), EVERY_ROW)


def starts(*times: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(times, np.int64)


def test_a_lane_that_comes_to_a_tree_does_not_tell_others_of_coarser_slices() -> None:
    """
    tree a:   [7 . . 10)      a row at 8
    tree b:   [7, 8) [8, 9)   the same row, in [8, 9)
    """
    presence = Presence()
    presence.settle({LONG: "a", SHORT: "b"})
    presence.note("a", starts(7))
    presence.note("b", starts(8))
    presence.settle({LONG: "b", SHORT: "b"})
    assert presence.of(SHORT).tolist() == [8]
    assert presence.of(LONG).tolist() == [7]
    presence.note("b", starts(9))
    assert presence.of(SHORT).tolist() == [8, 9]
    assert presence.of(LONG).tolist() == [7, 9]
    assert last_held_end(Window(1, 2, 0), presence.of(SHORT)) != 8


def test_a_lane_does_not_read_slices_of_its_tree_from_before_it_came() -> None:
    presence = Presence()
    presence.settle({SHORT: "a", LONG: "b"})
    presence.note("a", starts(8))
    presence.note("b", starts(7))
    presence.settle({SHORT: "b", LONG: "b"})
    assert presence.of(SHORT).tolist() == [8]
    presence.settle({SHORT: "c", LONG: "b"})
    presence.note("c", starts(11))
    assert presence.of(SHORT).tolist() == [8, 11]


def test_what_no_window_needs_is_forgotten_in_both_places() -> None:
    presence = Presence()
    presence.settle({SHORT: "a", LONG: "b"})
    presence.note("a", starts(1, 5))
    presence.note("b", starts(2, 6))
    presence.settle({SHORT: "b", LONG: "b"})
    presence.note("b", starts(9))
    presence.expire({SHORT: 4, LONG: 6})
    assert presence.of(SHORT).tolist() == [5, 9]
    assert presence.of(LONG).tolist() == [6, 9]
    presence.expire({SHORT: 9, LONG: 9})
    assert presence.of(SHORT).tolist() == presence.of(LONG).tolist() == [9]


def test_a_lane_that_is_gone_and_comes_back_begins_with_its_tree() -> None:
    presence = Presence()
    presence.settle({SHORT: "a", LONG: "b"})
    presence.note("a", starts(3))
    presence.settle({LONG: "b"})
    presence.settle({SHORT: "b", LONG: "b"})
    presence.note("b", starts(4))
    assert presence.of(SHORT).tolist() == [4]
