"""Charts are SVG that says what it shows: inside its frame, with titles, units and nothing made up."""

from __future__ import annotations

import math
import re

import pytest

from penstock.model.duration import MINUTE
from penstock.report.charts import HEIGHT, WIDTH, Bar, ChartColumn, Series, bar_chart, column_chart, line_chart
from penstock.report.columns import named_columns
from penstock.report.curves import Curve, curve_chart
from tests.report.plans import Page

LETTER = 6.8  # a little more than the mean width of a letter at 12 pixels
LINES = [Series(name, tuple((i * MINUTE, float(i % 7) * k) for i in range(30))) for k, name in enumerate("abc", 1)]
COLUMNS = [ChartColumn(str(i), 1e5 * i, apart=i == 1) for i in range(1, 17)]
CURVES = [
    Curve(f"BSD-{name}", tuple((u, 10.0**u * k) for u in range(1, 6))) for k, name in enumerate(("Max", "PDT"), 1)
]
NAMES = ("naive", "with clusters", "and pruning", "and clustered processing", "and all")
BARS = [Bar("Penstock, all 200 queries", 4.2, "4.2 s"), Bar("Spark alone", 900, "900 s", measured=False, colour=1)]


def texts(page: Page) -> list[tuple[float, float, float, str]]:
    """List the texts of a drawing with the box that each takes: left, right, baseline."""
    found = []
    for attributes, words in zip(page.named("text"), [t for tag, t in page.texts if tag == "text"], strict=True):
        width, x = len(words) * LETTER, float(attributes["x"] or 0)
        left = {"start": x, "middle": x - width / 2, "end": x - width}[attributes["text-anchor"] or ""]
        found.append((left, left + width, float(attributes["y"] or 0), words))
    return found


@pytest.mark.parametrize(
    "chart",
    [
        line_chart("turnover", LINES, unit="price × shares"),
        line_chart("price", [Series("p", ((0, 99.2), (MINUTE, 100.4)))], unit="price", from_zero=False),
        column_chart("rows a second", COLUMNS, unit="rows/s", across="batch"),
        bar_chart("seconds", BARS, unit="s"),
        curve_chart("cost", CURVES, across="queries", upward="operations", powers=True),
        curve_chart("cost", CURVES, across="queries", upward="operations", headed=False),
        named_columns("steps", NAMES, CURVES[0], upward="percent above", powers=True),
    ],
    ids=["lines", "one line", "columns", "bars", "curves", "curves without a head", "named columns"],
)  # fmt: skip
def test_no_text_leaves_the_frame_or_runs_into_another(chart: str) -> None:
    page = Page(chart)
    assert not page.open
    assert not page.unbalanced
    boxes = texts(page)
    assert all(left >= -2 and right <= WIDTH + 2 for left, right, _, _ in boxes), boxes
    for number, (left, right, y, _) in enumerate(boxes):
        for other_left, other_right, other_y, _ in boxes[number + 1 :]:
            assert abs(y - other_y) >= 10 or right <= other_left or other_right <= left


def test_a_curve_on_top_of_others_is_broken_so_that_these_are_seen() -> None:
    same, apart = ((1.0, 1.0), (2.0, 4.0), (3.0, 9.0)), ((1.0, 9.0), (2.0, 4.0), (3.0, 1.0))
    curves = [Curve("HR", same), Curve("HNR", same), Curve("LSF", apart), Curve("BSD", same)]
    chart = curve_chart("n", curves, across="load", upward="response")
    assert [p["class"] for p in Page(chart).named("polyline")] == [
        "line s0",
        "line s1 over1",
        "line s2",
        "line s3 over2",
    ]


def test_what_rounding_leaves_of_nothing_does_not_lower_the_axis() -> None:
    chart = curve_chart("n", [Curve("queue", ((0.0, 5.0), (1.0, -1e-15)))], across="time", upward="tuples")
    assert not re.search(r">[-−]\d", chart)


def test_columns_by_powers_of_ten_are_as_high_as_their_axis_says() -> None:
    chart = named_columns("n", ("a", "b"), Curve("n", ((1, 10.0), (2, 1000.0))), upward="rows", powers=True)
    low, high = (float(r["height"] or 0) for r in Page(chart).named("rect"))
    assert high == pytest.approx(3 * low, abs=0.1)  # from 1 on
    assert {"10", "1,000"} <= {words for _, _, _, words in texts(Page(chart))}


def test_points_lie_where_the_axis_says() -> None:
    chart = line_chart("n", [Series("n", ((0, 0.0), (MINUTE, 10.0)))], unit="rows")
    (points,) = re.findall(r'points="([^"]+)"', chart)
    (x0, y0), (x1, y1) = (tuple(map(float, p.split(","))) for p in points.split(" "))
    assert x0 < x1 <= WIDTH
    assert y0 > y1
    assert y0 < HEIGHT


def test_a_missing_value_breaks_the_line() -> None:
    chart = line_chart("n", [Series("n", ((0, 1.0), (1, 2.0), (2, math.nan), (3, 4.0), (4, 2.0)))], unit="rows")
    assert chart.count("<polyline") == 2


def test_every_drawing_tells_in_words_what_it_shows() -> None:
    page = Page(line_chart("turnover", LINES, unit="price"))
    (drawing,) = page.named("svg")
    assert drawing["role"] == "img"
    assert drawing["aria-label"] == "turnover, price: a from 0 to 6; b from 0 to 12; c from 0 to 18"
    assert ("title", "a, 00:06: 6 price") in page.texts


def test_what_was_not_measured_is_drawn_and_called_otherwise() -> None:
    chart = bar_chart("s", [Bar("here", 1.0, "1 s"), Bar("there", 90.0, "90 s", measured=False)], unit="s")
    assert [r["class"] for r in Page(chart).named("rect")] == ["f0", "apart s0"]
    assert "90 s, not measured" in Page(chart).text


@pytest.mark.parametrize("values", [(), (math.nan, math.inf)])
def test_a_chart_without_values_says_so(values: tuple[float, ...]) -> None:
    chart = line_chart("n", [Series("n", tuple(enumerate(values)))], unit="rows")
    assert "no values" in Page(chart).text
    assert "no values" in column_chart("n", [], unit="", across="")
    assert "no values" in bar_chart("n", [], unit="")


def test_names_in_charts_are_escaped() -> None:
    evil = '</svg><script>alert("x")</script>'
    charts = [
        line_chart(evil, [Series(evil, ((0, 1.0), (1, 2.0))), Series("b", ((0, 1.0),))], unit=evil),
        column_chart(evil, [ChartColumn(evil, 1.0)], unit=evil, across=evil),
        bar_chart(evil, [Bar(evil, 1.0, evil)], unit=evil),
    ]
    for chart in charts:
        assert not Page(chart).named("script")
        assert not Page(chart).unbalanced
