"""Durations: every spelling, and every refusal."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import InvalidWindow
from penstock.language.duration import format_duration, parse_duration

SECOND = 1_000_000
MINUTE = 60 * SECOND


@pytest.mark.parametrize(
    ("text", "length_us"),
    [
        ("'12 min'", 12 * MINUTE),
        ('"12 min"', 12 * MINUTE),
        ("12 MIN", 12 * MINUTE),
        ("12min", 12 * MINUTE),
        ("90 s", 90 * SECOND),
        ("90s", 90 * SECOND),
        ("90 sec", 90 * SECOND),
        ("1 second", SECOND),
        ("INTERVAL 5 MINUTES", 5 * MINUTE),
        ("interval '5' minute", 5 * MINUTE),
        ("INTERVAL '5 minutes'", 5 * MINUTE),
        ("1500 ms", 1_500_000),
        ("7 us", 7),
        ("7 microseconds", 7),
        ("2 h", 120 * MINUTE),
        ("2 hours", 120 * MINUTE),
        ("3 d", 3 * 1440 * MINUTE),
        ("1 week", 7 * 1440 * MINUTE),
        ("1.5 s", 1_500_000),
        (".5 s", 500_000),
        ("0 s", 0),
        ("1 h 30 min", 90 * MINUTE),
    ],
)
def test_a_duration_is_read_in_every_spelling(text: str, length_us: int) -> None:
    assert parse_duration(text) == length_us


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("90", '"90" has no unit'),
        ("'90'", '"90" has no unit'),
        ("90 parsecs", 'there is no unit "parsecs"'),
        ("1 month", '"month" has no fixed length'),
        ("2 YEARS", '"YEARS" has no fixed length'),
        ("0.5 us", '"0.5 us" is not a whole number of microseconds'),
        ("-5 s", '"-5 s" is not a duration'),
        ("5 s -", '"5 s -" is not a duration'),
        ("s", '"s" is not a duration'),
        (". s", '". s" is not a duration'),
        ("", "a duration is missing"),
        ("INTERVAL", "a duration is missing"),
        ("1e3 s", 'there is no unit "e"'),
        ("99999999999999999999999999 s", '"99999999999999999999999999 s" is too long'),
        ("9" * 5000 + " s", None),
        ("٣ s", '"٣ s" is not a duration'),
    ],
)
def test_what_is_not_a_duration_is_refused_with_a_reason(text: str, what: str | None) -> None:
    with pytest.raises(InvalidWindow) as raised:
        parse_duration(text)
    assert what is None or raised.value.what == what


def test_an_unknown_unit_lists_the_units_there_are() -> None:
    with pytest.raises(InvalidWindow) as raised:
        parse_duration("3 fortnights")
    assert raised.value.detail == "units are us, ms, s, min, h, d and week"


@given(st.integers(min_value=0, max_value=2**62))
def test_a_written_duration_reads_as_itself(length_us: int) -> None:
    assert parse_duration(format_duration(length_us)) == length_us


@given(st.text(max_size=30))
def test_any_text_is_a_duration_or_an_invalid_window(text: str) -> None:
    with contextlib.suppress(InvalidWindow):
        assert 0 <= parse_duration(text) <= 2**62
