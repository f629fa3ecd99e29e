"""Every time has one text: ISO 8601 in UTC with six digits, whatever its year."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.instants import EPOCH, format_day, format_instant, format_local, python_day, python_instant

INSTANTS = st.integers(-(2**63) + 1, 2**63 - 1)  # the least one is none of numpy's
HELD = st.datetimes(timezones=st.just(UTC))
FORM = re.compile(r"[+-]?\d{4,6}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (0, "1970-01-01T00:00:00.000000Z"),
        (1_767_625_200_000_000, "2026-01-05T15:00:00.000000Z"),
        (-1, "1969-12-31T23:59:59.999999Z"),
        (-62_135_596_800_000_000, "0001-01-01T00:00:00.000000Z"),
        (-62_135_596_800_000_000 - 300_000_000, "0000-12-31T23:55:00.000000Z"),
        (-62_167_219_200_000_000 - 1, "-0001-12-31T23:59:59.999999Z"),
        (253_402_300_799_999_999, "9999-12-31T23:59:59.999999Z"),
        (253_402_300_800_000_000, "+10000-01-01T00:00:00.000000Z"),
        (-(2**63), "-290308-12-21T19:59:05.224192Z"),
        (2**63 - 1, "+294247-01-10T04:00:54.775807Z"),
    ],
)
def test_an_instant_has_one_text(us: int, text: str) -> None:
    assert format_instant(us) == text
    assert format_local(us) == text.removesuffix("Z")
    assert format_day(us // 86_400_000_000) == text.partition("T")[0]


@given(INSTANTS)
def test_the_text_is_that_of_the_calendar_for_all_years(us: int) -> None:
    text = format_instant(us)
    assert FORM.fullmatch(text)
    year, rest = re.fullmatch(r"([+-]?\d+)(-\d\d-.*)Z", text).groups()  # type: ignore[union-attr]
    known = re.fullmatch(r"(-?\d+)(-\d\d-.*)", str(np.datetime64(us, "us")))
    assert known is not None
    assert (int(year), rest) == (int(known[1]), known[2])


@given(HELD)
def test_the_text_is_pythons_own_where_python_has_the_year(instant: datetime) -> None:
    us = (instant - EPOCH) // timedelta(microseconds=1)
    assert format_instant(us) == instant.isoformat(timespec="microseconds").replace("+00:00", "Z")
    assert python_instant(us) == instant
    assert python_day(us // 86_400_000_000) == instant.date()
    assert format_instant(us, digits=3) == instant.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    assert format_instant(us, digits=0) == instant.isoformat(timespec="seconds").replace("+00:00", "Z")


def test_days_end_where_python_ends() -> None:
    last, first = (date.max - EPOCH.date()).days, (date.min - EPOCH.date()).days
    assert (python_day(last), python_day(last + 1)) == (date.max, "+10000-01-01")
    assert (python_day(first), python_day(first - 1)) == (date.min, "0000-12-31")
