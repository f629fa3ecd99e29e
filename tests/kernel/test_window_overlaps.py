"""Rows are paired where their stretches in two windows meet, step by step as in one go."""

from __future__ import annotations

import random
from collections import Counter

import pyarrow as pa
import pytest

from penstock.kernel.join_index import COMMIT, JUDGED, TIME, matches
from penstock.kernel.window_overlaps import WindowedRows, meeting
from penstock.model.stream_join import JoinSide

Row = tuple[int, int, str, int]  # time, key, partition, number


def table(rows: list[Row]) -> pa.Table:
    times, keys, parts, numbers = zip(*rows, strict=True) if rows else ((), (), (), ())
    ints = {"k": keys, "n": numbers, JUDGED: [0] * len(rows), COMMIT: [0] * len(rows), TIME: times}
    return pa.table({name: pa.array(values, pa.int64()) for name, values in ints.items()} | {"p": pa.array(parts)})


def by_hand(lefts: list[Row], rights: list[Row], left: JoinSide, right: JoinSide) -> Counter[tuple[int, int, int]]:
    def inside(row: Row, rows: list[Row], side: JoinSide, at: int) -> bool:
        if not side.rows:
            return at <= row[0] + side.range_us
        after = [one for one in rows if one[2] == row[2] and in_order(one) > in_order(row) and one[0] <= at]
        return len(after) < side.rows

    def in_order(row: Row) -> tuple[int, int, int]:
        return row[0], row[1], row[3]  # time, then columns by name

    return Counter(
        (max(one[0], other[0]), one[3], other[3])
        for one in lefts
        for other in rights
        if one[1] == other[1]
        and inside(one, lefts, left, max(one[0], other[0]))
        and inside(other, rights, right, max(one[0], other[0]))
    )


@pytest.mark.parametrize("seed", range(60))
def test_pairs_are_those_by_hand_however_time_is_cut(seed: int) -> None:
    draw = random.Random(seed)
    sides = [
        JoinSide("s", ("k",), draw.randint(0, 9), ("n",), rows=draw.choice([0, 1, 2, 3]), partition=("p",))
        for _ in range(2)
    ]
    rows = [
        [(draw.randrange(30), draw.randrange(3), draw.choice("xyz"), n) for n in range(draw.choice([0, 5, 40]))]
        for _ in range(2)
    ]
    windows = [WindowedRows(("k",), side=side) for side in sides]
    found, since = Counter[tuple[int, int, int]](), -1
    for upto in [*sorted(draw.sample(range(31), draw.randint(0, 6))), 31]:
        for window, mine in zip(windows, rows, strict=True):  # rows come at any time before they settle
            new = [row for row in mine if since <= row[0] < upto]
            draw.shuffle(new)
            window.add(table(new), 0, 0)
        one, other = (window.settled(upto) for window in windows)
        if one is not None and other is not None:
            first, last = meeting(one, other, since, same_time=False)
            match = matches(one, other, first, last, (("k",), ("k",)))
            pairs = list(zip(match.probing.tolist(), match.found.tolist(), strict=True))
            first, last = meeting(other, one, since, same_time=True)
            match = matches(other, one, first, last, (("k",), ("k",)))
            pairs += zip(match.found.tolist(), match.probing.tolist(), strict=True)
            for mine, theirs in pairs:
                at = max(int(one.times[mine]), int(other.times[theirs]))
                found[at, one.rows["n"][mine].as_py(), other.rows["n"][theirs].as_py()] += 1
        for window in windows:
            window.let_go()
        since = upto
    assert found == by_hand(rows[0], rows[1], sides[0], sides[1])
    for window, side in zip(windows, sides, strict=True):
        if side.rows:
            assert window.rows <= 3 * side.rows  # of three partitions, the last rows alone stay
