"""Draws any number of mixed queries over the stream of edits, by a small grammar and a seed."""

from __future__ import annotations

import random
from typing import Final

KEYS: Final = ("", "", "wiki", "wiki", "kind", "namespace", "bot", "user", "page", "wiki, kind", "wiki, namespace")
WINDOWS: Final = ((10, 5), (30, 10), (60, 10), (60, 60), (300, 30), (300, 60), (900, 60), (900, 300))  # seconds
PLAIN: Final = (
    "count(*) AS n",
    "sum(delta) AS added, count(*) AS n",
    "avg(delta) AS mean",
    "min(delta) AS least, max(delta) AS most",
    "sum(length) AS bytes",
    "stddev(length) AS spread",
    "count(delta) AS known, avg(length) AS size",
)
HOLISTIC: Final = (
    "percentile(length, 0.9) AS p90",
    "median(delta) AS middle",
    "count(DISTINCT user) AS users",
    "approx_count_distinct(page) AS pages",
    "top(3, kind) AS kinds",
    "max_by(page, length) AS longest",
)
HOLISTIC_SHARE: Final = 0.2
CONDITION_SHARE: Final = 0.7


def drawn_queries(count: int, seed: int = 1) -> dict[str, str]:
    """Draw queries: the first ones of a larger number are those of a smaller one."""
    draw = random.Random(seed)
    return {f"d{number:04d}": _query(draw) for number in range(count)}


def _query(draw: random.Random) -> str:
    """Draw one query."""
    keys, (length, slide) = draw.choice(KEYS), draw.choice(WINDOWS)
    outputs = draw.choice(HOLISTIC if draw.random() < HOLISTIC_SHARE else PLAIN)
    where = f" WHERE {_condition(draw)}" if draw.random() < CONDITION_SHARE else ""
    listed, grouped = (f"{keys}, ", f" GROUP BY {keys}") if keys else ("", "")
    return f"SELECT {listed}{outputs} FROM s [RANGE {length} s SLIDE {slide} s]{where}{grouped}"


def _condition(draw: random.Random) -> str:
    """Draw a condition of one or two tests."""
    tests = (
        lambda: f"delta > {draw.randrange(-300, 1_000, 20)}",
        lambda: f"delta < {draw.randrange(-1_000, 300, 20)}",
        lambda: f"length > {draw.randrange(500, 50_000, 500)}",
        lambda: f"namespace = {draw.randrange(6)}",
        lambda: f"kind = '{draw.choice(('edit', 'new', 'log', 'categorize'))}'",
        lambda: draw.choice(("bot", "NOT bot", "minor", "NOT minor")),
    )
    return " AND ".join(draw.choice(tests)() for _ in range(draw.choice((1, 1, 2))))
