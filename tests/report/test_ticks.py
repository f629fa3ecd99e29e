"""Axes are marked where a person would mark them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.duration import DAY, HOUR, MINUTE, SECOND, about
from penstock.report.ticks import (
    instant_text,
    length_labels,
    number_labels,
    number_ticks,
    short_number,
    time_labels,
    time_step,
    time_ticks,
)

MONDAY = 1_767_571_200 * SECOND  # 2026-01-05 00:00 UTC


def test_numbers_are_marked_at_round_multiples_around_them() -> None:
    assert number_ticks(0, 412_345) == [0, 200_000, 400_000, 600_000]
    assert number_ticks(0, 9.7) == [0, 5, 10]
    assert number_ticks(98.2, 101.3) == [98, 99, 100, 101, 102]
    assert number_ticks(-30, 55) == [-40, -20, 0, 20, 40, 60] or number_ticks(-30, 55) == [-50, 0, 50, 100]


def test_a_single_value_gets_room_on_both_sides() -> None:
    assert number_ticks(0, 0) == [0.0, 0.5, 1.0]
    ticks = number_ticks(7, 7)
    assert ticks[0] < 7 < ticks[-1]


@given(st.floats(-1e15, 1e15), st.floats(1e-6, 1e15))
def test_marks_enclose_every_stretch_and_are_few(low: float, length: float) -> None:
    high = low + length
    if high - low < abs(low) * 1e-12:
        return  # a stretch that doubles can hardly tell from a point
    ticks = number_ticks(low, high)
    assert 2 <= len(ticks) <= 8
    assert ticks[0] <= low + length * 1e-6
    assert ticks[-1] >= high - length * 1e-6
    assert len(set(number_labels(ticks))) == len(ticks)


def test_labels_of_an_axis_have_one_scale_and_only_the_digits_they_need() -> None:
    assert number_labels([0, 200_000, 400_000]) == ["0", "200 k", "400 k"]
    assert number_labels([0, 500_000, 1_000_000, 1_500_000, 2_000_000]) == ["0", "0.5 M", "1.0 M", "1.5 M", "2.0 M"]
    assert number_labels([98, 99, 100]) == ["98", "99", "100"]
    assert number_labels([0, 0.05, 0.1]) == ["0", "0.05", "0.10"]
    assert number_labels([0, 5e8, 1e9]) == ["0", "0.5 bn", "1.0 bn"]
    assert number_labels([1_000, 1_500]) == ["1,000", "1,500"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (7, "7"),
        (1234, "1,234"),
        (12_345, "12.3 k"),
        (1_234_567, "1.23 M"),
        (52_345_678, "52.3 M"),
        (999_999, "1.00 M"),
        (3.14159, "3.14"),
        (271.828, "272"),
        (-12_345_678, "-12.3 M"),
        (math.nan, "NaN"),
        (math.inf, "∞"),
    ],
)
def test_one_number_is_written_short(value: float, text: str) -> None:
    assert short_number(value) == text


def test_time_is_marked_at_whole_steps_of_a_clock() -> None:
    start = MONDAY + 14 * HOUR + 31 * MINUTE
    assert time_labels(time_ticks(start, start + HOUR)) == ["14:45", "15:00", "15:15", "15:30"]
    assert time_labels(time_ticks(start, start + 50 * SECOND)) == [
        "14:31:00", "14:31:10", "14:31:20", "14:31:30", "14:31:40", "14:31:50",
    ]  # fmt: skip
    assert time_labels(time_ticks(MONDAY, MONDAY + 3 * DAY)) == ["05 Jan", "06 Jan", "07 Jan", "08 Jan"]


@given(st.integers(-(1 << 60), 1 << 60), st.integers(1, 1 << 58))
def test_every_stretch_of_time_has_few_marks_within_it(low: int, length: int) -> None:
    ticks = time_ticks(low, low + length)
    assert len(ticks) <= 6
    assert all(low <= t <= low + length for t in ticks)
    assert len(time_labels(ticks)) == len(ticks)


def test_steps_of_a_clock_are_chosen_not_decimal_ones() -> None:
    assert [time_step(length) for length in (HOUR, 20 * MINUTE, 90 * SECOND, 6 * DAY)] == [
        15 * MINUTE,
        5 * MINUTE,
        30 * SECOND,
        2 * DAY,
    ]


def test_lengths_and_instants_read_as_people_write_them() -> None:
    assert length_labels([0, 5 * MINUTE, 90 * SECOND]) == ["0", "5 min", "90 s"]
    assert instant_text(MONDAY + 14 * HOUR + 30 * MINUTE) == "2026-01-05T14:30:00Z"
    assert [about(u) for u in (35_294_118, 90 * SECOND, 30 * SECOND, 1)] == ["35.3 s", "1.5 min", "30 s", "1 us"]
    assert instant_text(1 << 62) == "+148108-07-06T14:00:27Z"
