"""Pages are whole, escape what users wrote, need no other file, and stay readable with hundreds of queries."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib import resources

import pytest

from penstock.model.duration import DAY, MILLISECOND, MINUTE, SECOND
from penstock.model.window import Window
from penstock.report.flow import MOST_ROWS, rows_of
from penstock.report.markup import escaped, readable, shortened, table
from penstock.report.notebook import StreamRow, engine_summary
from penstock.report.page import explain_page, page
from penstock.report.ruler import MOST_SLICES, MOST_WINDOWS, evaluation, ruler
from penstock.report.wording import condition_words, finding_words
from penstock.share.explain.explanation import (
    ConditionPlan,
    Explanation,
    GroupingPlan,
    QueryPlan,
    StreamPlan,
    TreePlan,
)
from penstock.share.slices import SliceManager
from tests.report.plans import Page, explanation

EVIL = "<script>alert('&\"x`)</script>\x00\ud800"


def style() -> str:
    return resources.files("penstock.report").joinpath("page.css").read_text(encoding="utf-8")


@pytest.mark.parametrize("queries", [1, 12, 800])
def test_a_page_is_well_formed_whatever_its_size(queries: int) -> None:
    read = Page(explain_page(explanation(queries, conditions=min(queries, 90))))
    assert read.unbalanced == []
    assert read.open == []
    assert [a["lang"] for a in read.named("html")] == ["en"]


def test_a_page_needs_no_other_file() -> None:
    text = explain_page(explanation())
    read = Page(text)
    assert not [tag for tag, _ in read.tags if tag in ("script", "link", "img", "iframe", "object", "embed")]
    assert not [a for _, attributes in read.tags for a in attributes if a in ("src", "href", "onload", "onclick")]
    assert "http:" not in text
    assert "https:" not in text
    assert "url(" not in text
    assert "@import" not in text


def test_a_page_tells_how_a_row_finds_its_conditions() -> None:
    text = Page(explain_page(explanation())).text
    assert "2 attributes are looked up a row instead of 24 tests" in text
    assert "volume * price (3 constants, attempted): q0, q1" in text
    assert "volume > 0 (opaque): q0" in text
    assert "fragments of 3 conditions on volume * price, volume > 0: 8 cells, 6 fragments" in text


def test_names_that_users_wrote_are_escaped_everywhere() -> None:
    hostile = explanation(12, name=EVIL, condition=f"`x` = '{EVIL}' and {{i}}")
    for text in (explain_page(hostile), hostile._repr_html_(), engine_summary([StreamRow(EVIL, 1)], hostile)):
        read = Page(text)
        assert not read.named("script")
        assert read.unbalanced == []
    page_text = explain_page(hostile)
    page_text.encode("utf-8")
    assert "\x00" not in page_text
    assert escaped(EVIL).startswith("&lt;script&gt;alert(&#x27;&amp;&quot;x`)")


def test_every_query_is_named_once_in_a_list_that_folds() -> None:
    read = Page(explain_page(explanation(300, conditions=40)))
    items = [text.strip() for tag, text in read.texts if tag == "li"]
    assert sorted(items) == sorted(f"q{i}" for i in range(300))


def test_the_picture_of_many_conditions_shows_the_largest_and_counts_the_rest() -> None:
    query = QueryPlan("q", Window(1, 1))
    conditions = tuple(ConditionPlan(f"c{i}", (query,) * i, f"c{i}", ()) for i in range(1, 91))
    rows = rows_of(GroupingPlan((), (), conditions), 10)
    assert [r.text for r in rows[:2]] == ["c90", "c89"]
    assert rows[-1].text == "81 more conditions"
    assert sum(r.queries for r in rows) == sum(range(1, 91))
    text = explain_page(explanation(900, conditions=300))
    assert text.count("<path") < 2 * MOST_ROWS


def test_every_picture_has_words_for_those_who_do_not_see_it() -> None:
    read = Page(explain_page(explanation()))
    pictures = [a for a in read.named("svg") if a.get("aria-hidden") != "true"]
    assert len(pictures) == 2
    assert all(a["role"] == "img" and a["aria-label"] for a in pictures)
    assert pictures[0]["aria-label"] == "trades: one pass over the rows, 3 windows, 2 groupings, 12 queries"


def test_canonical_names_read_as_people_write_them() -> None:
    assert readable("`volume` > 5 and `listing#1f0c9b.r2000`") == "volume > 5 and listing.r2000"
    assert readable("`a b` = `x#zz.y`") == "`a b` = `x#zz.y`"
    assert shortened("a long condition", 8) == "a long…"


def test_conditions_name_a_table_once() -> None:
    joined = "`listing#1f0c9b.r2000` AND `volume` > 5"
    assert condition_words(ConditionPlan("", (), joined, ("listing",))) == "listing.r2000 AND volume > 5"
    assert condition_words(ConditionPlan("", (), None, ("listing",))) == "every row, joined with listing"
    assert condition_words(ConditionPlan("", (), "`volume` > 5", ("listing",))) == "volume > 5, joined with listing"
    assert condition_words(ConditionPlan("", (), None, ())) == "every row"


def test_how_rows_find_slices_is_told_in_lengths_that_can_be_read() -> None:
    found = replace(tree(Window(MINUTE, MINUTE)), found_by="division by 30 s")
    assert finding_words(found) == "division by 30 s"


def test_numbers_in_tables_stand_flush_right() -> None:
    read = Page(table(("a", "b"), [("x", 1)], numbers=[1]))
    assert [a.get("class") for a in read.named("td")] == [None, "n"]


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("mode", [0, 1], ids=["light", "dark"])
def test_letters_and_lines_stand_out_from_their_ground(mode: int) -> None:
    block = style().replace("#fff;", "#ffffff;").split("@media (prefers-color-scheme:dark)")[mode].split("}")[0]
    colours = dict(re.findall(r"--(\w+):(#[0-9a-f]{6})", block))
    for ground in ("bg", "panel"):
        for name in ("ink", "soft", *(f"c{i}" for i in range(6))):
            high, low = sorted((luminance(colours[name]), luminance(colours[ground])), reverse=True)
            assert (high + 0.05) / (low + 0.05) >= 4.5, (name, ground)


def test_a_page_without_streams_or_queries_says_so() -> None:
    assert "no streams yet" in Page(explain_page(Explanation(()))).text
    quiet = Explanation((StreamPlan("s", "shared paired", 1000.0, False, (), (), None),))
    assert "no queries yet" in Page(explain_page(quiet)).text
    assert "no queries" in Page(page("t", ["<p>no queries</p>"])).text


def test_many_trees_are_cut_short_with_their_names_folded() -> None:
    read = Page(explain_page(explanation(40, trees=20)))
    assert "and 16 more trees" in read.text
    assert len([a for a in read.named("svg") if a.get("class") == "strip"]) == 4


# A window of 12 min every 5 min, seen from 0 to 17 min: it ends at 0, 5, 10 and 15, and the last begins at 3.
#
#     0    3    5    8    10   13   15  17
#     |    |    |    |    |    |    |
#          [ - - - - - - - - - - - - )
#
def test_the_ruler_shows_the_last_window_that_ends_in_its_stretch() -> None:
    assert evaluation(Window(12 * MINUTE, 5 * MINUTE), 17 * MINUTE) == (3 * MINUTE, 15 * MINUTE)
    assert evaluation(Window(DAY, DAY), MINUTE) == (0, DAY)  # none ends in it: one that lies over it


def tree(*windows: Window) -> TreePlan:
    queries = tuple(QueryPlan(f"q{i}", w) for i, w in enumerate(windows))
    rate = SliceManager(windows, "paired").edge_rate(SECOND)
    grouping = GroupingPlan((), ("count(*)",), (ConditionPlan("every row", queries, None, ()),))
    return TreePlan("all", "paired", tuple(dict.fromkeys(windows)), rate, "division", (grouping,))


def test_the_ruler_cuts_where_some_window_starts_or_ends() -> None:
    text = ruler(tree(Window(12 * MINUTE, 5 * MINUTE)))
    slices = [a for a in Page(text).named("rect") if (a["class"] or "").startswith("slice")]
    lengths = [float((a["width"] or "").rstrip("%")) * 17 / 100 for a in slices]
    assert [round(length, 2) for length in lengths] == [3, 2, 3, 2, 3, 2, 2]
    assert sum(lengths) == pytest.approx(17, abs=0.01)


@pytest.mark.parametrize(
    "windows",
    [
        (Window(100 * DAY, DAY), Window(10 * MILLISECOND, MILLISECOND)),
        (Window(1, 1),),
        tuple(Window(i * SECOND, i * SECOND) for i in range(1, 60)),
        (Window(7 * SECOND, 3600 * SECOND, 11 * SECOND),),
    ],
    ids=["far apart", "tiny", "many", "gaps"],
)
def test_the_ruler_stays_small_and_inside_its_frame(windows: tuple[Window, ...]) -> None:
    text = ruler(tree(*windows))
    read = Page(text)
    assert len(read.named("rect")) <= 2 * MOST_SLICES + MOST_WINDOWS
    places = [
        float(v.rstrip("%"))
        for a in read.named("rect") + read.named("line")
        for v in a.values()
        if v and v.endswith("%")
    ]
    assert all(0 <= p <= 100.001 for p in places)
