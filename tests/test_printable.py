"""Text that anybody wrote becomes text that can be shown, and stays the same data where programs read it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import SourceError, underline
from penstock.printable import block, columns, json_text, shown, visible
from penstock.report.markup import escaped

ANY = st.text(st.characters(codec=None, exclude_categories=()), max_size=60)  # lone surrogates, too
BAD = (
    "\x00\x07\x08\x1b\x7f\x80\x85\x9b\x9f\u061c\u200b\u200e\u200f\u2028\u2029"
    "\u202a\u202e\u2066\u2069\ufeff\ud800\U000e0001"
)


def harmless(text: str) -> bool:
    return all(sign.isprintable() or sign == "\n" for sign in text)


@given(ANY)
def test_what_is_shown_is_printable(text: str) -> None:
    assert shown(text).isprintable()
    assert visible(text).isprintable()
    assert harmless(block(text))
    assert harmless(str(SourceError(text, text=text, place=(0, len(text)), detail=text, hint=text)))
    assert harmless(escaped(text))


@given(st.recursive(ANY, lambda inside: st.lists(inside, max_size=3) | st.dictionaries(ANY, inside, max_size=3)))
def test_json_shows_and_stays_the_same_data(value: object) -> None:
    for text in (json_text(value), json_text(value, indent=1)):
        assert harmless(text)
        assert json.loads(text) == value


@pytest.mark.parametrize("sign", BAD)
def test_no_sign_that_steers_is_left(sign: str) -> None:
    assert sign not in shown(f"a{sign}b") + block(f"a{sign}b") + json_text(f"a{sign}b") + escaped(sign)


def test_text_that_shows_stays_as_it_is() -> None:
    text = 'Größe 符 é "x" [RANGE 5 MIN] 🙂'
    assert shown(text) == block(text) == text
    assert json.loads(json_text(text)) == text
    assert "符" in json_text(text)


def test_blocks_keep_their_lines() -> None:
    assert block("SELECT 1\n\tFROM s\r\n-- \x1b") == "SELECT 1\n    FROM s \n-- \\u001b"
    assert shown("SELECT 1\n\tFROM s") == "SELECT 1  FROM s"


@given(ANY, ANY, ANY)
def test_carets_stand_under_the_place_whatever_surrounds_it(before: str, place: str, after: str) -> None:
    """Counted in columns of a terminal, of one line and of less than its greatest width."""
    before, place, after = (text.replace("\n", " ")[:20] for text in (before, f"x{place}", after))
    line, carets = underline(before + place + after, (len(before), len(before) + len(place)))
    assert line.isprintable()
    left, under = len(carets) - len(carets.lstrip(" ")), carets.count("^")
    start = next(i for i in range(len(line) + 1) if columns(line[:i]) >= left)
    assert columns(line[:start]) == left
    assert line[2 + len(before)] == "x"
    assert columns(line[: 2 + len(before)]) == left
    assert under == columns(line[2 + len(before) : 2 + len(before) + len(place)])
